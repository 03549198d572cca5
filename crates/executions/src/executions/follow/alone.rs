//! A message of an execution on its own, as a stream of events tells of it.

use himalia_outcome::{Fold, Output, UNREADABLE};
use himalia_wire::{Channel, Parts, header};
use serde_json::{Map, Value};

use super::Kind;

/// A message on its own. One that cannot be read is a gap.
pub(super) fn event_of(channel: Channel, parts: &Parts, text_chars: usize) -> Option<Kind> {
    let is_lost =
        || channel == Channel::Iopub && serde_json::from_slice::<Map<String, Value>>(&parts.content).is_err();
    let gap = || {
        is_lost().then(|| Kind::Gap {
            text: UNREADABLE.to_owned(),
        })
    };
    known(channel, parts, text_chars).or_else(gap)
}

fn known(channel: Channel, parts: &Parts, text_chars: usize) -> Option<Kind> {
    let header = header::peek(&parts.header).ok()?;
    let kind = &*header.msg_type;
    let content = || serde_json::from_slice::<Map<String, Value>>(&parts.content).ok();
    match (channel, kind) {
        (Channel::Iopub, "stream") => {
            let mut content = content()?;
            let Some(Value::String(text)) = content.remove("text") else {
                return None;
            };
            let is_stderr = content.get("name").and_then(Value::as_str) == Some("stderr");
            Some(if is_stderr {
                Kind::Stderr { text }
            } else {
                Kind::Stdout { text }
            })
        }
        (Channel::Iopub, "display_data") => Some(Kind::Display(output(channel, parts, text_chars)?)),
        (Channel::Iopub, "execute_result") => Some(Kind::Result(output(channel, parts, text_chars)?)),
        (Channel::Iopub, "update_display_data") => {
            Some(Kind::UpdateDisplay(output(channel, parts, text_chars)?))
        }
        (Channel::Iopub, "clear_output") => Some(Kind::ClearOutput {
            wait: content()?.get("wait") == Some(&Value::Bool(true)),
        }),
        (Channel::Iopub, "error") => Some(Kind::Error(alone(channel, parts, text_chars).error?)),
        (Channel::Stdin, "input_request") => {
            Some(Kind::InputRequest(alone(channel, parts, text_chars).input?))
        }
        _ => None,
    }
}

fn alone(channel: Channel, parts: &Parts, text_chars: usize) -> himalia_outcome::Outcome {
    let mut fold = Fold::new(text_chars);
    // Kept already, from the fold of the whole.
    drop(fold.message(channel, parts));
    fold.outcome()
}

fn output(channel: Channel, parts: &Parts, text_chars: usize) -> Option<Output> {
    alone(channel, parts, text_chars).outputs.pop()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_cannot_be_read_is_a_gap() {
        let event = |channel: Channel, kind: &str, content: &'static str| {
            let parts = Parts {
                header: format!(r#"{{"msg_id":"m","msg_type":"{kind}","session":"kernel"}}"#).into(),
                parent_header: "{}".into(),
                metadata: "{}".into(),
                content: content.into(),
                buffers: Vec::new(),
            };
            event_of(channel, &parts, 100)
        };
        let Some(Kind::Gap { text }) = event(Channel::Iopub, "stream", "[") else {
            panic!("it is no gap");
        };
        assert_eq!(text, UNREADABLE);
        assert!(matches!(
            event(Channel::Iopub, "stream", r#"{"text": "a"}"#),
            Some(Kind::Stdout { text }) if text == "a"
        ));
        // One of another kind, or channel, is no output.
        assert!(event(Channel::Iopub, "status", "{}").is_none());
        assert!(event(Channel::Shell, "execute_reply", "[").is_none());
    }
}
