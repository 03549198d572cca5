//! Questions to kernels: variables, completion, inspection.

use std::time::Duration;

use crate::access::Object;
use himalia_executions::{
    COMPLETE, Completion, INSPECT, Inspection, VARIABLES, VariablePage, VariableQuery, VariablesReply,
    code_of, completion, content_of, inspection, list_request, listed, paged,
};
use himalia_kernel::{Answer, Command, CommandError, Phase, Question, Reply};
use himalia_model::{Action, EngineError, KernelId, Principal};
use himalia_session::SessionKernel;
use himalia_wire::Channel;
use tokio::time::timeout;

use super::Commands;

/// How long a kernel may take for its variables; it gives up itself after 10 s.
const CONTROL_WAIT: Duration = Duration::from_secs(15);
/// How long a completion may wait behind code that runs.
const SHELL_WAIT: Duration = Duration::from_secs(10);
/// What the way to the kernel may take beyond that.
const SLACK: Duration = Duration::from_secs(5);

impl Commands {
    pub(crate) async fn variables(
        &self,
        principal: &Principal,
        kernel: KernelId,
        offset: u64,
        limit: u64,
    ) -> Result<VariablesReply, EngineError> {
        self.allow(principal, Action::Read, Object::Kernel(kernel))?;
        let (reply, incarnation) = self
            .ask(
                principal,
                kernel,
                Channel::Control,
                VARIABLES,
                list_request(offset, limit),
            )
            .await?;
        match content_of(&reply.content)? {
            Ok(content) => listed(content, (offset, limit), incarnation),
            Err(refusal) => Err(VariableQuery::default().refused("", &refusal)),
        }
    }

    pub(crate) async fn variable(
        &self,
        principal: &Principal,
        kernel: KernelId,
        name: &str,
        query: &VariableQuery,
    ) -> Result<VariablePage, EngineError> {
        self.allow(principal, Action::Read, Object::Kernel(kernel))?;
        let (reply, incarnation) = self
            .ask(
                principal,
                kernel,
                Channel::Control,
                VARIABLES,
                query.content(name),
            )
            .await?;
        match content_of(&reply.content)? {
            Ok(content) => paged(content, reply.buffers, query.arrow, incarnation),
            Err(refusal) => Err(query.refused(name, &refusal)),
        }
    }

    pub(crate) async fn complete(
        &self,
        principal: &Principal,
        kernel: KernelId,
        code: &str,
        cursor: Option<u64>,
    ) -> Result<Completion, EngineError> {
        self.allow(principal, Action::Execute, Object::Kernel(kernel))?;
        let content = code_of(code, cursor, None)?;
        let (reply, _) = self
            .ask(principal, kernel, Channel::Shell, COMPLETE, content)
            .await?;
        completion(content_of(&reply.content)?)
    }

    pub(crate) async fn inspect(
        &self,
        principal: &Principal,
        kernel: KernelId,
        code: &str,
        cursor: Option<u64>,
        detail: u8,
    ) -> Result<Inspection, EngineError> {
        self.allow(principal, Action::Execute, Object::Kernel(kernel))?;
        let content = code_of(code, cursor, Some(detail))?;
        let (reply, _) = self
            .ask(principal, kernel, Channel::Shell, INSPECT, content)
            .await?;
        inspection(content_of(&reply.content)?)
    }

    /// Asks a kernel one thing and waits for its reply, a bounded time. Gives the kernel process that answered, too.
    async fn ask(
        &self,
        principal: &Principal,
        kernel: KernelId,
        channel: Channel,
        msg_type: &'static str,
        content: serde_json::Value,
    ) -> Result<(Reply, u32), EngineError> {
        self.inner.check_open()?;
        let handle = self.handle(principal, kernel)?;
        let wait = if channel == Channel::Control {
            CONTROL_WAIT
        } else {
            SHELL_WAIT
        };
        let late = || match channel {
            Channel::Shell => EngineError::Busy {
                reason: format!("the kernel did not come to it within {} s", wait.as_secs()),
            },
            _ => EngineError::Timeout {
                what: "the kernel's answer",
                seconds: wait.as_secs(),
            },
        };
        let asked = timeout(wait + SLACK, async {
            let mut snapshot = handle.snapshot.clone();
            // A kernel that has just been started answers when it is ready.
            let usable =
                snapshot.wait_for(|now| now.ready || matches!(now.phase, Phase::Dead | Phase::Ended));
            if timeout(wait, usable).await.is_err() {
                return Some(Err(CommandError::NoAnswer));
            }
            let question = Question {
                channel,
                msg_type,
                content,
                wait: u64::try_from(wait.as_micros()).unwrap_or(u64::MAX),
            };
            handle.order(Command::Ask(Box::new(question))).await
        });
        let outcome = asked.await.map_err(|_| late())?;
        match outcome {
            Some(Ok(Answer::Replied(reply))) => Ok((*reply, handle.snapshot.borrow().incarnation)),
            Some(Ok(_)) | None => Err(self.inner.over(&handle)),
            Some(Err(CommandError::NoAnswer)) => Err(late()),
            Some(Err(CommandError::NotKnown)) => Err(EngineError::Unsupported {
                reason: format!("this kernel does not know {msg_type}"),
            }),
            Some(Err(error @ (CommandError::ControlSilent | CommandError::TooManyQuestions))) => {
                Err(EngineError::Busy {
                    reason: error.to_string(),
                })
            }
            Some(Err(CommandError::NotRunning)) => Err(self.not_running(&handle)),
            Some(Err(other)) => Err(EngineError::unavailable(other.to_string())),
        }
    }

    /// Why a kernel has no process that could answer.
    fn not_running(&self, handle: &SessionKernel) -> EngineError {
        let (phase, reason) = {
            let snapshot = handle.snapshot.borrow();
            (snapshot.phase, snapshot.reason.clone())
        };
        match phase {
            Phase::Ended | Phase::Stopping => self.inner.over(handle),
            Phase::Dead => EngineError::KernelDead {
                cause: reason.unwrap_or_default(),
            },
            _ => EngineError::unavailable("the kernel's process is being replaced"),
        }
    }
}
