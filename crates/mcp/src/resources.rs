//! Sessions, their files, and artifacts, as resources.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use himalia_engine::{Engine, EngineError, KernelId, PeerSessions, Principal};
use rmcp::ErrorData;
use rmcp::model::{
    CompleteRequestParams, CompletionInfo, ReadResourceResult, Reference, Resource, ResourceContents,
    ResourceTemplate,
};
use serde_json::json;

use crate::limits::RESOURCE_BYTES;
use crate::sessions::SessionSummary;
use crate::tools::files::take;
use crate::{file_uri, limits};

/// The address of a session, before its id.
const SESSION: &str = "himalia://sessions/";

/// The sessions that the caller sees, the latest ones. Artifacts and files are not listed: results name them.
pub(crate) fn sessions(
    engine: &Engine,
    principal: &Principal,
    peers: PeerSessions,
) -> Result<Vec<Resource>, EngineError> {
    let found = SessionSummary::all(engine, principal, peers.sessions)?;
    let latest = found.iter().rev().take(limits::SESSIONS);
    let shown = latest.map(|session| {
        let name = session.name.as_deref().unwrap_or(&session.id);
        Resource::new(format!("{SESSION}{}", session.id), name)
            .with_description(session.to_line())
            .with_mime_type("application/json")
    });
    Ok(shown.collect())
}

/// The sessions whose id or name begins with a value, for the part `session` of an address.
pub(crate) fn completions(
    engine: &Engine,
    principal: &Principal,
    peers: PeerSessions,
    wanted: &CompleteRequestParams,
) -> Result<Vec<String>, EngineError> {
    let is_session = matches!(&wanted.r#ref, Reference::Resource(of) if of.uri.starts_with(SESSION));
    if !is_session || wanted.argument.name != "session" {
        return Ok(Vec::new());
    }
    let found = SessionSummary::all(engine, principal, peers.sessions)?;
    let begins = |text: &str| text.starts_with(&wanted.argument.value);
    let fitting = found
        .into_iter()
        .rev()
        .filter(|one| begins(&one.id) || one.name.as_deref().is_some_and(begins));
    Ok(fitting
        .map(|one| one.id)
        .take(CompletionInfo::MAX_VALUES)
        .collect())
}

/// Templates of resources.
pub(crate) fn templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new("himalia://sessions/{session}", "session")
            .with_description("A session as JSON"),
        ResourceTemplate::new("himalia://artifacts/{sha256}", "artifact")
            .with_description("An image or another large value of an execution"),
        ResourceTemplate::new("himalia://sessions/{session}/files/{+path}", "file")
            .with_description("A file of a session"),
    ]
}

/// One of them: text as text, everything else as base64.
pub(crate) async fn read(
    engine: &Engine,
    principal: &Principal,
    uri: &str,
) -> Result<ReadResourceResult, ErrorData> {
    if let Some((session, path)) = file_uri::read(uri) {
        return file(engine, principal, uri, session, &path).await;
    }
    if let Some(id) = uri.strip_prefix(SESSION) {
        return session(engine, principal, uri, id);
    }
    artifact(engine, principal, uri).await
}

fn session(
    engine: &Engine,
    principal: &Principal,
    uri: &str,
    id: &str,
) -> Result<ReadResourceResult, ErrorData> {
    let id = id.parse().map_err(|_| not_found(uri, "no such session"))?;
    let info = engine.session_info(principal, id);
    let info = info.map_err(|error| not_found(uri, error.to_string()))?;
    let shown = SessionSummary::from(&info).to_json().to_string();
    let contents = ResourceContents::text(shown, uri).with_mime_type("application/json");
    Ok(ReadResourceResult::new(vec![contents]))
}

/// The address is in the data too, for programs.
fn not_found(uri: &str, text: impl Into<Cow<'static, str>>) -> ErrorData {
    ErrorData::resource_not_found(text, Some(json!({ "uri": uri })))
}

async fn file(
    engine: &Engine,
    principal: &Principal,
    uri: &str,
    session: KernelId,
    path: &str,
) -> Result<ReadResourceResult, ErrorData> {
    let read = async {
        let file = engine.read_file(principal, session, path, None).await?;
        match &file.info {
            Some(info) if info.size > RESOURCE_BYTES as u64 => Ok(None),
            // One that grows meanwhile is given as it was.
            _ => take(file, RESOURCE_BYTES as u64)
                .await
                .map(|(bytes, _)| Some(bytes)),
        }
    };
    let bytes = match read.await {
        Ok(bytes) => bytes,
        Err(error) => return Err(refused(engine, principal, uri, error).await),
    };
    let Some(bytes) = bytes else {
        let text = format!("larger than {RESOURCE_BYTES} bytes: GET /v1/sessions/{session}/files/{path}");
        return Err(ErrorData::invalid_params(text, None));
    };
    let contents = match String::from_utf8(bytes) {
        Ok(text) => ResourceContents::text(text, uri).with_mime_type("text/plain"),
        Err(other) => ResourceContents::blob(BASE64_STANDARD.encode(other.as_bytes()), uri)
            .with_mime_type("application/octet-stream"),
    };
    Ok(ReadResourceResult::new(vec![contents]))
}

async fn artifact(
    engine: &Engine,
    principal: &Principal,
    uri: &str,
) -> Result<ReadResourceResult, ErrorData> {
    let unknown = || not_found(uri, "no such artifact");
    let sha256 = uri.strip_prefix("himalia://artifacts/").ok_or_else(unknown)?;
    let artifact = match engine.artifact(principal, sha256).await {
        Ok(artifact) => artifact,
        Err(EngineError::NotFound { .. }) => return Err(unknown()),
        Err(error) => return Err(refused(engine, principal, uri, error).await),
    };
    // Before any of it is read.
    if artifact.size() > RESOURCE_BYTES as u64 {
        let text = format!("larger than {RESOURCE_BYTES} bytes: GET /v1/artifacts/{sha256}");
        return Err(ErrorData::invalid_params(text, None));
    }
    let read = async {
        let held = engine.hold_memory(principal, artifact.size())?;
        let content = artifact.read(0, RESOURCE_BYTES).await?;
        Ok((content, held))
    };
    match read.await {
        Ok((content, _held)) => {
            let contents = contents(uri, artifact.media_type(), &content);
            Ok(ReadResourceResult::new(vec![contents]).with_ttl_ms(limits::FRESH_ARTIFACT_MS))
        }
        Err(error) => Err(refused(engine, principal, uri, error).await),
    }
}

/// Error for a refused request; one that a limit refuses waits for it.
async fn refused(engine: &Engine, principal: &Principal, uri: &str, error: EngineError) -> ErrorData {
    if error.is_limit() {
        engine.hold_back(principal).await;
    }
    match error {
        error if error.is_absent() || matches!(error, EngineError::Files { .. }) => {
            not_found(uri, error.to_string())
        }
        error => ErrorData::internal_error(error.to_string(), None),
    }
}

fn contents(uri: &str, kind: &str, content: &[u8]) -> ResourceContents {
    let is_text = kind.starts_with("text/") || kind == "image/svg+xml" || kind.ends_with("json");
    let text = std::str::from_utf8(content).ok().filter(|_| is_text);
    match text {
        Some(text) => ResourceContents::text(text, uri),
        None => ResourceContents::blob(BASE64_STANDARD.encode(content), uri),
    }
    .with_mime_type(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_text_and_the_rest_is_base64() {
        let shown = |kind: &str, content: &'static [u8]| {
            serde_json::to_value(contents("himalia://artifacts/aa", kind, content)).unwrap()
        };
        assert_eq!(shown("text/html", b"<p>")["text"], "<p>");
        assert_eq!(shown("image/png", b"\x89P")["blob"], "iVA=");
        assert_eq!(shown("image/png", b"\x89P")["mimeType"], "image/png");
        assert_eq!(shown("text/plain", b"\xff")["blob"], "/w==");
    }
}
