//! `session`: lists, creates, forks, restarts and closes sessions, and their additional kernels.

use std::collections::BTreeMap;

use himalia_engine::{
    ExecutionBrief, ForkFiles, ForkKernel, ForkPolicy, KernelId, MAX_BRANCHES, Network, NewKernel, Origin,
    SessionId, SessionInfo, SessionLimits, StartSession,
};
use rmcp::model::{CallToolResponse, Tool};
use serde::Deserialize;
use serde_json::{Value, json};

use super::entry::{Effects, ToolEntry, tool};
use crate::call::{Answer, Call, answer, peer_sessions};
use crate::failure::{Failure, hazard};
use crate::sessions::{self, SessionSummary};
use crate::{arguments, limits};

pub(super) const TOOL: ToolEntry = ToolEntry {
    name: "session",
    describe,
    run: |call| Box::pin(run(call)),
};

fn describe(name: &'static str) -> Tool {
    let effects = Effects {
        read_only: false,
        destructive: true,
        idempotent: false,
        open_world: false,
    };
    let schema = json!({
        "type": "object",
        "properties": {
            "op": {"enum": ["list", "templates", "create", "fork", "add_kernel", "restart", "close"]},
            "session": {"type": "string", "description": "id or name; list: its latest executions"},
            "name": {"type": "string", "description": "create: a-z, 0-9, - and _"},
            "attach": {"type": "boolean", "description": "create: or use the one of this name"},
            "template": {"type": "string", "description": "create"},
            "kernel": {"type": "string", "description": "list, restart, close"},
            "kernelspec": {"type": "string", "description": "add_kernel"},
            "limits": {"type": "object", "description": "create: such as memory_bytes"},
            "labels": {"type": "object", "description": "create, fork, list"},
            "idempotency_key": {"type": "string", "description": "create"},
            "env": {"type": "object", "description": "create, fork, add_kernel"},
            "count": {"type": "integer", "description": "fork: branches"},
            "policy": {"enum": ["strict", "report"], "description": "fork: refuse or report risks"},
            "files": {"enum": ["copy", "share"], "description": "fork: default copy"}
        },
        "required": ["op"]
    });
    let description = "Live kernels in sandboxes. fork copies all variables; restart loses the variables, close the files too.";
    tool(name, "Sessions", description, schema, &effects)
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Op {
    List,
    Templates,
    Create,
    Fork,
    AddKernel,
    Restart,
    Close,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Policy {
    Strict,
    Report,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Files {
    Copy,
    Share,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    op: Op,
    session: Option<String>,
    name: Option<String>,
    attach: Option<bool>,
    template: Option<String>,
    kernel: Option<String>,
    kernelspec: Option<String>,
    limits: Option<Limits>,
    labels: Option<BTreeMap<String, String>>,
    idempotency_key: Option<String>,
    env: Option<BTreeMap<String, String>>,
    count: Option<u32>,
    policy: Option<Policy>,
    files: Option<Files>,
}

impl Arguments {
    /// Refuses what the operation would ignore.
    fn only(&self, allowed: &[&str]) -> Result<(), Failure> {
        let given = [
            ("session", self.session.is_some()),
            ("name", self.name.is_some()),
            ("attach", self.attach.is_some()),
            ("template", self.template.is_some()),
            ("kernel", self.kernel.is_some()),
            ("kernelspec", self.kernelspec.is_some()),
            ("limits", self.limits.is_some()),
            ("labels", self.labels.is_some()),
            ("idempotency_key", self.idempotency_key.is_some()),
            ("env", self.env.is_some()),
            ("count", self.count.is_some()),
            ("policy", self.policy.is_some()),
            ("files", self.files.is_some()),
        ];
        match given
            .iter()
            .find(|(name, given)| *given && !allowed.contains(name))
        {
            None => Ok(()),
            Some((name, _)) => Err(Failure::argument(name, "is not for this op")),
        }
    }

    fn session(&self, call: &Call) -> Result<KernelId, Failure> {
        sessions::find(call, self.named()?)
    }

    /// The first kernel of the session, or the one that is named.
    fn kernel(&self, call: &Call) -> Result<KernelId, Failure> {
        sessions::kernel(call, self.named()?, self.kernel.as_deref())
    }

    fn named(&self) -> Result<&str, Failure> {
        let session = self.session.as_deref();
        session.ok_or_else(|| Failure::argument("session", "is missing"))
    }
}

async fn run(mut call: Call) -> Answer {
    let wanted: Arguments = arguments::read(call.take_arguments())?;
    match wanted.op {
        Op::List if wanted.session.is_some() => executions(&call, &wanted).await,
        Op::List => list(&call, &wanted),
        Op::Templates => templates(&call, &wanted).await,
        Op::Create => create(&call, wanted).await,
        Op::Fork => fork(&call, wanted).await,
        Op::AddKernel => add_kernel(&call, wanted).await,
        Op::Restart => restart(&call, &wanted).await,
        Op::Close => close(&call, &wanted).await,
    }
}

fn list(call: &Call, wanted: &Arguments) -> Answer {
    wanted.only(&["labels"])?;
    let peers = peer_sessions(&call.context);
    let mut all = SessionSummary::all(&call.engine, &call.principal, peers.sessions)?;
    let labels = wanted.labels.iter().flatten();
    all.retain(|session| {
        labels
            .clone()
            .all(|(name, value)| session.labels.get(name) == Some(value))
    });
    let omitted = all.len().saturating_sub(limits::SESSIONS);
    let latest = &all[omitted..];
    let mut lines: Vec<String> = latest.iter().map(SessionSummary::to_line).collect();
    if omitted > 0 {
        lines.insert(0, format!("[{omitted} older ones are left out]"));
    }
    if lines.is_empty() {
        lines.push("no sessions; session(op=\"create\") makes one".into());
    }
    let shown: Vec<Value> = latest.iter().map(SessionSummary::to_json).collect();
    let mut body = json!({ "sessions": shown, "omitted": omitted });
    if !peers.unanswered.is_empty() {
        let names = peers.unanswered.join(", ");
        lines.push(format!(
            "[the sessions of replicas that do not respond are missing: {names}]"
        ));
        body["unanswered"] = json!(peers.unanswered);
    }
    Ok(answer(body, lines.join("\n")).into())
}

/// The latest executions of one session, for a client that has lost a response.
async fn executions(call: &Call, wanted: &Arguments) -> Answer {
    wanted.only(&["session", "kernel"])?;
    let session = wanted.kernel(call)?;
    let mut all = call.engine.executions(&call.principal, session).await?;
    let omitted = all.len().saturating_sub(limits::EXECUTIONS);
    all.drain(..omitted);
    let line = |one: &ExecutionBrief| {
        format!(
            "{} {} {}",
            one.id,
            json!(one.status).as_str().unwrap_or_default(),
            one.title
        )
    };
    let mut lines: Vec<String> = all.iter().map(line).collect();
    if omitted > 0 {
        lines.insert(0, format!("[{omitted} older ones are left out]"));
    }
    if lines.is_empty() {
        lines.push("nothing was run here yet".into());
    }
    Ok(answer(json!({ "executions": all, "omitted": omitted }), lines.join("\n")).into())
}

/// Lists the templates and limits of new sessions.
async fn templates(call: &Call, wanted: &Arguments) -> Answer {
    wanted.only(&[])?;
    let mut all = call.engine.templates(&call.principal).await?;
    all.truncate(limits::TEMPLATES);
    let shown = all.iter().map(|info| {
        let template = &info.template;
        json!({
            "name": info.name,
            "kernelspec": template.kernelspec,
            "isolation": template.isolation,
            "image": template.image,
            "network": match &template.network {
                Network::None => "none",
                Network::Allow => "allow",
                Network::Open(name) => name.as_str(),
            },
            "limits": template.limits,
            "max_limits": info.max_limits(),
            "idle_timeout_s": template.idle_timeout.map(|time| time.as_secs()),
        })
    });
    let shown: Vec<Value> = shown.collect();
    let lines = shown.iter().map(|one| {
        let name = one["name"].as_str().unwrap_or_default();
        format!("{name}: limits {}, at most {}", one["limits"], one["max_limits"])
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    Ok(answer(json!({ "templates": shown }), text).into())
}

async fn create(call: &Call, wanted: Arguments) -> Answer {
    wanted.only(&[
        "name",
        "attach",
        "template",
        "limits",
        "labels",
        "idempotency_key",
        "env",
    ])?;
    let attach = wanted.attach.unwrap_or(false);
    if attach && wanted.name.is_none() {
        return Err(Failure::argument("attach", "needs name"));
    }
    if attach && wanted.idempotency_key.is_some() {
        return Err(Failure::argument("idempotency_key", "is not for attach"));
    }
    let start = StartSession {
        name: wanted.template.filter(|name| !name.is_empty()),
        env: wanted.env.unwrap_or_default(),
        origin: Origin::V1,
        session_name: wanted.name,
        limits: wanted.limits.map(SessionLimits::from).unwrap_or_default(),
        labels: wanted.labels.unwrap_or_default(),
        key: wanted.idempotency_key,
        ..StartSession::default()
    };
    let info = if attach || start.key.is_some() {
        call.engine.put_session(&call.principal, start).await?.0
    } else {
        call.engine.start_session(&call.principal, start).await?
    };
    Ok(one(&info))
}

/// Requested limits, with the names of the native API.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Limits {
    memory_bytes: Option<u64>,
    pids: Option<u32>,
    cpu_millis: Option<u32>,
    disk_bytes: Option<u64>,
    tmp_bytes: Option<u64>,
    shm_bytes: Option<u64>,
    open_files: Option<u64>,
    output_bytes: Option<u64>,
    execution_ms: Option<u64>,
}

impl From<Limits> for SessionLimits {
    fn from(limits: Limits) -> Self {
        Self {
            memory_bytes: limits.memory_bytes,
            pids: limits.pids,
            cpu_millis: limits.cpu_millis,
            disk_bytes: limits.disk_bytes,
            tmp_bytes: limits.tmp_bytes,
            shm_bytes: limits.shm_bytes,
            open_files: limits.open_files,
            output_bytes: limits.output_bytes,
            execution_ms: limits.execution_ms,
        }
    }
}

async fn fork(call: &Call, wanted: Arguments) -> Answer {
    wanted.only(&["session", "env", "labels", "count", "policy", "files"])?;
    let parent = wanted.session(call)?;
    let count = wanted.count.unwrap_or(1);
    if !(1..=MAX_BRANCHES).contains(&count) {
        return Err(Failure::argument(
            "count",
            format!("expected 1 to {MAX_BRANCHES}"),
        ));
    }
    let fork = ForkKernel {
        count,
        policy: match wanted.policy {
            Some(Policy::Report) => ForkPolicy::Report,
            Some(Policy::Strict) | None => ForkPolicy::Strict,
        },
        files: match wanted.files {
            Some(Files::Share) => ForkFiles::Share,
            Some(Files::Copy) | None => ForkFiles::default(),
        },
        env: wanted.env.unwrap_or_default(),
        labels: wanted.labels,
        ..ForkKernel::default()
    };
    let (mut lines, mut shown, mut failure) = (Vec::new(), Vec::new(), None);
    for made in call.engine.fork_kernel(&call.principal, parent, fork).await? {
        match made {
            Ok(branch) => {
                let branched = SessionSummary::from(&branch.session);
                lines.push(branched.to_line());
                lines.extend(
                    branch
                        .hazards
                        .iter()
                        .map(|one| format!("  {} {}: {}", one.kind, one.name, one.detail)),
                );
                let mut session = branched.to_json();
                session["hazards"] = branch.hazards.iter().map(hazard).collect();
                shown.push(session);
            }
            Err(error) => failure = failure.or(Some(Failure::from(error))),
        }
    }
    let mut body = json!({ "sessions": shown });
    let Some(failure) = failure else {
        return Ok(answer(body, lines.join("\n")).into());
    };
    if lines.is_empty() {
        return Err(failure);
    }
    body["error"] = failure.to_json();
    lines.push(format!("not all branches were made: {}", failure.to_text()));
    let mut partly = answer(body, lines.join("\n"));
    partly.is_error = Some(true);
    Ok(partly.into())
}

async fn add_kernel(call: &Call, wanted: Arguments) -> Answer {
    wanted.only(&["session", "kernelspec", "env"])?;
    let session = SessionId::of_first_kernel(wanted.session(call)?);
    let new = NewKernel {
        kernelspec: wanted.kernelspec,
        env: wanted.env.unwrap_or_default(),
        ..NewKernel::default()
    };
    let made = call
        .engine
        .start_session_kernel(&call.principal, session, new)
        .await?;
    let (id, name) = (made.kernel.id, made.kernel.name);
    let text = format!("kernel {id} ({name}) of session {session}");
    Ok(answer(
        json!({ "session": session, "kernel": id, "kernelspec": name }),
        text,
    )
    .into())
}

async fn restart(call: &Call, wanted: &Arguments) -> Answer {
    wanted.only(&["session", "kernel"])?;
    let id = wanted.kernel(call)?;
    call.engine.restart_kernel(&call.principal, id).await?;
    let session = wanted.session(call)?;
    Ok(one(&call.engine.session_info(&call.principal, session)?))
}

async fn close(call: &Call, wanted: &Arguments) -> Answer {
    wanted.only(&["session", "kernel"])?;
    let id = wanted.session(call)?;
    if let Some(kernel) = &wanted.kernel {
        let session = SessionId::of_first_kernel(id);
        let ended = call.engine.end_session_kernel(&call.principal, session, kernel);
        ended.await.map_err(Failure::Engine)?;
        return Ok(answer(json!({ "closed": kernel }), format!("kernel {kernel} is closed")).into());
    }
    call.engine.shutdown_kernel(&call.principal, id).await?;
    Ok(answer(json!({ "closed": id }), format!("{id} is closed")).into())
}

fn one(info: &SessionInfo) -> CallToolResponse {
    let shown = SessionSummary::from(info);
    answer(shown.to_json(), shown.to_line()).into()
}
