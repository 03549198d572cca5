//! What addresses name: something of a tenant's, or nothing.

use std::path::Path;

use axum::http::Method;
use himalia_http::Route;
use serde_json::{Value, json};

use super::fixture::{Request, made};
use crate::common::{self, Gateway, Reply};

/// The ids that addresses have: of something that is there, or of nothing.
#[derive(Clone, Debug)]
pub(crate) struct Ids {
    pub(crate) kernel: String,
    pub(crate) jupyter_session: String,
    pub(crate) session: String,
    /// An additional kernel of the session.
    pub(crate) additional: String,
    pub(crate) name: String,
    pub(crate) execution: String,
    pub(crate) prompt: String,
    /// A run of a workflow, which asks a person in its step `ask`.
    pub(crate) run: String,
    pub(crate) sha256: String,
    pub(crate) token: String,
}

impl Ids {
    pub(crate) fn unknown() -> Self {
        let kernel = uuid::Uuid::new_v4();
        Self {
            kernel: uuid::Uuid::new_v4().to_string(),
            jupyter_session: uuid::Uuid::new_v4().to_string(),
            session: kernel.to_string(),
            additional: uuid::Uuid::new_v4().to_string(),
            name: "nobodys".into(),
            execution: format!("exe_{}_1", kernel.simple()),
            prompt: format!("prm_{}_1", kernel.simple()),
            run: format!("run_{}", kernel.simple()),
            sha256: "0".repeat(64),
            token: uuid::Uuid::new_v4().to_string(),
        }
    }

    pub(crate) async fn of(gateway: &Gateway, token: &str, cwd: &Path) -> Self {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let kernel = made(gateway, token, "POST", "/api/kernels", json!({})).await;
        let new = json!({"path": "a.ipynb", "type": "notebook"});
        let jupyter = made(gateway, token, "POST", "/api/sessions", new).await;
        let new = json!({ "cwd": cwd });
        let session = made(gateway, token, "PUT", "/v1/sessions/analysis", new).await;
        let additional = made(gateway, token, "POST", "/v1/sessions/analysis/kernels", json!({})).await;
        let code = json!({"code": "display image/png 4000"});
        let ran = made(gateway, token, "POST", "/v1/sessions/analysis/executions", code).await;
        let new = json!({"text": "May it?", "options": ["x", "y"]});
        let prompt = made(gateway, token, "POST", "/v1/sessions/analysis/prompts", new).await;
        let definition = json!({
            "name": "asks", "version": "1.0.0", "description": "d", "inputs": {"type": "object"},
            "steps": [{"id": "ask", "approval": {"text": "May it?"}}],
        });
        let new = json!({ "definition": definition });
        made(gateway, token, "POST", "/v1/workflows", new).await;
        let run = made(gateway, token, "POST", "/v1/workflows/asks/runs", json!({})).await;
        let artifact = text(&ran["outputs"][0]["data"]["image/png"]["artifact"]);
        made(
            gateway,
            token,
            "PUT",
            "/v1/sessions/analysis/files/a.txt",
            json!("hello"),
        )
        .await;
        let new = json!({"caller": "ci", "scope": "read"});
        let token = made(gateway, common::TOKEN, "POST", "/v1/tokens", new).await;
        Self {
            kernel: text(&kernel["id"]),
            jupyter_session: text(&jupyter["id"]),
            session: text(&session["id"]),
            additional: text(&additional["id"]),
            name: "analysis".into(),
            execution: text(&ran["id"]),
            prompt: text(&prompt["id"]),
            run: text(&run["id"]),
            sha256: artifact.trim_start_matches("sha256:").to_owned(),
            token: text(&token["id"]),
        }
    }

    /// The text with words in place of these ids.
    pub(crate) fn hide(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (id, word) in [
            (&self.execution, "EXECUTION"),
            (&self.prompt, "PROMPT"),
            (&self.run, "RUN"),
            (&self.kernel, "KERNEL"),
            (&self.jupyter_session, "JUPYTER"),
            (&self.session, "SESSION"),
            (&self.additional, "ADDITIONAL"),
            (&self.name, "NAME"),
            (&self.sha256, "SHA256"),
            (&self.token, "TOKEN"),
        ] {
            text = text.replace(id.as_str(), word);
        }
        text
    }

    /// What is asked of a route about these ids. A parameter that is not known here is a new kind of object: whose is
    /// it?
    pub(crate) fn requests(&self, route: &Route) -> Vec<Request> {
        let jupyter = route.path.starts_with("/api/");
        let kernel = if jupyter { &self.kernel } else { &self.additional };
        let mut sessions = vec![if jupyter {
            &self.jupyter_session
        } else {
            &self.session
        }];
        // By its name a session is made where there is none.
        if route.path.contains("/v1/sessions/{session_id}")
            && (&route.method, route.path) != (&Method::PUT, "/v1/sessions/{session_id}")
        {
            sessions.push(&self.name);
        }
        let body = match (route.method.as_str(), route.path.rsplit('/').next().unwrap()) {
            ("POST", "executions" | "complete" | "inspect") => "{\"code\": \"print x\"}",
            ("POST", "input" | "answer") => "{\"value\": \"x\"}",
            ("POST", "prompts") => "{\"text\": \"x\"}",
            ("POST", "calls") => "{\"tool\": \"a.b\"}",
            ("PUT" | "PATCH", _) => "{}",
            _ => "",
        };
        let mut all = Vec::new();
        for session in sessions {
            let path = route
                .path
                .replace("{session_id}", session)
                .replace("{kernel_id}", kernel)
                .replace("{execution_id}", &self.execution)
                .replace("{prompt_id}", &self.prompt)
                .replace("{run_id}", &self.run)
                .replace("{step}", "ask")
                .replace("{sha256}", &self.sha256)
                .replace("{token_id}", &self.token)
                .replace("variables/{name}", "variables/x")
                .replace("{tool}", "a.b")
                .replace("{*path}", "a.txt");
            assert!(!path.contains('{'), "{path}: whose is it?");
            let request = Request {
                method: route.method.to_string(),
                path,
                body: body.into(),
                upgrade: route.websocket,
            };
            if route.method == Method::GET {
                all.push(Request {
                    upgrade: true,
                    ..request.clone()
                });
            }
            if !body.is_empty() {
                all.push(Request {
                    body: String::new(),
                    ..request.clone()
                });
            }
            all.push(request);
        }
        all
    }
}

/// Status, headers and body, without what tells the time.
pub(crate) fn shown(reply: &Reply, ids: &Ids) -> String {
    let lines = reply.head.lines().filter(|line| {
        let line = line.to_ascii_lowercase();
        // The length of a name is not that of another one.
        !["date:", "content-length:", "etag:"]
            .iter()
            .any(|name| line.starts_with(name))
    });
    let head: Vec<&str> = lines.collect();
    ids.hide(&format!(
        "{}\n{}",
        head.join("\n"),
        String::from_utf8_lossy(&reply.body)
    ))
}
