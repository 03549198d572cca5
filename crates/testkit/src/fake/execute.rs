//! The shell channel: one request after the other, and the life of an execution.

use std::collections::VecDeque;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::branch::State;
use super::interrupt::{Interrupted, Interrupter, Interrupts};
use super::iopub::Iopub;
use super::maker::Maker;
use super::requests;
use super::router::{Replies, Request};
use super::script;

/// What a step raised, as a kernel tells it.
#[derive(Debug, Clone)]
pub(super) struct Raised {
    pub(super) name: String,
    pub(super) message: String,
}

impl Raised {
    pub(super) fn new(name: &str, message: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            message: message.into(),
        }
    }
}

impl From<Interrupted> for Raised {
    fn from(_: Interrupted) -> Self {
        Self::new("KeyboardInterrupt", "")
    }
}

impl From<std::io::Error> for Raised {
    fn from(error: std::io::Error) -> Self {
        Self::new("OSError", error.to_string())
    }
}

#[derive(Debug, Deserialize)]
#[allow(clippy::struct_excessive_bools)] // As the protocol has it.
pub(super) struct ExecuteRequest {
    #[serde(default)]
    pub(super) code: String,
    #[serde(default)]
    pub(super) silent: bool,
    #[serde(default = "yes")]
    pub(super) store_history: bool,
    #[serde(default = "yes")]
    pub(super) allow_stdin: bool,
    #[serde(default = "yes")]
    pub(super) stop_on_error: bool,
}

fn yes() -> bool {
    true
}

/// The state of the shell, which is the state of the "interpreter".
pub(super) struct Shell {
    requests: mpsc::Receiver<Request>,
    /// Requests that were taken out of the queue and are not executions.
    waiting: VecDeque<Request>,
    pub(super) replies: Replies,
    pub(super) stdin: Replies,
    pub(super) answers: mpsc::Receiver<Request>,
    pub(super) iopub: Iopub,
    pub(super) maker: Maker,
    pub(super) interrupts: Interrupts,
    pub(super) interrupter: Interrupter,
    pub(super) ignore_shutdown: Arc<AtomicBool>,
    pub(super) state: State,
    pub(super) held: Vec<Vec<u8>>,
    pub(super) children: Vec<Child>,
    pub(super) count: u64,
}

impl Shell {
    #[allow(clippy::too_many_arguments)]
    pub(super) fn new(
        requests: mpsc::Receiver<Request>,
        replies: Replies,
        stdin: Replies,
        answers: mpsc::Receiver<Request>,
        iopub: Iopub,
        maker: Maker,
        interrupts: Interrupts,
        interrupter: Interrupter,
        ignore_shutdown: Arc<AtomicBool>,
        state: State,
    ) -> Self {
        Self {
            requests,
            waiting: VecDeque::new(),
            replies,
            stdin,
            answers,
            iopub,
            maker,
            interrupts,
            interrupter,
            ignore_shutdown,
            state,
            held: Vec::new(),
            children: Vec::new(),
            count: 0,
        }
    }

    /// Answers requests for ever.
    pub(super) async fn run(mut self) {
        loop {
            let request = match self.waiting.pop_front() {
                Some(request) => request,
                None => match self.requests.recv().await {
                    Some(request) => request,
                    None => return,
                },
            };
            for queued in self.handle(&request).await {
                if queued.msg_type == "execute_request" {
                    self.abort(&queued).await;
                } else {
                    self.waiting.push_back(queued);
                }
            }
        }
    }

    /// The value is what was queued when the request failed, and is to be aborted.
    async fn handle(&mut self, request: &Request) -> Vec<Request> {
        let parent = request.parts.header.clone();
        // Before anyone can see that this request runs.
        self.interrupts.clear();
        self.iopub.status(&parent, "busy").await;
        let mut aborted = Vec::new();
        if request.msg_type == "execute_request" {
            aborted = self.execute(request, &parent).await;
        } else if request.msg_type.starts_with("comm_") && request.msg_type != "comm_info_request" {
            // Comms come back as they were sent.
            let mut echo = self
                .maker
                .raw(&request.msg_type, &parent, request.parts.content.clone());
            echo.buffers.clone_from(&request.parts.buffers);
            self.iopub.send(echo, "comm").await;
        } else {
            let content: Value = serde_json::from_slice(&request.parts.content).unwrap_or_default();
            if let Some(reply) = requests::answer(&request.msg_type, &content) {
                let kind = request.msg_type.trim_end_matches("_request");
                self.reply(request, &format!("{kind}_reply"), &reply).await;
            }
        }
        self.iopub.status(&parent, "idle").await;
        aborted
    }

    async fn abort(&mut self, request: &Request) {
        let parent = request.parts.header.clone();
        self.iopub.status(&parent, "busy").await;
        self.reply(request, "execute_reply", &json!({ "status": "aborted" }))
            .await;
        self.iopub.status(&parent, "idle").await;
    }

    async fn execute(&mut self, request: &Request, parent: &Bytes) -> Vec<Request> {
        let asked: ExecuteRequest = match serde_json::from_slice(&request.parts.content) {
            Ok(asked) => asked,
            Err(error) => {
                let raised = Raised::new("ValueError", error.to_string());
                self.reply(request, "execute_reply", &self.error(&raised)).await;
                return Vec::new();
            }
        };
        if !asked.silent {
            if asked.store_history {
                self.count += 1;
            }
            let input = json!({ "code": asked.code, "execution_count": self.count });
            let input = self.maker.message("execute_input", parent, &input);
            self.iopub.send(input, "kernel.fake.execute_input").await;
        }
        let outcome = match script::parse(&asked.code) {
            Ok(steps) => self.steps(steps, request, &asked).await,
            Err(message) => Err(Raised::new("SyntaxError", message)),
        };
        match outcome {
            Ok(()) => {
                let reply = json!({
                    "status": "ok",
                    "execution_count": self.count,
                    "user_expressions": {},
                    "payload": [],
                });
                self.reply(request, "execute_reply", &reply).await;
                Vec::new()
            }
            Err(raised) => {
                // An error aborts the executions that are queued by now; one that is sent after the reply runs.
                // (ipykernel decides a little later, so that a quick client may be hit.)
                let queued = if asked.stop_on_error {
                    self.queued().await
                } else {
                    Vec::new()
                };
                let error = self.error(&raised);
                let published = json!({
                    "ename": raised.name,
                    "evalue": raised.message,
                    "traceback": error["traceback"],
                });
                self.iopub
                    .send(
                        self.maker.message("error", parent, &published),
                        "kernel.fake.error",
                    )
                    .await;
                self.reply(request, "execute_reply", &error).await;
                queued
            }
        }
    }

    async fn queued(&mut self) -> Vec<Request> {
        // The reader may hold one.
        tokio::task::yield_now().await;
        let mut queued: Vec<Request> = self.waiting.drain(..).collect();
        while let Ok(request) = self.requests.try_recv() {
            queued.push(request);
        }
        queued
    }

    fn error(&self, raised: &Raised) -> Value {
        json!({
            "status": "error",
            "ename": raised.name,
            "evalue": raised.message,
            "traceback": [format!("{}: {}", raised.name, raised.message)],
            "execution_count": self.count,
            "user_expressions": {},
            "payload": [],
        })
    }

    async fn reply(&mut self, request: &Request, msg_type: &str, content: &Value) {
        let reply = self.maker.message(msg_type, &request.parts.header, content);
        // The asker may be gone.
        let _ = self.replies.send(&request.identities, &reply).await;
    }
}
