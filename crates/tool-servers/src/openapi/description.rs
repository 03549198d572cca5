//! The description as a whole: where it is, its version, its references, and the server that it names.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use himalia_model::{DescriptionSource, HttpUrl};
use himalia_upstream::{Http, Secret, SentFlag, json};
use http::header::ACCEPT;
use http::{HeaderValue, Request};
use serde_json::Value;
use tokio::io::AsyncReadExt as _;
use tokio::time::timeout;

use super::yaml;
use crate::call::{CallError, refusal};
use crate::listing::MAX_LIST_BYTES;

/// Longest wait for a description.
const LOAD_TIME: Duration = Duration::from_secs(30);
/// References that lead to references.
const MAX_HOPS: usize = 16;

/// Reads the text of a description.
pub(super) async fn load(http: &Http, source: &DescriptionSource) -> Result<Bytes, String> {
    let loaded = async {
        match source {
            DescriptionSource::File(path) => from_file(path).await,
            DescriptionSource::Url(url) => from_url(http, url).await,
        }
    };
    timeout(LOAD_TIME, loaded).await.unwrap_or_else(|_| {
        Err(format!(
            "its description was not read within {} s",
            LOAD_TIME.as_secs()
        ))
    })
}

async fn from_file(path: &PathBuf) -> Result<Bytes, String> {
    let failed = |error: std::io::Error| format!("its description {}: {error}", path.display());
    let file = tokio::fs::File::open(path).await.map_err(failed)?;
    let mut text = Vec::new();
    let most = MAX_LIST_BYTES as u64 + 1;
    file.take(most).read_to_end(&mut text).await.map_err(failed)?;
    if text.len() > MAX_LIST_BYTES {
        return Err(format!("its description has more than {MAX_LIST_BYTES} bytes"));
    }
    Ok(text.into())
}

async fn from_url(http: &Http, url: &HttpUrl) -> Result<Bytes, String> {
    let failed = |reason: &dyn std::fmt::Display| format!("its description at {url}: {reason}");
    let mut request = Request::builder()
        .uri(url.as_str())
        .body(Bytes::new())
        .map_err(|error| failed(&error))?;
    request.headers_mut().insert(
        ACCEPT,
        HeaderValue::from_static("application/json, application/yaml, */*;q=0.1"),
    );
    // It may be elsewhere than the server, where the credential must not go.
    let sent = http
        .send(
            url,
            request,
            Secret::IfBound,
            MAX_LIST_BYTES,
            &SentFlag::default(),
        )
        .await;
    let mut incoming = sent.map_err(|error| failed(&error))?;
    if !incoming.status.is_success() {
        return Err(failed(&refusal(incoming).await));
    }
    incoming
        .body
        .all()
        .await
        .map_err(|error| failed(&CallError::from(error)))
}

/// A description that was read.
#[derive(Debug)]
pub(super) struct Description {
    root: Value,
    /// True if its schemas are of OpenAPI 3.0, whose dialect differs from JSON Schema.
    pub(super) is_3_0: bool,
}

impl Description {
    /// # Errors
    /// It is neither JSON nor YAML, or of another version.
    pub(super) fn parse(text: &[u8]) -> Result<Self, String> {
        let begins = text.iter().find(|byte| !byte.is_ascii_whitespace());
        let root: Result<Value, String> = if begins == Some(&b'{') {
            json::parse(text).map_err(|reason| reason.to_string())
        } else {
            yaml::parse(text)
        };
        let root = root.map_err(|reason| format!("its description {reason}"))?;
        let version = root.get("openapi").and_then(Value::as_str).unwrap_or_default();
        let is_3_0 = version.starts_with("3.0");
        if !is_3_0 && !version.starts_with("3.1") {
            return Err(format!(
                "its description is not of OpenAPI 3.0 or 3.1 (openapi: {:.20})",
                if version.is_empty() { "missing" } else { version }
            ));
        }
        Ok(Self { root, is_3_0 })
    }

    /// URL of the first server.
    ///
    /// # Errors
    /// It is not said, or is not where the description is from: a description cannot send calls to a host that the operator has not named.
    pub(super) fn base(&self, source: &DescriptionSource) -> Result<HttpUrl, String> {
        let server = self.root.pointer("/servers/0");
        let mut text = server
            .and_then(|server| server.get("url"))
            .and_then(Value::as_str)
            .unwrap_or("/")
            .to_owned();
        let variables = server
            .and_then(|server| server.get("variables"))
            .and_then(Value::as_object);
        for (name, variable) in variables.into_iter().flatten() {
            let default = variable
                .get("default")
                .and_then(Value::as_str)
                .unwrap_or_default();
            text = text.replace(&format!("{{{name}}}"), default);
        }
        let bad = |reason: String| format!("the first server of its description: {reason}; set base_url");
        match source {
            DescriptionSource::File(_) => HttpUrl::parse(&text).map_err(bad),
            DescriptionSource::Url(own) => {
                let base = own.join(&text).map_err(bad)?;
                if !base.has_origin_of(own) {
                    return Err(bad(format!(
                        "{base} is not where the description is from ({own})"
                    )));
                }
                Ok(base)
            }
        }
    }

    /// Path, path item, in the order of the description.
    pub(super) fn paths(&self) -> impl Iterator<Item = (&str, &Value)> {
        let paths = self.root.get("paths").and_then(Value::as_object);
        paths
            .into_iter()
            .flatten()
            .map(|(path, item)| (path.as_str(), item))
    }

    /// Follows references until a value is found.
    ///
    /// # Errors
    /// It leads nowhere, or out of the description.
    pub(super) fn follow<'a>(&'a self, mut value: &'a Value) -> Result<&'a Value, String> {
        for _ in 0..MAX_HOPS {
            let Some(reference) = value.get("$ref").and_then(Value::as_str) else {
                return Ok(value);
            };
            value = self.at(reference)?;
        }
        Err("a reference leads to too many others".to_owned())
    }

    /// Resolves a reference.
    pub(super) fn at(&self, reference: &str) -> Result<&Value, String> {
        let pointer = reference
            .strip_prefix('#')
            .ok_or_else(|| format!("{reference:.200?} refers to another document, which is not read"))?;
        let found = self.root.pointer(&percent_decoded(pointer));
        found.ok_or_else(|| format!("{reference:.200?} leads nowhere"))
    }
}

/// `%7B` becomes `{`.
pub(super) fn percent_decoded(text: &str) -> String {
    let (bytes, mut decoded) = (text.as_bytes(), Vec::with_capacity(text.len()));
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let digits = bytes
            .get(at + 1..at + 3)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let value = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        if let Some(value) = value.filter(|_| *byte == b'%') {
            decoded.push(value);
            at += 3;
        } else {
            decoded.push(*byte);
            at += 1;
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn description(servers: &Value) -> Description {
        let text = json!({"openapi": "3.1.0", "servers": servers, "a": {"b/c": {"$ref": "#/d"}}, "d": {"$ref": "#/d"}});
        Description::parse(text.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn calls_go_where_the_description_is_from() {
        let url = DescriptionSource::Url(HttpUrl::parse("https://a.test/docs/openapi.json").unwrap());
        let file = DescriptionSource::File("a.json".into());
        let base = |servers: Value, source: &DescriptionSource| {
            description(&servers)
                .base(source)
                .map(|base| base.as_str().to_owned())
        };
        let of = |text: &str| Ok(text.to_owned());
        assert_eq!(base(json!([{"url": "/v1"}]), &url), of("https://a.test/v1"));
        assert_eq!(base(json!([]), &url), of("https://a.test/"));
        assert_eq!(
            base(json!([{"url": "https://a.test/v2/"}]), &url),
            of("https://a.test/v2/")
        );
        let variable = json!([{"url": "https://{host}/v3", "variables": {"host": {"default": "b.test"}}}]);
        assert_eq!(base(variable.clone(), &file), of("https://b.test/v3"));
        for (servers, source) in [
            (variable, &url),
            (json!([{"url": "http://a.test/v1"}]), &url),
            (json!([{"url": "//169.254.169.254/"}]), &url),
            (json!([{"url": "/v1"}]), &file),
            (json!([]), &file),
        ] {
            let error = base(servers.clone(), source).unwrap_err();
            assert!(error.ends_with("set base_url"), "{servers}: {error}");
        }
    }

    #[test]
    fn references_stay_in_the_description_and_end() {
        let description = description(&json!([]));
        assert!(description.at("#/a/b~1c").is_ok() && description.at("#/a%2Fb~1c").is_ok());
        for bad in ["#/x", "other.json#/a", "http://b.test/#/a", ""] {
            assert!(description.at(bad).is_err(), "{bad}");
        }
        assert!(description.follow(&json!({"$ref": "#/d"})).is_err());
        assert_eq!(description.follow(&json!(5)).unwrap(), &json!(5));
    }

    #[test]
    fn other_versions_are_refused() {
        for text in [
            "{\"swagger\": \"2.0\"}",
            "{\"openapi\": \"4.0.0\"}",
            "[]",
            "openapi: 2.0.0",
            "<html>",
            "",
        ] {
            assert!(Description::parse(text.as_bytes()).is_err(), "{text}");
        }
        assert!(!Description::parse(b"# YAML\nopenapi: 3.1.0\n").unwrap().is_3_0);
    }
}
