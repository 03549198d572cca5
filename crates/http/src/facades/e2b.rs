//! The routes of E2B's API: the control plane below `/e2b`, and the sandboxes, which its clients reach by headers.
//!
//! Files are at `/files` too: the address of a file that a client signs is made from host and port alone.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use axum::response::{IntoResponse as _, Response};
use himalia_cluster::Part;
use himalia_engine::{KernelId, Principal, ResourceRef};
use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uuid::Builder;

use super::forward;
use crate::app::App;
use crate::auth::{Caller, SANDBOX_ID};
use crate::error::ApiError;
use crate::mounted::E2b;
use crate::query;
use crate::relay::{ListRequest, MergedList, RequestHead, Target, read_part};

/// The header with the place where the next page of a list begins.
const NEXT: HeaderName = HeaderName::from_static("x-next-token");
/// Sandboxes on a page whose request names no limit.
const LISTED: usize = 100;
/// The prefix of the paths of this API.
const PREFIX: &str = "/e2b";

/// Any route; 404 where nothing is mounted.
pub(crate) async fn answer(
    State(app): State<App>,
    Caller(principal): Caller,
    request: Request,
) -> Result<Response, ApiError> {
    let Some(E2b { service, .. }) = app.config().e2b.clone() else {
        return Err(ApiError::not_found("Not Found"));
    };
    forward(&app, service, PREFIX, principal, request).await
}

/// The owner of the sandbox of a request; all replicas for the list of sandboxes. A start with an idempotency key is served where an
/// earlier one with the same key has started its sandbox.
pub(crate) fn target(request: &RequestHead<'_>) -> Target {
    let (method, path, headers) = (request.method, request.uri.path(), request.headers);
    if matches!(*method, Method::GET | Method::HEAD) && is_list(path) {
        return Target::All(SANDBOXES);
    }
    if let Some(key) = keyed(method, path, headers) {
        let sandbox = e2b_sandbox_of_key(request.principal, &key);
        return Target::OwnerOrNew(ResourceRef::Kernel(sandbox));
    }
    let sandbox = sandbox(path, headers);
    sandbox.map_or(Target::Here, |id| Target::Owner(ResourceRef::Session(id)))
}

/// The sandbox that a request names in its path or its header.
fn sandbox(path: &str, headers: &HeaderMap) -> Option<String> {
    let rest = path.strip_prefix(PREFIX)?;
    let rest = rest.strip_prefix("/v2").unwrap_or(rest);
    let named = match rest.strip_prefix("/sandboxes/") {
        Some(named) => named.split('/').next(),
        None => headers.get(SANDBOX_ID)?.to_str().ok(),
    };
    named.filter(|named| !named.is_empty()).map(str::to_owned)
}

/// The id of the sandbox that this owner starts with an idempotency key, at any replica.
pub fn e2b_sandbox_of_key(principal: &Principal, key: &[u8]) -> KernelId {
    let digest = Sha256::new()
        .chain_update(b"himalia e2b\0")
        .chain_update(principal.owner())
        .chain_update(b"\0")
        .chain_update(key)
        .finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    KernelId(Builder::from_custom_bytes(bytes).into_uuid())
}

/// The sandbox that a request starts, if another one with its key may have started it.
pub(crate) fn keyed(method: &Method, path: &str, headers: &HeaderMap) -> Option<Vec<u8>> {
    let key = headers.get("idempotency-key")?;
    (*method == Method::POST && is_list(path)).then(|| key.as_bytes().to_owned())
}

/// Checks whether a request that is lost may be sent again.
pub(crate) fn is_keyed(request: &Request) -> bool {
    keyed(request.method(), request.uri().path(), request.headers()).is_some()
}

/// Checks whether a path is the list of sandboxes.
fn is_list(path: &str) -> bool {
    let rest = path.strip_prefix(PREFIX).unwrap_or_default();
    rest.strip_prefix("/v2").unwrap_or(rest) == "/sandboxes"
}

/// `GET /e2b/v2/sandboxes`: an array, in pages.
const SANDBOXES: MergedList = MergedList {
    complete: true,
    merge: merge_parts,
};

fn merge_parts(request: &ListRequest<'_>, parts: &[Part], _: &[String]) -> Result<Response, ApiError> {
    let parts = parts.iter();
    merge(
        request.uri,
        parts.map(|part| (&*part.bytes, part.headers.contains_key(NEXT))),
    )
}

/// Merges pages of the list of sandboxes. Each says whether more sandboxes follow. `uri` is the address of the request.
fn merge<'a>(uri: &Uri, pages: impl Iterator<Item = (&'a [u8], bool)>) -> Result<Response, ApiError> {
    let (mut all, mut has_more) = (BTreeMap::new(), false);
    for (page, more) in pages {
        has_more |= more;
        let invalid = || ApiError::internal("reading the list of a replica");
        for sandbox in read_part::<Vec<&RawValue>>(page)? {
            // A sandbox that has just moved is at two replicas.
            all.insert(position(sandbox).ok_or_else(invalid)?, sandbox);
        }
    }
    let mut all: Vec<_> = all.into_iter().collect();
    if query::last(uri, "order").as_deref() != Some("asc") {
        all.reverse();
    }
    let limit = query::last(uri, "limit").and_then(|limit| limit.parse().ok());
    let limit = limit.unwrap_or(LISTED);
    has_more |= all.len() > limit;
    all.truncate(limit);
    let mut response = Json(all.iter().map(|(_, sandbox)| sandbox).collect::<Vec<_>>()).into_response();
    if let Some(((at, id), _)) = all.last().filter(|_| has_more)
        && let Ok(token) = HeaderValue::from_str(&format!("{at}-{id}"))
    {
        response.headers_mut().insert(NEXT, token);
    }
    Ok(response)
}

/// The position of a sandbox in a list: its start, in microseconds since 1970, and its id.
fn position(sandbox: &RawValue) -> Option<(i128, String)> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ListedSandbox {
        started_at: String,
        #[serde(rename = "sandboxID")]
        id: String,
    }
    let listed: ListedSandbox = serde_json::from_str(sandbox.get()).ok()?;
    let started = OffsetDateTime::parse(&listed.started_at, &Rfc3339).ok()?;
    Some((started.unix_timestamp_nanos() / 1000, listed.id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_its_sandbox() {
        let header: HeaderMap = [(SANDBOX_ID, "h".parse().unwrap())].into_iter().collect();
        let of = |path: &str| sandbox(path, &header);
        assert_eq!(of("/e2b/sandboxes/a/timeout").as_deref(), Some("a"));
        assert_eq!(of("/e2b/v2/sandboxes/a/connect").as_deref(), Some("a"));
        assert_eq!(of("/e2b/files").as_deref(), Some("h"));
        assert_eq!(sandbox("/e2b/sandboxes", &HeaderMap::new()), None);
    }

    #[tokio::test]
    async fn a_page_of_all_replicas_ends_with_the_place_of_its_last_one() {
        let sandbox = |second: u32, id: &str| {
            format!(r#"{{"sandboxID":"{id}","startedAt":"1970-01-01T00:00:0{second}.5Z"}}"#)
        };
        let pages = [
            format!("[{},{}]", sandbox(3, "c"), sandbox(1, "a")),
            format!("[{},{}]", sandbox(3, "c"), sandbox(2, "b")),
        ];
        let merged = |query: &str, more: bool| {
            let pages = pages.iter().map(|page| (page.as_bytes(), more));
            merge(&format!("/e2b/v2/sandboxes{query}").parse().unwrap(), pages).unwrap()
        };
        let ids = async |response: Response| {
            let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
            let all: serde_json::Value = serde_json::from_slice(&body).unwrap();
            let all = all.as_array().unwrap().iter();
            all.map(|one| one["sandboxID"].as_str().unwrap().to_owned())
                .collect::<String>()
        };
        let all = merged("", false);
        assert!(!all.headers().contains_key(NEXT));
        assert_eq!(ids(all).await, "cba");
        let first = merged("?limit=2&order=asc", false);
        assert_eq!(first.headers()[NEXT], "2500000-b");
        assert_eq!(ids(first).await, "ab");
        assert_eq!(merged("", true).headers()[NEXT], "1500000-a");
    }

    #[test]
    fn a_start_with_a_key_is_served_where_the_first_one_was() {
        let headers: HeaderMap = [(HeaderName::from_static("idempotency-key"), "k".parse().unwrap())]
            .into_iter()
            .collect();
        let principal = Principal::operator();
        let at = |method: Method, path: &str| {
            target(&RequestHead {
                principal: &principal,
                method: &method,
                uri: &path.parse().unwrap(),
                headers: &headers,
            })
        };
        let sandbox = e2b_sandbox_of_key(&principal, b"k");
        let owner = |target| match target {
            Target::Owner(sought) | Target::OwnerOrNew(sought) => Some(sought),
            Target::Here | Target::All(_) => None,
        };
        assert_eq!(
            owner(at(Method::POST, "/e2b/sandboxes")),
            Some(ResourceRef::Kernel(sandbox))
        );
        assert!(matches!(at(Method::GET, "/e2b/v2/sandboxes"), Target::All(_)));
        assert_eq!(
            owner(at(Method::POST, "/e2b/sandboxes/a/fork")),
            Some(ResourceRef::Session("a".into()))
        );
        assert!(matches!(at(Method::GET, "/e2b/templates"), Target::Here));
    }

    #[test]
    fn a_key_is_one_sandbox_of_its_owner() {
        let ada = Principal::of_tenant("acme", "ada").unwrap();
        let eve = Principal::of_tenant("evil", "eve").unwrap();
        assert_eq!(
            e2b_sandbox_of_key(&ada, b"k"),
            e2b_sandbox_of_key(&Principal::of_tenant("acme", "bob").unwrap(), b"k")
        );
        assert_ne!(e2b_sandbox_of_key(&ada, b"k"), e2b_sandbox_of_key(&eve, b"k"));
        assert_ne!(e2b_sandbox_of_key(&ada, b"k"), e2b_sandbox_of_key(&ada, b"l"));
    }
}
