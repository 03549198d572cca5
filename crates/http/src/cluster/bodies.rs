//! Sessions that are named in the body of a request.

use axum::body::Body;
use axum::extract::Request;
use himalia_engine::Origin;
use serde::Deserialize;

use super::ResourceRef;
use super::served_at::{Named, execution, prompt};
use super::starts::Start;
use crate::app::App;
use crate::auth::may_be_rebound;
use crate::body;
use crate::error::ApiError;

/// What a body is about.
#[derive(Debug, Default, PartialEq)]
pub(super) struct About {
    /// What it names; the first that exists counts.
    pub(super) sought: Vec<ResourceRef>,
    /// What it starts if there is nothing of that.
    pub(super) start: Option<Start>,
    /// It lists the sessions of all replicas.
    pub(super) lists: bool,
    /// The idempotency key of what it starts, if that has no name.
    pub(super) key: Option<String>,
}

/// What the body of a request is about; and the request as it was. A body that cannot be
/// understood names nothing: its handler says what is wrong with it.
pub(super) async fn read(app: &App, named: Named, request: Request) -> Result<(About, Request), ApiError> {
    if named == Named::Mcp && may_be_rebound(request.headers(), &app.config().allow_origin) {
        return Ok((About::default(), request));
    }
    let (parts, load) = request.into_parts();
    let bytes = body::whole(app, &parts.headers, load).await?;
    let about = match named {
        Named::JupyterSession => of_jupyter(&bytes),
        Named::Mcp => of_mcp(&bytes),
    };
    Ok((about, Request::from_parts(parts, Body::from(bytes))))
}

#[derive(Deserialize)]
struct JupyterSession {
    path: Option<String>,
    notebook: Option<Notebook>,
    kernel: Option<Kernel>,
}

#[derive(Deserialize)]
struct Notebook {
    path: Option<String>,
}

#[derive(Deserialize)]
struct Kernel {
    id: Option<String>,
    name: Option<String>,
}

/// A new Jupyter session is where that of its document is, or the kernel that it names.
fn of_jupyter(bytes: &[u8]) -> About {
    let Ok(body) = serde_json::from_slice::<JupyterSession>(bytes) else {
        return About::default();
    };
    let path = body.path.or_else(|| body.notebook?.path);
    let (id, name) = body
        .kernel
        .map_or((None, None), |kernel| (kernel.id, kernel.name));
    let start = id.is_none().then_some(Start {
        template: name,
        origin: Origin::Jupyter,
    });
    let kernel = id.and_then(|id| id.parse().ok()).map(ResourceRef::Kernel);
    let path = path.map(ResourceRef::JupyterPath);
    About {
        sought: path.into_iter().chain(kernel).collect(),
        start,
        lists: false,
        key: None,
    }
}

#[derive(Deserialize)]
struct Call {
    params: Option<Params>,
}

#[derive(Deserialize)]
struct Params {
    /// The tool.
    name: Option<String>,
    arguments: Option<Arguments>,
    uri: Option<String>,
}

#[derive(Deserialize)]
struct Arguments {
    session: Option<String>,
    /// `session`, `op: create`: the name of one that there may be.
    name: Option<String>,
    /// `session`, `op: create`, without a name.
    idempotency_key: Option<String>,
    op: Option<String>,
    /// `session`, `op: create`: what is started.
    template: Option<String>,
    execution_id: Option<String>,
    /// `execute`: the execution or the prompt that is answered.
    input_for: Option<String>,
}

/// A tool, or a resource, is where its session or execution is.
fn of_mcp(bytes: &[u8]) -> About {
    let Ok(Call { params: Some(params) }) = serde_json::from_slice(bytes) else {
        return About::default();
    };
    let (mut start, mut lists, mut key) = (None, false, None);
    let mut all = Vec::new();
    let of_sessions = params.name.as_deref() == Some("session");
    if let Some(arguments) = params.arguments {
        let op = arguments.op.as_deref();
        lists = of_sessions && op == Some("list") && arguments.session.is_none();
        let creates = op == Some("create");
        let ids = [arguments.execution_id, arguments.input_for];
        all.extend(
            ids.into_iter()
                .flatten()
                .filter_map(|id| execution(&id).or_else(|| prompt(&id))),
        );
        all.extend(arguments.session.map(ResourceRef::Session));
        if creates {
            key = arguments.idempotency_key.filter(|_| arguments.name.is_none());
            all.extend(arguments.name.map(ResourceRef::Session));
            start = of_sessions.then_some(Start {
                template: arguments.template,
                origin: Origin::V1,
            });
        }
    }
    let session = params.uri.and_then(|uri| {
        let rest = uri.strip_prefix("himalia://sessions/")?;
        Some(ResourceRef::Session(rest.split('/').next()?.to_owned()))
    });
    all.extend(session);
    About {
        sought: all,
        start,
        lists,
        key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "11111111-2222-3333-4444-555555555555";

    fn session(text: &str) -> ResourceRef {
        ResourceRef::Session(text.into())
    }

    #[test]
    fn jupyter_sessions_have_a_path_and_perhaps_a_kernel() {
        let body = format!(r#"{{"path": "a.ipynb", "type": "notebook", "kernel": {{"id": "{ID}"}}}}"#);
        let path = ResourceRef::JupyterPath("a.ipynb".into());
        assert_eq!(
            of_jupyter(body.as_bytes()).sought,
            [path.clone(), ResourceRef::Kernel(ID.parse().unwrap())]
        );
        let body = br#"{"notebook": {"path": "a.ipynb"}, "kernel": {"name": "warm"}}"#;
        let start = Some(Start {
            template: Some("warm".to_owned()),
            origin: Origin::Jupyter,
        });
        let sought = vec![path];
        let lists = false;
        let key = None;
        assert_eq!(
            of_jupyter(body),
            About {
                sought,
                start,
                lists,
                key
            }
        );
        assert_eq!(of_jupyter(b"[1]"), About::default());
    }

    #[test]
    fn calls_of_tools_name_sessions_and_executions() {
        let kernel = ResourceRef::Kernel(ID.parse().unwrap());
        let execution = format!("exe_{}_7", ID.replace('-', ""));
        for (body, wanted) in [
            (
                r#"{"params": {"arguments": {"session": "eda", "code": "1"}}}"#.to_owned(),
                vec![session("eda")],
            ),
            (
                format!(r#"{{"params": {{"arguments": {{"execution_id": "{execution}"}}}}}}"#),
                vec![kernel],
            ),
            (
                r#"{"params": {"arguments": {"op": "create", "name": "eda"}}}"#.to_owned(),
                vec![session("eda")],
            ),
            (
                r#"{"params": {"uri": "himalia://sessions/eda/files/a.png"}}"#.to_owned(),
                vec![session("eda")],
            ),
            (r#"{"method": "tools/list"}"#.to_owned(), vec![]),
            ("x".to_owned(), vec![]),
        ] {
            let about = of_mcp(body.as_bytes());
            assert_eq!((about.sought, about.start), (wanted, None), "{body}");
            assert!(!about.lists, "{body}");
        }
        let lists = |arguments: &str| {
            let body = format!(r#"{{"params": {{"name": "session", "arguments": {arguments}}}}}"#);
            of_mcp(body.as_bytes()).lists
        };
        assert!(lists(r#"{"op": "list"}"#));
        // The executions of one.
        assert!(!lists(r#"{"op": "list", "session": "eda"}"#));
        let body = br#"{"params": {"name": "session", "arguments": {"op": "create", "template": "warm"}}}"#;
        let start = Some(Start {
            template: Some("warm".to_owned()),
            origin: Origin::V1,
        });
        assert_eq!(of_mcp(body).start, start);
        let body =
            br#"{"params": {"name": "session", "arguments": {"op": "create", "idempotency_key": "k"}}}"#;
        assert_eq!(of_mcp(body).key.as_deref(), Some("k"));
    }
}
