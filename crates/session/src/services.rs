//! Services of the gateway for code in sandboxes: skills, models, programs of tool servers, and the network.

use std::sync::{Arc, OnceLock};

use himalia_egress::{Egress, TrustStore};

use crate::credentials::FromHere;
use crate::skills::SessionSkills;
use crate::{Llm, SessionPrograms};

/// Services that code calls through the sandbox API, besides tools.
pub(crate) struct CodeServices {
    /// Starter of programs of tool servers.
    pub(crate) programs: Arc<SessionPrograms>,
    /// Runner of skills; set when the engine opens.
    pub(crate) skills: Arc<OnceLock<Arc<dyn SessionSkills>>>,
    /// Language models.
    pub(crate) llm: Arc<Llm>,
}

/// Connections to other hosts, of sessions and of the gateway for them.
pub(crate) struct NetworkServices {
    /// Network access of sessions.
    pub(crate) egress: Arc<Egress>,
    /// Certificates by which programs verify hosts, where TLS of sessions is read.
    pub(crate) certificates: Option<TrustStore>,
    pub(crate) callbacks: FromHere,
}
