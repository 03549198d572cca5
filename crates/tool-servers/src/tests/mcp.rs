//! A real server: that of rmcp.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use himalia_upstream::Http;
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, JsonObject,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::json;
use tokio::net::TcpListener;

use super::support::*;
use crate::call::CallError;
use crate::mcp::{Mcp, Signals};

#[derive(Clone, Default)]
struct Calculator {
    /// Whether there is one more tool.
    more: Arc<AtomicBool>,
}

impl ServerHandler for Calculator {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .build();
        ServerConfig::new(capabilities)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema: JsonObject =
            arguments(json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}));
        let mut tools = vec![
            Tool::new("double", "Twice a number.", schema.clone()),
            Tool::new("fail", "Fails.", schema.clone()),
        ];
        if self.more.load(Ordering::SeqCst) {
            tools.push(Tool::new("more", "One more.", schema));
        }
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let a = request
            .arguments
            .as_ref()
            .and_then(|all| all.get("a"))
            .and_then(serde_json::Value::as_i64);
        match (&*request.name, a) {
            ("double", Some(a)) => Ok(CallToolResult::structured(json!({"twice": 2 * a})).into()),
            ("fail", _) => Ok(CallToolResult::error(vec![ContentBlock::text("it is broken")]).into()),
            ("more", _) => {
                self.more.store(true, Ordering::SeqCst);
                let _ = context.peer.notify_tool_list_changed().await;
                Ok(CallToolResult::success(vec![]).into())
            }
            _ => Err(ErrorData::invalid_params("no such tool", None)),
        }
    }
}

struct Real {
    url: String,
    address: String,
    /// All of its connections end with it.
    runtime: Option<tokio::runtime::Runtime>,
}

impl Drop for Real {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn start(address: &str, json_response: bool) -> Real {
    let config = StreamableHttpServerConfig::default().with_json_response(json_response);
    let handler = Calculator::default();
    let service = StreamableHttpService::new(
        move || Ok(handler.clone()),
        Arc::new(LocalSessionManager::default()),
        config,
    );
    let app = axum::Router::new().nest_service("/mcp", service);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let address = address.to_owned();
    let begun = runtime.spawn(async move {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        address
    });
    let address = begun.await.unwrap();
    Real {
        url: format!("http://{address}/mcp"),
        address,
        runtime: Some(runtime),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_of_a_real_server_are_listed_and_called() {
    for json_response in [false, true] {
        let server = start("127.0.0.1:0", json_response).await;
        let servers = ready(&[("calc", &server.url)]).await;
        let tools = &servers.snapshot()[0].tools;
        assert_eq!(tools.tools().len(), 2);
        assert_eq!(tools.get("double").unwrap().check(&json!({}))[0].rule, "required");
        let reply = servers
            .call(ME, "calc", "double", arguments(json!({"a": 21})), LIMITS)
            .await
            .unwrap();
        assert_eq!((reply.content, reply.is_error), (json!({"twice": 42}), false));
        let reply = call(&servers, "calc", "fail").await.unwrap();
        assert_eq!((reply.content, reply.is_error), (json!("it is broken"), true));
        let error = call(&servers, "calc", "other").await.unwrap_err();
        assert!(
            matches!(&error, CallError::Refused { text, .. } if text.contains("no such tool")),
            "{error}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_server_with_sessions_says_that_its_list_has_changed() {
    let server = start("127.0.0.1:0", false).await;
    let fields = config("calc", json!({"url": server.url}));
    let source: Arc<dyn himalia_credentials::CredentialSource> = Arc::new(Source::default());
    let http = Arc::new(Http::new(&fields.owner, None, &source, false).unwrap());
    let signals = Arc::new(Signals::default());
    let url = himalia_model::HttpUrl::parse(&server.url).unwrap();
    let mcp = Mcp::connect(http, url, Arc::clone(&signals), true).await.unwrap();
    mcp.alive().await.unwrap();
    assert_eq!(
        mcp.list().await.unwrap().into_tools("calc", "").0.tools().len(),
        2
    );
    let deadline = tokio::time::Instant::now() + LONG;
    mcp.call("more", arguments(json!({})), LIMITS, deadline, ME)
        .await
        .unwrap();
    tokio::time::timeout(LONG, signals.changed.notified())
        .await
        .unwrap();
    assert_eq!(
        mcp.list().await.unwrap().into_tools("calc", "").0.tools().len(),
        3
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_server_goes_and_comes_back() {
    let server = start("127.0.0.1:0", false).await;
    let address = server.address.clone();
    let servers = ready(&[("calc", &server.url)]).await;
    drop(server);
    let error = call(&servers, "calc", "fail").await.unwrap_err();
    assert!(
        matches!(error, CallError::Unavailable(_) | CallError::Lost(_)),
        "{error}"
    );
    until(&servers, |servers| failure(servers, "calc").is_some()).await;
    let _again = start(&address, false).await;
    until(&servers, |servers| is_ready(&servers.states()[0].state)).await;
    let reply = servers
        .call(ME, "calc", "double", arguments(json!({"a": 2})), LIMITS)
        .await
        .unwrap();
    assert_eq!(reply.content, json!({"twice": 4}));
}
