//! The result of a call (`CallToolResult`) as a reply, or the input that the server wants first.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use himalia_upstream::json;
use serde::Deserialize;
use serde_json::Value;

use super::message::ELICITATION;
use super::ticket::Answer;
use crate::call::{Blob, CallError, Reply};
use crate::person::Form;

/// Results of a request.
pub(super) enum Outcome {
    Complete(Reply),
    /// The call is sent again with the state and with an answer to each of these; `None`: a question that is not asked here.
    InputRequired {
        requests: BTreeMap<String, Option<Form>>,
        state: Option<String>,
    },
}

/// Inputs that a server may want at once.
const MAX_INPUTS: usize = 64;
/// Most bytes of a state that goes back to its server.
const STATE_BYTES: usize = 256 * 1024;

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
    /// Absent: `complete`.
    #[serde(default)]
    result_type: Option<String>,
    #[serde(default)]
    input_requests: Option<BTreeMap<String, InputRequest>>,
    #[serde(default)]
    request_state: Option<String>,
}

/// A question of a server to its client.
#[derive(Deserialize)]
struct InputRequest {
    method: String,
    #[serde(default)]
    params: Value,
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
pub(super) fn outcome(answer: &Answer) -> Result<Outcome, CallError> {
    let result: CallResult = json::parse(&answer.result).map_err(|reason| match reason {
        json::NotRead::TooMany => CallError::TooLarge(reason.to_string()),
        json::NotRead::Malformed(_) => CallError::failed(format_args!("the reply {reason}")),
    })?;
    match result.result_type.as_deref() {
        None | Some("complete") => {}
        Some("input_required") => return input(result),
        Some(other) => {
            let other: String = other.chars().take(64).collect();
            return Err(CallError::failed(format_args!(
                "the result is of the type {other:?}, which is not supported"
            )));
        }
    }
    let (mut texts, mut blobs) = (Vec::new(), Vec::new());
    for block in result.content {
        add(block, &mut texts, &mut blobs)?;
    }
    Ok(Outcome::Complete(Reply {
        content: result.structured_content.unwrap_or_else(|| content(texts)),
        blobs,
        is_error: result.is_error.unwrap_or(false),
        bytes: answer.bytes,
    }))
}

/// The questions of a server. A state without a question goes back as it is.
fn input(result: CallResult) -> Result<Outcome, CallError> {
    let requests = result.input_requests.unwrap_or_default();
    let state = result.request_state;
    if requests.is_empty() && state.is_none() {
        return Err(CallError::failed(
            "the tool wants an input, and does not say which (inputRequests, requestState)",
        ));
    }
    if requests.len() > MAX_INPUTS || state.as_ref().is_some_and(|state| state.len() > STATE_BYTES) {
        return Err(CallError::failed(format_args!(
            "the tool wants more than {MAX_INPUTS} inputs, or its requestState has more than {STATE_BYTES} bytes"
        )));
    }
    let mut forms = BTreeMap::new();
    for (key, request) in requests {
        if request.method != ELICITATION {
            let method: String = request.method.chars().take(64).collect();
            return Err(CallError::failed(format_args!(
                "the tool wants {method:?} of the gateway, which is not offered"
            )));
        }
        forms.insert(key, Form::of(&request.params));
    }
    Ok(Outcome::InputRequired {
        requests: forms,
        state,
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

    fn read_outcome(result: &Value) -> Result<Outcome, CallError> {
        let result = result.to_string().into();
        outcome(&Answer { result, bytes: 7 })
    }

    fn read(result: &Value) -> Result<Reply, CallError> {
        read_outcome(result).map(|outcome| match outcome {
            Outcome::Complete(reply) => reply,
            Outcome::InputRequired { .. } => panic!("{result}"),
        })
    }

    #[test]
    fn questions_and_the_state_are_read() {
        let field = json!({"properties": {"x": {"type": "string"}}});
        let one =
            json!({"method": "elicitation/create", "params": {"message": "Sure?", "requestedSchema": field}});
        let other = json!({"method": "elicitation/create"});
        let read = |result: Value| match read_outcome(&result).unwrap() {
            Outcome::InputRequired { requests, state } => {
                let shown = |(key, form): (String, Option<Form>)| (key, form.map(|form| form.question.text));
                (requests.into_iter().map(shown).collect::<Vec<_>>(), state)
            }
            Outcome::Complete(_) => panic!("{result}"),
        };
        let both = json!({"resultType": "input_required", "inputRequests": {"a": one, "b": other}, "requestState": " s\u{1}"});
        let questions = vec![("a".to_owned(), Some("Sure?".to_owned())), ("b".to_owned(), None)];
        assert_eq!(read(both), (questions, Some(" s\u{1}".to_owned())));
        let alone = json!({"resultType": "input_required", "requestState": "s"});
        assert_eq!(read(alone), (vec![], Some("s".to_owned())));
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
            json!({"resultType": "later"}),
            json!({"resultType": "input_required", "inputRequests": {"a": {"method": "sampling/createMessage"}}}),
            json!({"resultType": "input_required", "requestState": "x".repeat(300_000)}),
        ] {
            assert!(matches!(read(&result), Err(CallError::Failed(_))), "{result}");
        }
        let many = json!({"structuredContent": vec![0; 1_100_000]});
        assert!(matches!(read(&many), Err(CallError::TooLarge(_))));
    }
}
