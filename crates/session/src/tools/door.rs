//! What code in a sandbox asks for: the kernel whose connection it is, is the caller.

use std::sync::{Arc, Weak};

use futures_util::future::BoxFuture;
use himalia_model::{
    ApiServers, CallTool, EngineError, FoundTools, Session, ToolCaller, ToolInfo, ToolReply,
};
use himalia_sandbox_api::{Door, SessionApi};

use super::Tools;
use crate::SessionKernel;

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
}

impl SessionApi for Inside {
    fn tool_servers(&self) -> BoxFuture<'_, Result<ApiServers, EngineError>> {
        Box::pin(async { Ok(self.tools.list(&self.session()?)) })
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

    fn call_tool(&self, call: CallTool) -> BoxFuture<'_, Result<ToolReply, EngineError>> {
        Box::pin(async move {
            let kernel = self.kernel()?;
            self.tools.call(&kernel, ToolCaller::Code, call).await
        })
    }
}
