//! The column of the table of routes that says which replica serves a request.

use axum::http::{HeaderMap, Method, Uri};
use himalia_engine::{ExecutionId, KernelId, Principal, PromptId, ResourceRef};
use himalia_runs::uuid_of_run;

use super::bodies::BodyReader;
use super::merged_list::MergedList;
use super::start_body::StartBody;
use crate::prefix::decode;

/// The replica that serves the requests of a route.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ServedAt {
    /// The replica that received the request.
    Here,
    /// The owner of the object that the first parameter of the path names.
    Owner(PathParameter),
    /// The same owner. The response is a stream of events, which continues at the next owner.
    Events(PathParameter),
    /// The same owner. If there is none, the request starts a session at any replica.
    OwnerOrStart(PathParameter),
    /// The replica that this function finds from the address and the headers of a request.
    Head(fn(&RequestHead<'_>) -> Target),
    /// The owner of an object that the body names.
    Body(BodyReader),
    /// Any replica: the request starts a session.
    Start(StartBody),
    /// All replicas. Their responses are merged into one.
    All(MergedList),
    /// The first replica that has the content.
    First,
}

/// The object that a parameter of a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathParameter {
    Kernel,
    JupyterSession,
    /// A session of the native API: its id or name.
    Session,
    Execution,
    Prompt,
    Run,
}

/// The part of a request that is read before its body.
#[derive(Debug)]
pub(crate) struct RequestHead<'a> {
    pub(crate) principal: &'a Principal,
    pub(crate) method: &'a Method,
    pub(crate) uri: &'a Uri,
    pub(crate) headers: &'a HeaderMap,
}

/// The replica that serves one request.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// The replica that received it.
    Here,
    /// The owner of an object.
    Owner(ResourceRef),
    /// The owner of an object. If there is none, the handler of this replica creates it.
    OwnerOrNew(ResourceRef),
    /// All replicas.
    All(MergedList),
}

impl PathParameter {
    /// Reads the first parameter of the path. `None` if it is not an id of this kind: the handler returns the error.
    pub(super) fn read(self, pattern: &str, path: &str) -> Option<ResourceRef> {
        let position = pattern.split('/').position(|segment| segment.starts_with('{'))?;
        let text = String::from_utf8(decode(path.split('/').nth(position)?)).ok()?;
        match self {
            Self::Kernel => text.parse().ok().map(ResourceRef::Kernel),
            Self::JupyterSession => text.parse().ok().map(ResourceRef::JupyterSession),
            Self::Session => Some(ResourceRef::Session(text)),
            Self::Execution => execution(&text),
            Self::Prompt => prompt(&text),
            Self::Run => run(&text),
        }
    }
}

impl RequestHead<'_> {
    pub(crate) fn idempotency_key(&self) -> Option<&str> {
        self.headers.get("idempotency-key")?.to_str().ok()
    }
}

/// An execution is at the owner of its kernel.
pub(crate) fn execution(id: &str) -> Option<ResourceRef> {
    let id: ExecutionId = id.parse().ok()?;
    Some(ResourceRef::Kernel(id.kernel))
}

/// A prompt is at the owner of its kernel. `None` for a prompt of a workflow step, which all replicas have.
pub(crate) fn prompt(id: &str) -> Option<ResourceRef> {
    let id: PromptId = id.parse().ok()?;
    Some(ResourceRef::Kernel(id.kernel))
}

/// A run of a skill is at the owner of its session. `None` for other runs, whose rows all replicas have.
fn run(id: &str) -> Option<ResourceRef> {
    uuid_of_run(id).map(|id| ResourceRef::Kernel(KernelId(id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "11111111-2222-3333-4444-555555555555";

    #[test]
    fn the_first_parameter_names_the_object() {
        let kernel = Some(ResourceRef::Kernel(ID.parse().unwrap()));
        let hex = ID.replace('-', "");
        assert_eq!(
            PathParameter::Session.read(
                "/v1/sessions/{session_id}/files/{*path}",
                "/v1/sessions/my%20eda/files/a/b"
            ),
            Some(ResourceRef::Session("my eda".into()))
        );
        let channels = "/api/kernels/{kernel_id}/channels";
        assert_eq!(
            PathParameter::Kernel.read(channels, &channels.replace("{kernel_id}", ID)),
            kernel
        );
        for (parameter, pattern, id) in [
            (
                PathParameter::Execution,
                "/v1/executions/{execution_id}/events",
                format!("exe_{hex}_7"),
            ),
            (
                PathParameter::Prompt,
                "/v1/prompts/{prompt_id}",
                format!("prm_{hex}_1"),
            ),
            (PathParameter::Run, "/v1/runs/{run_id}", format!("run_{hex}")),
        ] {
            let path: Vec<_> = pattern
                .split('/')
                .map(|part| if part.starts_with('{') { &id } else { part })
                .collect();
            assert_eq!(parameter.read(pattern, &path.join("/")), kernel, "{pattern}");
        }
        assert_eq!(
            PathParameter::Kernel.read("/api/kernels/{kernel_id}", "/api/kernels/x"),
            None
        );
    }
}
