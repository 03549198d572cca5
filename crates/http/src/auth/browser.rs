//! Identity by the cookie of a browser that signed in.

use std::time::SystemTime;

use axum::extract::Request;
use himalia_engine::TOKEN_PREFIX;

use super::authenticator::{Authenticator, Identity, UnknownCaller};
use super::cookie;
use super::origin::Origin;
use super::token::hash;
use super::tokens::ShownCredential;
use crate::error::ApiError;

/// Browsers that signed in have the principal of their token. An unknown cookie does not count as a guess: its sign-in has ended, or its
/// token was removed.
pub(super) struct BrowserSignIns;

impl Authenticator for BrowserSignIns {
    fn identify(&self, caller: UnknownCaller<'_>) -> Option<Result<Identity, ApiError>> {
        let UnknownCaller {
            app, request, origin, ..
        } = caller;
        let (headers, now) = (request.headers(), SystemTime::now());
        let presented = cookie::presented(headers);
        if presented.is_empty() {
            return None;
        }
        let tokens = app.tokens();
        let known = presented.into_iter().find_map(|secret| {
            // The gateway's own sign-ins first, then those of an identity provider, which are tokens.
            let known = app.sign_ins().knows(secret, now);
            let mark = known.or_else(|| tokens.issued_mark(secret.as_bytes()))?;
            let principal = tokens.marked(&mark)?.clone();
            let shown = ShownCredential {
                kind: "browser",
                hash: hash(secret.as_bytes()),
                mark: Some(mark),
            };
            Some((principal, shown))
        });
        let Some(identity) = known else {
            return Some(Err(ApiError::unauthenticated()));
        };
        if !cookie::counts(request.method(), headers, *origin == Origin::Own) {
            return Some(Err(ApiError::forbidden(
                "a browser's sign-in counts for pages of this gateway only",
            )));
        }
        Some(Ok(identity))
    }

    fn may_be_new(&self, request: &Request) -> bool {
        cookie::presented(request.headers())
            .iter()
            .any(|secret| secret.starts_with(TOKEN_PREFIX))
    }
}
