//! The audit log: one line for each request of a known caller that changes something, reads content or is refused.
//!
//! Target `himalia::audit`, level info: principal, peer, action, object, status. Neither content nor names of files, and no token.

use axum::http::{Method, StatusCode};
use himalia_engine::Principal;

use crate::listen::Peer;

/// Characters of an id or a name that is shown.
const OBJECT_CHARS: usize = 128;
/// Reads that give content rather than states.
const CONTENT: [&str; 5] = [
    "/files/",
    "/archive",
    "/artifacts/",
    "/notebook.ipynb",
    "/script.py",
];

/// A request, as far as the log tells of it.
#[derive(Debug)]
pub(super) struct Asked {
    method: Method,
    pattern: String,
    object: String,
    peer: String,
    upgrade: bool,
}

impl Asked {
    /// `pattern` is the route's, `path` the request's.
    pub(super) fn new(
        method: &Method,
        pattern: Option<&str>,
        path: &str,
        peer: Option<&Peer>,
        upgrade: bool,
    ) -> Self {
        let pattern = pattern.unwrap_or_default();
        Self {
            method: method.clone(),
            pattern: pattern.to_owned(),
            object: object(pattern, path),
            peer: peer.map_or_else(String::new, |peer| peer.address().to_string()),
            upgrade,
        }
    }

    /// What came of it. `principal`: `None` for those who sign in or out.
    pub(super) fn answered(&self, principal: Option<&Principal>, status: StatusCode) {
        let reads = matches!(self.method, Method::GET | Method::HEAD);
        let content = self.upgrade || CONTENT.iter().any(|part| self.pattern.contains(part));
        let refused = matches!(status, StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS);
        if reads && !content && !refused {
            return;
        }
        tracing::info!(
            target: "himalia::audit",
            principal = principal.map_or("-", Principal::name),
            peer = self.peer,
            method = %self.method,
            route = self.pattern,
            object = ?self.object,
            status = status.as_u16(),
        );
    }
}

/// The id or the name that a path has where its route has one.
fn object(pattern: &str, path: &str) -> String {
    let named = pattern.split('/').zip(path.split('/'));
    let mut ids = named.filter(|(part, _)| part.ends_with("_id}") || *part == "{sha256}");
    ids.next()
        .map_or_else(String::new, |(_, id)| id.chars().take(OBJECT_CHARS).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_the_id_of_its_path_and_no_name_of_a_file() {
        for (pattern, path, wanted) in [
            (
                "/v1/sessions/{session_id}/files/{*path}",
                "/v1/sessions/eda/files/secret/x",
                "eda",
            ),
            (
                "/api/kernels/{kernel_id}/channels",
                "/api/kernels/123/channels",
                "123",
            ),
            ("/v1/artifacts/{sha256}", "/v1/artifacts/abc", "abc"),
            ("/v1/sessions", "/v1/sessions", ""),
            ("/api/kernelspecs/{name}", "/api/kernelspecs/x", ""),
        ] {
            assert_eq!(object(pattern, path), wanted);
        }
    }
}
