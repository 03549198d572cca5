//! Identity by a token of the gateway.

use himalia_engine::Principal;

use super::PathToken;
use super::authenticator::{Authenticator, Identity, UnknownCaller};
use super::caller::wrong_token;
use super::credential::presented;
use super::tokens::ShownCredential;
use crate::error::ApiError;
use crate::listen::Peer;

/// Tokens in the query, the path or the header `Authorization`.
pub(super) struct BearerTokens;

impl Authenticator for BearerTokens {
    fn identify(&self, caller: UnknownCaller<'_>) -> Option<Result<Identity, ApiError>> {
        let UnknownCaller { app, request, .. } = caller;
        let extensions = request.extensions();
        let token = presented(request.uri(), request.headers(), extensions.get::<PathToken>())?;
        let principal: Option<Principal> = app.tokens().principal(&token).cloned();
        let identity = principal.map(|principal| (principal, ShownCredential::token(&token)));
        Some(identity.ok_or_else(|| wrong_token(app, extensions.get::<Peer>())))
    }
}
