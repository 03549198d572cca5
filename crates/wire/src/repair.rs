//! JSON text that not every reader takes, made readable: bytes that are not UTF-8 and lone surrogates become U+FFFD.
//!
//! Kernels write both for text that came from file names or binary data.

use std::borrow::Cow;

use memchr::memchr;

/// Length of `\u` and four digits.
const ESCAPE: usize = 6;
const PAIR: usize = 12;

/// The repaired text. `None`: it needs no repair.
pub(crate) fn repaired(json: &[u8]) -> Option<Vec<u8>> {
    // Faster by far than the lossy conversion, and almost every text passes.
    let text = match str::from_utf8(json) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(json),
    };
    let lone = lone_surrogates(text.as_bytes());
    match text {
        Cow::Borrowed(_) if lone.is_empty() => None,
        Cow::Owned(text) if lone.is_empty() => Some(text.into_bytes()),
        text => Some(replaced(text.as_bytes(), &lone)),
    }
}

/// The places where escapes of surrogates begin that are no pairs.
fn lone_surrogates(json: &[u8]) -> Vec<usize> {
    let mut lone = Vec::new();
    let mut at = 0;
    while let Some(next) = json.get(at..).and_then(|rest| memchr(b'\\', rest)) {
        at = at.saturating_add(next);
        let length = match (escaped(json, at), escaped(json, at.saturating_add(ESCAPE))) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => PAIR,
            (Some(0xD800..=0xDFFF), _) => {
                lone.push(at);
                ESCAPE
            }
            (Some(_), _) => ESCAPE,
            // Another escape, such as that of a backslash.
            (None, _) => 2,
        };
        at = at.saturating_add(length);
    }
    lone
}

/// The code unit of the `\u` escape that begins here, if one does.
fn escaped(json: &[u8], at: usize) -> Option<u16> {
    let digits = json.get(at..at.saturating_add(ESCAPE))?.strip_prefix(b"\\u")?;
    u16::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
}

/// With U+FFFD in place of these escapes.
fn replaced(json: &[u8], escapes: &[usize]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len());
    let mut from = 0;
    for at in escapes {
        out.extend_from_slice(json.get(from..*at).unwrap_or_default());
        out.extend_from_slice(b"\\ufffd");
        from = at.saturating_add(ESCAPE);
    }
    out.extend_from_slice(json.get(from..).unwrap_or_default());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn text(json: &[u8]) -> String {
        let repaired = repaired(json);
        let read: Value = serde_json::from_slice(repaired.as_deref().unwrap_or(json)).unwrap();
        read["text"].as_str().unwrap().to_owned()
    }

    #[test]
    fn what_every_reader_takes_stays_as_it_is() {
        for json in [
            &br#"{"text":"a\nb\\ud800\u00e9"}"#[..],
            r#"{"text":"žluť €😀"}"#.as_bytes(),
            br#"{"text":"\ud83d\ude00\\\ud83d\ude00"}"#,
            b"",
        ] {
            assert_eq!(repaired(json), None, "{}", String::from_utf8_lossy(json));
        }
    }

    #[test]
    fn the_rest_of_a_text_is_kept() {
        assert_eq!(text(b"{\"text\":\"a\xffb\xe2\x82\xac\"}"), "a\u{fffd}b€");
        assert_eq!(text(br#"{"text":"a\udcffb"}"#), "a\u{fffd}b");
        assert_eq!(
            text(br#"{"text":"\ud800\ud83d\ude00\uDC00"}"#),
            "\u{fffd}😀\u{fffd}"
        );
        assert_eq!(
            text(b"{\"text\":\"\xff\\ud800 \\\\ud800\"}"),
            "\u{fffd}\u{fffd} \\ud800"
        );
        assert_eq!(text(br#"{"text":"\ud800"}"#), "\u{fffd}");
    }
}
