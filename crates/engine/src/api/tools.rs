//! Tools of sessions, for clients of the gateway.

use std::sync::Arc;

use crate::access::Object;
use himalia_model::{
    Action, ApiServers, CallTool, EngineError, FoundTools, KernelId, Principal, ToolCaller, ToolInfo,
    ToolReply,
};
use himalia_session::SessionKernel;

use super::Commands;
use crate::Engine;

impl Engine {
    /// Whether any server of tools is configured.
    pub fn has_tools(&self) -> bool {
        !self.commands.inner.tools.is_empty()
    }
}

impl Commands {
    fn kernel_with_tools(
        &self,
        principal: &Principal,
        action: Action,
        kernel: KernelId,
    ) -> Result<Arc<SessionKernel>, EngineError> {
        self.allow(principal, action, Object::Kernel(kernel))?;
        self.handle(principal, kernel)
    }

    #[expect(clippy::unused_async, reason = "as the other commands of a session")]
    pub(crate) async fn tool_servers(
        &self,
        principal: &Principal,
        kernel: KernelId,
    ) -> Result<ApiServers, EngineError> {
        let kernel = self.kernel_with_tools(principal, Action::Read, kernel)?;
        Ok(self.inner.tools.list(&kernel.session()))
    }

    #[expect(clippy::unused_async, reason = "as the other commands of a session")]
    pub(crate) async fn search_tools(
        &self,
        principal: &Principal,
        kernel: KernelId,
        server: Option<&str>,
        query: &str,
        limit: usize,
    ) -> Result<FoundTools, EngineError> {
        let kernel = self.kernel_with_tools(principal, Action::Read, kernel)?;
        self.inner.tools.search(&kernel.session(), server, query, limit)
    }

    #[expect(clippy::unused_async, reason = "as the other commands of a session")]
    pub(crate) async fn tool_info(
        &self,
        principal: &Principal,
        kernel: KernelId,
        id: &str,
    ) -> Result<ToolInfo, EngineError> {
        let kernel = self.kernel_with_tools(principal, Action::Read, kernel)?;
        self.inner.tools.info(&kernel.session(), id)
    }

    pub(crate) async fn call_tool(
        &self,
        principal: &Principal,
        kernel: KernelId,
        call: CallTool,
    ) -> Result<ToolReply, EngineError> {
        let kernel = self.kernel_with_tools(principal, Action::Execute, kernel)?;
        let trace = principal.trace();
        self.inner
            .tools
            .call(&kernel, ToolCaller::Model, call, trace)
            .await
    }
}
