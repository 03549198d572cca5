//! `input()`: the client asks its user if it supports that, else a later call has the answer.
//!
//! A client of revision 2026-07-28 that declares elicitation by forms gets an `InputRequiredResult` and calls again with the
//! answer and the execution's id; nothing is kept here meanwhile. Passwords are never asked for in this way, as MCP demands.

use std::collections::BTreeMap;

use himalia_engine::{ExecutionId, ExecutionResult};
use rmcp::model::{
    ElicitRequest, ElicitRequestParams, ElicitationSchema, InputRequest, InputRequiredResult,
    PrimitiveSchemaDefinition, ProtocolVersion, StringSchema,
};
use serde_json::Value;

use crate::call::Call;
use crate::failure::Failure;

/// The only question of a round.
const QUESTION: &str = "input";
/// The only field of its form.
const FIELD: &str = "value";

/// What came back from the first round of a call.
pub(crate) enum Round {
    /// It is the first one.
    First,
    /// The user answered what this execution asks.
    Answered(ExecutionId, String),
    /// The user would not.
    Refused(ExecutionId),
}

impl Round {
    /// Which round a call is.
    pub(crate) fn of(call: &mut Call) -> Result<Self, Failure> {
        let (answers, state) = (call.answers.take(), call.state.take());
        let Some(id) = state else {
            return match answers {
                None => Ok(Self::First),
                Some(_) => Err(Failure::Arguments(
                    "inputResponses came without requestState".into(),
                )),
            };
        };
        let id = id.parse()?;
        let answer = answers.unwrap_or_default().remove(QUESTION).unwrap_or_default();
        let value = answer.pointer("/content/value").and_then(Value::as_str);
        Ok(match (answer["action"].as_str(), value) {
            (Some("accept"), Some(value)) => Self::Answered(id, value.to_owned()),
            _ => Self::Refused(id),
        })
    }
}

/// The question for the client's user, if the execution asks one that the client can pass on. It says that the code asks, and
/// in which session, so that it cannot pass for a question of the client.
pub(crate) fn question(call: &Call, session: &str, result: &ExecutionResult) -> Option<InputRequiredResult> {
    let input = result.input.as_ref().filter(|input| !input.password)?;
    let version = call.context.protocol_version()?;
    let can = call.context.client_capabilities()?.elicitation?;
    // A capability without a mode means forms.
    if version.as_str() < ProtocolVersion::V_2026_07_28.as_str() || (can.form.is_none() && can.url.is_some())
    {
        return None;
    }
    let message = match input.prompt.trim() {
        "" => format!("The code in session {session} asks for input."),
        prompt => format!("The code in session {session} asks: {prompt}"),
    };
    let field = PrimitiveSchemaDefinition::String(StringSchema::new());
    let form = ElicitRequestParams::FormElicitationParams {
        meta: None,
        message,
        requested_schema: ElicitationSchema::builder()
            .required_property(FIELD, field)
            .build()
            .ok()?,
    };
    let question = InputRequest::Elicitation(ElicitRequest::new(form));
    let questions = BTreeMap::from([(QUESTION.to_owned(), question)]);
    Some(InputRequiredResult::new(
        Some(questions),
        Some(result.id.to_string()),
    ))
}
