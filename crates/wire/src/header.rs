//! A look at a header without parsing the rest of the message.
//!
//! Only string fields are taken, borrowed from the header's bytes where they hold no escapes. Fields that are
//! not asked for (any extension of the protocol) are skipped and stay as they are in the message.

use std::borrow::Cow;

use crate::json::{is_null_or_empty, string_fields};
use crate::{Error, Result};

/// The fields of a message header that routing needs
/// ([protocol](https://jupyter-client.readthedocs.io/en/stable/messaging.html#message-header)).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HeaderPeek<'a> {
    /// Unique per sender, not across senders: two clients may use the same.
    pub msg_id: Cow<'a, str>,
    /// For example `execute_request`.
    pub msg_type: Cow<'a, str>,
    /// Session of the sender; empty if the header has none.
    pub session: Cow<'a, str>,
}

const FIELDS: [&str; 3] = ["msg_id", "msg_type", "session"];

/// Reads a message's own header: `msg_id` and `msg_type` must be there.
pub fn peek(header: &[u8]) -> Result<HeaderPeek<'_>> {
    let [msg_id, msg_type, session] = string_fields(header, "header", FIELDS)?;
    let missing = |field| Error::Json {
        field,
        reason: "missing from the header".to_owned(),
    };
    Ok(HeaderPeek {
        msg_id: msg_id.ok_or_else(|| missing("msg_id"))?,
        msg_type: msg_type.ok_or_else(|| missing("msg_type"))?,
        session: session.unwrap_or_default(),
    })
}

/// Reads a parent header. `None` when the message has no parent: `{}`, null, empty bytes, or no `msg_id`
/// in it (`iopub_welcome`, `starting`). A parent without `msg_type` has an empty one.
pub fn peek_parent(parent_header: &[u8]) -> Result<Option<HeaderPeek<'_>>> {
    if is_null_or_empty(parent_header) {
        return Ok(None);
    }
    let [msg_id, msg_type, session] = string_fields(parent_header, "parent_header", FIELDS)?;
    Ok(msg_id.map(|msg_id| HeaderPeek {
        msg_id,
        msg_type: msg_type.unwrap_or_default(),
        session: session.unwrap_or_default(),
    }))
}

/// `execution_state` of a `status` message's content, for example `busy`. Reads the whole content: use it on
/// `status` messages only, which are small.
pub fn execution_state(content: &[u8]) -> Option<Cow<'_, str>> {
    string_field(content, "execution_state")
}

/// `status` of a reply's content: `ok`, `error` or `aborted`.
pub fn reply_status(content: &[u8]) -> Option<Cow<'_, str>> {
    string_field(content, "status")
}

/// A string at the top level of a JSON object; `None` if it is absent, no string, or the text is no object.
pub fn string_field<'a>(object: &'a [u8], name: &'static str) -> Option<Cow<'a, str>> {
    let [value] = string_fields(object, "content", [name]).ok()?;
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the text lies inside the header's own bytes.
    fn is_inside(text: &str, header: &[u8]) -> bool {
        header.as_ptr_range().contains(&text.as_ptr())
    }

    #[test]
    fn plain_fields_are_borrowed() {
        let header = br#"{"msg_id":"a-1","msg_type":"execute_request","session":"s","username":"u",
            "date":"2026-01-01T00:00:00.000000Z","version":"5.4","subshell_id":"sub","x":{"y":[1,2,{}]}}"#;
        let peek = peek(header).unwrap();
        assert_eq!(peek.msg_id, "a-1");
        assert_eq!(peek.msg_type, "execute_request");
        assert_eq!(peek.session, "s");
        for field in [&peek.msg_id, &peek.msg_type, &peek.session] {
            assert!(is_inside(field, header));
        }
    }

    #[test]
    fn fields_that_routing_does_not_need_may_be_anything() {
        // jupyter_server's GatewayKernelClient sends the date as a number.
        let header = br#"{"msg_id":"i","msg_type":"t","session":"s","date":1795315128.66,"version":5}"#;
        assert_eq!(peek(header).unwrap().msg_id, "i");
    }

    #[test]
    fn escapes_in_keys_and_values() {
        let header = br#"{"msg\u005fid":"\u0061\n","msg_type":"t\u00e9","session":null}"#;
        let peek = peek(header).unwrap();
        assert_eq!(peek.msg_id, "a\n");
        assert_eq!(peek.msg_type, "té");
        assert_eq!(peek.session, "");
    }

    #[test]
    fn lone_surrogates_and_bad_utf8_do_not_hide_a_message() {
        let header = br#"{"username":"\ud800","\udc00":1,"msg_id":"i\ud83d","msg_type":"t"}"#;
        let peeked = peek(header).unwrap();
        assert!(peeked.msg_id.starts_with('i') && peeked.msg_id.contains('\u{fffd}'));
        let raw = b"{\"username\":\"\xff\",\"\xfe\":1,\"msg_id\":\"\xff\",\"msg_type\":\"t\"}";
        assert_eq!(peek(raw).unwrap().msg_id, "\u{fffd}");
    }

    #[test]
    fn what_is_refused_names_the_field() {
        for (header, text) in [
            (r#"{"msg_type":"t"}"#, "msg_id"),
            (r#"{"msg_id":"i"}"#, "msg_type"),
            (r#"{"msg_id":null,"msg_type":"t"}"#, "msg_id"),
            (r#"{"msg_id":7,"msg_type":"t"}"#, "header"),
            (r#"{"msg_id":"a","msg_id":"b","msg_type":"t"}"#, "duplicate field"),
            (r#"{"msg_id":"a","msg_type":"t"} x"#, "header"),
            (r#"["msg_id"]"#, "header"),
            ("", "header"),
        ] {
            let error = peek(header.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(text), "{header}: {error}");
        }
    }

    #[test]
    fn parents_that_are_none() {
        for none in ["{}", " { } ", "null", "", r#"{"x":1}"#, r#"{"msg_id":null}"#] {
            assert_eq!(peek_parent(none.as_bytes()).unwrap(), None, "{none}");
        }
        assert!(peek_parent(b"[]").is_err());
        assert!(peek_parent(b"{").is_err());
        assert_eq!(peek_parent(br#"{"msg_id":"i"}"#).unwrap().unwrap().msg_id, "i");
    }

    #[test]
    fn depth_does_not_recurse() {
        let deep = format!(
            r#"{{"x":{}{},"msg_id":"i","msg_type":"t"}}"#,
            "[".repeat(1 << 20),
            "]".repeat(1 << 20)
        );
        assert_eq!(peek(deep.as_bytes()).unwrap().msg_id, "i");
    }

    #[test]
    fn content_fields() {
        assert_eq!(
            execution_state(br#"{"execution_state":"busy"}"#).as_deref(),
            Some("busy")
        );
        assert_eq!(execution_state(br#"{"execution_state":1}"#), None);
        assert_eq!(
            reply_status(br#"{"status":"ok","x":{"status":"error"}}"#).as_deref(),
            Some("ok")
        );
        assert_eq!(reply_status(b"nonsense"), None);
    }
}
