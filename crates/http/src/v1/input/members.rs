//! JSON bodies as types.

use axum::extract::{FromRequest, Request};
use schemars::JsonSchema;
use serde::de::{Deserialize, DeserializeOwned, Deserializer};
use serde_json::Value;

use super::explain;
use crate::app::App;
use crate::body;
use crate::error::ApiError;
use crate::openapi::{Operation, Part, codes};

/// The members of a body, read within the limits of size and time. An empty body is an empty object, and what content
/// type it says is not looked at. `T` refuses members that it does not have.
#[derive(Debug)]
pub(crate) struct Members<T>(pub(in crate::v1) T);

impl<T: DeserializeOwned> FromRequest<App> for Members<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        let bytes = body::whole(app, &parts.headers, body).await?;
        parse(&bytes).map(Self)
    }
}

impl<T: JsonSchema> Part for Members<T> {
    fn describe(operation: &mut Operation<'_>) {
        let (schema, optional) = operation.schemas.body::<T>();
        operation.body("application/json", !optional, &schema);
        operation.errors(codes::BODY);
    }
}

/// Reads a body.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    let bytes = match bytes.trim_ascii() {
        [] => b"{}",
        some => some,
    };
    let value: Value = serde_json::from_slice(bytes)
        .map_err(|error| ApiError::bad_request(format!("Invalid JSON in body of request: {error}")))?;
    // serde takes a list for a struct.
    if !value.is_object() {
        return Err(ApiError::bad_field("body", "expected an object"));
    }
    serde_path_to_error::deserialize(&value).map_err(|error| explain::of_body(&value, &error))
}

/// Reads null as the default, as an absent member.
pub(crate) fn or_empty<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::input::{Text, Whole};
    use serde::Deserialize;
    use std::collections::BTreeMap;

    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        pids: Option<Whole<1, 9>>,
    }

    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Example {
        code: Text<1, 5>,
        limits: Option<Inner>,
        secrets: Option<BTreeMap<String, String>>,
        word: Option<Word>,
        flag: Option<bool>,
    }

    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    enum Word {
        One,
        Two,
    }

    #[test]
    fn errors_name_the_member_and_keep_its_value_to_themselves() {
        for (body, wanted) in [
            ("", "code: is missing"),
            ("[]", "body: expected an object"),
            (r#"{"code": 3}"#, "code: expected a string, got a number"),
            (r#"{"code": "123456"}"#, "code: must have 1 to 5 bytes"),
            (r#"{"code": "x", "cdoe": 1}"#, "cdoe: unknown field"),
            (
                r#"{"code": "x", "limits": {"pids": 0}}"#,
                "limits.pids: must be 1 to 9",
            ),
            (
                r#"{"code": "x", "limits": {"pids": -1}}"#,
                "limits.pids: expected a whole number, not negative",
            ),
            (r#"{"code": "x", "limits": {"a": 1}}"#, "limits.a: unknown field"),
            (
                r#"{"code": "x", "limits": 1}"#,
                "limits: expected an object, got a number",
            ),
            (
                r#"{"code": "x", "secrets": {"A": 123}}"#,
                "secrets.A: expected a string, got a number",
            ),
            (r#"{"code": "x", "word": "three"}"#, "word: expected one or two"),
            (
                r#"{"code": "x", "flag": "s3cret"}"#,
                "flag: expected a boolean, got a string",
            ),
        ] {
            assert_eq!(
                parse::<Example>(body.as_bytes()).unwrap_err().message,
                wanted,
                "{body}"
            );
        }
        let example: Example =
            parse(br#"{"code": "x", "limits": {"pids": 2}, "word": "one", "flag": null}"#).unwrap();
        assert_eq!((example.code.0.as_str(), example.flag), ("x", None));
        assert_eq!(example.limits.and_then(|limits| limits.pids), Some(Whole(2)));
        assert!(matches!(example.word, Some(Word::One)) && example.secrets.is_none());
    }
}
