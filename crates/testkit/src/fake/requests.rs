//! Requests that are answered with a fixed text.

use serde_json::{Value, json};

use super::script::HELP;

/// `kernel_info_reply`.
pub(crate) fn kernel_info() -> Value {
    json!({
        "status": "ok",
        "protocol_version": "5.4",
        "implementation": "himalia-fake-kernel",
        "implementation_version": env!("CARGO_PKG_VERSION"),
        "language_info": {
            "name": "script",
            "version": "1",
            "mimetype": "text/plain",
            "file_extension": ".txt",
        },
        "banner": "A scripted kernel for tests",
        "help_links": [],
        "supported_features": [],
    })
}

/// The content of the reply to a request that needs no state; `None` for a type that is not known.
pub(crate) fn answer(msg_type: &str, content: &Value) -> Option<Value> {
    Some(match msg_type {
        "kernel_info_request" => kernel_info(),
        "complete_request" => complete(content),
        "inspect_request" => json!({ "status": "ok", "found": false, "data": {}, "metadata": {} }),
        "is_complete_request" => json!({ "status": "complete" }),
        "history_request" => json!({ "status": "ok", "history": [] }),
        "comm_info_request" => json!({ "status": "ok", "comms": {} }),
        "debug_request" => json!({
            "type": "response",
            "request_seq": content.get("seq"),
            "seq": content.get("seq"),
            "success": true,
            "command": content.get("command"),
            "body": { "isStarted": false, "breakpoints": [] },
        }),
        _ => return None,
    })
}

/// Commands that begin with the text before the cursor.
fn complete(content: &Value) -> Value {
    let code = content.get("code").and_then(Value::as_str).unwrap_or_default();
    let length = code.chars().count();
    let cursor = content
        .get("cursor_pos")
        .and_then(Value::as_u64)
        .and_then(|pos| usize::try_from(pos).ok());
    let cursor = cursor.unwrap_or(length).min(length);
    let before: String = code.chars().take(cursor).collect();
    let line = before.rsplit('\n').next().unwrap_or_default();
    let commands = HELP
        .lines()
        .skip(1)
        .filter_map(|help| help.split_whitespace().next());
    let matches: Vec<&str> = commands.filter(|command| command.starts_with(line)).collect();
    json!({
        "status": "ok",
        "matches": matches,
        "cursor_start": cursor - line.chars().count(),
        "cursor_end": cursor,
        "metadata": {},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completes_commands() {
        let reply = answer(
            "complete_request",
            &json!({ "code": "print a\nsle", "cursor_pos": 11 }),
        )
        .unwrap();
        assert_eq!(reply["matches"], json!(["sleep"]));
        assert_eq!(
            (&reply["cursor_start"], &reply["cursor_end"]),
            (&json!(8), &json!(11))
        );
        let past_the_end = answer("complete_request", &json!({ "code": "é", "cursor_pos": 99 })).unwrap();
        assert_eq!(past_the_end["cursor_end"], 1);
    }

    #[test]
    fn unknown_types_have_no_answer() {
        assert_eq!(answer("rm_rf_request", &json!({})), None);
    }
}
