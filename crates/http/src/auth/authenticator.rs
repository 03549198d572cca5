//! A source of identity: tokens, cookies of browsers, credentials of sandboxes.
//!
//! A new one has a file with its [`Authenticator`], an entry in the list of `layer`, and a kind of [`ShownCredential`].

use axum::extract::Request;
use futures_util::future::BoxFuture;
use himalia_engine::Principal;

use super::origin::Origin;
use super::tokens::ShownCredential;
use crate::app::App;
use crate::error::ApiError;

/// The principal of a request, and the credential that it showed.
pub(super) type Identity = (Principal, ShownCredential);

/// A request whose principal is not known.
#[derive(Clone, Copy)]
pub(super) struct UnknownCaller<'a> {
    pub(super) app: &'a App,
    pub(super) request: &'a Request,
    /// The path of its route.
    pub(super) pattern: Option<&'a str>,
    pub(super) origin: &'a Origin,
}

/// A source of identity. Sources are asked in order, and the first one whose kind of credential a request has decides.
pub(super) trait Authenticator: Sync {
    /// Changes a request before any source is asked. `None`: there is nothing to change.
    fn prepare<'a>(
        &self,
        _app: &'a App,
        _request: &'a mut Request,
        _pattern: &str,
    ) -> Option<BoxFuture<'a, Result<(), ApiError>>> {
        None
    }

    /// Finds the principal of a request. `None`: it has no credential of this kind.
    fn identify(&self, caller: UnknownCaller<'_>) -> Option<Result<Identity, ApiError>>;

    /// True if another replica may have issued the credential that was refused a moment ago.
    fn may_be_new(&self, _request: &Request) -> bool {
        false
    }
}
