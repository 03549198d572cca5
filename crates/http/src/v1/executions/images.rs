//! Images within a JSON result: the content of those that fit into a budget stands beside their addresses, in base64.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use himalia_engine::{ArtifactReference, ExecutionId, ExecutionResult, Output, Principal};
use serde::Serialize;

use crate::app::App;
use crate::error::ApiError;
use crate::v1::answers::SerializedJson;

/// Bytes of the images of one result, at most.
pub(super) const MOST: u64 = 4 << 20;
/// Images of one result.
const COUNT: usize = 8;

/// Pixels that `image_pixels` can name.
pub(super) const MOST_PIXELS: u64 = 100_000;

/// The images whose content is in an answer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bounds {
    /// Bytes of all of them together.
    pub(super) bytes: u64,
    /// Pixels on a side of each; `None`: any number.
    pub(super) pixels: Option<u64>,
}

/// The answer with this result, whose images are within these bounds. `shown`: what is answered of the result.
pub(super) async fn answer<T: Serialize>(
    app: &App,
    principal: &Principal,
    mut result: ExecutionResult,
    bounds: Bounds,
    shown: impl FnOnce(ExecutionResult) -> T,
) -> Result<SerializedJson<T>, ApiError> {
    let engine = app.engine();
    let budget = bounds.bytes;
    // In memory they are there as content, as base64 and as JSON.
    let held = match budget {
        0 => None,
        budget => Some(engine.hold_memory(principal, 4 * budget.min(bytes_of(&result, bounds)))?),
    };
    let id = result.id;
    let (mut left, mut count) = (budget, 0);
    for output in &mut result.outputs {
        if count < COUNT
            && let Some(bytes) = inline(
                app,
                principal,
                id,
                output,
                Bounds {
                    bytes: left,
                    ..bounds
                },
            )
            .await
        {
            (left, count) = (left - bytes, count + 1);
        }
    }
    let bytes = result.about_bytes() + usize::try_from(2 * (budget - left)).unwrap_or(0);
    let made = || {
        let shown = shown(result);
        match held {
            Some(held) => SerializedJson::held(&shown, held),
            None => SerializedJson::json(&shown),
        }
    };
    engine.answer_in_turn(principal, bytes, made).await?
}

fn bytes_of(result: &ExecutionResult, bounds: Bounds) -> u64 {
    let images = result
        .outputs
        .iter()
        .filter_map(|output| Some(chosen(output, bounds)?.0));
    images.fold(0, |sum, image| sum.saturating_add(image.bytes))
}

/// The image of an output, or the smaller copy of it (`true`) if it has too many pixels.
fn chosen(output: &Output, bounds: Bounds) -> Option<(ArtifactReference<'_>, bool)> {
    let best = ArtifactReference::best_image(&output.data)?;
    let image = match bounds.pixels {
        Some(pixels) => best.within(output.preview.as_ref(), pixels)?,
        None => best,
    };
    Some((image, image != best))
}

/// Puts the content of an output's image, or of the smaller copy, beside its address, if there is room for it. How many bytes it has.
async fn inline(
    app: &App,
    principal: &Principal,
    id: ExecutionId,
    output: &mut Output,
    bounds: Bounds,
) -> Option<u64> {
    let left = bounds.bytes;
    let (image, is_copy) = chosen(output, bounds)?;
    if image.bytes > left {
        return None;
    }
    let found = app
        .engine()
        .execution_artifact(principal, id, image.sha256)
        .await
        .ok()?;
    // What a kernel named like an artifact may be another one.
    let size = found.size();
    if size > left {
        return None;
    }
    let content = found.read(0, usize::try_from(size).ok()?).await.ok()?;
    let kind = image.kind.to_owned();
    let place = if is_copy {
        output.preview.as_mut()
    } else {
        output.data.get_mut(&kind)
    };
    place?["base64"] = STANDARD.encode(&content).into();
    Some(size)
}

/// JSON with another status than 200.
#[derive(Debug)]
pub(crate) struct WithStatus<T>(pub(super) StatusCode, pub(super) SerializedJson<T>);

impl<T> IntoResponse for WithStatus<T> {
    fn into_response(self) -> Response {
        (self.0, self.1.into_response()).into_response()
    }
}
