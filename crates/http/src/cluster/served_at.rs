//! Where a route is served.

use axum::http::{HeaderMap, Method, Uri};
use himalia_engine::{ExecutionId, KernelId, PromptId, uuid_of_run};

use super::ResourceRef;
use super::starts::StartBody;
use crate::prefix::decode;
use crate::{azure, e2b, openai};

/// Where a request is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ServedAt {
    /// At the replica that has the client: it is of no session.
    Here,
    /// At any replica: it starts a session.
    Start(StartBody),
    /// At the owner of what the path names.
    Owner(ResourceRef),
    /// At the owner of the sandbox that a start with this key of E2B's API has made; where it can be started, if there is none.
    Keyed(Vec<u8>),
    /// At the owner of the session of the run with this idempotency key; here, if there is none.
    Run(String),
    /// At the owner of what the body names.
    Body(Named),
    /// At all replicas: their answers are one list.
    All(List),
    /// At the first replica that has it.
    First,
}

/// How a body names a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// `POST /api/sessions`: `path`, `kernel.id`.
    JupyterSession,
    /// `POST /mcp`: the arguments of a tool, the address of a resource.
    Mcp,
}

/// Lists of all replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    /// `GET /api/kernels`, `GET /api/sessions`: an array.
    Jupyter,
    /// `GET /api/status`: sums.
    Status,
    /// `GET /v1/sessions`: an object with an array.
    Sessions,
    /// `GET /v1/prompts`: an object with an array.
    Prompts,
    /// `GET /v1/runs`: an object with an array.
    Runs,
    /// `GET /e2b/v2/sandboxes`: an array, in pages.
    Sandboxes,
}

/// By method and pattern of the route; `uri` is the request's.
pub(super) fn served_at(method: &Method, pattern: &str, uri: &Uri, headers: &HeaderMap) -> ServedAt {
    let path = uri.path();
    let reads = matches!(*method, Method::GET | Method::HEAD);
    match pattern {
        "/api/kernels" | "/api/sessions" if reads => return ServedAt::All(List::Jupyter),
        "/api/status" => return ServedAt::All(List::Status),
        "/v1/sessions" if reads => return ServedAt::All(List::Sessions),
        "/v1/prompts" => return ServedAt::All(List::Prompts),
        "/v1/runs" => return ServedAt::All(List::Runs),
        "/api/kernels" => return ServedAt::Start(StartBody::Kernel),
        "/v1/sessions" => return ServedAt::Start(StartBody::Session),
        "/api/sessions" => return ServedAt::Body(Named::JupyterSession),
        "/mcp" => return ServedAt::Body(Named::Mcp),
        "/v1/artifacts/{sha256}" => return ServedAt::First,
        "/v1/skills/{skill}/runs" => {
            let key = headers.get("idempotency-key").and_then(|key| key.to_str().ok());
            return key.map_or(ServedAt::Here, |key| ServedAt::Run(key.to_owned()));
        }
        _ if pattern.starts_with("/azure/") => {
            let session = azure::session(uri);
            return session.map_or(ServedAt::Here, |name| ServedAt::Owner(ResourceRef::Session(name)));
        }
        _ if pattern.starts_with("/openai/") => {
            let session = openai::session(path);
            return session.map_or(ServedAt::Here, |id| ServedAt::Owner(ResourceRef::Session(id)));
        }
        _ if pattern.starts_with("/e2b/") => return at_e2b(method, path, headers),
        _ => {}
    }
    let sought = |start: &str, make: fn(String) -> Option<ResourceRef>| {
        let (before, _) = start.rsplit_once('/')?;
        let inner = pattern == start || pattern.strip_prefix(start)?.starts_with('/');
        let text = path.strip_prefix(before)?.strip_prefix('/')?.split('/').next()?;
        let text = String::from_utf8(decode(text)).ok()?;
        inner.then(|| make(text)).flatten()
    };
    let found = sought("/api/kernels/{kernel_id}", |id| {
        id.parse().ok().map(ResourceRef::Kernel)
    })
    .or_else(|| {
        sought("/api/sessions/{session_id}", |id| {
            id.parse().ok().map(ResourceRef::JupyterSession)
        })
    })
    .or_else(|| {
        sought("/v1/sessions/{session_id}", |text| {
            Some(ResourceRef::Session(text))
        })
    })
    .or_else(|| sought("/v1/executions/{execution_id}", |id| execution(&id)))
    .or_else(|| sought("/v1/prompts/{prompt_id}", |id| prompt(&id)))
    .or_else(|| sought("/v1/runs/{run_id}", |id| run(&id)));
    found.map_or(ServedAt::Here, ServedAt::Owner)
}

/// A route of E2B's API.
fn at_e2b(method: &Method, path: &str, headers: &HeaderMap) -> ServedAt {
    if matches!(*method, Method::GET | Method::HEAD) && e2b::is_list(path) {
        return ServedAt::All(List::Sandboxes);
    }
    if let Some(key) = e2b::keyed(method, path, headers) {
        return ServedAt::Keyed(key);
    }
    let sandbox = e2b::sandbox(path, headers);
    sandbox.map_or(ServedAt::Here, |id| ServedAt::Owner(ResourceRef::Session(id)))
}

/// An execution is where its kernel is.
pub(super) fn execution(id: &str) -> Option<ResourceRef> {
    let id: ExecutionId = id.parse().ok()?;
    Some(ResourceRef::Kernel(id.kernel))
}

/// A prompt is where its kernel is; that of a step is at all replicas.
pub(super) fn prompt(id: &str) -> Option<ResourceRef> {
    let id: PromptId = id.parse().ok()?;
    Some(ResourceRef::Kernel(id.kernel))
}

/// A run of a skill is where its session is; all replicas have the rows of the others.
fn run(id: &str) -> Option<ResourceRef> {
    uuid_of_run(id).map(|id| ResourceRef::Kernel(KernelId(id)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ROUTES;

    const ID: &str = "11111111-2222-3333-4444-555555555555";

    /// Routes that are served where the client is.
    const HERE: &[(&str, &str)] = &[
        ("GET", "/healthz"),
        ("GET", "/readyz"),
        ("GET", "/metrics"),
        ("GET", "/"),
        ("GET", "/frame.html"),
        ("GET", "/icon.svg"),
        ("GET", "/assets/{file}"),
        ("GET", "/frame/{file}"),
        ("GET", "/viewer/sign-in"),
        ("GET", "/viewer/oidc"),
        ("GET", "/viewer/oidc/callback"),
        ("POST", "/viewer/sign-in"),
        ("POST", "/viewer/sign-out"),
        ("GET", "/api"),
        ("GET", "/api/spec.yaml"),
        ("GET", "/api/me"),
        ("PATCH", "/api/me"),
        ("GET", "/api/kernelspecs"),
        ("GET", "/api/kernelspecs/{name}"),
        ("GET", "/kernelspecs/{name}/{file}"),
        ("POST", "/v1/gc"),
        ("GET", "/v1/openapi.json"),
        ("GET", "/v1/pools"),
        ("GET", "/v1/templates"),
        ("GET", "/v1/usage"),
        ("GET", "/v1/tool-approvals"),
        ("DELETE", "/v1/tool-approvals/{approval_id}"),
        ("GET", "/v1/tokens"),
        ("POST", "/v1/tokens"),
        ("DELETE", "/v1/tokens/{token_id}"),
        ("GET", "/v1/skills"),
        ("POST", "/v1/skills"),
        ("GET", "/v1/skills/{skill}"),
        ("DELETE", "/v1/skills/{skill}"),
        ("POST", "/v1/skills/{skill}/runs"),
        ("GET", "/v1/workflows"),
        ("POST", "/v1/workflows"),
        ("GET", "/v1/workflows/{workflow}"),
        ("DELETE", "/v1/workflows/{workflow}"),
        ("POST", "/v1/workflows/{workflow}/runs"),
        ("GET", "/v1/schedules"),
        ("POST", "/v1/schedules"),
        ("GET", "/v1/schedules/{schedule}"),
        ("PATCH", "/v1/schedules/{schedule}"),
        ("DELETE", "/v1/schedules/{schedule}"),
        ("POST", "/v1/schedules/{schedule}/runs"),
        ("GET", "/v1/schedules/{schedule}/deliveries"),
        ("GET", "/v1/webhooks"),
        ("POST", "/v1/webhooks"),
        ("GET", "/v1/webhooks/{webhook}"),
        ("PATCH", "/v1/webhooks/{webhook}"),
        ("DELETE", "/v1/webhooks/{webhook}"),
        ("GET", "/v1/webhooks/{webhook}/deliveries"),
        ("POST", "/v1/deliveries/{delivery}/retry"),
        ("POST", "/hooks/{webhook_id}"),
        // Its handler finds where the prompt is: it is known who answers only then.
        ("POST", "/hooks/{webhook_id}/prompts/{prompt_id}"),
        ("GET", "/v1/prompt-webhooks"),
        ("POST", "/v1/prompt-webhooks"),
        ("DELETE", "/v1/prompt-webhooks/{prompt_webhook}"),
        ("GET", "/v1/prompt-webhooks/{prompt_webhook}/deliveries"),
        ("GET", "/v1/credentials"),
        ("PUT", "/v1/credentials/{credential}"),
        ("DELETE", "/v1/credentials/{credential}"),
        ("POST", "/v1/credentials/{credential}/grant"),
        ("DELETE", "/v1/credentials/{credential}/grant"),
        ("POST", "/v1/grants"),
        ("GET", "/viewer/grant"),
        // Without the id of a container.
        ("GET", "/openai/{*path}"),
        ("POST", "/openai/{*path}"),
        ("DELETE", "/openai/{*path}"),
        // Without the header that names a sandbox.
        ("GET", "/e2b/{*path}"),
        ("POST", "/e2b/{*path}"),
        ("PUT", "/e2b/{*path}"),
        ("DELETE", "/e2b/{*path}"),
        ("GET", "/files"),
        ("POST", "/files"),
    ];

    /// A new route has a place: here, by this list, or at the owner of what its path names.
    #[test]
    fn every_route_has_a_place() {
        let named: HeaderMap = [(crate::auth::SANDBOX_ID, ID.parse().unwrap())]
            .into_iter()
            .collect();
        for route in ROUTES {
            let path = route
                .path
                .replace("{kernel_id}", ID)
                .replace("{session_id}", ID)
                .replace("{execution_id}", &format!("exe_{}_1", ID.replace('-', "")))
                .replace("{run_id}", &format!("run_{}", ID.replace('-', "")))
                .replace("{prompt_id}", &format!("prm_{}_1", ID.replace('-', "")));
            let of_sandbox = route.path.starts_with("/e2b/") && route.path != "/e2b/{*path}";
            let named = if of_sandbox {
                named.clone()
            } else {
                HeaderMap::new()
            };
            let here = HERE.contains(&(route.method.as_str(), route.path));
            let named_by = if route.path.starts_with("/azure/") {
                "?identifier=a"
            } else {
                ""
            };
            let uri = format!("{path}{named_by}").parse().unwrap();
            let at = served_at(&route.method, route.path, &uri, &named);
            assert_eq!(
                at == ServedAt::Here,
                here,
                "{} {}: {at:?}",
                route.method,
                route.path
            );
        }
    }

    #[test]
    fn a_start_of_e2b_with_a_key_is_where_the_first_one_was() {
        let keyed: HeaderMap = [(
            axum::http::HeaderName::from_static("idempotency-key"),
            "k".parse().unwrap(),
        )]
        .into_iter()
        .collect();
        let at =
            |method: Method, path: &str| served_at(&method, "/e2b/{*path}", &path.parse().unwrap(), &keyed);
        assert_eq!(at(Method::POST, "/e2b/sandboxes"), ServedAt::Keyed(b"k".to_vec()));
        assert_eq!(
            at(Method::GET, "/e2b/v2/sandboxes"),
            ServedAt::All(List::Sandboxes)
        );
        assert_eq!(
            at(Method::POST, "/e2b/sandboxes/a/fork"),
            ServedAt::Owner(ResourceRef::Session("a".into()))
        );
    }

    #[test]
    fn the_path_names_what_is_sought() {
        let get = |pattern: &str, path: &str| {
            served_at(&Method::GET, pattern, &path.parse().unwrap(), &HeaderMap::new())
        };
        assert_eq!(
            get(
                "/v1/sessions/{session_id}/files/{*path}",
                "/v1/sessions/my%20eda/files/a/b"
            ),
            ServedAt::Owner(ResourceRef::Session("my eda".into()))
        );
        assert_eq!(
            get(
                "/api/kernels/{kernel_id}/channels",
                &format!("/api/kernels/{ID}/channels")
            ),
            ServedAt::Owner(ResourceRef::Kernel(ID.parse().unwrap()))
        );
        assert_eq!(
            get(
                "/v1/executions/{execution_id}/events",
                &format!("/v1/executions/exe_{}_7/events", ID.replace('-', ""))
            ),
            ServedAt::Owner(ResourceRef::Kernel(ID.parse().unwrap()))
        );
        assert_eq!(get("/api/kernels/{kernel_id}", "/api/kernels/x"), ServedAt::Here);
    }
}
