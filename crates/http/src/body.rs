//! JSON request bodies, read with limits and with errors that name the field.
//!
//! An empty body means "all defaults". The content type is not looked at (`JupyterLab` sends `text/plain` at times); a
//! form on a foreign page cannot make use of that, since a browser's sign-in counts for own pages only. The Jupyter API
//! ignores unknown keys, the viewer's sign-in refuses them ([`Fields::finish`]); the native API parses into types that
//! refuse them (`v1::input`).

use axum::body::{Body, Bytes, to_bytes};
use axum::http::{HeaderMap, StatusCode, header};
use himalia_wire::{MAX_JSON_MEMORY, exceeds_json_memory};
use serde_json::{Map, Value};
use tokio::time::timeout;

use crate::app::App;
use crate::error::ApiError;

/// The members of a JSON object, taken out by name and type.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    map: Map<String, Value>,
    /// Prefix of names in errors, for objects within objects.
    within: &'static str,
}

/// Reads a body: `None` if it is empty.
pub(crate) async fn fields(app: &App, headers: &HeaderMap, body: Body) -> Result<Option<Fields>, ApiError> {
    fields_within(app, headers, body, app.config().body_bytes).await
}

/// As [`fields`], of at most so many bytes.
pub(crate) async fn fields_within(
    app: &App,
    headers: &HeaderMap,
    body: Body,
    limit: usize,
) -> Result<Option<Fields>, ApiError> {
    let bytes = within(app, headers, body, limit).await?;
    if bytes.trim_ascii().is_empty() {
        return Ok(None);
    }
    Fields::parse(&bytes).map(Some)
}

/// Reads a body within the limits of size and time.
pub(crate) async fn whole(app: &App, headers: &HeaderMap, body: Body) -> Result<Bytes, ApiError> {
    within(app, headers, body, app.config().body_bytes).await
}

/// The same of at most so many bytes.
pub(crate) async fn within(
    app: &App,
    headers: &HeaderMap,
    body: Body,
    limit: usize,
) -> Result<Bytes, ApiError> {
    refuse_encoding(headers)?;
    let read = timeout(app.config().body_timeout, to_bytes(body, limit));
    match read.await {
        Ok(Ok(bytes)) if exceeds_json_memory(&bytes, MAX_JSON_MEMORY) => {
            let message = format!(
                "the request body has so many small values that they would take more than {} MiB of memory",
                MAX_JSON_MEMORY >> 20
            );
            Err(ApiError::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "body_too_large",
                message,
            ))
        }
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) => Err(unreadable(&error, limit)),
        Err(_) => {
            let message = "the request body took too long";
            Err(ApiError::new(
                StatusCode::REQUEST_TIMEOUT,
                "body_timeout",
                message,
            ))
        }
    }
}

/// Refuses bodies that are compressed.
pub(crate) fn refuse_encoding(headers: &HeaderMap) -> Result<(), ApiError> {
    if headers
        .get(header::CONTENT_ENCODING)
        .is_some_and(|v| v.as_bytes() != b"identity")
    {
        let message = "compressed request bodies are not supported";
        return Err(ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_encoding",
            message,
        ));
    }
    Ok(())
}

fn unreadable(error: &axum::Error, limit: usize) -> ApiError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error.to_string().contains("length limit") {
            let message = format!("the request body is larger than {limit} bytes");
            return ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message);
        }
        cause = error.source();
    }
    ApiError::bad_request("the request body could not be read")
}

impl Fields {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, ApiError> {
        match serde_json::from_slice(bytes) {
            Ok(Value::Object(map)) => Ok(Self { map, within: "" }),
            Ok(other) => Err(wrong("body", "an object", &other)),
            Err(error) => Err(ApiError::bad_request(format!(
                "Invalid JSON in body of request: {error}"
            ))),
        }
    }

    /// A string; absent and null are `None`.
    pub(crate) fn string(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        match self.map.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(wrong(&self.name(name), "a string", &other)),
        }
    }

    /// An object; absent and null are `None`.
    pub(crate) fn object(&mut self, name: &'static str) -> Result<Option<Self>, ApiError> {
        match self.map.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Object(map)) => Ok(Some(Self { map, within: name })),
            Some(other) => Err(wrong(&self.name(name), "an object", &other)),
        }
    }

    /// The members themselves, each a string.
    pub(crate) fn into_strings(self) -> Result<std::collections::BTreeMap<String, String>, ApiError> {
        let within = self.within;
        self.map
            .into_iter()
            .map(|(key, value)| match value {
                Value::String(text) => Ok((key, text)),
                other => Err(wrong(&joined(within, &key), "a string", &other)),
            })
            .collect()
    }

    /// Refuses fields that were not taken.
    pub(crate) fn finish(self) -> Result<(), ApiError> {
        match self.map.keys().next() {
            None => Ok(()),
            Some(name) => Err(ApiError::bad_field(self.name(name), "unknown field")),
        }
    }

    /// The name of a member as errors say it.
    pub(crate) fn name(&self, name: &str) -> String {
        joined(self.within, name)
    }
}

fn joined(within: &str, name: &str) -> String {
    let name: String = name.chars().take(100).flat_map(char::escape_debug).collect();
    if within.is_empty() {
        name
    } else {
        format!("{within}.{name}")
    }
}

fn wrong(name: &str, wanted: &str, got: &Value) -> ApiError {
    ApiError::bad_field(name, format!("expected {wanted}, got {}", kind(got)))
}

/// The type of a JSON value, for messages.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(error: ApiError) -> String {
        assert_eq!(error.status, StatusCode::BAD_REQUEST);
        error.message
    }

    #[test]
    fn errors_name_place_and_field() {
        let error = message(Fields::parse(b"{\"a\": 1,,}").unwrap_err());
        assert!(error.starts_with("Invalid JSON in body of request: "), "{error}");
        assert!(error.contains("line 1 column 9"), "{error}");
        assert_eq!(
            message(Fields::parse(b"[]").unwrap_err()),
            "body: expected an object, got an array"
        );
        let mut fields = Fields::parse(br#"{"name": 3, "env": {"A": null}, "path": null}"#).unwrap();
        assert_eq!(
            message(fields.string("name").unwrap_err()),
            "name: expected a string, got a number"
        );
        assert_eq!(fields.string("path").unwrap(), None);
        let env = fields.object("env").unwrap().unwrap();
        assert_eq!(
            message(env.into_strings().unwrap_err()),
            "env.A: expected a string, got null"
        );
    }

    #[test]
    fn what_is_left_is_refused_by_name() {
        let mut fields = Fields::parse(br#"{"a": "x", "env": {"A": "y"}}"#).unwrap();
        assert_eq!(fields.string("a").unwrap().as_deref(), Some("x"));
        let env = fields.object("env").unwrap().unwrap();
        assert_eq!(message(env.finish().unwrap_err()), "env.A: unknown field");
        assert!(fields.finish().is_ok());
    }

    #[test]
    fn hostile_json_is_refused() {
        let deep = "[".repeat(100_000);
        for bad in [
            deep.as_str(),
            "{\"a\": \"\\ud800\"}",
            "{\"a\": NaN}",
            "nul",
            "{\"a\":1} x",
            "\u{feff}{}",
        ] {
            assert!(
                Fields::parse(bad.as_bytes()).is_err(),
                "{}",
                &bad[..bad.len().min(20)]
            );
        }
        assert!(Fields::parse(b"{\"a\": \"\xff\"}").is_err());
    }
}
