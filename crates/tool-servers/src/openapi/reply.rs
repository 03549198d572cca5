//! The response to a call as a reply.

use himalia_upstream::json::{self, NotRead};
use himalia_upstream::{IncomingResponse, is_json};
use serde_json::Value;

use crate::call::{Blob, CallError, Reply, refusal};

/// Reads a response. One that is no success is a refusal.
pub(super) async fn reply(mut incoming: IncomingResponse) -> Result<Reply, CallError> {
    if !incoming.status.is_success() {
        return Err(refusal(incoming).await);
    }
    let media_type = incoming.media_type();
    let body = incoming.body.all().await?;
    let bytes = incoming.body.read();
    let mut blobs = Vec::new();
    let content = if body.is_empty() {
        Value::Null
    } else if is_json(&media_type) {
        json::parse(&body).map_err(|reason| match reason {
            NotRead::TooMany => CallError::TooLarge(reason.to_string()),
            NotRead::Malformed(_) => CallError::failed(format_args!("the reply {reason}")),
        })?
    } else if media_type.starts_with("text/") || media_type.is_empty() || media_type.ends_with("xml") {
        Value::String(String::from_utf8_lossy(&body).into_owned())
    } else {
        blobs.push(Blob {
            mime_type: media_type,
            bytes: body,
        });
        Value::Null
    };
    Ok(Reply {
        content,
        blobs,
        is_error: false,
        bytes,
    })
}
