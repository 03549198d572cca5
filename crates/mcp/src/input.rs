//! `input()`, prompts and steps of workflows: the client asks its user if it supports that, else a later call or a person elsewhere has the
//! answer.
//!
//! A client of revision 2026-07-28 that declares elicitation by forms gets an `InputRequiredResult` and calls again with the
//! answer and a sealed state that names what is answered; nothing is kept here meanwhile. Passwords are never asked for in this way, as MCP demands.
//! Approvals are asked for where the token of the client may give them.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::str::FromStr;
use std::time::Duration;

use himalia_engine::{
    EngineError, ExecutionId, ExecutionResult, Principal, PromptInfo, PromptName, Scope, escape_unseen,
};
use rmcp::model::{
    ElicitRequest, ElicitRequestParams, ElicitationSchema, EnumSchema, InputRequest, InputRequiredResult,
    PrimitiveSchemaDefinition, ProtocolVersion, StringSchema,
};
use serde_json::Value;

use crate::call::Call;
use crate::failure::Failure;
use crate::state::{Binding, States};

/// The only question of a round.
const QUESTION: &str = "input";
/// The only field of its form.
const FIELD: &str = "value";

/// Answer of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum QuestionRef {
    /// `input()` of an execution, whatever it asks now.
    Input(ExecutionId),
    Prompt(PromptName),
}

impl FromStr for QuestionRef {
    type Err = EngineError;

    fn from_str(text: &str) -> Result<Self, EngineError> {
        let prompt = text.parse().map(Self::Prompt);
        prompt.or_else(|_| text.parse().map(Self::Input))
    }
}

impl fmt::Display for QuestionRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(id) => id.fmt(f),
            Self::Prompt(id) => id.fmt(f),
        }
    }
}

impl QuestionRef {
    /// The execution that waits.
    pub(crate) async fn execution(&self, call: &Call) -> Result<ExecutionId, Failure> {
        match self {
            Self::Input(id) => Ok(*id),
            Self::Prompt(id) => {
                let prompt = call.engine.prompt(&call.principal, id, Duration::ZERO).await?;
                prompt
                    .execution
                    .ok_or_else(|| Failure::argument("input_for", "no execution waits for this prompt"))
            }
        }
    }

    /// Gives the answer.
    pub(crate) async fn answer(&self, call: &Call, value: String) -> Result<(), Failure> {
        match self {
            Self::Input(id) => call.engine.answer_execution(&call.principal, *id, value).await?,
            Self::Prompt(id) => {
                call.engine.answer(&call.principal, id, value).await?;
            }
        }
        Ok(())
    }
}

/// Rounds of a call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Round {
    First,
    /// The user answered this.
    Answered(QuestionRef, String),
    /// The user would not.
    Refused(QuestionRef),
    /// The answer is missing, or is none to the form: the user is asked again.
    Unanswered(QuestionRef),
}

impl Round {
    /// The round of a call of this tool for this session, which is empty for a tool without one.
    pub(crate) fn of(call: &mut Call, tool: &'static str, session: &str) -> Result<Self, Failure> {
        let (answers, state) = (call.answers.take(), call.state.take());
        // Answers without a state belong to no question of this gateway.
        let Some(state) = state else {
            return Ok(Self::First);
        };
        let binding = Binding {
            principal: &call.principal,
            tool,
            session,
        };
        let asked: QuestionRef = call.states.open(&state, binding)?.parse()?;
        let answer = answers.and_then(|mut answers| answers.remove(QUESTION));
        Ok(Self::answered(asked, answer.as_ref()))
    }

    fn answered(asked: QuestionRef, answer: Option<&Value>) -> Self {
        let Some(answer) = answer else {
            return Self::Unanswered(asked);
        };
        let value = answer.pointer("/content/value").and_then(Value::as_str);
        match (answer["action"].as_str(), value) {
            (Some("accept"), Some(value)) => Self::Answered(asked, value.to_owned()),
            (Some("decline" | "cancel"), _) => Self::Refused(asked),
            _ => Self::Unanswered(asked),
        }
    }
}

/// True if the client can ask its user.
fn asks_its_user(call: &Call) -> bool {
    let version = call.context.protocol_version();
    let is_new = version.is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str());
    let can = call.context.client_capabilities();
    let can = can.and_then(|can| can.elicitation);
    // A capability without a mode means forms.
    is_new && can.is_some_and(|can| can.form.is_some() || can.url.is_none())
}

/// True if the client may give approvals.
fn approves(call: &Call) -> bool {
    call.principal.scope() >= Scope::Admin
}

/// True if the client's user can be asked for an approval.
pub(crate) fn asks_for_approvals(call: &Call) -> bool {
    asks_its_user(call) && approves(call)
}

/// The question for the client's user, if the execution asks one that the client can pass on. It says that the code asks, and
/// in which session, so that it cannot pass for a question of the client.
pub(crate) fn question(call: &Call, session: &str, result: &ExecutionResult) -> Option<InputRequiredResult> {
    if !asks_its_user(call) {
        return None;
    }
    let approves = approves(call);
    let mut prompts = result.prompts.iter();
    let prompt = prompts.find(|prompt| approves || !prompt.kind.is_approval());
    let (asked, message, field) = match (&result.input, prompt) {
        (Some(input), _) if !input.password => {
            let message = match input.prompt.trim() {
                "" => format!("The code in session {session} asks for input."),
                text => format!("The code in session {session} asks: {text}"),
            };
            let named = input.id.as_deref().and_then(|id| id.parse().ok());
            let asked = named.map_or(QuestionRef::Input(result.id), QuestionRef::Prompt);
            (asked, message, text_field())
        }
        (_, Some(prompt)) => (
            QuestionRef::Prompt(prompt.id.clone()),
            message(session, prompt),
            field(prompt),
        ),
        _ => return None,
    };
    let binding = Binding {
        principal: &call.principal,
        tool: "execute",
        session,
    };
    form(&call.states.seal(&asked.to_string(), binding), message, field)
}

/// The question of a step of a workflow. It says which workflow asks, for the same reason.
pub(crate) fn step_question(
    states: &States,
    principal: &Principal,
    workflow: &str,
    prompt: &PromptInfo,
) -> Option<InputRequiredResult> {
    let step = prompt.step.as_deref().unwrap_or_default();
    let message = with_arguments(
        format!("The workflow {workflow} asks at its step {step}: {}", prompt.text),
        prompt,
    );
    let asked = QuestionRef::Prompt(prompt.id.clone()).to_string();
    let binding = Binding {
        principal,
        tool: "workflow",
        session: "",
    };
    form(&states.seal(&asked, binding), message, field(prompt))
}

fn form(state: &str, message: String, field: PrimitiveSchemaDefinition) -> Option<InputRequiredResult> {
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
    Some(InputRequiredResult::new(Some(questions), Some(state.to_owned())))
}

fn message(session: &str, prompt: &PromptInfo) -> String {
    let message = match &prompt.tool {
        Some(tool) => format!(
            "The code in session {session} wants to call {tool}: {}",
            prompt.text
        ),
        None => format!("The code in session {session} asks: {}", prompt.text),
    };
    with_arguments(message, prompt)
}

fn with_arguments(mut message: String, prompt: &PromptInfo) -> String {
    if let Some(arguments) = &prompt.arguments {
        let _ = write!(message, "\nArguments: {}", escape_unseen(&arguments.to_string()));
    }
    message
}

fn text_field() -> PrimitiveSchemaDefinition {
    PrimitiveSchemaDefinition::String(StringSchema::new())
}

fn field(prompt: &PromptInfo) -> PrimitiveSchemaDefinition {
    if prompt.options.is_empty() {
        return text_field();
    }
    PrimitiveSchemaDefinition::Enum(EnumSchema::builder(prompt.options.clone()).build())
}

#[cfg(test)]
mod tests {
    use himalia_engine::{PromptKind, PromptState, StepPromptId, from_micros};
    use serde_json::json;

    use super::*;

    fn sign() -> PromptInfo {
        let run = format!("run_{}", "0a".repeat(16));
        PromptInfo {
            id: PromptName::Step(StepPromptId {
                run: run.clone(),
                step: "sign".into(),
            }),
            session: None,
            run: Some(run),
            step: Some("sign".into()),
            execution: None,
            kind: PromptKind::Step,
            text: "Pay these?".into(),
            options: vec!["pay".into(), "stop".into()],
            tool: None,
            arguments: Some(json!({"month": "2026-10"})),
            password: false,
            created: from_micros(0),
            expires: None,
            state: PromptState::Open,
            answer: None,
            answered_by: None,
            reason: None,
        }
    }

    #[test]
    fn arguments_are_shown_in_their_order() {
        let mut prompt = sign();
        prompt.arguments =
            Some(json!({"to": "abc\u{202e}fed\u{2066}\u{200f}\u{9b}1m\u{200b}\u{e0041}", "über": "ß"}));
        let shown = with_arguments(String::new(), &prompt);
        assert_eq!(
            shown,
            "\nArguments: {\"to\":\"abc\\u202efed\\u2066\\u200f\\u009b1m\\u200b\\udb40\\udc41\",\"über\":\"ß\"}"
        );
        let text = shown.trim_start_matches("\nArguments: ");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(text).unwrap(),
            prompt.arguments.unwrap()
        );
    }

    #[test]
    fn a_step_is_asked_for_with_its_workflow_inputs_and_options() {
        let prompt = sign();
        let (states, principal) = (States::new(&[7; 32]).unwrap(), Principal::operator());
        let asked = step_question(&states, &principal, "monthly 1.0.0", &prompt).unwrap();
        let shown = serde_json::to_value(&asked).unwrap();
        let question = &shown["inputRequests"][QUESTION];
        assert_eq!(question["method"], "elicitation/create", "{shown}");
        assert_eq!(
            question["params"]["message"],
            "The workflow monthly 1.0.0 asks at its step sign: Pay these?\nArguments: {\"month\":\"2026-10\"}"
        );
        let schema = &question["params"]["requestedSchema"];
        assert_eq!(
            schema["properties"][FIELD]["enum"],
            json!(["pay", "stop"]),
            "{shown}"
        );
        assert_eq!(schema["required"], json!([FIELD]));
        // What the client sends back names the same step.
        let binding = Binding {
            principal: &principal,
            tool: "workflow",
            session: "",
        };
        let state = states.open(shown["requestState"].as_str().unwrap(), binding);
        assert_eq!(
            state.unwrap().parse::<QuestionRef>().unwrap(),
            QuestionRef::Prompt(prompt.id)
        );
    }

    #[test]
    fn an_answer_that_is_missing_or_is_none_is_asked_for_again() {
        let asked = || QuestionRef::Prompt(sign().id);
        let round = |answer: Value| Round::answered(asked(), Some(&answer));
        assert_eq!(Round::answered(asked(), None), Round::Unanswered(asked()));
        for wrong in [
            json!({"action": "accept"}),
            json!({"action": "accept", "content": {"other": "x"}}),
            json!({"action": "accept", "content": {"value": 5}}),
            json!({"content": {"value": "x"}}),
            json!(12345),
        ] {
            assert_eq!(round(wrong.clone()), Round::Unanswered(asked()), "{wrong}");
        }
        let given = json!({"action": "accept", "content": {"value": "x", "more": 1}});
        assert_eq!(round(given), Round::Answered(asked(), "x".into()));
        for no in ["decline", "cancel"] {
            assert_eq!(round(json!({"action": no})), Round::Refused(asked()));
        }
    }
}
