//! `[tenants.NAME]` of the configuration file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use himalia_cli::values::Secret;
use serde::{Deserialize, Deserializer, de};

use super::values::ByteSize;

/// `[tenants.NAME]`; what is `None` was not said.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TenantTable {
    /// Kernels that may live at once.
    pub(crate) max_kernels: Option<u32>,
    /// Seconds of processor time that its sandboxes may use in a day.
    pub(crate) cpu_seconds_per_day: Option<u64>,
    /// Bytes that its sandboxes may send to and receive from the network in a day.
    pub(crate) network_per_day: Option<ByteSize>,
    /// Calls of tools that its code and its models may make in a day.
    pub(crate) tool_calls_per_day: Option<u64>,
    /// Tokens that models may read and write for its code in a day.
    pub(crate) model_tokens_per_day: Option<u64>,
    /// Cost of these calls, in the currency unit of the prices.
    pub(crate) model_spend_per_day: Option<f64>,
    /// Characters that tools of MCP may return to its models in a day.
    pub(crate) returned_chars_per_day: Option<u64>,
    /// Memory that its sandboxes use from which on no session is started.
    pub(crate) sandbox_memory: Option<ByteSize>,
    /// Networks that callers may request, out of those that templates grant.
    pub(crate) networks: Vec<String>,
    /// The same of images.
    pub(crate) images: Vec<String>,
    /// Share of the resources of all tenants: `memory`, `connections`, `streams`, `network_connections`, `requests_per_second`,
    /// `starts_per_second`, `disk`.
    pub(crate) memory: Option<ByteSize>,
    pub(crate) connections: Option<u32>,
    pub(crate) streams: Option<u32>,
    pub(crate) network_connections: Option<u32>,
    pub(crate) requests_per_second: Option<u32>,
    pub(crate) starts_per_second: Option<u32>,
    pub(crate) disk: Option<ByteSize>,
    /// By the names of its callers.
    pub(crate) tokens: BTreeMap<String, TokenSetting>,
    /// Permissions of callers that do not have all permissions.
    pub(crate) scopes: BTreeMap<String, Scope>,
}

/// Permission of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Scope {
    /// See what there is.
    Read,
    /// All that its tenant may, which is the default.
    Execute,
    /// Also manage the access tokens of its tenant.
    Admin,
}

/// Source of a caller's token.
#[derive(Clone, Debug)]
pub(crate) enum TokenSetting {
    /// Itself, or its digest as `sha256:<hex>`.
    Text(Secret),
    /// `{ file = "…" }`: the first line of this file.
    File(PathBuf),
}

impl<'de> Deserialize<'de> for TokenSetting {
    /// Unlike a derived form, an error quotes no value.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wrong = || de::Error::custom("is neither a text nor { file = \"…\" }");
        match toml::Value::deserialize(deserializer).map_err(|_| wrong())? {
            toml::Value::String(text) => Ok(Self::Text(Secret(text))),
            toml::Value::Table(mut table) => match (table.remove("file"), table.is_empty()) {
                (Some(toml::Value::String(path)), true) => Ok(Self::File(path.into())),
                _ => Err(wrong()),
            },
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_a_text_or_a_file_and_never_quoted() {
        let read = |text: &str| toml::from_str::<TenantTable>(text);
        let table = read("tokens.a = \"canary\"\ntokens.b = { file = \"b\" }").unwrap();
        assert!(matches!(&table.tokens["a"], TokenSetting::Text(Secret(text)) if text == "canary"));
        assert!(matches!(&table.tokens["b"], TokenSetting::File(path) if path.as_os_str() == "b"));
        assert!(!format!("{table:?}").contains("canary"));
        for wrong in [
            "tokens.a = 471147",
            "tokens.a = [\"canary\"]",
            "tokens.a = { file = 471147 }",
            "tokens.a = { token = \"canary\" }",
            "tokens.a = { file = \"f\", token = \"canary\" }",
            "tokens.a = 2001-01-01",
        ] {
            let error = read(wrong).unwrap_err();
            let message = error.message();
            assert!(message.contains("is neither"), "{wrong}: {message}");
            assert!(
                !message.contains("canary") && !message.contains("471147"),
                "{message}"
            );
        }
    }
}
