//! The kernel's tasks: shell one request after the other, control beside it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use himalia_wire::{ConnectionFile, Socket as Of};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use zeromq::{RepSocket, Socket, SocketRecv, SocketSend};

use super::branch::{BindMode, ForkMode, State};
use super::execute::Shell;
use super::interrupt::Interrupter;
use super::iopub::Iopub;
use super::maker::Maker;
use super::requests;
use super::router::{self, Replies, Request};

/// Time for the last reply to leave the process.
const LINGER: Duration = Duration::from_millis(20);

/// How the fake kernel differs from a plain one.
#[derive(Clone, Debug)]
pub struct Options {
    /// The connection file.
    pub connection_file: PathBuf,
    /// Whether a subscriber gets `iopub_welcome`, as from ipykernel since 7.2.
    pub welcome: bool,
    /// Whether all identity frames of a request come back with its reply.
    pub echo_identities: bool,
    /// Waits before it binds its sockets.
    pub start_delay: Duration,
    /// Variables that it has from the start.
    pub variables: BTreeMap<String, String>,
    /// How it is bound late.
    pub bind: BindMode,
    /// How it forks.
    pub fork: ForkMode,
    /// Whether it answers nothing on shell.
    pub mute: bool,
}

/// Runs the kernel until it receives the request to end; returns the exit code.
pub async fn run(options: Options) -> Result<i32> {
    let json = std::fs::read(&options.connection_file)
        .with_context(|| format!("cannot read {}", options.connection_file.display()))?;
    let file = ConnectionFile::parse(&json)?;
    let signer = file.signer()?;
    let (interrupter, interrupts) = Interrupter::new()?;
    tokio::time::sleep(options.start_delay).await;

    let maker = Maker::new();
    let iopub = Iopub::bind(
        &file.endpoint(Of::Iopub),
        signer.clone(),
        maker.clone(),
        options.welcome,
    )
    .await?;
    let (shell, shell_requests) =
        router::bind(&file.endpoint(Of::Shell), &signer, options.echo_identities).await?;
    let (control, control_requests) =
        router::bind(&file.endpoint(Of::Control), &signer, options.echo_identities).await?;
    let (stdin, answers) = router::bind(&file.endpoint(Of::Stdin), &signer, options.echo_identities).await?;
    heartbeat(&file.endpoint(Of::Heartbeat)).await?;

    iopub.status(&Bytes::new(), "starting").await;
    let ignore_shutdown = Arc::<AtomicBool>::default();
    let state = State::new(options.variables);
    let shell = Shell::new(
        shell_requests,
        shell,
        stdin,
        answers,
        iopub.clone(),
        maker.clone(),
        interrupts,
        interrupter.clone(),
        ignore_shutdown.clone(),
        state.clone(),
    );
    if options.mute {
        // Kept, so that the sockets stay.
        std::mem::forget(shell);
    } else {
        tokio::spawn(shell.run());
    }
    let control = Control {
        replies: control,
        iopub,
        maker,
        interrupter,
        ignore_shutdown,
        state,
        bind: options.bind,
        fork: options.fork,
    };
    Ok(control.run(control_requests).await)
}

async fn heartbeat(endpoint: &str) -> Result<()> {
    let mut socket = RepSocket::new();
    router::unlink(endpoint);
    socket.bind(endpoint).await?;
    tokio::spawn(async move {
        loop {
            if let Ok(beat) = socket.recv().await {
                let _ = socket.send(beat).await;
            }
        }
    });
    Ok(())
}

struct Control {
    replies: Replies,
    iopub: Iopub,
    maker: Maker,
    interrupter: Interrupter,
    ignore_shutdown: Arc<AtomicBool>,
    state: State,
    bind: BindMode,
    fork: ForkMode,
}

impl Control {
    /// Ends with the exit code when a `shutdown_request` has been answered.
    async fn run(mut self, mut requests: mpsc::Receiver<Request>) -> i32 {
        while let Some(request) = requests.recv().await {
            let shutdown = request.msg_type == "shutdown_request";
            if shutdown && self.ignore_shutdown.load(Ordering::Relaxed) {
                continue;
            }
            self.answer(&request).await;
            if shutdown {
                break;
            }
        }
        self.iopub.flush().await;
        tokio::time::sleep(LINGER).await;
        0
    }

    async fn answer(&mut self, request: &Request) {
        let parent = &request.parts.header;
        let content: Value = serde_json::from_slice(&request.parts.content).unwrap_or_default();
        // A bound kernel shows no trace of it.
        let quiet = request.msg_type == "himalia_bind_request" && self.bind != BindMode::Noisy;
        if !quiet {
            self.iopub.status(parent, "busy").await;
        }
        let reply = match request.msg_type.as_str() {
            "interrupt_request" => {
                self.interrupter.interrupt();
                Some(json!({ "status": "ok" }))
            }
            "shutdown_request" => {
                let restart = content.get("restart").and_then(Value::as_bool).unwrap_or(false);
                Some(json!({ "status": "ok", "restart": restart }))
            }
            "himalia_bind_request" => self.state.bind(self.bind, &content),
            "himalia_fork_request" => Some(self.state.fork(self.fork, &content).await),
            other => requests::answer(other, &content),
        };
        if let (Some(reply), Some(kind)) = (reply, request.msg_type.strip_suffix("_request")) {
            let reply = self.maker.message(&format!("{kind}_reply"), parent, &reply);
            // The asker may be gone.
            let _ = self.replies.send(&request.identities, &reply).await;
            if kind == "shutdown" {
                self.iopub.send(reply, "kernel.fake.shutdown_reply").await;
            }
        }
        if !quiet {
            self.iopub.status(parent, "idle").await;
        }
    }
}
