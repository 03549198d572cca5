use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use himalia_egress::Body;
use himalia_model::{
    ApiServers, CallTool, EngineError, FoundTools, LlmError, LlmErrorCode, ServerToolsPage, ToolError,
    ToolErrorCode, ToolInfo, ToolReply,
};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};

use crate::door::MAX_BODY_BYTES;
use crate::{AskModel, AskPerson, RunOfSkill, SessionApi, answer, door, routes};

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
            assert!(query != "panic", "a search that panics");
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

    fn models(&self) -> BoxFuture<'_, Result<Vec<String>, LlmError>> {
        Box::pin(async { Ok(vec!["small".to_owned(), "large".to_owned()]) })
    }

    fn ask_model(&self, asked: AskModel) -> BoxFuture<'_, Result<Response<Body>, LlmError>> {
        Box::pin(async move {
            assert!(asked.body != "panic", "a model that panics");
            if asked.body.is_empty() {
                return Err(LlmError::new(LlmErrorCode::Limit, "no more"));
            }
            let text = String::from_utf8_lossy(&asked.body).into_owned();
            Ok(answer::json(&json!([
                asked.endpoint.path(),
                text,
                asked.cache,
                asked.line
            ])))
        })
    }

    fn call_tool(&self, call: CallTool) -> BoxFuture<'_, Result<ToolReply, EngineError>> {
        Box::pin(async move {
            assert!(call.tool != "panic", "a call that panics");
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
    let response: Response<Body> = door::answered(&*api, request.body(body).unwrap()).await;
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
async fn a_handler_that_panics_is_answered_with_an_id() {
    let (status, error) = get("/v1/tools?query=panic").await;
    assert_eq!((status, &error["code"]), (500, &json!("internal")));
    let id = error["request_id"].as_str().unwrap();
    assert!(error["message"].as_str().unwrap().contains(id), "{error}");
    let (status, error) = ask("POST", "/v1/calls", br#"{"tool": "panic"}"#.to_vec()).await;
    assert_eq!((status, &error["code"]), (500, &json!("outcome_unknown")));
    let (status, error) = ask("POST", "/llm/v1/chat/completions", b"panic".to_vec()).await;
    assert_eq!(
        (status, &error["error"]["code"]),
        (500, &json!("outcome_unknown"))
    );
    assert_eq!(get("/v1/servers").await.0, 200);
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
    // Of far less bytes, but a hundred times as many in memory.
    let small = vec![r#"{"a":0}"#; 200_000].join(",");
    let small = format!(r#"{{"tool": "a.b", "arguments": {{"x": [{small}]}}}}"#);
    let (status, error) = ask("POST", "/v1/calls", small.into_bytes()).await;
    assert_eq!((status, &error["code"]), (413, &json!("request_too_large")));
}

#[tokio::test]
async fn below_llm_is_the_api_of_openai_with_its_errors() {
    let (status, list) = get("/llm/v1/models").await;
    assert_eq!((status, &list["object"]), (200, &json!("list")));
    let ids: Vec<&Value> = list["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["id"])
        .collect();
    assert_eq!(ids, ["small", "large"]);
    assert_eq!(get("/llm/v1/models/large").await.1["object"], "model");
    let (status, error) = get("/llm/v1/models/other").await;
    assert_eq!(
        (status, &error["error"]["code"]),
        (404, &json!("model_not_found"))
    );
    let chat = ask("POST", "/llm/v1/chat/completions", b"{}".to_vec()).await;
    assert_eq!(chat, (200, json!(["chat/completions", "{}", null, null])));
    let vectors = ask("POST", "/llm/v1/embeddings", b"{}".to_vec()).await;
    assert_eq!(vectors.1[0], "embeddings");
    let (status, error) = ask("POST", "/llm/v1/chat/completions", Vec::new()).await;
    assert_eq!((status, &error["error"]["type"]), (429, &json!("model_limit")));
    let (status, error) = ask("POST", "/llm/v1/completions", b"{}".to_vec()).await;
    assert_eq!((status, &error["error"]["code"]), (404, &json!("not_found")));
    let long = vec![b' '; MAX_BODY_BYTES + 1];
    let (status, error) = ask("POST", "/llm/v1/embeddings", long).await;
    assert_eq!(
        (status, &error["error"]["code"]),
        (413, &json!("request_too_large"))
    );
}

#[tokio::test]
async fn a_header_says_whether_the_cache_is_used_and_one_whether_to_try_again() {
    let respond = async |body: &'static [u8], cache: &str| {
        let body: Body = Full::new(Bytes::from_static(body))
            .map_err(|never: Infallible| match never {})
            .boxed();
        let request = Request::post("http://himalia.internal/llm/v1/chat/completions");
        let request = request.header("x-himalia-cache", cache).body(body).unwrap();
        routes::respond(&Echo, request).await
    };
    for (said, cache) in [("true", true), ("false", false)] {
        let body = respond(b"{}", said)
            .await
            .into_body()
            .collect()
            .await
            .unwrap()
            .to_bytes();
        assert_eq!(serde_json::from_slice::<Value>(&body).unwrap()[2], cache);
    }
    assert_eq!(respond(b"{}", "yes").await.status(), 400);
    let of_line = async |line: &str| {
        let body: Body = Full::new(Bytes::from_static(b"{}"))
            .map_err(|never: Infallible| match never {})
            .boxed();
        let request = Request::post("http://himalia.internal/llm/v1/chat/completions");
        let request = request.header("x-himalia-line", line).body(body).unwrap();
        routes::respond(&Echo, request).await
    };
    let body = of_line("7").await.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(serde_json::from_slice::<Value>(&body).unwrap()[3], 7);
    assert_eq!(of_line("-7").await.status(), 400);
    assert_eq!(respond(b"", "true").await.headers()["x-should-retry"], "false");
}
