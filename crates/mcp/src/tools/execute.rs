//! `execute`: runs code in a session.

use std::collections::BTreeMap;
use std::time::Duration;

use himalia_engine::{
    Execute, ExecutionId, ExecutionResult, ExecutionTarget, FeedStart, KernelId, OnTimeout, STOP_TIME,
};
use rmcp::model::{CallToolResponse, Tool};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::entry::{Effects, ToolEntry, tool};
use crate::arguments::MediaBytes;
use crate::call::{Answer, Call};
use crate::failure::Failure;
use crate::follow::{self, Patience};
use crate::input::{QuestionRef, Round, question};
use crate::{arguments, limits, result, sessions};

pub(super) const TOOL: ToolEntry = ToolEntry {
    name: "execute",
    describe,
    run: |call| Box::pin(run(call)),
};

/// The longest timeout, seconds: 30 days.
const TIMEOUT_MOST: f64 = 30.0 * 86_400.0;

fn describe(name: &'static str) -> Tool {
    let schema = json!({
        "type": "object",
        "properties": {
            "session": {"type": "string", "description": "id or name"},
            "code": {"type": "string"},
            "kernel": {"type": "string", "description": "id of an additional one"},
            "language": {"type": "string", "description": "bash: a shell script"},
            "timeout_s": {"type": "number"},
            "on_timeout": {"enum": ["interrupt", "detach", "restart", "kill"], "description": "detach: let it continue"},
            "wait_s": {"type": "number", "description": "return then; code continues (50)"},
            "background": {"type": "boolean"},
            "text_chars": {"type": "integer", "description": "default 8000"},
            "image_bytes": {"type": "integer", "description": "default 262144"},
            "audio_bytes": {"type": "integer"},
            "structured": {"type": "boolean"},
            "env": {"type": "object"},
            "cwd": {"type": "string"},
            "metadata": {"type": "object"},
            "allow_stdin": {"type": "boolean", "description": "input() asks; else it raises"},
            "input_for": {"type": "string", "description": "execution in input() or prompt: code answers"},
            "expect_incarnation": {"type": "integer", "description": "refuse another kernel process"},
            "max_failures": {"type": "integer", "description": "refuse after so many failures"},
            "idempotency_key": {"type": "string"}
        },
        "required": ["session", "code"]
    });
    let description = "Run code in a live session; variables stay. get_output has more output, and waits for code that continues.";
    tool(name, "Run code", description, schema, &Effects::ANY)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    session: String,
    code: String,
    kernel: Option<String>,
    language: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    cwd: Option<String>,
    #[serde(default)]
    metadata: Map<String, Value>,
    timeout_s: Option<f64>,
    on_timeout: Option<OnTimeout>,
    wait_s: Option<f64>,
    background: Option<bool>,
    text_chars: Option<usize>,
    image_bytes: Option<u64>,
    audio_bytes: Option<u64>,
    structured: Option<bool>,
    allow_stdin: Option<bool>,
    input_for: Option<String>,
    expect_incarnation: Option<u32>,
    max_failures: Option<u32>,
    idempotency_key: Option<String>,
}

impl Arguments {
    fn kernel(&self, call: &Call) -> Result<KernelId, Failure> {
        sessions::kernel(call, &self.session, self.kernel.as_deref())
    }
}

async fn run(mut call: Call) -> Answer {
    let wanted: Arguments = arguments::read(call.take_arguments())?;
    let media = MediaBytes::read(wanted.image_bytes, wanted.audio_bytes)?;
    let structured = wanted.structured.unwrap_or(false);
    let session = wanted.session.clone();
    let wait = match wanted.background {
        Some(true) => Duration::ZERO,
        _ => arguments::wait(wanted.wait_s, limits::WAIT)?,
    };
    let queued = match (wanted.wait_s, timeout(wanted.timeout_s)?) {
        (Some(_), _) => None,
        (None, limit) => Some(limit.map_or(wait, |limit| limit.saturating_add(STOP_TIME))),
    };
    let patience = Patience { wait, queued };
    let found = match Round::of(&mut call, TOOL.name, &session)? {
        Round::First => match &wanted.input_for {
            None => start(&call, wanted, patience).await?,
            Some(id) => {
                let asked: QuestionRef = id.parse()?;
                same_kernel(&call, &wanted, asked.execution(&call).await?)?;
                answer(&call, asked, wanted.code, patience).await?
            }
        },
        Round::Answered(asked, value) => answer(&call, asked, value, patience).await?,
        Round::Unanswered(asked) => current(&call, &asked).await?,
        Round::Refused(asked) => {
            let found = current(&call, &asked).await?;
            return Ok(result::of(&call, &found, media, structured).await);
        }
    };
    if let Some(question) = question(&call, &session, &found).filter(|_| !wait.is_zero()) {
        return Ok(CallToolResponse::InputRequired(question));
    }
    Ok(result::of(&call, &found, media, structured).await)
}

fn timeout(seconds: Option<f64>) -> Result<Option<Duration>, Failure> {
    let read = |timeout| arguments::seconds("timeout_s", timeout, TIMEOUT_MOST);
    seconds.map(read).transpose()
}

/// The execution that asked, as it is now.
async fn current(call: &Call, asked: &QuestionRef) -> Result<ExecutionResult, Failure> {
    let id = asked.execution(call).await?;
    call.subject.is_execution(id);
    Ok(call.engine.execution(&call.principal, id).await?)
}

/// Submits the code, and waits for it.
async fn start(call: &Call, wanted: Arguments, patience: Patience) -> Result<ExecutionResult, Failure> {
    let kernel = wanted.kernel(call)?;
    let timeout = timeout(wanted.timeout_s)?;
    if wanted.on_timeout.is_some() && timeout.is_none() {
        return Err(Failure::argument("on_timeout", "needs timeout_s"));
    }
    let plain = Execute::default();
    let execute = Execute {
        code: wanted.code,
        language: wanted.language,
        timeout,
        on_timeout: wanted.on_timeout.unwrap_or_default(),
        text_chars: wanted.text_chars.unwrap_or(plain.text_chars),
        allow_stdin: wanted.allow_stdin.unwrap_or(false),
        expect_incarnation: wanted.expect_incarnation,
        max_failures: wanted.max_failures,
        key: wanted.idempotency_key,
        env: wanted.env,
        cwd: wanted.cwd,
        metadata: wanted.metadata,
        client: call.client(),
        ..plain
    };
    let (engine, principal) = (&call.engine, &call.principal);
    if patience.wait.is_zero() {
        let id = engine.execute(principal, kernel, execute).await?.id;
        return follow::wait(call, id, None, patience).await;
    }
    let target = ExecutionTarget::Kernel(kernel);
    let (taken, feed) = engine
        .submit(principal, target, execute, FeedStart::Beginning)
        .await?;
    call.subject.is_execution(taken.id);
    follow::wait_in(call, feed, patience).await
}

fn same_kernel(call: &Call, wanted: &Arguments, id: ExecutionId) -> Result<(), Failure> {
    if wanted.kernel(call)? == id.kernel {
        return Ok(());
    }
    Err(Failure::argument(
        "input_for",
        "this execution is of another session or kernel",
    ))
}

/// Gives an answer, and waits. Questions before it are old ones.
async fn answer(
    call: &Call,
    asked: QuestionRef,
    value: String,
    patience: Patience,
) -> Result<ExecutionResult, Failure> {
    let id = asked.execution(call).await?;
    let seq = call.engine.execution(&call.principal, id).await?.seq;
    asked.answer(call, value).await?;
    follow::wait(call, id, Some(seq), patience).await
}
