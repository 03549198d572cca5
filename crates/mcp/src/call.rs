//! One call of a tool.

use std::sync::{Arc, OnceLock};

use himalia_engine::{
    About, Engine, ExecutionId, KernelId, PeerSessions, Principal, Span, SpanKind, TraceContext,
};
use himalia_runs::Runs;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, InputResponses, JsonObject,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;
use crate::result::for_programs;
use crate::state::States;

/// Inputs of a tool.
pub(crate) struct Call {
    pub(crate) engine: Engine,
    pub(crate) runs: Runs,
    /// On whose behalf.
    pub(crate) principal: Principal,
    /// Arguments of the client.
    pub(crate) arguments: JsonObject,
    /// Answers of the client's user, in the second round of a call.
    pub(crate) answers: Option<InputResponses>,
    /// State that the round before left with the client, sealed.
    pub(crate) state: Option<String>,
    /// Seals states.
    pub(crate) states: States,
    /// The request and the way back to the client; its token is cancelled when the client has left or does not want the answer.
    pub(crate) context: RequestContext<RoleServer>,
    /// Cancelled when the gateway stops.
    pub(crate) shutdown: CancellationToken,
    /// Subject of the answer.
    pub(crate) subject: Subject,
}

/// Subject of the answer to a call, as far as its tool has found it.
#[derive(Clone, Default)]
pub(crate) struct Subject(Arc<FoundSubject>);

#[derive(Default)]
struct FoundSubject {
    kernel: OnceLock<KernelId>,
    execution: OnceLock<ExecutionId>,
}

impl Subject {
    /// A kernel of a session, unless the answer is about an execution.
    pub(crate) fn is_kernel(&self, id: KernelId) {
        let _ = self.0.kernel.set(id);
    }

    pub(crate) fn is_execution(&self, id: ExecutionId) {
        let _ = self.0.execution.set(id);
    }

    /// `None`: neither session nor execution.
    pub(crate) fn about(&self) -> Option<About> {
        let execution = self.0.execution.get().map(|id| About::Execution(*id));
        execution.or_else(|| self.0.kernel.get().map(|id| About::Kernel(*id)))
    }
}

impl Call {
    /// Creates the call of an authenticated request. One without a principal is refused, so that a mount that forgets to authenticate fails closed.
    pub(crate) fn new(
        runs: Runs,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
        states: States,
        shutdown: CancellationToken,
    ) -> Result<Self, ErrorData> {
        Ok(Self {
            engine: runs.engine().clone(),
            runs,
            principal: principal(&context)?,
            arguments: request.arguments.unwrap_or_default(),
            answers: request.input_responses,
            state: request.request_state,
            states,
            context,
            shutdown,
            subject: Subject::default(),
        })
    }

    /// Begins the span of the call: below the one that the client names in `_meta` (`traceparent`), or below the request.
    pub(crate) fn trace(&mut self, tool: &'static str) -> Option<Span> {
        let named = self
            .context
            .meta
            .get("traceparent")
            .and_then(|value| value.as_str());
        let parent = named.and_then(|text| text.parse::<TraceContext>().ok());
        let parent = parent.or_else(|| self.principal.trace());
        let name = format!("tools/call {tool}");
        let mut span = self.engine.traces().begin(name, SpanKind::Server, parent)?;
        span.set("mcp.method.name", "tools/call");
        span.set("gen_ai.tool.name", tool);
        self.principal = self.principal.clone().traced(span.context());
        Some(span)
    }

    /// Name of the client: from the header of its request, or as the protocol has it.
    pub(crate) fn client(&self) -> Option<String> {
        let parts = self.context.extensions.get::<http::request::Parts>();
        let header = parts.and_then(|parts| parts.headers.get("x-himalia-caller"));
        let header = header.and_then(|name| std::str::from_utf8(name.as_bytes()).ok());
        if let Some(name) = header {
            return Some(name.to_owned());
        }
        let told = self.context.meta.client_info()?;
        Some(format!("{} {}", told.name, told.version))
    }

    pub(crate) fn take_arguments(&mut self) -> JsonObject {
        std::mem::take(&mut self.arguments)
    }
}

/// Caller of the request, set by the mount.
pub(crate) fn principal(context: &RequestContext<RoleServer>) -> Result<Principal, ErrorData> {
    let parts = context.extensions.get::<http::request::Parts>();
    let principal = parts.and_then(|parts| parts.extensions.get::<Principal>());
    principal
        .cloned()
        .ok_or_else(|| ErrorData::internal_error("the request was not authenticated", None))
}

/// The sessions of other replicas, where the code in front of the service has asked for them.
pub(crate) fn peer_sessions(context: &RequestContext<RoleServer>) -> PeerSessions {
    let parts = context.extensions.get::<http::request::Parts>();
    let found = parts.and_then(|parts| parts.extensions.get::<PeerSessions>());
    found.cloned().unwrap_or_default()
}

pub(crate) type Answer = Result<CallToolResponse, Failure>;

/// An answer in both forms: a text for the model, and JSON for programs.
pub(crate) fn answer(body: Value, text: String) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    for_programs(&mut result, body);
    result
}
