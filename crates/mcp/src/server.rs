//! Implements the server trait of the SDK.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use himalia_engine::{Engine, EngineError, Principal, panic_text};
use himalia_runs::Runs;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestParams, CompleteResult,
    CompletionInfo, DiscoverResult, GetPromptRequestParams, GetPromptResponse, Implementation,
    InitializeRequestParams, InitializeResult, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams,
    ReadResourceResponse, ServerCapabilities, ServerConfig, SubscriptionFilter, Tool,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, Span};

use crate::asking::Service;
use crate::call::{Call, peer_sessions, principal};
use crate::failure::Failure;
use crate::state::States;
use crate::{limits, prompts, resources, tools};

/// Clients may show it to models.
const INSTRUCTIONS: &str = "Code runs in live sessions: variables stay in memory between calls until the session's kernel \
process is replaced; every result reports that. Name the session in each call; session(op=\"list\") lists all sessions. \
Analyse in stages: load once, then look, then compute. Long work: background=true, then get_output with wait_s.";

/// The endpoint over an engine and its runs. The request's extensions must hold the [`Principal`](himalia_engine::Principal) on whose
/// behalf it comes; host and origin must have been checked. Log lines are in the [`Span`] of the extensions. When `shutdown` is cancelled, calls that wait are answered with
/// what there is. `secret` seals the states that clients keep between two rounds of a call; gateways that serve each other's clients share it.
///
/// # Errors
/// The secret has fewer than 32 bytes.
pub fn service(runs: Runs, secret: &[u8], shutdown: CancellationToken) -> Result<Service, String> {
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        // The mount has checked them, for names that it knows.
        .disable_allowed_hosts()
        .with_max_request_body_bytes(limits::MESSAGE_BYTES);
    let server = Server {
        engine: runs.engine().clone(),
        runs,
        states: States::new(secret)?,
        shutdown,
    };
    let states = server.states.clone();
    let sessions = Arc::new(NeverSessionManager::default());
    let inner = StreamableHttpService::new(move || Ok(server.clone()), sessions, config);
    Ok(Service::new(inner, states))
}

/// Answers MCP requests.
#[derive(Clone, Debug)]
pub struct Server {
    engine: Engine,
    runs: Runs,
    states: States,
    shutdown: CancellationToken,
}

impl Server {
    /// Features that decide which tools this caller sees.
    async fn features(
        &self,
        principal: &Principal,
        span: Span,
    ) -> Result<tools::AvailableFeatures, EngineError> {
        let found = guarded("the list of tools", span, async {
            let skills = self.runs.skills(principal, None).await;
            let workflows = self.runs.workflows(principal).await;
            tools::AvailableFeatures {
                skills: skills.is_ok_and(|skills| !skills.is_empty()),
                workflows: workflows.is_ok_and(|workflows| !workflows.is_empty()),
                upstream: self.engine.has_tools(),
            }
        });
        found.await
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_prompts()
            .enable_completions()
            .build();
        let identity = Implementation::new("himalia", env!("CARGO_PKG_VERSION")).with_title("Himalia");
        ServerConfig::new(capabilities)
            .with_server_info(identity)
            .with_instructions(INSTRUCTIONS)
    }

    /// Clients that begin with `initialize` are notified of nothing: they have no stream.
    fn negotiate_initialize(&self, request: &InitializeRequestParams) -> Result<InitializeResult, ErrorData> {
        let mut info = self.get_info();
        if let Some(tools) = &mut info.capabilities.tools {
            tools.list_changed = None;
        }
        let asked = &request.protocol_version;
        let is_known = ProtocolVersion::KNOWN_VERSIONS.contains(asked) && asked.has_initialize();
        info.protocol_version = if is_known {
            asked.clone()
        } else {
            ProtocolVersion::LATEST_WITH_INITIALIZE
        };
        Ok(info)
    }

    async fn discover(&self, _: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        let versions = self.supported_protocol_versions().into_owned();
        let found = DiscoverResult::from_server_info(versions, self.get_info());
        Ok(found.with_ttl_ms(limits::FRESH_DISCOVERY_MS))
    }

    fn accepted_subscription_filter(&self, _: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(SubscriptionFilter::builder().tools_list_changed().build())
    }

    /// Sends a notification when the caller's list of tools is another one, which skills and workflows decide. Any replica may have published
    /// them, so the database is asked.
    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let request = context.request_context();
        let (principal, span) = (principal(request)?, span_of(request));
        let held = self.engine.hold_stream(&principal);
        let _place = held.map_err(|error| internal(&error))?;
        let mut last = self.features(&principal, span.clone()).await.ok();
        loop {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                () = self.shutdown.cancelled() => return Ok(()),
                () = sleep(limits::LIST_LOOK) => {}
            }
            // After a failure the last list is still the one that the client has.
            let Ok(now) = self.features(&principal, span.clone()).await else {
                continue;
            };
            if last.replace(now) != Some(now) && context.sink().notify_tool_list_changed().await.is_err() {
                return Ok(());
            }
        }
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::find(name, self.engine.has_tools()).map(tools::ToolEntry::description)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        // A model does not read of a tool that has nothing to give.
        let principal = principal(&context)?;
        let there = self.features(&principal, span_of(&context)).await;
        let there = there.map_err(|error| internal(&error))?;
        Ok(ListToolsResult::with_all_items(tools::all(there)).with_ttl_ms(limits::FRESH_TOOLS_MS))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = tools::find(&request.name, self.engine.has_tools()) else {
            let name: String = request.name.chars().take(64).collect();
            return Err(ErrorData::invalid_params(format!("no such tool: {name}"), None));
        };
        let mut call = Call::new(
            self.runs.clone(),
            request,
            context,
            self.states.clone(),
            self.shutdown.clone(),
        )?;
        let span = call.trace(tool.name);
        let principal = call.principal.clone();
        let subject = call.subject.clone();
        let may_return = self.engine.may_return(&principal);
        let is_counted = may_return.is_ok();
        let answer = match may_return {
            Ok(()) => {
                let name = format!("the tool {}", tool.name);
                guarded(
                    &name,
                    span_of(&call.context),
                    async move { (tool.run)(call).await },
                )
                .await
                .unwrap_or_else(|panicked| Err(Failure::Engine(panicked)))
            }
            Err(error) => Err(Failure::Engine(error)),
        };
        if let (Some(mut span), Err(_)) = (span, &answer) {
            span.fail("tool_error");
        }
        if let Err(Failure::Engine(error)) = &answer
            && error.is_limit()
        {
            self.engine.hold_back(&principal).await;
        }
        let response = match answer {
            Ok(response) => response,
            Err(failure) => failure.into_result()?.into(),
        };
        if is_counted && let CallToolResponse::Complete(result) = &response {
            self.engine
                .returned(&principal, subject.about(), chars(result))
                .await;
        }
        Ok(response)
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let principal = principal(&context)?;
        let all = guarded(
            "the list of prompts",
            span_of(&context),
            prompts::all(&self.runs, &principal),
        );
        let all = all.await.flatten().map_err(|error| internal(&error))?;
        Ok(ListPromptsResult::with_all_items(all).with_ttl_ms(limits::FRESH_TOOLS_MS))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let principal = principal(&context)?;
        let one = prompts::one(&self.runs, &principal, &request.name);
        let one = guarded("a prompt", span_of(&context), one).await;
        Ok(one.map_err(|error| internal(&error))??.into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let principal = principal(&context)?;
        let values = resources::completions(&self.engine, &principal, peer_sessions(&context), &request);
        let values = values.map_err(|error| internal(&error))?;
        let values =
            CompletionInfo::with_all_values(values).map_err(|text| ErrorData::internal_error(text, None))?;
        Ok(CompleteResult::new(values))
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let principal = principal(&context)?;
        let all = resources::sessions(&self.engine, &principal, peer_sessions(&context));
        let all = all.map_err(|error| internal(&error))?;
        Ok(ListResourcesResult::with_all_items(all).with_ttl_ms(limits::FRESH_SESSIONS_MS))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(
            ListResourceTemplatesResult::with_all_items(resources::templates())
                .with_ttl_ms(limits::FRESH_DISCOVERY_MS),
        )
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let principal = principal(&context)?;
        let read = resources::read(&self.engine, &principal, &request.uri);
        let read = guarded("the read of a resource", span_of(&context), read).await;
        Ok(read.map_err(|error| internal(&error))??.into())
    }
}

/// Runs what answers a request, in the span of its log lines. The SDK has a task for it: without an answer in place of a panic, the client
/// would wait for a result that does not come.
async fn guarded<T>(what: &str, span: Span, run: impl Future<Output = T>) -> Result<T, EngineError> {
    let run = AssertUnwindSafe(run).catch_unwind().instrument(span.clone());
    run.await.map_err(|panic| {
        let context = format!("{what} panicked; the gateway's log has the reason");
        span.in_scope(|| EngineError::internal(context, panic_text(&*panic)))
    })
}

/// The span of the log lines of a request, as the mount has given it.
fn span_of(context: &RequestContext<RoleServer>) -> Span {
    let parts = context.extensions.get::<http::request::Parts>();
    let span = parts.and_then(|parts| parts.extensions.get::<Span>());
    span.cloned().unwrap_or_else(Span::none)
}

fn internal(error: &EngineError) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

/// Characters that a model gets: of the text, or of the structured content if that is longer, since clients may show either.
fn chars(result: &CallToolResult) -> u64 {
    let texts = result.content.iter().filter_map(|block| block.as_text());
    let text = texts.map(|text| text.text.chars().count()).sum::<usize>();
    let structured = result.structured_content.as_ref().map(ToString::to_string);
    let structured = structured.map_or(0, |json| json.chars().count());
    text.max(structured) as u64
}

#[cfg(test)]
mod tests {
    use rmcp::model::ContentBlock;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn what_panics_is_answered() {
        let cut = async {
            let empty = std::hint::black_box(Vec::<u8>::new());
            empty[2]
        };
        let error = guarded("the tool cut", Span::none(), cut).await.unwrap_err();
        assert!(matches!(error, EngineError::Internal { .. }), "{error:?}");
        assert!(error.to_string().contains("the tool cut panicked"), "{error}");
        assert_eq!(
            guarded("the tool cut", Span::none(), async { 7 }).await.unwrap(),
            7
        );
    }

    #[test]
    fn a_result_counts_by_what_is_longer_its_text_or_its_structure() {
        let mut result = CallToolResult::success(vec![ContentBlock::text("äbc")]);
        assert_eq!(chars(&result), 3);
        result.structured_content = Some(json!([1, 2, 3]));
        assert_eq!(chars(&result), 7);
        result.structured_content = Some(json!(1));
        assert_eq!(chars(&result), 3);
    }
}
