//! Computes the HTTP headers of a message from its content.
//!
//! Revision 2026-07-28 names revision, method and object of each request in headers
//! ([transports](https://modelcontextprotocol.io/specification/2026-07-28/basic/transports)); those before it name the
//! revision that `initialize` agreed on.

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// Header with the host's name for itself.
const CALLER: HeaderName = HeaderName::from_static("x-himalia-caller");
/// Characters of that.
const CALLER_CHARS: usize = 64;

/// Version that `initialize` agreed on, if the host sent it first.
#[derive(Debug, Default)]
pub(super) struct Version(Mutex<AgreedVersion>);

#[derive(Clone, Debug, Default)]
struct AgreedVersion {
    /// The revision.
    version: Option<String>,
    /// The host's name, as it can stand in a header.
    host: Option<HeaderValue>,
    /// The session id of the gateway, which says that the host shows forms.
    session: Option<HeaderValue>,
}

impl Version {
    /// Keeps the session id of a response to `initialize`.
    pub(super) fn session(&self, message: &Value, response: &HeaderMap) {
        if message["method"] == "initialize" {
            self.0.lock().session = response.get(SESSION).cloned();
        }
    }

    /// Looks for an agreement.
    pub(super) fn learn(&self, message: &Value, answer: &Value) {
        if message["method"] == "initialize"
            && let Some(version) = answer["result"]["protocolVersion"].as_str()
        {
            let mut agreed = self.0.lock();
            agreed.version = Some(version.to_owned());
            agreed.host = host(&message["params"]["clientInfo"]);
        }
    }

    pub(super) fn headers(&self, message: &Value) -> anyhow::Result<HeaderMap> {
        let params = &message["params"];
        let method = message["method"].as_str();
        let own = params["_meta"]["io.modelcontextprotocol/protocolVersion"].as_str();
        let agreed = match method {
            Some("initialize") => AgreedVersion::default(),
            _ => self.0.lock().clone(),
        };
        let mut headers = HeaderMap::new();
        headers.extend(agreed.host.map(|host| (CALLER, host)));
        headers.extend(agreed.session.map(|session| (SESSION, session)));
        let named = ["name", "uri", "taskId"].map(|member| params[member].as_str());
        let values = [
            (VERSION, own.or(agreed.version.as_deref()).map(ToOwned::to_owned)),
            (METHOD, method.map(ToOwned::to_owned)),
            (NAME, named.into_iter().find_map(|name| name).map(encoded)),
        ];
        for (name, value) in values {
            if let Some(value) = value {
                let value = HeaderValue::from_str(&value)
                    .with_context(|| format!("{name} cannot stand in a header"))?;
                headers.insert(name, value);
            }
        }
        Ok(headers)
    }
}

/// A text that a header cannot have as it is goes as base64.
fn encoded(text: &str) -> String {
    let is_plain = text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
        && text.trim_matches(' ') == text
        && !text.starts_with("=?base64?");
    if is_plain {
        text.to_owned()
    } else {
        format!("=?base64?{}?=", STANDARD.encode(text))
    }
}

/// Name of the host in its `clientInfo`.
fn host(info: &Value) -> Option<HeaderValue> {
    let told = [&info["name"], &info["version"]].map(|value| value.as_str().unwrap_or_default());
    let shown = told.join(" ");
    let shown = shown.chars().filter(|char| !char.is_control());
    let name: String = shown.take(CALLER_CHARS).collect();
    HeaderValue::from_bytes(name.trim().as_bytes())
        .ok()
        .filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(version: &Version, message: &Value) -> Vec<String> {
        let headers = version.headers(message).unwrap();
        let mut shown: Vec<String> = headers
            .iter()
            .map(|(name, value)| format!("{name}={}", value.to_str().unwrap()))
            .collect();
        shown.sort();
        shown
    }

    #[test]
    fn the_message_names_its_revision_or_initialize_did() {
        let version = Version::default();
        let initialize = json!({"method": "initialize", "params": {"protocolVersion": "2025-11-25"}});
        assert_eq!(shown(&version, &initialize), ["mcp-method=initialize"]);
        version.learn(&initialize, &json!({"result": {"protocolVersion": "2025-06-18"}}));
        let call = json!({"method": "tools/call", "params": {"name": "execute"}});
        assert_eq!(
            shown(&version, &call),
            [
                "mcp-method=tools/call",
                "mcp-name=execute",
                "mcp-protocol-version=2025-06-18"
            ]
        );
        assert_eq!(
            shown(&version, &initialize),
            ["mcp-method=initialize"],
            "it starts anew"
        );
        // And its host, if it said who it is.
        let told =
            json!({"method": "initialize", "params": {"clientInfo": {"name": "Tool\n", "version": "1.2"}}});
        version.learn(&told, &json!({"result": {"protocolVersion": "2025-06-18"}}));
        assert_eq!(shown(&version, &call)[3], "x-himalia-caller=Tool 1.2");
        let version = Version::default();
        let read = json!({"method": "resources/read", "params": {
            "uri": "himalia://artifacts/aa", "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}});
        assert_eq!(
            shown(&version, &read),
            [
                "mcp-method=resources/read",
                "mcp-name=himalia://artifacts/aa",
                "mcp-protocol-version=2026-07-28"
            ]
        );
        assert!(version.headers(&json!({"method": "a\nb"})).is_err());
        for (params, name) in [
            (json!({"uri": "test://ü"}), "=?base64?dGVzdDovL8O8?="),
            (json!({"name": "a\r\nX-Evil: 1"}), "=?base64?YQ0KWC1FdmlsOiAx?="),
            (json!({"taskId": "t1"}), "t1"),
        ] {
            let headers = shown(&version, &json!({ "params": params }));
            assert!(headers.contains(&format!("mcp-name={name}")), "{headers:?}");
        }
    }
}
