//! What code in a sandbox asks for: the kernel whose connection it is, is the caller.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use himalia_executions::{Ask, DEFAULT_PROMPT_TIME, PromptId, PromptInfo};
use himalia_kernel::{Answer, Command};
use himalia_model::{
    ApiServers, CallTool, EngineError, FoundTools, ServerToolsPage, Session, ToolCaller, ToolInfo, ToolReply,
};
use himalia_sandbox_api::{AskPerson, Door, SessionApi};
use serde_json::Value;

use super::Tools;
use crate::SessionKernel;
use crate::prompts::prompt_error;

/// A kernel, as the door of its sandbox sees it.
struct Inside {
    kernel: Weak<SessionKernel>,
    tools: Arc<Tools>,
}

impl Tools {
    /// The door of a kernel's sandbox.
    pub(crate) fn door(self: &Arc<Self>, kernel: &Arc<SessionKernel>) -> Door {
        Door::new(Arc::new(Inside {
            kernel: Arc::downgrade(kernel),
            tools: Arc::clone(self),
        }))
    }
}

impl Inside {
    fn kernel(&self) -> Result<Arc<SessionKernel>, EngineError> {
        let kernel = self.kernel.upgrade().filter(|kernel| !kernel.ends());
        kernel.ok_or_else(|| EngineError::unavailable("the session has ended"))
    }

    fn session(&self) -> Result<Arc<Session>, EngineError> {
        Ok(self.kernel()?.session())
    }

    /// Gives an order that brings a prompt.
    async fn prompted(&self, command: Command) -> Result<Value, EngineError> {
        let kernel = self.kernel()?;
        let answered = kernel.order(command).await;
        let id = kernel.handle().id();
        match answered {
            Some(Ok(Answer::Prompt(status))) => serde_json::to_value(PromptInfo::new(id, *status))
                .map_err(|error| EngineError::internal("a prompt is no JSON", error)),
            Some(Err(error)) => Err(prompt_error(error)),
            Some(Ok(_)) | None => Err(EngineError::unavailable("the session has ended")),
        }
    }
}

impl SessionApi for Inside {
    fn tool_servers(&self) -> BoxFuture<'_, Result<ApiServers, EngineError>> {
        Box::pin(async { Ok(self.tools.list(&self.session()?)) })
    }

    fn tools_of_server(
        &self,
        server: String,
        after: String,
    ) -> BoxFuture<'_, Result<ServerToolsPage, EngineError>> {
        Box::pin(async move { self.tools.schemas(&self.session()?, &server, &after) })
    }

    fn search_tools(
        &self,
        server: Option<String>,
        query: String,
        limit: usize,
    ) -> BoxFuture<'_, Result<FoundTools, EngineError>> {
        Box::pin(async move {
            let session = self.session()?;
            self.tools.search(&session, server.as_deref(), &query, limit)
        })
    }

    fn tool_info(&self, id: String) -> BoxFuture<'_, Result<ToolInfo, EngineError>> {
        Box::pin(async move { self.tools.info(&self.session()?, &id) })
    }

    fn ask(&self, wanted: AskPerson) -> BoxFuture<'_, Result<Value, EngineError>> {
        Box::pin(async move {
            let time = match wanted.timeout_s {
                None => DEFAULT_PROMPT_TIME,
                Some(seconds) => Duration::try_from_secs_f64(seconds)
                    .map_err(|_| EngineError::bad_request("timeout_s", "is no time above 0"))?,
            };
            let ask = Ask {
                text: wanted.text,
                options: wanted.options,
                time,
                key: wanted.key,
            };
            self.prompted(Command::Prompt(Box::new(ask.prompt()?))).await
        })
    }

    fn prompt(&self, id: String, wait: Duration) -> BoxFuture<'_, Result<Value, EngineError>> {
        Box::pin(async move {
            let prompt: PromptId = id.parse()?;
            if prompt.kernel != self.kernel()?.handle().id() {
                return Err(EngineError::no_prompt(&id));
            }
            let wait = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
            let seq = prompt.seq;
            let found = self.prompted(Command::AwaitPrompt { seq, wait }).await;
            found.map_err(|error| match error {
                EngineError::NotFound { .. } => EngineError::no_prompt(&id),
                other => other,
            })
        })
    }

    fn call_tool(&self, call: CallTool) -> BoxFuture<'_, Result<ToolReply, EngineError>> {
        Box::pin(async move {
            let kernel = self.kernel()?;
            self.tools.call(&kernel, ToolCaller::Code, call).await
        })
    }
}
