//! The API's JSON objects.

use std::collections::BTreeMap;

use axum::extract::Path;
use himalia_engine::{JupyterSessionId, KernelId, KernelJson, KernelModel, KernelSpec, SessionModel};
use serde::Serialize;

use crate::app::App;
use crate::error::ApiError;
use crate::prefix::encode_segment;

/// A kernel. Gateway clients index every one of these keys and parse the time strictly: a missing one breaks their
/// whole list.
#[derive(Debug, Serialize)]
pub(crate) struct Kernel {
    id: KernelId,
    name: String,
    last_activity: String,
    execution_state: &'static str,
    connections: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl From<KernelModel> for Kernel {
    fn from(model: KernelModel) -> Self {
        Self {
            id: model.id,
            name: model.name,
            last_activity: himalia_wire::build::timestamp(model.last_activity),
            execution_state: model.execution_state.as_str(),
            connections: model.connections,
            reason: model.reason.filter(|r| !r.is_empty()),
        }
    }
}

/// A session: a path bound to a kernel.
#[derive(Debug, Serialize)]
pub(crate) struct Session {
    id: JupyterSessionId,
    path: String,
    name: String,
    #[serde(rename = "type")]
    kind: String,
    kernel: Kernel,
    #[serde(skip_serializing_if = "Option::is_none")]
    notebook: Option<Notebook>,
}

/// The older spelling of a notebook session's path and name.
#[derive(Debug, Serialize)]
struct Notebook {
    path: String,
    name: String,
}

impl From<SessionModel> for Session {
    fn from(model: SessionModel) -> Self {
        let notebook = (model.kind == "notebook").then(|| Notebook {
            path: model.path.clone(),
            name: model.name.clone(),
        });
        Self {
            id: model.id,
            path: model.path,
            name: model.name,
            kind: model.kind,
            kernel: model.kernel.into(),
            notebook,
        }
    }
}

/// A kernelspec. `problem` is ours: it says why the kernelspec cannot be started.
#[derive(Debug, Serialize)]
pub(crate) struct Kernelspec {
    name: String,
    spec: KernelJson,
    /// Key → address. Clients rewrite everything before `/kernelspecs/` to their own server.
    resources: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

impl Kernelspec {
    pub(super) fn new(app: &App, model: KernelSpec) -> Self {
        let name = encode_segment(&model.name);
        let address = |file: &str| app.url(&format!("/kernelspecs/{name}/{}", encode_segment(file)));
        let resources = model
            .resources
            .iter()
            .map(|(key, file)| (key.clone(), address(file)))
            .collect();
        let mut spec = model.spec;
        if spec.display_name.is_empty() {
            spec.display_name.clone_from(&model.name);
        }
        Self {
            name: model.name,
            spec,
            resources,
            problem: model.problem,
        }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct Kernelspecs {
    pub(super) default: String,
    pub(super) kernelspecs: BTreeMap<String, Kernelspec>,
}

/// The kernel id of a path; what is no id names no kernel.
pub(crate) fn kernel_id(Path(text): &Path<String>) -> Result<KernelId, ApiError> {
    text.parse().map_err(|_| absent("Kernel", text))
}

pub(super) fn session_id(Path(text): &Path<String>) -> Result<JupyterSessionId, ApiError> {
    text.parse().map_err(|_| absent("Session", text))
}

fn absent(what: &str, id: &str) -> ApiError {
    let id: String = id.chars().take(64).flat_map(char::escape_debug).collect();
    ApiError::not_found(format!("{what} does not exist: {id}"))
}
