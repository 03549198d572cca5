//! MIME bundles: small values as they are, text as an excerpt, images and large values as artifacts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value as Json};
use sha2::{Digest, Sha256};

use crate::excerpt::Excerpt;
use crate::screen::{Sink as _, plain};

/// JSON bytes of a value that stays in the result; larger ones become artifacts.
pub(crate) const INLINE_BYTES: usize = 2048;
/// Representations of one output; additional ones are left out.
const MAX_TYPES: usize = 32;
/// Bytes of a MIME type's name; longer ones are left out.
const TYPE_BYTES: usize = 200;

/// The first bytes of a PNG.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

/// Content that is to be kept beside the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// SHA-256, lower-case hex.
    pub sha256: String,
    /// MIME type, as the kernel named it.
    pub media_type: String,
    /// The content itself, base64 undone.
    pub content: Bytes,
}

/// Reference to an artifact: path, type and size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ArtifactRef {
    /// `sha256:<hex>`.
    pub(crate) artifact: String,
    /// Length in bytes.
    pub(crate) bytes: u64,
    /// Pixels of an image whose header could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) width: Option<usize>,
    /// As `width`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) height: Option<usize>,
}

/// One representation in a bundle.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// As the kernel sent it.
    Inline(Json),
    /// `text/plain`.
    Text(Excerpt),
    /// Kept beside the result.
    Artifact(ArtifactRef),
}

impl Value {
    /// Approximate memory, in bytes.
    pub(crate) fn weight(&self) -> usize {
        size_of::<Self>()
            + match self {
                // Its texts are no longer than its JSON may be, and each value of it takes more than a byte.
                Self::Inline(_) => 2 * INLINE_BYTES,
                Self::Text(excerpt) => excerpt.weight(),
                Self::Artifact(known) => known.artifact.len(),
            }
    }
}

/// A bundle, in the order of its types' names.
pub(crate) type Bundle = Vec<(String, Value)>;

/// Takes a bundle apart. `text_chars`: how much of `text/plain` is kept.
pub(crate) fn read(data: Map<String, Json>, text_chars: usize, artifacts: &mut Vec<Artifact>) -> Bundle {
    let has_audio = data.keys().any(|name| name.starts_with("audio/"));
    let html = data
        .get("text/html")
        .and_then(Json::as_str)
        .filter(|_| !has_audio);
    let audio = html.and_then(embedded_audio).and_then(|(name, text)| {
        let content = decode(text)?;
        Some((name.to_owned(), keep(name, content.into(), artifacts)))
    });
    let usable = data.into_iter().filter(|(name, _)| name.len() <= TYPE_BYTES);
    let all = usable.take(MAX_TYPES).map(|(name, value)| {
        let value = one(&name, value, text_chars, artifacts);
        (name, value)
    });
    audio.into_iter().chain(all).collect()
}

/// The type and the content, in base64, of the first sound in the markup of a player, which is all that `IPython.display.Audio` gives.
fn embedded_audio(html: &str) -> Option<(&str, &str)> {
    let (_, player) = html.split_once("<audio")?;
    let (_, data) = player.split_once("\"data:audio/")?;
    let (head, _) = data.split_once('"')?;
    let (_, text) = head.split_once(";base64,")?;
    let begin = html.len().checked_sub(data.len())?.checked_sub("audio/".len())?;
    let name = html.get(begin..)?.split(';').next()?;
    (name.len() <= TYPE_BYTES).then_some((name, text))
}

/// Returns extra data of a kernel: in place if it is small, else as an artifact.
pub(crate) fn json(value: Json, artifacts: &mut Vec<Artifact>) -> Value {
    let text = value.to_string();
    if text.len() <= INLINE_BYTES {
        Value::Inline(value)
    } else {
        keep("application/json", text.into(), artifacts)
    }
}

/// A text of which at most `text_chars` characters are kept.
pub(crate) fn excerpt(text: &str, text_chars: usize) -> Excerpt {
    let mut excerpt = Excerpt::new(text_chars);
    excerpt.push(&plain(text));
    excerpt
}

/// A PNG in base64, if it is one.
pub(crate) fn png(text: &str, artifacts: &mut Vec<Artifact>) -> Option<Value> {
    let content = decode(text).filter(|content| content.starts_with(PNG))?;
    Some(keep("image/png", content.into(), artifacts))
}

fn one(name: &str, value: Json, text_chars: usize, artifacts: &mut Vec<Artifact>) -> Value {
    if name == "text/plain"
        && let Some(text) = joined(&value)
    {
        return Value::Text(excerpt(&text, text_chars));
    }
    let kind = name.split('/').next().unwrap_or_default();
    let media = matches!(kind, "image" | "audio" | "video") && name != "image/svg+xml";
    let binary = media || name == "application/pdf";
    if binary && let Some(content) = joined(&value).and_then(|text| decode(&text)) {
        return keep(name, content.into(), artifacts);
    }
    let small = || serde_json::to_string(&value).is_ok_and(|text| text.len() <= INLINE_BYTES);
    if kind != "image" && small() {
        return Value::Inline(value);
    }
    let content = joined(&value).unwrap_or_else(|| value.to_string());
    keep(name, content.into(), artifacts)
}

/// A text, also in nbformat's form of a list of lines.
fn joined(value: &Json) -> Option<String> {
    match value {
        Json::String(text) => Some(text.clone()),
        Json::Array(lines) => lines.iter().map(Json::as_str).collect(),
        _ => None,
    }
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let clean: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    STANDARD.decode(clean).ok()
}

fn keep(name: &str, content: Bytes, artifacts: &mut Vec<Artifact>) -> Value {
    let sha256 = hex::encode(Sha256::digest(&content));
    let size = name
        .starts_with("image/")
        .then(|| imagesize::blob_size(&content).ok())
        .flatten();
    let known = ArtifactRef {
        artifact: format!("sha256:{sha256}"),
        bytes: content.len() as u64,
        width: size.map(|size| size.width),
        height: size.map(|size| size.height),
    };
    artifacts.push(Artifact {
        sha256,
        media_type: name.to_owned(),
        content,
    });
    Value::Artifact(known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// One black pixel.
    const PNG: &str =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII=";

    fn bundle(data: &Json) -> (Vec<(String, Value)>, Vec<Artifact>) {
        let mut artifacts = Vec::new();
        let bundle = read(data.as_object().unwrap().clone(), 10, &mut artifacts);
        (bundle, artifacts)
    }

    #[test]
    fn an_image_becomes_an_artifact_with_its_size() {
        let lines = format!("{}\n{}\n", &PNG[..40], &PNG[40..]);
        for data in [json!({"image/png": PNG}), json!({"image/png": lines})] {
            let (bundle, artifacts) = bundle(&data);
            let Value::Artifact(known) = &bundle[0].1 else {
                panic!("{bundle:?}")
            };
            assert_eq!((known.width, known.height), (Some(1), Some(1)));
            assert_eq!(known.bytes, artifacts[0].content.len() as u64);
            assert_eq!(known.artifact, format!("sha256:{}", artifacts[0].sha256));
            assert!(artifacts[0].content.starts_with(b"\x89PNG"));
        }
    }

    #[test]
    fn the_sound_of_a_player_is_an_artifact_too() {
        let html = "\n<audio  controls=\"controls\" >\n<source src=\"data:audio/wav;base64,UklGRg==\" type=\"audio/wav\" />\n</audio>";
        let (bundle, artifacts) = bundle(&json!({"text/html": html, "text/plain": "<Audio object>"}));
        let names: Vec<_> = bundle.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["audio/wav", "text/html", "text/plain"]);
        assert_eq!(
            (artifacts[0].media_type.as_str(), &artifacts[0].content[..]),
            ("audio/wav", &b"RIFF"[..])
        );
        for none in [
            "<audio src=\"x.wav\">",
            "data:audio/wav;base64,UklGRg==",
            "<audio src=\"data:audio/wav;base64,%\">",
        ] {
            assert!(self::bundle(&json!({"text/html": none})).1.is_empty(), "{none}");
        }
    }

    #[test]
    fn what_is_small_stays_and_what_is_large_does_not() {
        let (bundle, artifacts) = bundle(&json!({
            "application/json": {"a": 1},
            "text/html": "x".repeat(INLINE_BYTES),
            "text/plain": "\u{1b}[31m0123456789abc",
            "image/svg+xml": "<svg/>",
            "image/gif": "no base64!",
        }));
        let kinds: Vec<_> = bundle
            .iter()
            .map(|(name, value)| (name.as_str(), matches!(value, Value::Artifact(_))))
            .collect();
        assert_eq!(
            kinds,
            [
                ("application/json", false),
                ("image/gif", true),
                ("image/svg+xml", true),
                ("text/html", true),
                ("text/plain", false)
            ]
        );
        assert_eq!(artifacts.len(), 3);
        let Value::Text(text) = &bundle[4].1 else {
            panic!("{bundle:?}")
        };
        assert_eq!(
            (text.shown().head.as_str(), text.shown().bytes_total),
            ("01234", 13)
        );
    }
}
