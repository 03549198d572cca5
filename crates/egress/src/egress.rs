//! Network access of all sessions of this process.

use std::fmt;
use std::sync::Arc;

use himalia_model::network::PrivateAddresses;
use hyper_util::client::proxy::matcher::Matcher;

use crate::credentials::{InterceptAuthority, Roots};
use crate::internal::InternalService;
use crate::resolve::{Resolve, SystemResolver};

/// Network access of all sessions.
pub struct Egress {
    pub(crate) resolver: Box<dyn Resolve>,
    pub(crate) exceptions: Vec<PrivateAddresses>,
    pub(crate) proxies: Matcher,
    pub(crate) services: Vec<Arc<dyn InternalService>>,
    pub(crate) roots: Option<Roots>,
    pub(crate) authority: Option<InterceptAuthority>,
}

impl Egress {
    /// With these addresses beside the public ones, by the resolver and the proxies of this process.
    pub fn of_this_process(exceptions: Vec<PrivateAddresses>) -> Self {
        Self {
            resolver: Box::new(SystemResolver),
            exceptions,
            proxies: Matcher::from_env(),
            services: Vec::new(),
            roots: None,
            authority: None,
        }
    }

    /// The same, which also sends the secrets of credentials to hosts that these authorities have certified. With an authority of its own,
    /// it reads the TLS of sessions.
    #[must_use]
    pub fn with_credentials(self, roots: Roots, authority: Option<InterceptAuthority>) -> Self {
        Self {
            roots: Some(roots),
            authority,
            ..self
        }
    }

    /// With a service of the gateway itself.
    #[must_use]
    pub fn with_service(mut self, service: Arc<dyn InternalService>) -> Self {
        self.services.push(service);
        self
    }
}

impl fmt::Debug for Egress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Egress")
            .field("exceptions", &self.exceptions)
            .finish_non_exhaustive()
    }
}
