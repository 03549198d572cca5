//! Artifacts as resources.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use himalia_engine::{Engine, EngineError, Principal, StoredArtifact};
use rmcp::ErrorData;
use rmcp::model::{ReadResourceResult, ResourceContents, ResourceTemplate};

use crate::limits::RESOURCE_BYTES;

/// What can be read. The resources themselves are not listed: results name them.
pub(crate) fn template() -> ResourceTemplate {
    ResourceTemplate::new("himalia://artifacts/{sha256}", "artifact")
        .with_description("An image or another large value of an execution")
}

/// One artifact: text as text, everything else as base64.
pub(crate) async fn read(
    engine: &Engine,
    principal: &Principal,
    uri: &str,
) -> Result<ReadResourceResult, ErrorData> {
    let unknown = || ErrorData::resource_not_found("no such artifact", None);
    let sha256 = uri.strip_prefix("himalia://artifacts/").ok_or_else(unknown)?;
    let artifact = match engine.artifact(principal, sha256).await {
        Ok(artifact) => artifact,
        Err(EngineError::NotFound { .. }) => return Err(unknown()),
        Err(error) => return Err(ErrorData::internal_error(error.to_string(), None)),
    };
    if artifact.content.len() > RESOURCE_BYTES {
        let text = format!("larger than {RESOURCE_BYTES} bytes: GET /v1/artifacts/{sha256}");
        return Err(ErrorData::invalid_params(text, None));
    }
    Ok(ReadResourceResult::new(vec![contents(uri, artifact)]))
}

fn contents(uri: &str, artifact: StoredArtifact) -> ResourceContents {
    let kind = artifact.media_type;
    let is_text = kind.starts_with("text/") || kind == "image/svg+xml" || kind.ends_with("json");
    let text = std::str::from_utf8(&artifact.content).ok().filter(|_| is_text);
    match text {
        Some(text) => ResourceContents::text(text, uri),
        None => ResourceContents::blob(BASE64_STANDARD.encode(&artifact.content), uri),
    }
    .with_mime_type(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_text_and_the_rest_is_base64() {
        let shown = |kind: &str, content: &'static [u8]| {
            let artifact = StoredArtifact {
                media_type: kind.into(),
                content: content.into(),
            };
            serde_json::to_value(contents("himalia://artifacts/aa", artifact)).unwrap()
        };
        assert_eq!(shown("text/html", b"<p>")["text"], "<p>");
        assert_eq!(shown("image/png", b"\x89P")["blob"], "iVA=");
        assert_eq!(shown("image/png", b"\x89P")["mimeType"], "image/png");
        assert_eq!(shown("text/plain", b"\xff")["blob"], "/w==");
    }
}
