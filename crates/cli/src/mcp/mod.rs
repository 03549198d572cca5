//! `himalia mcp`: MCP over standard input and output, for hosts that start their servers themselves.
//!
//! Each line is one JSON-RPC message and becomes one request to `/mcp` of the gateway; what comes back becomes lines
//! again. The gateway has all the tools and keeps no state between requests, so there is nothing here that could be
//! lost with it: a gateway that is restarted meanwhile, also at another address, is found again. Calls that do nothing twice
//! ([`again`]) are sent again if their answer was lost.
//!
//! Messages are passed on as they are, but for the key of an execution. rmcp's client would read each into its own types and hold a session, an
//! `initialize` and a protocol revision of its own, so that a host would get what rmcp knows of MCP instead of what the
//! gateway says.

mod again;
mod headers;
mod sse;

use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use parking_lot::Mutex;
use reqwest::Response;
use reqwest::header::CONTENT_TYPE;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Stdout};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use super::gateway::Gateway;
use super::http::{self, NoConnection, NoResponse};
use crate::args::gateway::GatewayArgs;
use headers::Version;

/// Bytes of a message of the host; the gateway takes no larger ones.
const LINE_BYTES: u64 = 8 << 20;
/// Messages on their way at once; more wait on standard input.
const AT_ONCE: usize = 64;
/// Longest time in which the connection to a gateway that does not listen is retried; a gateway that restarts takes less.
const RECONNECT: Duration = Duration::from_secs(15);
/// From one attempt to the next.
const PAUSE: Duration = Duration::from_millis(300);
/// Longest wait for answers after the host closed standard input.
const GRACE: Duration = Duration::from_secs(2);
/// The number of times that a call is sent again after its answer was lost.
const REPEATS: u32 = 10;
/// JSON-RPC: the message cannot be used, and cannot be answered.
const INVALID: i32 = -32600;
/// JSON-RPC: an internal error. The protocol reserves -32000 to -32019 for others.
const FAILED: i32 = -32603;

/// No answer came.
#[derive(Debug, thiserror::Error)]
#[error(
    "the gateway's answer was lost; what it started continues, and session(op=\"list\", session) finds it"
)]
struct ConnectionLost;

/// State that all messages share.
struct Proxy {
    gateway: Gateway,
    stdout: tokio::sync::Mutex<Stdout>,
    version: Version,
    /// Requests that are on their way, by their ids as JSON.
    running: Mutex<HashMap<String, AbortHandle>>,
}

/// Serves until standard input ends.
pub(super) async fn serve(gateway: GatewayArgs) -> anyhow::Result<ExitCode> {
    let gateway = Gateway::new(gateway);
    // A gateway that cannot be named will not be found later either.
    gateway.client()?;
    let proxy = Arc::new(Proxy {
        gateway,
        stdout: tokio::sync::Mutex::new(tokio::io::stdout()),
        version: Version::default(),
        running: Mutex::default(),
    });
    let (permits, mut tasks) = (Arc::new(Semaphore::new(AT_ONCE)), JoinSet::new());
    let mut stdin = BufReader::new(tokio::io::stdin());
    while let Some(line) = next_line(&mut stdin).await? {
        let Some(message) = proxy.read(&line).await? else {
            continue;
        };
        if proxy.cancels(&message) {
            continue;
        }
        let permit = Arc::clone(&permits).acquire_owned().await?;
        proxy.start(&mut tasks, message, line, permit);
        while tasks.try_join_next().is_some() {}
    }
    let rest = async { while tasks.join_next().await.is_some() {} };
    // A host that does not wait for an answer stops nothing by that.
    let _ = tokio::time::timeout(GRACE, rest).await;
    Ok(ExitCode::SUCCESS)
}

/// The next line that is not empty.
async fn next_line(stdin: &mut (impl tokio::io::AsyncBufRead + Unpin)) -> anyhow::Result<Option<Vec<u8>>> {
    loop {
        let mut line = Vec::new();
        let read = (&mut *stdin).take(LINE_BYTES).read_until(b'\n', &mut line).await;
        if read.context("standard input")? == 0 {
            return Ok(None);
        }
        if line.len() as u64 == LINE_BYTES && line.last() != Some(&b'\n') {
            bail!("a message is longer than {LINE_BYTES} bytes");
        }
        if !line.trim_ascii().is_empty() {
            return Ok(Some(line.trim_ascii().to_vec()));
        }
    }
}

impl Proxy {
    /// A message as JSON; if it is not JSON, the host receives an error.
    async fn read(&self, line: &[u8]) -> anyhow::Result<Option<Value>> {
        if let Ok(message @ Value::Object(_)) = serde_json::from_slice(line) {
            return Ok(Some(message));
        }
        let text = "expected one JSON object on a line";
        self.write(&failure(&Value::Null, INVALID, text)).await?;
        Ok(None)
    }

    /// Sends a message and passes on what comes back, beside all others.
    fn start(
        self: &Arc<Self>,
        tasks: &mut JoinSet<()>,
        mut message: Value,
        mut line: Vec<u8>,
        permit: OwnedSemaphorePermit,
    ) {
        let repeats = if again::can_repeat(&mut message) {
            line = message.to_string().into_bytes();
            REPEATS
        } else {
            0
        };
        let (id, proxy) = (message.get("id").map(Value::to_string), Arc::clone(self));
        let key = id.clone();
        // Locked, so that a request is not taken out before it is in.
        let mut running = self.running.lock();
        let task = tasks.spawn(async move {
            proxy.forward(&message, &line, repeats).await;
            if let Some(key) = key {
                proxy.running.lock().remove(&key);
            }
            drop(permit);
        });
        if let Some(id) = id {
            running.insert(id, task);
        }
    }

    /// Cancels the request that a message names, if it does. The request's connection is closed, as the HTTP transport specifies; the code
    /// that it started continues.
    fn cancels(&self, message: &Value) -> bool {
        if message["method"] != "notifications/cancelled" {
            return false;
        }
        if let Some(task) = self
            .running
            .lock()
            .remove(&message["params"]["requestId"].to_string())
        {
            task.abort();
        }
        true
    }

    /// Sends a message and writes what comes back. Failures are answers too, to those who wait for one.
    async fn forward(&self, message: &Value, line: &[u8], mut repeats: u32) {
        let error = loop {
            match Box::pin(self.exchange(message, line.to_vec())).await {
                Ok(()) => return,
                Err(error) if repeats > 0 && error.is::<ConnectionLost>() => repeats -= 1,
                Err(error) => break error,
            }
            tokio::time::sleep(PAUSE).await;
        };
        match message.get("id") {
            Some(id) if message.get("method").is_some() => {
                let answer = failure(id, FAILED, &format!("{error:#}"));
                // Standard output is closed: the host has gone.
                let _ = self.write(&answer).await;
            }
            _ => eprintln!("himalia: {error:#}"),
        }
    }

    async fn exchange(&self, message: &Value, line: Vec<u8>) -> anyhow::Result<()> {
        let headers = self.version.headers(message)?;
        let end = Instant::now() + RECONNECT;
        let response = loop {
            let opened = match self.gateway.client() {
                Ok(client) => client.post_message(line.clone(), headers.clone()).await,
                // Its address is gone while it is restarted.
                Err(error) => Err(error.context(NoConnection)),
            };
            match opened {
                Err(error) if error.is::<NoConnection>() && Instant::now() < end => {
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) if error.is::<NoResponse>() => return Err(error.context(ConnectionLost)),
                opened => break opened?,
            }
        };
        self.version.session(message, response.headers());
        let kind = response.headers().get(CONTENT_TYPE);
        if kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream")) {
            return self.stream(message, response).await.context(ConnectionLost);
        }
        let succeeded = response.status().is_success();
        let reply = http::read(response).await.context(ConnectionLost)?;
        let answer: Value = serde_json::from_slice(reply.bytes()).unwrap_or_default();
        if answer["jsonrpc"].is_string() {
            return self.answer(message, reply.bytes()).await.map(drop);
        }
        if !succeeded {
            let said = answer["detail"].as_str().or(answer["message"].as_str());
            bail!(
                "the gateway refused: {} ({})",
                said.unwrap_or("no reason given"),
                reply.status
            );
        }
        Ok(())
    }

    /// Passes on what comes, up to the answer of a request.
    async fn stream(&self, message: &Value, response: Response) -> anyhow::Result<()> {
        let mut events = sse::Events::new(response.bytes_stream());
        while let Some(data) = events.next().await? {
            let is_answer = self.answer(message, data.as_bytes()).await?;
            if is_answer {
                return Ok(());
            }
        }
        ensure!(message.get("id").is_none(), "the stream ended before it");
        Ok(())
    }

    /// Passes a message on; whether it is the answer.
    async fn answer(&self, message: &Value, data: &[u8]) -> anyhow::Result<bool> {
        let answer: Value = serde_json::from_slice(data).context("the gateway's response is not JSON")?;
        self.version.learn(message, &answer);
        self.write(&answer).await?;
        Ok(answer.get("method").is_none() && answer.get("id") == message.get("id"))
    }

    async fn write(&self, message: &Value) -> anyhow::Result<()> {
        let mut stdout = self.stdout.lock().await;
        stdout.write_all(format!("{message}\n").as_bytes()).await?;
        Ok(stdout.flush().await?)
    }
}

fn failure(id: &Value, code: i32, text: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": text } })
}
