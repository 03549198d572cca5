//! Reading JSON text that others wrote, without parsing more of it than is asked for.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::{Error, Result};

/// A JSON string, borrowed where it holds no escapes. Lone surrogates and bytes that are not UTF-8 become
/// U+FFFD instead of an error, as in the Python reference (`errors="replace"`).
pub(crate) struct Text<'a>(pub(crate) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // As bytes, because serde_json refuses lone surrogates only in `str`.
        deserializer.deserialize_bytes(TextVisitor).map(Text)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_bytes<E>(self, bytes: &'de [u8]) -> Result<Self::Value, E> {
        // The check for the whole text is much faster than the one that looks for what to replace.
        Ok(str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed))
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Self::Value, E> {
        Ok(Cow::Owned(String::from_utf8_lossy(bytes).into_owned()))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

/// Takes `N` string fields out of a JSON object; everything else is skipped, however it is nested. Skipping
/// does not recurse, so depth is no attack. A field that is null or absent is `None`; one that stands there
/// twice is an error, because two readers could then see two different messages.
pub(crate) fn string_fields<'a, const N: usize>(
    json: &'a [u8],
    what: &'static str,
    names: [&'static str; N],
) -> Result<[Option<Cow<'a, str>>; N]> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    let found = Deserializer::deserialize_map(&mut reader, FieldsVisitor { names })
        .map_err(|error| Error::json(what, &error))?;
    reader.end().map_err(|error| Error::json(what, &error))?;
    Ok(found)
}

struct FieldsVisitor<const N: usize> {
    names: [&'static str; N],
}

impl<'de, const N: usize> Visitor<'de> for FieldsVisitor<N> {
    type Value = [Option<Cow<'de, str>>; N];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = [const { None }; N];
        let mut seen = [false; N];
        while let Some(Text(key)) = map.next_key()? {
            let place = self
                .names
                .iter()
                .zip(&mut found)
                .zip(&mut seen)
                .find(|((name, _), _)| **name == key);
            let Some(((name, slot), seen)) = place else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            if std::mem::replace(seen, true) {
                return Err(serde::de::Error::duplicate_field(name));
            }
            *slot = map.next_value::<Option<Text<'de>>>()?.map(|text| text.0);
        }
        Ok(found)
    }
}

/// True if the text is `null` or an empty object, white space aside.
pub(crate) fn is_null_or_empty(json: &[u8]) -> bool {
    let json = json.trim_ascii();
    if json == b"null" || json.is_empty() {
        return true;
    }
    let inner = json.strip_prefix(b"{").and_then(|rest| rest.strip_suffix(b"}"));
    inner.is_some_and(|inner| inner.trim_ascii().is_empty())
}
