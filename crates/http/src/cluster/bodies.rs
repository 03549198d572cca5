//! Sessions that are named in the body of a request.

use axum::body::Body;
use axum::extract::Request;
use serde::Deserialize;

use super::Sought;
use super::served_at::{Named, execution};
use crate::app::App;
use crate::auth::may_be_rebound;
use crate::body;
use crate::error::ApiError;

/// What the body of a request names, the first that exists counts; and the request as it was. A body that cannot be
/// understood names nothing: its handler says what is wrong with it.
pub(super) async fn read(
    app: &App,
    named: Named,
    request: Request,
) -> Result<(Vec<Sought>, Request), ApiError> {
    if named == Named::Mcp && may_be_rebound(request.headers(), &app.config().allow_origin) {
        return Ok((Vec::new(), request));
    }
    let (parts, load) = request.into_parts();
    let bytes = body::whole(app, &parts.headers, load).await?;
    let sought = match named {
        Named::JupyterSession => of_jupyter(&bytes),
        Named::Mcp => of_mcp(&bytes),
    };
    Ok((sought, Request::from_parts(parts, Body::from(bytes))))
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
}

/// A new Jupyter session is where that of its document is, or the kernel that it names.
fn of_jupyter(bytes: &[u8]) -> Vec<Sought> {
    let Ok(body) = serde_json::from_slice::<JupyterSession>(bytes) else {
        return Vec::new();
    };
    let path = body.path.or_else(|| body.notebook?.path);
    let kernel = body.kernel.and_then(|kernel| kernel.id?.parse().ok());
    let path = path.map(Sought::JupyterPath);
    path.into_iter().chain(kernel.map(Sought::Kernel)).collect()
}

#[derive(Deserialize)]
struct Call {
    params: Option<Params>,
}

#[derive(Deserialize)]
struct Params {
    arguments: Option<Arguments>,
    uri: Option<String>,
}

#[derive(Deserialize)]
struct Arguments {
    session: Option<String>,
    /// `session`, `op: create`: the name of one that there may be.
    name: Option<String>,
    op: Option<String>,
    execution_id: Option<String>,
    /// `execute`: the execution whose prompt is answered.
    input_for: Option<String>,
}

/// A tool, or a resource, is where its session or execution is.
fn of_mcp(bytes: &[u8]) -> Vec<Sought> {
    let Ok(Call { params: Some(params) }) = serde_json::from_slice(bytes) else {
        return Vec::new();
    };
    let mut all = Vec::new();
    if let Some(arguments) = params.arguments {
        let executions = [arguments.execution_id, arguments.input_for];
        all.extend(executions.into_iter().flatten().filter_map(|id| execution(&id)));
        all.extend(arguments.session.map(Sought::Session));
        if arguments.op.as_deref() == Some("create") {
            all.extend(arguments.name.map(Sought::Session));
        }
    }
    let session = params.uri.and_then(|uri| {
        let rest = uri.strip_prefix("himalia://sessions/")?;
        Some(Sought::Session(rest.split('/').next()?.to_owned()))
    });
    all.extend(session);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "11111111-2222-3333-4444-555555555555";

    fn session(text: &str) -> Sought {
        Sought::Session(text.into())
    }

    #[test]
    fn jupyter_sessions_have_a_path_and_perhaps_a_kernel() {
        let body = format!(r#"{{"path": "a.ipynb", "type": "notebook", "kernel": {{"id": "{ID}"}}}}"#);
        let path = Sought::JupyterPath("a.ipynb".into());
        assert_eq!(
            of_jupyter(body.as_bytes()),
            [path.clone(), Sought::Kernel(ID.parse().unwrap())]
        );
        assert_eq!(of_jupyter(br#"{"notebook": {"path": "a.ipynb"}}"#), [path]);
        assert_eq!(of_jupyter(b"[1]"), []);
    }

    #[test]
    fn calls_of_tools_name_sessions_and_executions() {
        let kernel = Sought::Kernel(ID.parse().unwrap());
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
            assert_eq!(of_mcp(body.as_bytes()), wanted, "{body}");
        }
    }
}
