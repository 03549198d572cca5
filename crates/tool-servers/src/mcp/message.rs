//! A message of JSON-RPC, as far as it is looked at here.

use std::borrow::Cow;

use rmcp::model::RequestId;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::person::Form;

/// The method of a question to a person.
pub(super) const ELICITATION: &str = "elicitation/create";

/// A message of a server. Its result stays as it is.
#[derive(Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) result: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) error: Option<RpcError>,
}

/// An error of JSON-RPC. Its data are left out.
#[derive(Deserialize)]
pub(super) struct RpcError {
    pub(super) code: i64,
    #[serde(default)]
    pub(super) message: String,
}

/// Kinds of JSON-RPC messages.
pub(super) enum Kind<'a> {
    Response(Result<&'a RawValue, RpcError>),
    /// A request of the server.
    Request(ServerRequest<'a>),
    Notification(Cow<'a, str>),
    /// A response to something else, or nothing that is known.
    Other,
}

/// A request of a server, with its id as it is.
pub(super) struct ServerRequest<'a> {
    pub(super) id: &'a RawValue,
    pub(super) method: Cow<'a, str>,
    pub(super) params: Option<&'a RawValue>,
}

impl<'a> Message<'a> {
    /// `None`: it is no message.
    pub(super) fn parse(text: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(text).ok()
    }

    /// The number of the request that it may be the response to. Some servers give it back as a text.
    pub(super) fn number(&self) -> Option<i64> {
        let text = self.id?.get();
        let bare = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        bare.unwrap_or(text).parse().ok()
    }

    /// Kind of the message for a reader that waits for the response to a request.
    pub(super) fn kind(self, waited_for: Option<&RequestId>) -> Kind<'a> {
        match (self.id, self.method) {
            (Some(id), Some(method)) => Kind::Request(ServerRequest {
                id,
                method,
                params: self.params,
            }),
            (None, Some(method)) => Kind::Notification(method),
            (id, None) => {
                // An error without an id answers the only request of its connection.
                let is_own = match (id, waited_for) {
                    (Some(id), Some(own)) => is_id(id, own),
                    (None, own) => own.is_some() && self.error.is_some(),
                    (Some(_), None) => false,
                };
                match (self.result, self.error) {
                    (_, Some(error)) if is_own => Kind::Response(Err(error)),
                    (Some(result), None) if is_own => Kind::Response(Ok(result)),
                    _ => Kind::Other,
                }
            }
        }
    }
}

/// Some servers give a number back as a text.
fn is_id(id: &RawValue, own: &RequestId) -> bool {
    let text = id.get();
    let bare = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    bare.unwrap_or(text) == own.to_string() || text == "null"
}

impl ServerRequest<'_> {
    /// True if it is a question to a person.
    pub(super) fn is_question(&self) -> bool {
        self.method == ELICITATION
    }

    /// The form of the question, if that can be asked.
    pub(super) fn form(&self) -> Option<Form> {
        let params: Value = serde_json::from_str(self.params?.get()).ok()?;
        Form::of(&params)
    }

    /// The response to it, with the answer of a person if it is a question to one. Otherwise a server may only ask whether we are there.
    pub(super) fn response(&self, answer: Option<&Value>) -> Option<Vec<u8>> {
        let id: Value = serde_json::from_str(self.id.get()).ok()?;
        let mut message = match (answer, &*self.method) {
            (Some(answer), _) => json!({"jsonrpc": "2.0", "id": id, "result": answer}),
            (None, "ping") => json!({"jsonrpc": "2.0", "id": id, "result": {}}),
            _ => json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "not offered"}}),
        }
        .to_string();
        message.push('\n');
        Some(message.into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str) -> String {
        let own = RequestId::Number(7);
        match Message::parse(text.as_bytes()).map(|message| message.kind(Some(&own))) {
            None => "none".to_owned(),
            Some(Kind::Response(Ok(result))) => format!("result {}", result.get()),
            Some(Kind::Response(Err(error))) => format!("error {} {}", error.code, error.message),
            Some(Kind::Request(ServerRequest { id, method, .. })) => format!("request {} {method}", id.get()),
            Some(Kind::Notification(method)) => format!("notification {method}"),
            Some(Kind::Other) => "other".to_owned(),
        }
    }

    #[test]
    fn only_the_response_to_the_own_request_is_one() {
        for (text, expected) in [
            (r#"{"id": 7, "result": {"a": 1}}"#, r#"result {"a": 1}"#),
            (r#"{"id": "7", "result": []}"#, "result []"),
            (r#"{"id": 8, "result": {}}"#, "other"),
            (
                r#"{"id": 7, "error": {"code": -32602, "message": "no"}}"#,
                "error -32602 no",
            ),
            (r#"{"error": {"code": -32700}}"#, "error -32700 "),
            (
                r#"{"id": null, "error": {"code": 1, "message": "x"}}"#,
                "error 1 x",
            ),
            (r#"{"result": {}}"#, "other"),
            (r#"{"id": "s1", "method": "ping"}"#, r#"request "s1" ping"#),
            (r#"{"method": "notifications/x"}"#, "notification notifications/x"),
            (r#"{"id": 7}"#, "other"),
            ("[]", "other"),
            ("5", "none"),
            ("<html>", "none"),
        ] {
            assert_eq!(kind(text), expected, "{text}");
        }
    }
}
