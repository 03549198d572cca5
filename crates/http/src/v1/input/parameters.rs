//! Queries as types.

use std::collections::BTreeMap;

use axum::extract::{FromRequestParts, Query};
use axum::http::Uri;
use axum::http::request::Parts;
use schemars::JsonSchema;
use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, Deserializer, Error, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::Value;
use serde_path_to_error::Track;

use super::explain;
use crate::error::ApiError;
use crate::openapi::{Operation, Part};

/// The parameters of a query. `T` refuses those that it does not have, and those that come more than once where it has
/// no list; the token may stand there for clients that cannot set a header.
#[derive(Debug)]
pub(crate) struct Parameters<T>(pub(in crate::v1) T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Parameters<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        parse(&parts.uri).map(Self)
    }
}

impl<T: JsonSchema> Part for Parameters<T> {
    fn describe(operation: &mut Operation<'_>) {
        let schema = operation.schemas.read::<T>();
        let Some(Value::Object(members)) = schema.get("properties") else {
            return;
        };
        let required = schema
            .get("required")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        for (name, schema) in members {
            let required = required.iter().any(|word| word == name);
            operation.parameter("query", name, required, without_null(schema.clone()));
        }
    }
}

/// A query has no null.
fn without_null(mut schema: Value) -> Value {
    let kinds = schema.get_mut("type").and_then(Value::as_array_mut);
    if let Some(kinds) = kinds {
        kinds.retain(|kind| kind != "null");
        if let [only] = kinds.as_slice() {
            schema["type"] = only.clone();
        }
    }
    for list in ["enum", "anyOf"] {
        if let Some(values) = schema.get_mut(list).and_then(Value::as_array_mut) {
            values.retain(|value| !value.is_null() && value.get("type").is_none_or(|kind| kind != "null"));
        }
    }
    if let Some(members) = schema.as_object_mut()
        && let Some(Value::Array(any)) = members.get("anyOf").cloned()
        && let [Value::Object(only)] = any.as_slice()
    {
        members.remove("anyOf");
        members.extend(only.clone());
    }
    schema
}

/// Reads a query.
pub(crate) fn parse<T: DeserializeOwned>(uri: &Uri) -> Result<T, ApiError> {
    let Ok(Query(pairs)) = Query::<Vec<(String, String)>>::try_from_uri(uri) else {
        return Err(ApiError::bad_request("the query cannot be decoded"));
    };
    let mut values: BTreeMap<String, ParameterValues> = BTreeMap::new();
    for (name, value) in pairs {
        if name != "token" {
            values.entry(name).or_default().0.push(value);
        }
    }
    let mut track = Track::new();
    let read = MapDeserializer::<_, serde::de::value::Error>::new(values.into_iter());
    T::deserialize(serde_path_to_error::Deserializer::new(read, &mut track)).map_err(|error| {
        let text = error.to_string().replace("unknown field", "unknown parameter");
        let field: String = track
            .path()
            .to_string()
            .chars()
            .take(100)
            .flat_map(char::escape_debug)
            .collect();
        if text.starts_with("unknown parameter") {
            return ApiError::bad_field(field, "unknown parameter");
        }
        explain::explained(field, &text, None)
    })
}

#[derive(Clone, Debug, Default)]
struct ParameterValues(Vec<String>);

impl ParameterValues {
    fn only<E: Error>(mut self) -> Result<String, E> {
        match (self.0.pop(), self.0.is_empty()) {
            (Some(value), true) => Ok(value),
            _ => Err(E::custom("is given more than once")),
        }
    }
}

impl IntoDeserializer<'_> for ParameterValues {
    type Deserializer = ParameterReader;

    fn into_deserializer(self) -> ParameterReader {
        ParameterReader(self)
    }
}

/// Reads a parameter as what its type is.
struct ParameterReader(ParameterValues);

impl<'de> Deserializer<'de> for ParameterReader {
    type Error = serde::de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_string(self.0.only()?)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        match self.0.only::<Self::Error>()?.parse() {
            Ok(number) => visitor.visit_u64(number),
            Err(_) => Err(Self::Error::custom("expected a whole number")),
        }
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        match self.0.only::<Self::Error>()?.parse() {
            Ok(number) => visitor.visit_f64(number),
            Err(_) => Err(Self::Error::custom("expected a number")),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        match self.0.only::<Self::Error>()?.as_str() {
            "true" => visitor.visit_bool(true),
            "false" => visitor.visit_bool(false),
            _ => Err(Self::Error::custom("expected true or false")),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_some(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        let each = self.0.0.into_iter().map(|value| ParameterValues(vec![value]));
        visitor.visit_seq(SeqDeserializer::new(each))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        visitor.visit_enum(self.0.only::<Self::Error>()?.into_deserializer())
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u128 f32 char str string bytes byte_buf unit unit_struct tuple tuple_struct
        map struct identifier ignored_any
    }
}

/// A query without parameters.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoParameters {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::input::{Wait, Whole};
    use serde::Deserialize;
    use std::time::Duration;

    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Example {
        limit: Option<Whole<1, 9>>,
        #[serde(default)]
        label: Vec<String>,
        #[serde(default)]
        deep: bool,
        path: Option<String>,
        wait_s: Option<Wait<600>>,
    }

    fn example(query: &str) -> Result<Example, String> {
        parse(&format!("/x?{query}").parse().unwrap()).map_err(|error| error.message)
    }

    #[test]
    fn values_are_decoded_and_typed() {
        let one = example("limit=3&label=a%3Db&label=&deep=true&path=%2Fp+q&token=t").unwrap();
        assert_eq!(one.limit, Some(Whole(3)));
        assert_eq!(
            (one.label, one.deep),
            (vec!["a=b".to_owned(), String::new()], true)
        );
        assert_eq!(one.path.as_deref(), Some("/p q"));
        let waits = example("wait_s=0.25").unwrap().wait_s;
        assert_eq!(waits, Some(Wait(Duration::from_millis(250))));
    }

    #[test]
    fn what_cannot_be_is_named() {
        for (query, wanted) in [
            ("limit=10", "limit: must be 1 to 9"),
            ("limit=x", "limit: expected a whole number"),
            ("limit=", "limit: expected a whole number"),
            ("limit=1&limit=2", "limit: is given more than once"),
            ("limt=1", "limt: unknown parameter"),
            ("wait_s=-1", "wait_s: must be 0 to 600 seconds"),
            ("wait_s=600.1", "wait_s: must be 0 to 600 seconds"),
            ("wait_s=NaN", "wait_s: must be 0 to 600 seconds"),
            ("wait_s=soon", "wait_s: expected a number"),
            ("deep=1", "deep: expected true or false"),
        ] {
            assert_eq!(example(query).unwrap_err(), wanted, "{query}");
        }
    }
}
