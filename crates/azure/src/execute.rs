//! Code that runs while its client waits.

use std::time::{Duration, Instant};

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use himalia_engine::{
    ArtifactReference, Engine, EngineError, Execute, ExecutionEventKind, ExecutionFeed, ExecutionId,
    ExecutionResult, ExecutionStatus, ExecutionTarget, FeedStart, MAX_TEXT_CHARS, OnTimeout, Principal,
};
use himalia_facade::message;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::caller::SessionCaller;
use crate::facade::Facade;
use crate::failure::Failure;
use crate::limits::{IMAGE_BYTES, MESSAGE_BYTES, RUN_TIME, TEXT_BYTES};
use crate::value::of_repr;

/// Body of a request for an execution.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ExecuteRequest {
    code: Option<String>,
    /// In place of code: for a shell.
    shell_command: Option<String>,
    code_input_type: Option<String>,
    execution_type: Option<String>,
    timeout_in_seconds: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct Properties {
    properties: ExecuteRequest,
}

/// Outcome of the execution.
#[derive(Debug, Default)]
struct Outcome {
    stdout: String,
    stderr: String,
    /// The value of the last expression, else the last image.
    value: Value,
    failed: bool,
    exit_code: Option<i64>,
    took_ms: u64,
}

/// `POST code/execute`: the first form.
pub(crate) async fn inline(
    State(facade): State<Facade>,
    named: SessionCaller,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, Failure> {
    let Properties { properties } = message(body, MESSAGE_BYTES).await?;
    let outcome = run(&facade, &named, &headers, properties).await?;
    Ok(Json(json!({ "properties": {
        "status": if outcome.failed { "Failure" } else { "Success" },
        "stdout": outcome.stdout,
        "stderr": outcome.stderr,
        "result": outcome.value,
        "executionTimeInMilliseconds": outcome.took_ms,
    }})))
}

/// `POST executions`: the later form, which has shell commands too.
pub(crate) async fn execution(
    State(facade): State<Facade>,
    named: SessionCaller,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, Failure> {
    let requested: ExecuteRequest = message(body, MESSAGE_BYTES).await?;
    let is_shell = requested.shell_command.is_some();
    let outcome = run(&facade, &named, &headers, requested).await?;
    let status = if is_shell {
        outcome.exit_code.unwrap_or(i64::from(outcome.failed)).to_string()
    } else if outcome.failed {
        "Failed".to_owned()
    } else {
        "Succeeded".to_owned()
    };
    Ok(Json(json!({
        "status": status,
        "result": {
            "stdout": outcome.stdout,
            "stderr": outcome.stderr,
            "executionResult": outcome.value,
            "executionTimeInMilliseconds": outcome.took_ms,
        },
    })))
}

async fn run(
    facade: &Facade,
    named: &SessionCaller,
    headers: &HeaderMap,
    requested: ExecuteRequest,
) -> Result<Outcome, Failure> {
    let agent = headers
        .get(header::USER_AGENT)
        .and_then(|name| name.to_str().ok());
    let execute = Execute {
        client: agent.map(|name| name.chars().take(64).collect()),
        ..requested.read()?
    };
    let (engine, principal) = (&facade.engine, &named.principal);
    let target = ExecutionTarget::Kernel(named.session(facade).await?);
    let began = Instant::now();
    let (taken, feed) = engine
        .submit(principal, target, execute, FeedStart::Beginning)
        .await?;
    let mut outcome = followed(engine, principal, taken.id, feed).await?;
    outcome.took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(outcome)
}

impl ExecuteRequest {
    fn read(self) -> Result<Execute, Failure> {
        let is = |name: &str, given: Option<String>, only: &str| match given {
            Some(word) if !word.eq_ignore_ascii_case(only) => {
                Err(Failure::field(name, format!("this gateway offers {only} only")))
            }
            _ => Ok(()),
        };
        is("codeInputType", self.code_input_type, "inline")?;
        is("executionType", self.execution_type, "synchronous")?;
        let (code, language) = match (self.code, self.shell_command) {
            (Some(code), None) => (code, None),
            (None, Some(command)) => (command, Some("bash".to_owned())),
            _ => {
                return Err(Failure::field(
                    "code",
                    "give code or shellCommand, one of the two",
                ));
            }
        };
        let timeout = self.timeout_in_seconds.map_or(RUN_TIME, Duration::from_secs);
        if timeout.is_zero() || timeout > RUN_TIME {
            let reason = format!("must be 1 to {}", RUN_TIME.as_secs());
            return Err(Failure::field("timeoutInSeconds", reason));
        }
        Ok(Execute {
            code,
            language,
            timeout: Some(timeout),
            on_timeout: OnTimeout::Interrupt,
            text_chars: MAX_TEXT_CHARS,
            ..Execute::default()
        })
    }
}

async fn followed(
    engine: &Engine,
    principal: &Principal,
    id: ExecutionId,
    mut feed: ExecutionFeed,
) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::default();
    let (mut image, mut traceback) = (None, String::new());
    loop {
        let Ok(Some(events)) = feed.next().await else {
            let reason = "the session or the gateway stopped before the code had ended";
            return Err(Failure::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "unavailable",
                reason,
            ));
        };
        for event in events {
            match event.kind {
                ExecutionEventKind::Stdout { text } => add(&mut outcome.stdout, &text),
                ExecutionEventKind::Stderr { text } | ExecutionEventKind::Gap { text } => {
                    add(&mut outcome.stderr, &text);
                }
                ExecutionEventKind::Display(output) | ExecutionEventKind::Result(output)
                    if picture(&output.data).is_some() =>
                {
                    image = picture(&output.data);
                }
                ExecutionEventKind::Result(output) => {
                    let text = output.data.get("text/plain").and_then(Value::as_str);
                    outcome.value = of_repr(text.unwrap_or_default());
                }
                ExecutionEventKind::Error(error) => traceback = error.traceback.join("\n"),
                ExecutionEventKind::Stuck(stuck) => {
                    // One that waits is taken back; the other one has had all interrupts.
                    engine.interrupt_execution(principal, id).await?;
                    outcome.failed = true;
                    add(&mut outcome.stderr, &stuck.hint);
                    return Ok(outcome);
                }
                ExecutionEventKind::Done { result } => {
                    // What a script says is on its own streams already.
                    if result.exit_code.is_none() {
                        add(&mut outcome.stderr, &traceback);
                    }
                    if let Some((kind, sha256)) = image.filter(|_| outcome.value.is_null()) {
                        outcome.value = shown(engine, principal, id, &kind, &sha256).await?;
                    }
                    outcome.end(&result);
                    return Ok(outcome);
                }
                _ => {}
            }
        }
    }
}

impl Outcome {
    fn end(&mut self, result: &ExecutionResult) {
        self.failed = result.status != ExecutionStatus::Ok;
        self.exit_code = result.exit_code;
        let why = match result.status {
            ExecutionStatus::Timeout => "the code took too long, and was interrupted",
            ExecutionStatus::Interrupted => "the code was interrupted",
            ExecutionStatus::KernelDied | ExecutionStatus::OomKilled => {
                "the process of the kernel ended: its variables are gone"
            }
            _ => return,
        };
        add(&mut self.stderr, why);
    }
}

/// The picture of an output: its type, and where it is kept.
fn picture(data: &Map<String, Value>) -> Option<(String, String)> {
    ["image/png", "image/jpeg"].iter().find_map(|kind| {
        let reference = ArtifactReference::read(kind, data.get(*kind)?)?;
        Some(((*kind).to_owned(), reference.sha256.to_owned()))
    })
}

async fn shown(
    engine: &Engine,
    principal: &Principal,
    id: ExecutionId,
    kind: &str,
    sha256: &str,
) -> Result<Value, EngineError> {
    let artifact = engine.execution_artifact(principal, id, sha256).await?;
    let bytes = artifact.read(0, IMAGE_BYTES).await?;
    let format = kind.trim_start_matches("image/");
    Ok(json!({ "type": "image", "format": format, "base64_data": BASE64_STANDARD.encode(bytes) }))
}

/// As much as there is room for, whole characters.
fn add(text: &mut String, more: &str) {
    let room = TEXT_BYTES.saturating_sub(text.len());
    text.push_str(&more[..more.floor_char_boundary(room)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_offered_is_refused_by_name() {
        let read = |body: Value| serde_json::from_value::<ExecuteRequest>(body).unwrap().read();
        let code = json!({ "code": "1", "codeInputType": "Inline", "executionType": "synchronous" });
        assert_eq!(read(code).unwrap().timeout, Some(RUN_TIME));
        let shell = read(json!({ "shellCommand": "ls", "timeoutInSeconds": 3 })).unwrap();
        assert_eq!(shell.language.as_deref(), Some("bash"));
        for refused in [
            json!({ "code": "1", "executionType": "asynchronous" }),
            json!({ "code": "1", "codeInputType": "file" }),
            json!({ "code": "1", "shellCommand": "ls" }),
            json!({ "code": "1", "timeoutInSeconds": 221 }),
            json!({}),
        ] {
            let failure = read(refused.clone()).unwrap_err();
            assert_eq!(failure.answer.status, StatusCode::BAD_REQUEST, "{refused}");
        }
        assert!(serde_json::from_value::<ExecuteRequest>(json!({ "code": "1", "more": 1 })).is_err());
    }

    #[test]
    fn text_is_bounded_between_characters() {
        let mut text = "a".repeat(TEXT_BYTES - 1);
        add(&mut text, "é");
        assert_eq!(text.len(), TEXT_BYTES - 1);
        add(&mut text, "bc");
        assert_eq!(text.len(), TEXT_BYTES);
    }
}
