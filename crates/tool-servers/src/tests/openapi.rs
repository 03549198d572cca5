//! Calls of operations.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::support::*;
use crate::ToolServers;
use crate::call::{CallError, Limits};

fn description() -> Value {
    let pet = json!({"$ref": "#/components/schemas/Pet"});
    json!({
        "openapi": "3.0.3",
        "servers": [{"url": "/v1"}],
        "paths": {
            "/pets/{id}": {
                "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}],
                "get": {"operationId": "getPet", "parameters": [
                    {"name": "tag", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}}]},
                "put": {"operationId": "putPet", "requestBody": {"required": true, "content": {"application/json": {"schema": pet}}}},
                "delete": {"operationId": "deletePet"},
            },
            "/odd/{kind}": {"get": {"operationId": "odd", "parameters": [
                {"name": "kind", "in": "path", "required": true, "schema": {"type": "string"}}]}},
        },
        "components": {"schemas": {"Pet": {"type": "object", "required": ["name"], "properties": {
            "name": {"type": "string"}, "parent": {"nullable": true, "allOf": [{"$ref": "#/components/schemas/Pet"}]}}}}},
    })
}

async fn server() -> Raw {
    Raw::start(|request, mut stream| {
        Box::pin(async move {
            let path = request.target.split('?').next().unwrap().to_owned();
            match path.as_str() {
                "/openapi.json" => respond_json(&mut stream, &description()).await,
                "/v1/odd/text" => {
                    respond(&mut stream, "200 OK", "content-type: text/plain\r\n", b"hello").await;
                }
                "/v1/odd/image" => {
                    respond(&mut stream, "200 OK", "content-type: image/png\r\n", b"\x89PNG").await;
                }
                "/v1/odd/none" => respond(&mut stream, "204 No Content", "", b"").await,
                "/v1/odd/missing" => {
                    respond(&mut stream, "404 Not Found", "", b"{\"detail\": \"no pet\"}").await;
                }
                "/v1/odd/away" => {
                    respond(
                        &mut stream,
                        "302 Found",
                        "location: http://169.254.169.254/\r\n",
                        b"",
                    )
                    .await;
                }
                "/v1/odd/broken" => {
                    respond(&mut stream, "200 OK", "content-type: application/json\r\n", b"{").await;
                }
                "/v1/odd/hang" => until_closed(&mut stream).await,
                "/v1/odd/gone" => {}
                "/v1/odd/flood" => {
                    let written = flood(&mut stream, "application/octet-stream", b"x").await;
                    assert!(written < 32 << 20, "{written}");
                }
                _ => {
                    let told =
                        json!({"method": request.method, "target": request.target, "body": request.json()});
                    respond_json(&mut stream, &told).await;
                }
            }
        })
    })
    .await
}

async fn ready(server: &Raw) -> ToolServers {
    let fields = json!({"openapi": format!("{}/openapi.json", server.url), "description": "Pets"});
    let servers = start_with(vec![config("pets", fields)], Arc::default());
    until(&servers, |servers| is_ready(&servers.states()[0].state)).await;
    servers
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_are_called_by_http() {
    let server = server().await;
    let servers = ready(&server).await;
    let status = &servers.states()[0];
    assert_eq!(
        (status.kind, status.location.ends_with("/openapi.json")),
        ("openapi", true)
    );
    let tools = &servers.snapshot()[0].tools;
    assert_eq!((tools.description(), tools.tools().len()), ("Pets", 4));
    let put = tools.get("putPet").unwrap();
    assert_eq!(
        put.check(&json!({"id": "a", "name": "Rex", "parent": {"name": "Max", "parent": null}})),
        []
    );
    assert_eq!(
        put.check(&json!({"id": "a", "name": "Rex", "parent": {}}))[0].path,
        "/parent"
    );

    let reply = servers
        .call(
            ME,
            "pets",
            "getPet",
            arguments(json!({"id": "a/b", "tag": ["x", "y z"]})),
            LIMITS,
        )
        .await
        .unwrap();
    assert_eq!(
        reply.content,
        json!({"method": "GET", "target": "/v1/pets/a%2Fb?tag=x&tag=y%20z", "body": null})
    );
    let reply = servers
        .call(
            ME,
            "pets",
            "putPet",
            arguments(json!({"id": "a", "name": "Rex", "parent": null})),
            LIMITS,
        )
        .await
        .unwrap();
    assert_eq!(
        reply.content,
        json!({"method": "PUT", "target": "/v1/pets/a", "body": {"name": "Rex", "parent": null}})
    );
    let error = servers
        .call(ME, "pets", "getPet", arguments(json!({"id": ".."})), LIMITS)
        .await
        .unwrap_err();
    assert!(matches!(error, CallError::BadArguments(_)), "{error}");
    let error = servers
        .call(ME, "pets", "other", arguments(json!({})), LIMITS)
        .await
        .unwrap_err();
    assert!(matches!(error, CallError::Unavailable(_)), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_of_all_kinds() {
    let server = server().await;
    let servers = ready(&server).await;
    let odd = |kind: &'static str, limits: Limits| {
        servers.call(ME, "pets", "odd", arguments(json!({"kind": kind})), limits)
    };
    assert_eq!(odd("text", LIMITS).await.unwrap().content, json!("hello"));
    assert_eq!(odd("none", LIMITS).await.unwrap().content, Value::Null);
    let image = odd("image", LIMITS).await.unwrap();
    assert_eq!(
        (image.content, image.blobs[0].mime_type.as_str(), image.bytes),
        (Value::Null, "image/png", 4)
    );
    for (kind, code, part) in [("missing", 404, "no pet"), ("away", 302, "not followed")] {
        let error = odd(kind, LIMITS).await.unwrap_err();
        assert!(
            matches!(&error, CallError::Refused { code: is, text, .. } if *is == code && text.contains(part)),
            "{error}"
        );
    }
    assert!(matches!(odd("broken", LIMITS).await, Err(CallError::Failed(_))));
    assert!(matches!(odd("flood", LIMITS).await, Err(CallError::TooLarge(_))));
    assert!(matches!(odd("gone", LIMITS).await, Err(CallError::Lost(_))));
    let short = Limits {
        time: Duration::from_millis(200),
        ..LIMITS
    };
    let hung = tokio::time::timeout(LONG / 2, odd("hang", short)).await.unwrap();
    assert!(matches!(hung, Err(CallError::Timeout(_))), "{hung:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_description_in_a_file_says_where_the_server_is() {
    let server = server().await;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pets.json");
    let mut description = description();
    description["servers"] = json!([{"url": format!("{}/v1", server.url)}]);
    std::fs::write(&path, description.to_string()).unwrap();
    let missing = dir.path().join("missing.json");
    let configs = vec![
        config("file", json!({"openapi": path})),
        config("missing", json!({"openapi": missing})),
    ];
    let servers = start_with(configs, Arc::default());
    until(&servers, |servers| {
        is_ready(&servers.states()[0].state) && failure(servers, "missing").is_some()
    })
    .await;
    assert!(failure(&servers, "missing").unwrap().contains("missing.json"));
    let reply = servers
        .call(ME, "file", "deletePet", arguments(json!({"id": "a"})), LIMITS)
        .await
        .unwrap();
    assert_eq!(reply.content["method"], "DELETE");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_description_that_floods_is_cut() {
    let server = Raw::start(|_, mut stream| {
        Box::pin(async move {
            let written = flood(&mut stream, "application/json", b"{\"openapi\": \"").await;
            assert!(written < 64 << 20, "{written}");
        })
    })
    .await;
    let servers = start_with(vec![config("a", json!({"openapi": server.url}))], Arc::default());
    until(&servers, |servers| failure(servers, "a").is_some()).await;
    assert!(failure(&servers, "a").unwrap().contains("bytes"));
}

/// In YAML, with forms.
const FORMS: &str = r##"
openapi: 3.1.0
paths:
  /upload:
    post:
      operationId: upload
      requestBody:
        required: true
        content:
          multipart/form-data:
            schema: {$ref: "#/components/schemas/Upload"}
            encoding:
              table: {contentType: text/csv}
  /charge:
    post:
      operationId: charge
      requestBody:
        content:
          application/x-www-form-urlencoded:
            schema:
              type: object
              properties:
                amount: {type: integer}
                note: {type: string}
components:
  schemas:
    Upload:
      type: object
      required: [table]
      properties:
        table: {type: string, format: binary, description: A table.}
        title: {type: string}
        tags: {type: array, items: {type: string}}
"##;

#[tokio::test(flavor = "multi_thread")]
async fn a_description_in_yaml_has_forms_that_a_server_reads() {
    use axum::extract::{Form, Multipart};
    use axum::routing::post;

    async fn upload(mut form: Multipart) -> axum::Json<Value> {
        let mut parts = Vec::new();
        while let Some(part) = form.next_field().await.unwrap() {
            let about = json!([part.name(), part.file_name(), part.content_type()]);
            parts.push(json!([about, part.text().await.unwrap()]));
        }
        axum::Json(Value::Array(parts))
    }
    async fn charge(Form(fields): Form<std::collections::BTreeMap<String, String>>) -> axum::Json<Value> {
        axum::Json(json!(fields))
    }

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let app = axum::Router::new()
        .route("/upload", post(upload))
        .route("/charge", post(charge));
    let _served = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(async move {
        axum::serve(listener, app).await.unwrap();
    }));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("forms.yaml");
    std::fs::write(&path, FORMS).unwrap();
    let fields = json!({"openapi": path, "base_url": url});
    let servers = start_with(vec![config("forms", fields)], Arc::default());
    until(&servers, |servers| is_ready(&servers.states()[0].state)).await;

    let call =
        async |tool: &str, given: Value| servers.call(ME, "forms", tool, arguments(given), LIMITS).await;
    // "a,b\n1,2\n"
    let given = json!({"table": "YSxiCjEsMgo=", "title": "T\u{e9}", "tags": ["x", "y"]});
    let reply = call("upload", given).await.unwrap();
    let mut parts = reply.content.as_array().unwrap().clone();
    parts.sort_by_key(ToString::to_string);
    assert_eq!(
        parts,
        [
            json!([["table", "table", "text/csv"], "a,b\n1,2\n"]),
            json!([["tags", null, null], "x"]),
            json!([["tags", null, null], "y"]),
            json!([["title", null, null], "T\u{e9}"]),
        ]
    );
    let error = call("upload", json!({"table": "a,b"})).await.unwrap_err();
    assert_eq!(
        error,
        CallError::BadArguments("table: is not encoded as base64".to_owned())
    );
    let reply = call("charge", json!({"amount": 5, "note": "a&b = c"}))
        .await
        .unwrap();
    assert_eq!(reply.content, json!({"amount": "5", "note": "a&b = c"}));
    let listed = servers.snapshot();
    let schema = &listed[0].tools.get("upload").unwrap().definition().input_schema;
    let described = schema["properties"]["table"]["description"].as_str().unwrap();
    assert!(
        described.starts_with("A table.") && described.contains("base64"),
        "{described}"
    );
}
