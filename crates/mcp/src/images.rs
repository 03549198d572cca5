//! Selects the artifacts of an execution that a result contains as images and sounds.
//!
//! An image within the budget is image content: one with too many pixels as the smaller copy that the kernel made. One beyond the budget, and any large value that has no short text, is a link:
//! `himalia://artifacts/{sha256}`, which `resources/read` opens. So is a sound, unless the call has a budget for it.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use himalia_engine::{ArtifactReference, EngineError, ExecutionId, ExecutionResult, IMAGE_KINDS, exceeds};
use rmcp::model::{ContentBlock, Resource};
use serde_json::{Map, Value};

use crate::arguments::MediaBytes;
use crate::call::Call;
use crate::limits::{IMAGE_PIXELS, IMAGES, LINKS, RESOURCE_BYTES};

/// Beginning of the media types of sounds.
const AUDIO: &str = "audio/";

/// Images, sounds and links of one reply.
#[derive(Debug, Default)]
pub(crate) struct ReplyImages {
    /// The content, in the order of the outputs.
    pub(crate) content: Vec<ContentBlock>,
    /// A line of text for each.
    pub(crate) lines: Vec<String>,
}

/// The artifacts of a result, images and sounds of `left` bytes together as they are.
pub(crate) async fn of(call: &Call, result: &ExecutionResult, mut left: MediaBytes) -> ReplyImages {
    let (mut shown, mut images) = (ReplyImages::default(), 0);
    for output in &result.outputs {
        let has_summary = output.summary.is_some();
        for one in choose(&output.data, has_summary) {
            if shown.content.len() == LINKS {
                return shown;
            }
            let copy = one.within(output.preview.as_ref(), IMAGE_PIXELS);
            let is_audio = one.kind.starts_with(AUDIO);
            let budget = if is_audio {
                &mut left.audio
            } else {
                &mut left.images
            };
            let is_shown = is_audio || copy.is_some_and(|copy| IMAGE_KINDS.contains(&copy.kind));
            let copy = copy.filter(|copy| is_shown && copy.bytes <= *budget && images < IMAGES);
            let mut label = format!("{}, {} bytes", kind_and_size(&one), one.bytes);
            let content = match copy {
                Some(copy) => content(call, result.id, copy.sha256)
                    .await
                    .ok()
                    .map(|content| (copy, content)),
                None => None,
            };
            let uri = uri(one.sha256);
            if let Some((copy, content)) = content {
                images += 1;
                *budget = budget.saturating_sub(copy.bytes);
                let data = BASE64_STANDARD.encode(&content);
                let (word, block) = if is_audio {
                    ("audio", ContentBlock::audio(data, copy.kind))
                } else {
                    ("image", ContentBlock::image(data, copy.kind))
                };
                shown.content.push(block);
                if copy != one {
                    let _ = write!(label, ", shown as {}; the whole: {uri}", kind_and_size(&copy));
                }
                shown.lines.push(format!("[{word} {images}: {label}]"));
            } else {
                if exceeds(one.size, IMAGE_PIXELS) {
                    let _ = write!(label, ", more than {IMAGE_PIXELS} pixels on a side");
                }
                let link = Resource::new(&uri, label.clone())
                    .with_mime_type(one.kind)
                    .with_size(one.bytes);
                shown.content.push(ContentBlock::resource_link(link));
                shown.lines.push(format!("[not shown: {label}: {uri}]"));
            }
        }
    }
    shown
}

async fn content(call: &Call, id: ExecutionId, sha256: &str) -> Result<impl AsRef<[u8]>, EngineError> {
    let artifact = call
        .engine
        .execution_artifact(&call.principal, id, sha256)
        .await?;
    artifact.read(0, RESOURCE_BYTES).await
}

/// The name of an artifact as a resource.
pub(crate) fn uri(sha256: &str) -> String {
    format!("himalia://artifacts/{sha256}")
}

/// Chooses from one output its best image, or, if there is neither an image nor a short text, all representations.
fn choose(data: &Map<String, Value>, has_summary: bool) -> Vec<ArtifactReference<'_>> {
    if let Some(image) = ArtifactReference::best_image(data) {
        return vec![image];
    }
    let is_plain = has_summary || data.get("text/plain").is_some_and(Value::is_string);
    let all = data
        .iter()
        .filter_map(|(kind, value)| ArtifactReference::read(kind, value));
    all.filter(|one| !is_plain || one.kind.starts_with("image/") || one.kind.starts_with(AUDIO))
        .collect()
}

/// `image/png 640x480`, or the media type alone.
fn kind_and_size(one: &ArtifactReference<'_>) -> String {
    match one.size {
        Some((width, height)) => format!("{} {width}x{height}", one.kind),
        None => one.kind.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn kinds(data: &Value) -> Vec<String> {
        let chosen = choose(data.as_object().unwrap(), false);
        chosen.iter().map(kind_and_size).collect()
    }

    #[test]
    fn one_image_of_each_output_or_what_has_no_short_text() {
        let large = json!({"artifact": "sha256:aa", "bytes": 9, "width": 4, "height": 3});
        let figure = json!({"text/plain": "<Figure>", "image/jpeg": large, "image/png": large});
        assert_eq!(kinds(&figure), ["image/png 4x3"]);
        let table = json!({"text/plain": "a b", "text/html": {"artifact": "sha256:bb", "bytes": 9}});
        assert!(kinds(&table).is_empty(), "its text is enough");
        let drawing = json!({"text/plain": "<SVG>", "image/svg+xml": {"artifact": "sha256:cc", "bytes": 9}});
        assert_eq!(kinds(&drawing), ["image/svg+xml"]);
        let sound = json!({"text/plain": "<Audio>", "audio/wav": {"artifact": "sha256:ee", "bytes": 9}});
        assert_eq!(kinds(&sound), ["audio/wav"]);
        let html = json!({"text/html": {"artifact": "sha256:dd", "bytes": 9}});
        assert_eq!(kinds(&html), ["text/html"]);
        assert!(
            choose(html.as_object().unwrap(), true).is_empty(),
            "its summary is enough"
        );
    }
}
