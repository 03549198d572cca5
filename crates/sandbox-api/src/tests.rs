use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use himalia_egress::Body;
use himalia_model::{
    ApiServers, CallTool, EngineError, FoundTools, ServerToolsPage, ToolError, ToolErrorCode, ToolInfo,
    ToolReply,
};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};

use crate::door::MAX_BODY_BYTES;
use crate::{AskPerson, RunOfSkill, SessionApi, routes};

/// Answers with what it was asked.
struct Echo;

impl SessionApi for Echo {
    fn tool_servers(&self) -> BoxFuture<'_, Result<ApiServers, EngineError>> {
        Box::pin(async {
            Ok(ApiServers {
                servers: Vec::new(),
                text: "none".to_owned(),
            })
        })
    }

    fn tools_of_server(
        &self,
        server: String,
        after: String,
    ) -> BoxFuture<'_, Result<ServerToolsPage, EngineError>> {
        Box::pin(async move {
            Ok(ServerToolsPage {
                tools: Vec::new(),
                next: Some(format!("{server} {after}")),
            })
        })
    }

    fn search_tools(
        &self,
        server: Option<String>,
        query: String,
        limit: usize,
    ) -> BoxFuture<'_, Result<FoundTools, EngineError>> {
        Box::pin(async move {
            Ok(FoundTools {
                tools: Vec::new(),
                text: format!("{server:?} {query} {limit}"),
            })
        })
    }

    fn tool_info(&self, id: String) -> BoxFuture<'_, Result<ToolInfo, EngineError>> {
        Box::pin(async move {
            let error = ToolError::new(ToolErrorCode::UnknownTool, id).with_hint("a hint");
            Err(EngineError::tool(error))
        })
    }

    fn ask(&self, wanted: AskPerson) -> BoxFuture<'_, Result<Value, EngineError>> {
        Box::pin(async move { Ok(json!([wanted.text, wanted.options, wanted.timeout_s, wanted.key])) })
    }

    fn prompt(&self, id: String, wait: Duration) -> BoxFuture<'_, Result<Value, EngineError>> {
        Box::pin(async move { Ok(json!([id, wait.as_secs()])) })
    }

    fn skills(&self) -> BoxFuture<'_, Result<Value, EngineError>> {
        Box::pin(async { Ok(json!(["fetch"])) })
    }

    fn skill(&self, name: String, version: Option<String>) -> BoxFuture<'_, Result<Value, EngineError>> {
        Box::pin(async move { Ok(json!([name, version])) })
    }

    fn run_skill(
        &self,
        name: String,
        wanted: RunOfSkill,
        wait: Duration,
    ) -> BoxFuture<'_, Result<Value, EngineError>> {
        Box::pin(async move { Ok(json!([name, wanted.inputs, wanted.key, wait.as_secs()])) })
    }

    fn skill_run(&self, id: String, wait: Duration) -> BoxFuture<'_, Result<Value, EngineError>> {
        Box::pin(async move { Ok(json!([id, wait.as_secs()])) })
    }

    fn stop_skill_run(&self, id: String) -> BoxFuture<'_, Result<Value, EngineError>> {
        Box::pin(async move { Ok(json!([id, "stopped"])) })
    }

    fn call_tool(&self, call: CallTool) -> BoxFuture<'_, Result<ToolReply, EngineError>> {
        Box::pin(async move {
            Ok(ToolReply {
                call: 7,
                content: json!([call.tool, call.arguments, call.timeout_s]),
                files: Vec::new(),
                bytes: 3,
                duration_ms: 1,
            })
        })
    }
}

async fn ask(method: &str, path: &str, body: Vec<u8>) -> (u16, Value) {
    let body: Body = Full::new(Bytes::from(body))
        .map_err(|never: Infallible| match never {})
        .boxed();
    let request = Request::builder()
        .method(method)
        .uri(format!("http://himalia.internal{path}"));
    let api: Arc<dyn SessionApi> = Arc::new(Echo);
    let response: Response<Body> = routes::respond(&*api, request.body(body).unwrap()).await;
    let status = response.status().as_u16();
    let text = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&text).unwrap())
}

async fn get(path: &str) -> (u16, Value) {
    ask("GET", path, Vec::new()).await
}

#[tokio::test]
async fn each_path_asks_for_something() {
    assert_eq!(get("/v1/servers").await.1["text"], "none");
    assert_eq!(get("/v1/servers/").await.0, 200);
    let page = get("/v1/servers/an%20api/tools?after=b%2Fc").await.1;
    assert_eq!(page["next"], "an api b/c");
    assert_eq!(get("/v1/servers/a/tool").await.0, 404);
    let found = get("/v1/tools?server=a&query=list%20of+orders&limit=3").await.1;
    assert_eq!(found["text"], "Some(\"a\") list of orders 3");
    assert_eq!(get("/v1/tools?server=").await.1["text"], "None  10");
    let (status, error) = get("/v1/tools/a.b%2Fc+d").await;
    assert_eq!(
        (status, &error),
        (
            404,
            &json!({"code": "unknown_tool", "message": "a.b/c+d", "hint": "a hint"})
        )
    );
    let body = json!({"tool": "a.b", "arguments": {"x": 1}})
        .to_string()
        .into_bytes();
    let (status, reply) = ask("POST", "/v1/calls", body).await;
    assert_eq!(
        (status, &reply["content"]),
        (200, &json!(["a.b", {"x": 1}, null]))
    );
    let body = json!({"text": "May it?", "options": ["yes"], "key": "k"});
    let (status, asked) = ask("POST", "/v1/prompts", body.to_string().into_bytes()).await;
    assert_eq!((status, asked), (200, json!(["May it?", ["yes"], null, "k"])));
    assert_eq!(get("/v1/prompts/prm_1?wait_s=50").await.1, json!(["prm_1", 50]));
    assert_eq!(get("/v1/prompts/prm_1").await.1, json!(["prm_1", 0]));
    assert_eq!(get("/v1/skills").await.1, json!(["fetch"]));
    assert_eq!(get("/v1/skills/fetch").await.1, json!(["fetch", null]));
    assert_eq!(
        get("/v1/skills/fetch?version=1.0.0").await.1,
        json!(["fetch", "1.0.0"])
    );
    let body = json!({"inputs": {"x": 1}, "key": "k", "wait_s": 5});
    let (status, run) = ask("POST", "/v1/skills/fetch/runs", body.to_string().into_bytes()).await;
    assert_eq!((status, run), (200, json!(["fetch", {"x": 1}, "k", 5])));
    assert_eq!(get("/v1/runs/exe_1?wait_s=7").await.1, json!(["exe_1", 7]));
    let stopped = ask("DELETE", "/v1/runs/exe_1", Vec::new()).await;
    assert_eq!(stopped.1, json!(["exe_1", "stopped"]));
}

#[tokio::test]
async fn what_cannot_be_used_is_named() {
    for (method, path, body, status, says) in [
        ("GET", "/v1/tools?limit=0", "", 400, "limit: is not 1 to 100"),
        (
            "GET",
            "/v1/tools?q=a",
            "",
            400,
            "q: is unknown; there are server, query, limit",
        ),
        ("GET", "/", "", 404, "POST /v1/calls"),
        ("DELETE", "/v1/calls", "", 404, "GET /v1/servers"),
        ("GET", "/v1/tools/%ff", "", 400, "id: "),
        (
            "GET",
            "/v1/prompts/p?wait_s=61",
            "",
            400,
            "wait_s: is not 0 to 60",
        ),
        ("POST", "/v1/prompts", "{}", 400, "missing field `text`"),
        (
            "POST",
            "/v1/skills/a/runs",
            r#"{"wait_s": 61}"#,
            400,
            "wait_s: is not 0 to 60",
        ),
        (
            "POST",
            "/v1/skills/a/runs",
            r#"{"input": {}}"#,
            400,
            "unknown field `input`",
        ),
        ("POST", "/v1/skills/a", "{}", 404, "POST /v1/skills/{name}/runs"),
        ("POST", "/v1/calls", "{", 400, "body: "),
        (
            "POST",
            "/v1/calls",
            r#"{"tool": "a.b", "arguments": [1]}"#,
            400,
            "body: ",
        ),
        (
            "POST",
            "/v1/calls",
            r#"{"tool": "a.b", "argument": {}}"#,
            400,
            "unknown field `argument`",
        ),
    ] {
        let (found, error) = ask(method, path, body.as_bytes().to_vec()).await;
        assert_eq!(found, status, "{method} {path} {error}");
        assert!(
            error["message"].as_str().unwrap().contains(says),
            "{path} {error}"
        );
    }
    let (status, error) = ask("POST", "/v1/calls", vec![b' '; MAX_BODY_BYTES + 1]).await;
    assert_eq!((status, &error["code"]), (413, &json!("request_too_large")));
}
