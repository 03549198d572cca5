//! Passwords that a kernel asks for (`getpass`): they go to the kernel and into no record.

use bytes::Bytes;
use himalia_wire::v1::Frame;
use serde::Deserialize;
use serde_json::json;

/// True if an `input_request` asks for a secret, which is not echoed.
pub(super) fn asks_for_one(content: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Content {
        #[serde(default)]
        password: bool,
    }
    serde_json::from_slice::<Content>(content).is_ok_and(|content| content.password)
}

/// The frame of an answer as it is written: with an empty value, and `redacted` in its content.
pub(super) fn without_answer(frame: &Frame) -> Frame {
    let mut parts = frame.to_parts();
    let content = json!({ "value": "", "status": "ok", "redacted": true });
    parts.content = content.to_string().into();
    parts.metadata = Bytes::from_static(b"{}");
    parts.buffers.clear();
    Frame::new(frame.channel(), &parts)
}

#[cfg(test)]
mod tests {
    use himalia_wire::{Channel, build};

    use super::*;

    #[test]
    fn only_a_password_is_a_secret() {
        assert!(asks_for_one(br#"{"prompt": "Password: ", "password": true}"#));
        for other in [
            &br#"{"prompt": "x", "password": false}"#[..],
            br#"{"prompt": "password"}"#,
            b"[",
        ] {
            assert!(!asks_for_one(other));
        }
    }

    #[test]
    fn an_answer_is_written_without_its_value() {
        let content = json!({ "value": "hunter2", "status": "ok", "hunter2": 1 });
        let mut parts = build::message("s", "input_reply", None, &content);
        parts.metadata = Bytes::from_static(b"{\"x\":\"hunter2\"}");
        parts.buffers.push(Bytes::from_static(b"hunter2"));
        let frame = Frame::new(Channel::Stdin, &parts);
        let written = without_answer(&frame);
        assert!(!written.bytes().windows(7).any(|bytes| bytes == b"hunter2"));
        assert_eq!(
            (written.channel(), written.header(), written.buffers().count()),
            (Channel::Stdin, &parts.header[..], 0)
        );
    }
}
