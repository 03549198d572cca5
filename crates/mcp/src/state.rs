//! The state of a call between two rounds (`requestState`), which its client keeps.
//!
//! A client may send any text as its state. The state is therefore sealed with a key of the gateway. It opens only for the caller, the tool and
//! the session of the round before, and only for [`LIFETIME`].

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use himalia_engine::Principal;
use rmcp::ErrorData;
use rmcp::model::{RequestStateCodec, RequestStateError, SealOptions};
use serde_json::json;

/// Time that a person has for an answer.
const LIFETIME: Duration = Duration::from_hours(24);

/// Seals states, and opens them.
#[derive(Clone)]
pub(crate) struct States(Arc<RequestStateCodec>);

/// The rounds of one call belong to this.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Binding<'a> {
    pub(crate) principal: &'a Principal,
    pub(crate) tool: &'static str,
    /// The session as the arguments name it; empty if the tool has none.
    pub(crate) session: &'a str,
}

impl States {
    /// `secret` has at least 32 bytes. Gateways that serve each other's clients share it.
    pub(crate) fn new(secret: &[u8]) -> Result<Self, String> {
        let codec = RequestStateCodec::try_new(secret).map_err(|error| error.to_string())?;
        Ok(Self(Arc::new(codec)))
    }

    pub(crate) fn seal(&self, text: &str, binding: Binding<'_>) -> String {
        let bound = binding.bytes();
        let options = SealOptions::new().associated_data(&bound).ttl(LIFETIME);
        self.0.seal_with(text.as_bytes(), &options)
    }

    /// A session id for a client of this caller that shows forms. It says nothing else, and has no end.
    pub(crate) fn session(&self, principal: &Principal) -> String {
        let bound = session(principal);
        let options = SealOptions::new().associated_data(&bound);
        self.0.seal_with(b"forms", &options)
    }

    pub(crate) fn is_session(&self, id: &str, principal: &Principal) -> bool {
        self.0.open_with(id, &session(principal)).is_ok()
    }

    /// # Errors
    /// The state is not one that this call was given, or is too old.
    pub(crate) fn open(&self, sealed: &str, binding: Binding<'_>) -> Result<String, ErrorData> {
        let opened = self.0.open_with(sealed, &binding.bytes());
        let opened = opened.map_err(|error| {
            let reason = match error {
                RequestStateError::Expired => "is older than a day",
                _ => "is not the one that this call returned",
            };
            let text = format!("requestState {reason}; call again without requestState and inputResponses");
            ErrorData::invalid_params(text, None)
        })?;
        String::from_utf8(opened).map_err(|_| ErrorData::invalid_params("requestState is not a text", None))
    }
}

/// The binding of a session id. No [`Binding`] is the same.
fn session(principal: &Principal) -> Vec<u8> {
    json!(["initialize", principal.owner(), principal.name()])
        .to_string()
        .into_bytes()
}

impl Binding<'_> {
    fn bytes(self) -> Vec<u8> {
        let Self {
            principal,
            tool,
            session,
        } = self;
        json!([principal.owner(), principal.name(), tool, session])
            .to_string()
            .into_bytes()
    }
}

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("States(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_opens_for_its_caller_tool_and_session_alone() {
        let states = States::new(&[7; 32]).unwrap();
        let (operator, other) = (
            Principal::operator(),
            Principal::of_tenant("acme", "ann").unwrap(),
        );
        let own = Binding {
            principal: &operator,
            tool: "execute",
            session: "eda",
        };
        let sealed = states.seal("exe_1", own);
        assert_eq!(states.open(&sealed, own).unwrap(), "exe_1");
        let foreign = [
            Binding {
                principal: &other,
                ..own
            },
            Binding {
                tool: "workflow",
                ..own
            },
            Binding {
                session: "other",
                ..own
            },
        ];
        for binding in foreign {
            assert!(states.open(&sealed, binding).is_err(), "{binding:?}");
        }
        let tampered = format!("{sealed}-TAMPERED");
        for wrong in [tampered.as_str(), "exe_1", "", &sealed[1..]] {
            let error = states.open(wrong, own).unwrap_err();
            assert_eq!(error.code.0, -32602, "{wrong}");
        }
        let session = states.session(&operator);
        assert!(states.is_session(&session, &operator) && !states.is_session(&session, &other));
        assert!(!states.is_session(&sealed, &operator), "a state is no session");
        assert!(states.open(&session, own).is_err(), "a session is no state");
        assert!(session.bytes().all(|byte| byte.is_ascii_graphic()), "{session}");
        let foreign_key = States::new(&[8; 32]).unwrap();
        assert!(foreign_key.open(&sealed, own).is_err());
        assert!(States::new(&[7; 31]).is_err(), "a short key");
    }
}
