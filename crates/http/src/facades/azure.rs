//! The routes of Azure's dynamic sessions, below `/azure`.

use axum::extract::{Request, State};
use axum::http::Uri;
use axum::response::Response;
use himalia_engine::ResourceRef;
use sha2::{Digest, Sha256};

use super::forward;
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::prefix::decode;
use crate::query;
use crate::relay::{RequestHead, Target};

/// The prefix of the paths of this API.
const PREFIX: &str = "/azure";
/// Bytes of the hash in a name, so that a name has fewer than 63 characters.
const NAME_BYTES: usize = 20;

/// The name of the session that a pool has for an identifier, which may be any text.
pub fn azure_session_name(pool: &str, identifier: &str) -> String {
    let digest = Sha256::new()
        .chain_update(pool)
        .chain_update(b"\0")
        .chain_update(identifier)
        .finalize();
    format!("azure-{}", hex::encode(&digest[..NAME_BYTES]))
}

/// Any route; 404 where nothing is mounted.
pub(crate) async fn answer(
    State(app): State<App>,
    Caller(principal): Caller,
    request: Request,
) -> Result<Response, ApiError> {
    let Some(service) = app.config().azure.clone() else {
        return Err(ApiError::not_found("Not Found"));
    };
    forward(&app, service, PREFIX, principal, request).await
}

/// The owner of the session of a request. The first request for an identifier starts its session.
pub(crate) fn target(request: &RequestHead<'_>) -> Target {
    let session = session(request.uri);
    session.map_or(Target::Here, |name| {
        Target::OwnerOrNew(ResourceRef::Session(name))
    })
}

/// The name of the session that a request is for.
fn session(uri: &Uri) -> Option<String> {
    let pool = uri
        .path()
        .strip_prefix(PREFIX)?
        .strip_prefix('/')?
        .split('/')
        .next()?;
    let pool = String::from_utf8(decode(pool)).ok()?;
    Some(azure_session_name(&pool, &query::last(uri, "identifier")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_its_session() {
        let of = |uri: &str| session(&uri.parse().unwrap());
        let name = azure_session_name("python3", "a b");
        assert_eq!(name.len(), 46);
        assert_eq!(
            of("/azure/python3/code/execute?identifier=a%20b&x=1"),
            Some(name.clone())
        );
        assert_eq!(of("/azure/python%33/files?identifier=a+b"), Some(name));
        assert_ne!(
            azure_session_name("python3", "b"),
            azure_session_name("python", "3b")
        );
        assert_eq!(of("/azure/python3/files"), None);
        assert_eq!(of("/v1/sessions?identifier=a"), None);
    }
}
