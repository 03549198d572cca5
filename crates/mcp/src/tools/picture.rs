//! A file that is an image, as models see it.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use himalia_engine::{KernelId, exceeds, image_of};
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::json;

use super::files::take;
use crate::call::Call;
use crate::failure::Failure;
use crate::{limits, result};

/// Image content, if the file begins as an image, is within the budget of images, and has not too many pixels. `beginning`: its first
/// bytes; `total`: how many there are.
pub(super) async fn of(
    call: &Call,
    session: KernelId,
    path: &str,
    beginning: &[u8],
    total: u64,
) -> Result<Option<CallToolResult>, Failure> {
    if image_of(beginning).is_none() || total > limits::IMAGE_BYTES {
        return Ok(None);
    }
    let file = call
        .engine
        .read_file(&call.principal, session, path, None)
        .await?;
    let (content, total) = take(file, limits::IMAGE_BYTES + 1).await?;
    // It may be another one by now, or none that clients can read.
    let Some((kind, Some((width, height)))) =
        image_of(&content).filter(|_| content.len() as u64 <= limits::IMAGE_BYTES)
    else {
        return Ok(None);
    };
    if exceeds(Some((width, height)), limits::IMAGE_PIXELS) {
        return Ok(None);
    }
    let text = format!("[image {path}: {kind} {width}x{height}, {total} bytes]");
    let image = ContentBlock::image(BASE64_STANDARD.encode(&content), kind);
    let mut shown = CallToolResult::success(vec![ContentBlock::text(text), image]);
    result::for_programs(
        &mut shown,
        json!({"path": path, "bytes_total": total, "binary": true, "kind": kind}),
    );
    Ok(Some(shown))
}
