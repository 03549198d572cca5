//! The result of a call (`CallToolResult`) as a reply.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use himalia_upstream::json;
use serde::Deserialize;
use serde_json::Value;

use super::ticket::Answer;
use crate::call::{Blob, CallError, Reply};

/// Result object of `tools/call`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallResult {
    #[serde(default)]
    content: Vec<Block>,
    #[serde(default)]
    structured_content: Option<Value>,
    #[serde(default)]
    is_error: Option<bool>,
    /// `input_required` is a question to a person, which is not asked here.
    #[serde(default)]
    result_type: Option<String>,
}

/// A block of content. Which members it has follows from its type.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Block {
    r#type: String,
    text: Option<String>,
    data: Option<String>,
    mime_type: Option<String>,
    resource: Option<Resource>,
    uri: Option<String>,
    name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Resource {
    uri: String,
    mime_type: Option<String>,
    text: Option<String>,
    blob: Option<String>,
}

/// Reads a result.
pub(super) fn reply(answer: &Answer) -> Result<Reply, CallError> {
    let result: CallResult = json::parse(&answer.result).map_err(|reason| match reason {
        json::NotRead::TooMany => CallError::TooLarge(reason.to_string()),
        json::NotRead::Malformed(_) => CallError::failed(format_args!("the reply {reason}")),
    })?;
    if result
        .result_type
        .as_deref()
        .is_some_and(|kind| kind != "complete")
    {
        return Err(CallError::failed(
            "the tool asks for something of a person, which is not supported",
        ));
    }
    let (mut texts, mut blobs) = (Vec::new(), Vec::new());
    for block in result.content {
        add(block, &mut texts, &mut blobs)?;
    }
    Ok(Reply {
        content: result.structured_content.unwrap_or_else(|| content(texts)),
        blobs,
        is_error: result.is_error.unwrap_or(false),
        bytes: answer.bytes,
    })
}

fn add(block: Block, texts: &mut Vec<String>, blobs: &mut Vec<Blob>) -> Result<(), CallError> {
    let mut add_blob = |data: &str, mime_type: Option<String>| {
        let bytes = STANDARD.decode(data.trim_end());
        let bytes = bytes.map_err(|_| CallError::failed("a file of the reply is not encoded as Base64"))?;
        blobs.push(Blob {
            mime_type: mime_type.unwrap_or_else(|| "application/octet-stream".to_owned()),
            bytes: bytes.into(),
        });
        Ok::<_, CallError>(())
    };
    // What a block has besides follows from its type, and is not there otherwise.
    let Block {
        r#type,
        text,
        data,
        mime_type,
        resource,
        uri,
        name,
    } = block;
    match (r#type.as_str(), text, data, resource, uri) {
        ("text", Some(text), ..) => texts.push(text),
        ("image" | "audio", _, Some(data), ..) => add_blob(&data, mime_type)?,
        ("resource", _, _, Some(resource), _) => match (resource.text, resource.blob) {
            (Some(text), _) => texts.push(text),
            (None, Some(data)) => add_blob(&data, resource.mime_type)?,
            (None, None) => texts.push(resource.uri),
        },
        ("resource_link", .., Some(uri)) => texts.push(match name {
            Some(name) => format!("{name}: {uri}"),
            None => uri,
        }),
        // Blocks of later versions of the protocol.
        _ => {}
    }
    Ok(())
}

/// Texts as one value: the JSON that an only text is, or their lines.
fn content(mut texts: Vec<String>) -> Value {
    match texts.len() {
        0 => Value::Null,
        1 => {
            let text = texts.remove(0);
            // A number or a word stays the text that it is.
            if text.trim_start().starts_with(['{', '[']) {
                json::parse(text.as_bytes()).unwrap_or(Value::String(text))
            } else {
                Value::String(text)
            }
        }
        _ => Value::String(texts.join("\n")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(result: &Value) -> Result<Reply, CallError> {
        let result = result.to_string().into();
        reply(&Answer { result, bytes: 7 })
    }

    #[test]
    fn content_is_what_is_structured_most() {
        let text = |text: &str| json!({"type": "text", "text": text});
        for (result, expected) in [
            (
                json!({"content": [text("x")], "structuredContent": {"a": 1}}),
                json!({"a": 1}),
            ),
            (json!({"content": [text("{\"a\": [1]}")]}), json!({"a": [1]})),
            (json!({"content": [text("42")]}), json!("42")),
            (json!({"content": [text("{no json")]}), json!("{no json")),
            (json!({"content": [text("{}"), text("b")]}), json!("{}\nb")),
            (json!({"content": []}), Value::Null),
            (json!({}), Value::Null),
            (json!({"content": [{"type": "later", "x": 1}]}), Value::Null),
            (
                json!({"content": [{"type": "resource_link", "uri": "file:///a", "name": "a"}]}),
                json!("a: file:///a"),
            ),
            (
                json!({"content": [{"type": "resource", "resource": {"uri": "x", "text": "t"}}]}),
                json!("t"),
            ),
        ] {
            let reply = read(&result).unwrap();
            assert_eq!(
                (reply.content, reply.is_error, reply.bytes),
                (expected, false, 7),
                "{result}"
            );
        }
    }

    #[test]
    fn files_are_decoded() {
        let reply = read(&json!({"isError": true, "content": [
            {"type": "image", "mimeType": "image/png", "data": "iVBORw=="},
            {"type": "resource", "resource": {"uri": "x", "blob": "AAE="}},
        ]}))
        .unwrap();
        assert!(reply.is_error);
        let blobs: Vec<_> = reply
            .blobs
            .iter()
            .map(|blob| (blob.mime_type.as_str(), blob.bytes.len()))
            .collect();
        assert_eq!(blobs, [("image/png", 4), ("application/octet-stream", 2)]);
        let broken = read(&json!({"content": [{"type": "image", "data": "%"}]}));
        assert!(matches!(broken, Err(CallError::Failed(_))), "{broken:?}");
    }

    #[test]
    fn what_is_no_result_is_an_error() {
        for result in [
            json!(5),
            json!({"content": "x"}),
            json!({"resultType": "input_required"}),
        ] {
            assert!(matches!(read(&result), Err(CallError::Failed(_))), "{result}");
        }
        let many = json!({"structuredContent": vec![0; 1_100_000]});
        assert!(matches!(read(&many), Err(CallError::TooLarge(_))));
    }
}
