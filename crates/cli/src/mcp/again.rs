//! Calls that are sent again if their answer is lost: the gateway does nothing twice for them.

use serde_json::Value;
use uuid::Uuid;

/// Returns true if a message can be sent again. Code runs once for each key, so an `execute` without a key gets one. The second round of
/// a call (`requestState`) and the answer to a question are not repeated.
pub(super) fn can_repeat(message: &mut Value) -> bool {
    if message["method"] != "tools/call" {
        return false;
    }
    let Some(params) = message.get_mut("params").and_then(Value::as_object_mut) else {
        return false;
    };
    if params.contains_key("requestState") {
        return false;
    }
    match params.get("name").and_then(Value::as_str) {
        Some("get_output" | "inspect_variables") => true,
        Some("execute") => {
            let Some(arguments) = params.get_mut("arguments").and_then(Value::as_object_mut) else {
                return false;
            };
            if arguments.contains_key("input_for") {
                return false;
            }
            let key = || format!("mcp-{}", Uuid::new_v4()).into();
            arguments.entry("idempotency_key").or_insert_with(key);
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn call(name: &str, arguments: &Value) -> Value {
        json!({"id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}})
    }

    #[test]
    fn code_gets_a_key_and_keeps_its_own() {
        let mut first = call("execute", &json!({"session": "a", "code": "1"}));
        let mut second = first.clone();
        assert!(can_repeat(&mut first) && can_repeat(&mut second));
        let key = |message: &Value| message["params"]["arguments"]["idempotency_key"].clone();
        assert!(key(&first).is_string() && key(&first) != key(&second));
        let mut own = call("execute", &json!({"code": "1", "idempotency_key": "k"}));
        assert!(can_repeat(&mut own));
        assert_eq!(key(&own), "k");
    }

    #[test]
    fn what_would_happen_twice_is_not_repeated_and_stays_as_it_is() {
        let mut second_round = call("execute", &json!({"code": "1"}));
        second_round["params"]["requestState"] = "exe".into();
        for message in [
            call("session", &json!({"op": "create"})),
            call("execute", &json!({"code": "yes", "input_for": "exe"})),
            second_round,
            json!({"id": 1, "method": "tools/list"}),
            json!({"id": 1, "method": "tools/call"}),
        ] {
            let mut seen = message.clone();
            assert!(!can_repeat(&mut seen), "{message}");
            assert_eq!(seen, message);
        }
        assert!(can_repeat(&mut call("get_output", &json!({}))));
    }
}
