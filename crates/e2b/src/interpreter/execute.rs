//! `POST /execute`: code runs in a context, and what it gives is streamed.

use std::collections::{BTreeMap, VecDeque};
use std::io;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use futures_util::stream;
use himalia_engine::{
    Engine, Execute, ExecutionEvent, ExecutionEventKind, ExecutionFeed, ExecutionId, ExecutionStatus,
    ExecutionTarget, FeedStart, KernelId, MAX_TEXT_CHARS, Principal, SessionId,
};
use serde::Deserialize;
use time::OffsetDateTime;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::contexts::{self, Languages};
use super::lines::{Line, failure};
use super::result::members;
use crate::caller::{Caller, SandboxName, message};
use crate::control::{text, variables};
use crate::facade::Facade;
use crate::failure::{Failure, TextFailure};
use crate::killed::KilledSandboxes;
use crate::limits::SILENCE;

#[derive(Debug, Deserialize)]
struct ExecuteRequest {
    code: String,
    context_id: Option<String>,
    language: Option<String>,
    env_vars: Option<BTreeMap<String, String>>,
}

pub(super) async fn execute(
    State(facade): State<Facade>,
    Caller(principal): Caller,
    named: SandboxName,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, TextFailure> {
    let requested: ExecuteRequest = message(body).await?;
    let env = requested.env_vars.unwrap_or_default();
    variables("env_vars", &env)?;
    let session = named.running(&facade.engine, &principal)?;
    let context = requested.context_id.filter(|context| !context.is_empty());
    let language = requested.language.filter(|language| !language.is_empty());
    let (kernel, language) = match (context, language) {
        (Some(_), Some(_)) => {
            return Err(
                Failure::field("language", "goes without context_id: a context has its language").into(),
            );
        }
        (Some(context), None) => (
            contexts::find(&facade.engine, &principal, session, &context)?,
            None,
        ),
        (None, None) => (session.first_kernel(), None),
        (None, Some(language)) => in_language(&facade.engine, &principal, session, language).await?,
    };
    let client = headers
        .get(header::USER_AGENT)
        .and_then(|name| name.to_str().ok());
    let wanted = Execute {
        code: requested.code,
        language,
        env,
        text_chars: MAX_TEXT_CHARS,
        client: client.map(str::to_owned),
        ..Execute::default()
    };
    let submitted = facade
        .engine
        .submit(
            &principal,
            ExecutionTarget::Kernel(kernel),
            wanted,
            FeedStart::Beginning,
        )
        .await;
    let (taken, feed) = submitted.map_err(|error| Failure::at_sandbox(error, &named.0))?;
    let running = RunningExecution {
        engine: facade.engine.clone(),
        principal: principal.clone(),
        id: taken.id,
        ended: false,
    };
    let killed = facade.killed.clone();
    Ok(streamed(Stream {
        feed,
        running,
        session,
        killed,
        shutdown: facade.shutdown.clone(),
        lines: VecDeque::new(),
        is_over: false,
        has_failed: false,
    }))
}

/// The kernel for a language, and the language as it is said to that kernel: the first one, or another one of the session.
async fn in_language(
    engine: &Engine,
    principal: &Principal,
    session: SessionId,
    language: String,
) -> Result<(KernelId, Option<String>), Failure> {
    if language.eq_ignore_ascii_case("bash") {
        return Ok((session.first_kernel(), Some(language)));
    }
    let languages = Languages::read(engine, principal).await?;
    let kernels = engine.session_kernels(principal, session)?;
    let mut kernels = kernels.iter();
    let first = kernels.next().map(|info| info.session.kernelspec.clone());
    let usual = first.unwrap_or_default();
    let wanted = languages.kernelspec(&language, &usual)?;
    if wanted == usual {
        return Ok((session.first_kernel(), None));
    }
    // The default context of another language is the first kernel that runs it.
    if let Some(info) = kernels.find(|info| info.session.kernelspec == wanted) {
        return Ok((info.kernel.id, None));
    }
    let new = himalia_engine::NewKernel {
        kernelspec: Some(wanted),
        ..himalia_engine::NewKernel::default()
    };
    let started = engine.start_session_kernel(principal, session, new).await?;
    Ok((started.kernel.id, None))
}

/// An execution that is interrupted when its client leaves before its end.
struct RunningExecution {
    engine: Engine,
    principal: Principal,
    id: ExecutionId,
    ended: bool,
}

impl Drop for RunningExecution {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let (engine, principal, id) = (self.engine.clone(), self.principal.clone(), self.id);
        tokio::spawn(async move {
            if let Err(error) = engine.interrupt_execution(&principal, id).await {
                tracing::info!(%error, "an execution whose client has left was not interrupted");
            }
        });
    }
}

/// The body of a response.
struct Stream {
    feed: ExecutionFeed,
    running: RunningExecution,
    session: SessionId,
    killed: KilledSandboxes,
    shutdown: CancellationToken,
    /// Lines to be sent.
    lines: VecDeque<Line>,
    /// The last line is among them.
    is_over: bool,
    /// True if the client knows that the execution failed.
    has_failed: bool,
}

fn streamed(stream: Stream) -> Response {
    let body = stream::unfold(stream, Stream::chunk);
    let mut response = Response::new(Body::from_stream(body));
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("application/x-ndjson");
    headers.insert(header::CONTENT_TYPE, kind);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

impl Stream {
    /// The next lines. Taken only when the client has taken the last ones.
    async fn chunk(mut self) -> Option<(io::Result<Bytes>, Self)> {
        if self.is_over {
            return None;
        }
        let shutdown = self.shutdown.clone();
        let next = tokio::select! {
            biased;
            () = shutdown.cancelled() => Ok(Ok(None)),
            next = timeout(SILENCE, self.feed.next()) => next,
        };
        match next {
            Err(_) => self.lines.push_back(Line::Keepalive),
            Ok(Ok(Some(events))) => {
                for event in events {
                    if self.ends_by_kill(&event.kind) {
                        return Some((Err(self.broken()), self));
                    }
                    self.add(event).await;
                }
            }
            // The gateway stops, and the execution continues; or its session has gone.
            Ok(Ok(None) | Err(_)) => {
                if !self.shutdown.is_cancelled() && self.is_gone() {
                    return Some((Err(self.broken()), self));
                }
                self.lines.push_back(Line::UnexpectedEndOfExecution);
                self.end();
            }
        }
        let mut out = String::new();
        for line in self.lines.drain(..) {
            line.write(&mut out);
        }
        Some((Ok(Bytes::from(out)), self))
    }

    fn is_gone(&self) -> bool {
        let RunningExecution {
            engine, principal, ..
        } = &self.running;
        self.killed.is_gone(engine, principal, self.session)
    }

    /// True for an end of the code that comes from the end of its sandbox.
    fn ends_by_kill(&self, event: &ExecutionEventKind) -> bool {
        let is_end = match event {
            ExecutionEventKind::Error(_) => true,
            ExecutionEventKind::Done { result } => result.status != ExecutionStatus::Ok,
            _ => false,
        };
        is_end && self.is_gone()
    }

    /// Breaks the connection off.
    fn broken(&mut self) -> io::Error {
        self.is_over = true;
        self.running.ended = true;
        io::Error::other("the sandbox was killed")
    }

    async fn add(&mut self, event: ExecutionEvent) {
        let timestamp = text(event.at);
        let line = match event.kind {
            ExecutionEventKind::Stdout { text } => Line::Stdout { text, timestamp },
            ExecutionEventKind::Stderr { text } | ExecutionEventKind::Gap { text } => {
                Line::Stderr { text, timestamp }
            }
            ExecutionEventKind::Display(output) => self.result(&output.data, false).await,
            ExecutionEventKind::Result(output) => self.result(&output.data, true).await,
            ExecutionEventKind::Error(error) => {
                self.has_failed = true;
                Line::Error {
                    name: error.name,
                    value: error.value,
                    traceback: error.traceback.join("\n"),
                }
            }
            // The client does not wait for code that cannot be stopped. What follows is the same as when it leaves.
            ExecutionEventKind::Stuck(stuck) => {
                self.lines.push_back(Line::failed("ExecutionStuck", stuck.hint));
                self.lines.push_back(Line::EndOfExecution);
                self.is_over = true;
                return;
            }
            ExecutionEventKind::Done { result } => {
                if !self.has_failed
                    && let Some(line) = failure(&result)
                {
                    self.lines.push_back(line);
                }
                if let Some(execution_count) = result.execution_count {
                    self.lines.push_back(Line::NumberOfExecutions { execution_count });
                }
                return self.end();
            }
            // Clients know no such thing: its place in the queue, another content of a display.
            _ => return,
        };
        self.lines.push_back(line);
    }

    async fn result(
        &self,
        bundle: &serde_json::Map<String, serde_json::Value>,
        is_main_result: bool,
    ) -> Line {
        match members(
            &self.running.engine,
            &self.running.principal,
            self.running.id,
            bundle,
        )
        .await
        {
            Ok(data) => Line::Result { data, is_main_result },
            Err(error) => Line::Stderr {
                text: format!("a result cannot be shown: {error}\n"),
                timestamp: text(OffsetDateTime::now_utc()),
            },
        }
    }

    fn end(&mut self) {
        self.lines.push_back(Line::EndOfExecution);
        self.is_over = true;
        self.running.ended = true;
    }
}
