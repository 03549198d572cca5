//! Requests of code in a sandbox: the caller is the kernel of the connection.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use himalia_egress::Body;
use himalia_executions::{Ask, DEFAULT_PROMPT_TIME, PromptId, PromptInfo};
use himalia_kernel::{Answer, Command};
use himalia_model::{
    ApiServers, CallTool, EngineError, FoundTools, LlmError, LlmErrorCode, ServerToolsPage, Session,
    ToolCaller, ToolError, ToolErrorCode, ToolInfo, ToolReply,
};
use himalia_sandbox_api::{AskModel, AskPerson, Door, RunOfSkill, SessionApi};
use http::Response;
use serde_json::Value;

use super::Tools;
use crate::prompts::prompt_error;
use crate::skills::{SessionSkills, SkillCaller};
use crate::{Llm, SessionKernel, SessionManager};

/// A kernel, as the door of its sandbox sees it.
struct SandboxTools {
    kernel: Weak<SessionKernel>,
    tools: Arc<Tools>,
    skills: Arc<OnceLock<Arc<dyn SessionSkills>>>,
    llm: Arc<Llm>,
}

impl SessionManager {
    pub(crate) fn door(&self, kernel: &Arc<SessionKernel>) -> Door {
        Door::new(Arc::new(SandboxTools {
            kernel: Arc::downgrade(kernel),
            tools: Arc::clone(&self.tools),
            skills: Arc::clone(&self.services.skills),
            llm: Arc::clone(&self.services.llm),
        }))
    }
}

impl SandboxTools {
    fn kernel(&self) -> Result<Arc<SessionKernel>, EngineError> {
        let kernel = self.kernel.upgrade().filter(|kernel| !kernel.ends());
        kernel.ok_or_else(|| EngineError::unavailable("the session has ended"))
    }

    fn session(&self) -> Result<Arc<Session>, EngineError> {
        Ok(self.kernel()?.session())
    }

    /// The session, if it may run skills, and the runner of skills.
    fn with_skills(&self) -> Result<(SkillCaller, &Arc<dyn SessionSkills>), EngineError> {
        let kernel = self.kernel()?;
        if kernel.session().sandbox.skills.is_none() {
            let error = ToolError::new(ToolErrorCode::Denied, "this session may not run skills");
            let hint = "The operator permits it in the template (skills); code of a skill may run those that it declares.";
            return Err(EngineError::tool(error.with_hint(hint)));
        }
        let skills = self.skills.get();
        let skills = skills.ok_or_else(|| EngineError::unavailable("the gateway is starting"))?;
        Ok((SkillCaller { kernel }, skills))
    }

    /// Gives an order that brings a prompt.
    async fn prompted(&self, command: Command) -> Result<Value, EngineError> {
        let kernel = self.kernel()?;
        let answered = kernel.order(command).await;
        let id = kernel.handle().id();
        match answered {
            Some(Ok(Answer::Prompt(status))) => serde_json::to_value(PromptInfo::new(id, *status))
                .map_err(|error| EngineError::internal("cannot write a prompt as JSON", error)),
            Some(Err(error)) => Err(prompt_error(error)),
            Some(Ok(_)) | None => Err(EngineError::unavailable("the session has ended")),
        }
    }
}

impl SessionApi for SandboxTools {
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
                    .map_err(|_| EngineError::bad_request("timeout_s", "must be a time above 0"))?,
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

    fn skills(&self) -> BoxFuture<'_, Result<Value, EngineError>> {
        Box::pin(async {
            let (caller, skills) = self.with_skills()?;
            skills.list(caller).await
        })
    }

    fn skill(&self, name: String, version: Option<String>) -> BoxFuture<'_, Result<Value, EngineError>> {
        Box::pin(async move {
            let (caller, skills) = self.with_skills()?;
            skills.show(caller, name, version).await
        })
    }

    fn run_skill(
        &self,
        name: String,
        wanted: RunOfSkill,
        wait: Duration,
    ) -> BoxFuture<'_, Result<Value, EngineError>> {
        Box::pin(async move {
            let (caller, skills) = self.with_skills()?;
            skills.run(caller, name, wanted, wait).await
        })
    }

    fn skill_run(&self, id: String, wait: Duration) -> BoxFuture<'_, Result<Value, EngineError>> {
        Box::pin(async move {
            let (caller, skills) = self.with_skills()?;
            skills.look(caller, id, wait).await
        })
    }

    fn stop_skill_run(&self, id: String) -> BoxFuture<'_, Result<Value, EngineError>> {
        Box::pin(async move {
            let (caller, skills) = self.with_skills()?;
            skills.stop(caller, id).await
        })
    }

    fn call_tool(&self, call: CallTool) -> BoxFuture<'_, Result<ToolReply, EngineError>> {
        Box::pin(async move {
            let kernel = self.kernel()?;
            self.tools.call(&kernel, ToolCaller::Code, call, None).await
        })
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<String>, LlmError>> {
        Box::pin(async { Ok(self.llm.names(&*self.session().map_err(|error| ended(&error))?)) })
    }

    fn ask_model(&self, asked: AskModel) -> BoxFuture<'_, Result<Response<Body>, LlmError>> {
        Box::pin(async move {
            self.llm
                .ask(&self.kernel().map_err(|error| ended(&error))?, asked)
                .await
        })
    }
}

fn ended(error: &EngineError) -> LlmError {
    LlmError::new(LlmErrorCode::Unavailable, error.to_string())
}
