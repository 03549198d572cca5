//! JSON request bodies, read with limits and with errors that name the field.
//!
//! An empty body means "all defaults". The content type is not looked at (`JupyterLab` sends `text/plain` at times); a
//! form on a foreign page cannot make use of that, since a browser's sign-in counts for own pages only. The Jupyter API ignores unknown keys, the native one
//! refuses them ([`Fields::finish`]).

use axum::body::{Body, Bytes, to_bytes};
use axum::http::{HeaderMap, StatusCode, header};
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

async fn within(app: &App, headers: &HeaderMap, body: Body, limit: usize) -> Result<Bytes, ApiError> {
    refuse_encoding(headers)?;
    let read = timeout(app.config().body_timeout, to_bytes(body, limit));
    match read.await {
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

    /// A whole number, not negative; absent and null are `None`.
    pub(crate) fn number(&mut self, name: &str) -> Result<Option<u64>, ApiError> {
        match self.map.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Number(number)) => match number.as_u64() {
                Some(number) => Ok(Some(number)),
                None => Err(ApiError::bad_field(
                    self.name(name),
                    "expected a whole number, not negative",
                )),
            },
            Some(other) => Err(wrong(&self.name(name), "a whole number", &other)),
        }
    }

    /// True or false; absent and null are `None`.
    pub(crate) fn boolean(&mut self, name: &str) -> Result<Option<bool>, ApiError> {
        match self.map.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(value)),
            Some(other) => Err(wrong(&self.name(name), "a boolean", &other)),
        }
    }

    /// One of some words; absent and null are `None`.
    pub(crate) fn word<T: Copy>(&mut self, name: &str, words: &[(&str, T)]) -> Result<Option<T>, ApiError> {
        let Some(text) = self.string(name)? else {
            return Ok(None);
        };
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return Ok(Some(*value));
        }
        let known: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        let reason = format!("expected one of {}", known.join(", "));
        Err(ApiError::bad_field(self.name(name), reason))
    }

    /// Refuses what nobody has taken.
    pub(crate) fn finish(self) -> Result<(), ApiError> {
        match self.map.keys().next() {
            None => Ok(()),
            Some(name) => Err(ApiError::bad_field(self.name(name), "unknown field")),
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

    /// Whether a member is there and null. It is taken out then.
    pub(crate) fn is_null(&mut self, name: &str) -> bool {
        let null = self.map.get(name).is_some_and(Value::is_null);
        if null {
            self.map.remove(name);
        }
        null
    }

    /// The members themselves, each a string, or null.
    pub(crate) fn into_optional_strings(
        mut self,
    ) -> Result<std::collections::BTreeMap<String, Option<String>>, ApiError> {
        let nulls: Vec<String> = self.map.keys().cloned().collect();
        let nulls: Vec<String> = nulls.into_iter().filter(|name| self.is_null(name)).collect();
        let texts = self.into_strings()?;
        let texts = texts.into_iter().map(|(name, text)| (name, Some(text)));
        Ok(texts.chain(nulls.into_iter().map(|name| (name, None))).collect())
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
    let got = match got {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    ApiError::bad_field(name, format!("expected {wanted}, got {got}"))
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
        let text = br#"{"n": 3, "m": -1, "b": true, "w": "x", "limits": {"a": 1, "b": 2}}"#;
        let mut fields = Fields::parse(text).unwrap();
        assert_eq!(fields.number("n").unwrap(), Some(3));
        assert_eq!(fields.number("n").unwrap(), None);
        assert!(fields.number("m").is_err());
        assert_eq!(fields.boolean("b").unwrap(), Some(true));
        let error = fields.word("w", &[("strict", 1), ("report", 2)]).unwrap_err();
        assert_eq!(message(error), "w: expected one of strict, report");
        let mut limits = fields.object("limits").unwrap().unwrap();
        assert_eq!(limits.number("a").unwrap(), Some(1));
        let error = limits.finish().unwrap_err();
        assert_eq!(message(error), "limits.b: unknown field");
        assert!(fields.finish().is_ok());
    }

    #[test]
    fn null_can_mean_something() {
        let mut fields = Fields::parse(br#"{"a": null, "b": 1, "labels": {"x": null, "y": "z"}}"#).unwrap();
        assert!(fields.is_null("a") && !fields.is_null("a") && !fields.is_null("b") && !fields.is_null("c"));
        let labels = fields
            .object("labels")
            .unwrap()
            .unwrap()
            .into_optional_strings()
            .unwrap();
        assert_eq!((&labels["x"], labels["y"].as_deref()), (&None, Some("z")));
        let wrong = Fields::parse(br#"{"x": 1}"#).unwrap().into_optional_strings();
        assert_eq!(message(wrong.unwrap_err()), "x: expected a string, got a number");
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
