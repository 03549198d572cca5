//! The calls of the service.

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use himalia_engine::{EngineError, FileError, Principal, ProcessExit, ProcessOrder, RunProcess, SessionId};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::login;
use super::messages::{CommandCall, Event, Start, StreamInput, signal};
use crate::caller::{Caller, SandboxName, message};
use crate::connect::{Code, Frames, RpcFailure, deadline, failed, first, streamed};
use crate::control::variables;
use crate::envd::path::WorkDir;
use crate::envd::user::check_header;
use crate::facade::Facade;
use crate::failure::Failure;
use crate::limits::SILENCE;

pub(super) async fn call(
    State(facade): State<Facade>,
    Caller(principal): Caller,
    named: SandboxName,
    Path(method): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let session = check_header(&headers).and_then(|()| named.running(&facade.engine, &principal));
    let call = Call {
        facade,
        principal,
        named,
        limit: deadline(&headers),
    };
    match method.as_str() {
        "Start" | "Connect" | "StreamInput" => {
            let answered = match session {
                Ok(session) => call.stream(&method, session, body).await,
                Err(failure) => Err(failure.into()),
            };
            answered.unwrap_or_else(failed)
        }
        _ => {
            let answered = match session {
                Ok(session) => call.unary(&method, session, body).await,
                Err(failure) => Err(failure.into()),
            };
            match answered {
                Ok(answer) => Json(answer).into_response(),
                Err(failure) => failure.into_response(),
            }
        }
    }
}

struct Call {
    facade: Facade,
    principal: Principal,
    named: SandboxName,
    /// Time that the client waits.
    limit: Option<Duration>,
}

impl Call {
    async fn stream(self, method: &str, session: SessionId, body: Body) -> Result<Response, RpcFailure> {
        let end = self.limit.map(|limit| Instant::now() + limit);
        let events = match method {
            "Start" => self.start(session, first(body).await?).await?,
            "Connect" => {
                let selected: CommandCall = first(body).await?;
                let running = self.facade.processes.find(session, selected.process.as_ref())?;
                running.connect().await?
            }
            _ => {
                self.input(session, Frames::new(body)).await?;
                return Ok(streamed(stream::iter([Ok(json!({}))])));
            }
        };
        let (facade, principal) = (self.facade, self.principal);
        let messages = stream::unfold(Some(events), move |events| {
            let (facade, principal) = (facade.clone(), principal.clone());
            async move {
                let shutdown = &facade.shutdown;
                let is_gone = || facade.killed.is_gone(&facade.engine, &principal, session);
                let mut events = events?;
                let next = tokio::select! {
                    biased;
                    () = shutdown.cancelled() => Next::Lost,
                    next = next(&mut events, end) => next,
                };
                match next {
                    Next::Lost
                    | Next::Event(Event::Ended(
                        ProcessExit { signal: Some(_), .. } | ProcessExit { code: None, .. },
                    )) if !shutdown.is_cancelled() && is_gone() => {
                        // Clients look for these words.
                        let killed = "the sandbox was killed or reached its end of life";
                        Some((Err(RpcFailure::new(Code::Unavailable, killed)), None))
                    }
                    Next::Event(event) => {
                        let message = event.to_json();
                        let rest = (!matches!(event, Event::Ended(_))).then_some(events);
                        Some((Ok(message), rest))
                    }
                    Next::Late => {
                        let late = "the timeout of this call has passed";
                        Some((Err(RpcFailure::new(Code::DeadlineExceeded, late)), None))
                    }
                    Next::Lost => {
                        let lost = "the connection to the sandbox ended before the command did";
                        Some((Err(RpcFailure::new(Code::Unavailable, lost)), None))
                    }
                }
            }
        });
        Ok(streamed(messages))
    }

    async fn start(&self, session: SessionId, start: Start) -> Result<mpsc::Receiver<Event>, RpcFailure> {
        let Start {
            process: config,
            pty,
            tag,
            stdin,
        } = start;
        if config.cmd.is_empty() {
            return Err(RpcFailure::new(Code::InvalidArgument, "process.cmd: is missing"));
        }
        variables("process.envs", &config.envs)?;
        let argv = login::command_line(&config);
        if argv.iter().any(|argument| argument.contains('\0')) {
            return Err(RpcFailure::new(
                Code::InvalidArgument,
                "process.args: has a NUL character",
            ));
        }
        let engine = &self.facade.engine;
        let info = engine.session_info(&self.principal, session.first_kernel());
        let info = info.map_err(|error| Failure::at_sandbox(error, &self.named.0))?;
        let dir = WorkDir::of(&info);
        let cwd = config.cwd.as_deref().filter(|cwd| !cwd.is_empty());
        let cwd = cwd.map_or_else(|| dir.root().to_owned(), |cwd| dir.for_command(cwd));
        let wanted = RunProcess {
            argv,
            env: config.envs.clone(),
            cwd: Some(cwd),
            stdin: stdin.unwrap_or(true),
            terminal: pty.map(|pty| pty.size.read()).transpose()?,
        };
        let process = engine
            .start_process(&self.principal, session.first_kernel(), wanted)
            .await;
        let process = process.map_err(|error| match error {
            // No such program, or no such directory.
            EngineError::Files {
                code: FileError::NotFound,
                reason,
            } => RpcFailure::new(Code::InvalidArgument, reason),
            error @ EngineError::Files { .. } => error.into(),
            other => Failure::at_sandbox(other, &self.named.0).into(),
        })?;
        Ok(self
            .facade
            .processes
            .run(session, process, config, tag, self.limit))
    }

    /// Passes a client's stream on to a command.
    async fn input(&self, session: SessionId, mut frames: Frames) -> Result<(), RpcFailure> {
        let mut running = None;
        while let Some(message) = frames.next::<StreamInput>().await? {
            match message {
                StreamInput::Start { process } => {
                    running = Some(self.facade.processes.find(session, process.as_ref())?);
                }
                StreamInput::Data { input } => {
                    let none = || {
                        RpcFailure::new(Code::FailedPrecondition, "the stream does not begin with a start")
                    };
                    let running = running.as_ref().ok_or_else(none)?;
                    if let Some(input) = input {
                        running.order(ProcessOrder::Input(input.bytes())).await?;
                    }
                }
                StreamInput::Keepalive {} => {}
            }
        }
        Ok(())
    }

    async fn unary(self, method: &str, session: SessionId, body: Body) -> Result<Value, RpcFailure> {
        let selected: CommandCall = message(body).await?;
        let processes = &self.facade.processes;
        if method == "List" {
            let all = processes.list(session);
            let all = all
                .iter()
                .map(|one| json!({ "config": one.config, "pid": one.pid, "tag": one.tag }));
            return Ok(json!({ "processes": all.collect::<Vec<_>>() }));
        }
        let running = processes.find(session, selected.process.as_ref());
        match method {
            "SendSignal" => {
                let signal = selected.signal.as_ref().and_then(signal);
                let bad = || RpcFailure::new(Code::InvalidArgument, "signal: expected SIGTERM or SIGKILL");
                let signal = signal.ok_or_else(bad)?;
                running?.order(ProcessOrder::Signal { signal }).await?;
            }
            "SendInput" => {
                let none = || RpcFailure::new(Code::InvalidArgument, "input: is missing");
                let input = selected.input.ok_or_else(none)?.bytes();
                // An empty one would be the end.
                if !input.is_empty() {
                    running?.order(ProcessOrder::Input(input)).await?;
                }
            }
            "CloseStdin" => {
                let running = running?;
                if running.has_terminal {
                    let reason = "a terminal has no end of input: send it the character of Ctrl-D";
                    return Err(RpcFailure::new(Code::FailedPrecondition, reason));
                }
                running.order(ProcessOrder::Input(bytes::Bytes::new())).await?;
            }
            "Update" => {
                let running = running?;
                let Some(pty) = selected.pty else {
                    return Ok(json!({}));
                };
                if !running.has_terminal {
                    return Err(RpcFailure::new(
                        Code::FailedPrecondition,
                        "the process has no terminal",
                    ));
                }
                running.order(ProcessOrder::Resize(pty.size.read()?)).await?;
            }
            other => {
                let other: String = other.chars().take(64).flat_map(char::escape_debug).collect();
                return Err(RpcFailure::new(
                    Code::Unimplemented,
                    format!("this gateway does not offer {other}"),
                ));
            }
        }
        Ok(json!({}))
    }
}

/// Next message to a client.
enum Next {
    Event(Event),
    Late,
    Lost,
}

async fn next(events: &mut mpsc::Receiver<Event>, end: Option<Instant>) -> Next {
    let silence = Instant::now() + SILENCE;
    let until = end.map_or(silence, |end| end.min(silence));
    match timeout_at(until, events.recv()).await {
        Ok(Some(event)) => Next::Event(event),
        Ok(None) => Next::Lost,
        Err(_) if end.is_some_and(|end| end <= Instant::now()) => Next::Late,
        Err(_) => Next::Event(Event::Silence),
    }
}
