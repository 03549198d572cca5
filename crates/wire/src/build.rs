//! The messages that Himalia itself makes.
//!
//! Headers carry a random `msg_id`, the username `himalia`, the given session, the time in UTC with
//! microseconds, and protocol version 5.4.

use bytes::Bytes;
use serde_json::{Value, json};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::Parts;

/// Protocol version in the headers of our messages.
pub const PROTOCOL_VERSION: &str = "5.4";
/// Username in the headers of our messages.
pub const USERNAME: &str = "himalia";

/// A message of any type. `parent` is the header, as received, of the message that this one answers.
pub fn message(session: &str, msg_type: &str, parent: Option<&[u8]>, content: &Value) -> Parts {
    Parts {
        header: Bytes::from(header(session, msg_type).to_string()),
        parent_header: parent.map_or_else(|| Bytes::from_static(b"{}"), Bytes::copy_from_slice),
        metadata: Bytes::from_static(b"{}"),
        content: Bytes::from(content.to_string()),
        buffers: Vec::new(),
    }
}

/// Asks a kernel what it is; also the probe for readiness.
pub fn kernel_info_request(session: &str) -> Parts {
    message(session, "kernel_info_request", None, &json!({}))
}

/// Interrupts a kernel whose kernelspec says `interrupt_mode: message`. Goes to the control channel.
pub fn interrupt_request(session: &str) -> Parts {
    message(session, "interrupt_request", None, &json!({}))
}

/// Asks a kernel to end itself. Goes to the control channel.
pub fn shutdown_request(session: &str, restart: bool) -> Parts {
    message(session, "shutdown_request", None, &json!({ "restart": restart }))
}

/// An iopub `status` without a parent: `starting`, `busy`, `idle`, `restarting` or `dead`.
/// Clients accept no other value.
pub fn status(session: &str, state: &str) -> Parts {
    message(session, "status", None, &json!({ "execution_state": state }))
}

/// An iopub `stream` message; `name` is `stdout` or `stderr`.
pub fn stream(session: &str, parent: Option<&[u8]>, name: &str, text: &str) -> Parts {
    message(session, "stream", parent, &json!({ "name": name, "text": text }))
}

/// Time as Jupyter's clients read it: `2026-01-02T03:04:05.000006Z`, always with six digits and `Z`.
pub fn timestamp(at: OffsetDateTime) -> String {
    let at = at.to_offset(time::UtcOffset::UTC);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z",
        at.year(),
        u8::from(at.month()),
        at.day(),
        at.hour(),
        at.minute(),
        at.second(),
        at.microsecond()
    )
}

fn header(session: &str, msg_type: &str) -> Value {
    json!({
        "msg_id": Uuid::new_v4().to_string(),
        "msg_type": msg_type,
        "session": session,
        "username": USERNAME,
        "date": timestamp(OffsetDateTime::now_utc()),
        "version": PROTOCOL_VERSION,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::{execution_state, peek, peek_parent};

    #[test]
    fn built_messages_can_be_read() {
        let request = kernel_info_request("s-1");
        let head = peek(&request.header).unwrap();
        assert_eq!((&*head.msg_type, &*head.session), ("kernel_info_request", "s-1"));
        assert!(
            request
                .header
                .windows(15)
                .any(|field| field == br#""version":"5.4""#)
        );
        assert_eq!(head.msg_id.len(), 36);
        assert_eq!(peek_parent(&request.parent_header), Ok(None));

        let note = stream("s\"1", Some(&request.header), "stderr", "a\u{0}\"\n");
        assert_eq!(peek(&note.header).unwrap().session, "s\"1");
        assert_eq!(
            peek_parent(&note.parent_header).unwrap().unwrap().msg_id,
            head.msg_id
        );
        let content: Value = serde_json::from_slice(&note.content).unwrap();
        assert_eq!(content, json!({ "name": "stderr", "text": "a\u{0}\"\n" }));

        assert_eq!(
            execution_state(&status("s", "dead").content).as_deref(),
            Some("dead")
        );
        assert_eq!(shutdown_request("s", true).content, r#"{"restart":true}"#);
        assert_eq!(interrupt_request("s").content, "{}");
    }

    #[test]
    fn timestamps_keep_six_digits_and_z() {
        assert_eq!(
            timestamp(OffsetDateTime::UNIX_EPOCH),
            "1970-01-01T00:00:00.000000Z"
        );
        let at = time::macros::datetime!(2026-03-04 23:59:58.000_120_9 +1:00);
        assert_eq!(timestamp(at), "2026-03-04T22:59:58.000120Z");
    }
}
