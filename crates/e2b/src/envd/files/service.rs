//! `filesystem.Filesystem`: calls on files.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use himalia_engine::{EngineError, FileError, FileKind, MAX_LISTED, Principal};
use serde::Deserialize;
use serde_json::{Value, json};

use super::watch::{self, Watch};
use super::{Entry, Files};
use crate::caller::{Caller, SandboxName, message};
use crate::connect::{Code, RpcFailure, deadline, failed, first, streamed};
use crate::envd::user::check_header;
use crate::facade::Facade;

/// Members that all calls have.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct FileCall {
    path: String,
    depth: u32,
    source: String,
    destination: String,
    recursive: bool,
    #[serde(rename = "watcherId")]
    watcher: String,
}

pub(in crate::envd) async fn call(
    State(facade): State<Facade>,
    Caller(principal): Caller,
    named: SandboxName,
    Path(method): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    if method == "WatchDir" {
        let opened = watched(&facade, &principal, &named, &headers, body).await;
        return opened.unwrap_or_else(failed);
    }
    let answered = async {
        check_header(&headers)?;
        let session = named.running(&facade.engine, &principal)?;
        let requested: FileCall = message(body).await?;
        let files = Files::of(&facade.engine, &principal, session)?;
        match method.as_str() {
            "Stat" => files.stat(&requested.path).await,
            "ListDir" => files.list(&requested.path, requested.depth).await,
            "MakeDir" => files.make(&requested.path).await,
            "Move" => files.rename(&requested.source, &requested.destination).await,
            "Remove" => files.remove(&requested.path).await,
            "CreateWatcher" => facade.watchers.create(&files, session, requested.watch()).await,
            "GetWatcherEvents" => facade.watchers.events(&files, session, &requested.watcher).await,
            "RemoveWatcher" => facade.watchers.remove(session, &requested.watcher),
            _ => Err(RpcFailure::new(
                Code::Unimplemented,
                "this gateway does not offer this",
            )),
        }
    };
    match answered.await {
        Ok(answer) => Json(answer).into_response(),
        Err(failure) => failure.into_response(),
    }
}

/// `WatchDir`: a stream for as long as the client listens.
async fn watched(
    facade: &Facade,
    principal: &Principal,
    named: &SandboxName,
    headers: &HeaderMap,
    body: Body,
) -> Result<Response, RpcFailure> {
    check_header(headers)?;
    let session = named.running(&facade.engine, principal)?;
    let requested: FileCall = first(body).await?;
    let files = Files::of(&facade.engine, principal, session)?;
    let shutdown = facade.shutdown.clone();
    let events = watch::follow(&files, session, requested.watch(), deadline(headers), shutdown).await?;
    Ok(streamed(events))
}

impl FileCall {
    fn watch(&self) -> Watch {
        Watch {
            path: self.path.clone(),
            recursive: self.recursive,
        }
    }
}

impl Files<'_> {
    async fn stat(&self, path: &str) -> Result<Value, RpcFailure> {
        let named = self.dir.client_path(path);
        let file = self
            .engine
            .stat_file(self.principal, self.kernel, named.path())
            .await?;
        Ok(json!({ "entry": Entry::new(&file, &named) }))
    }

    async fn list(&self, path: &str, depth: u32) -> Result<Value, RpcFailure> {
        let named = self.dir.client_path(path);
        let file = self
            .engine
            .stat_file(self.principal, self.kernel, named.path())
            .await?;
        if file.kind == FileKind::File {
            let reason = format!("{} is not a directory", named.shown());
            return Err(RpcFailure::new(Code::InvalidArgument, reason));
        }
        let listed = self
            .engine
            .list_files(
                self.principal,
                self.kernel,
                named.path(),
                depth.max(1),
                MAX_LISTED,
                None,
            )
            .await?;
        if listed.truncated {
            let reason = format!("there are more than {MAX_LISTED} entries: list fewer directories at once");
            return Err(RpcFailure::new(Code::ResourceExhausted, reason));
        }
        let entries: Vec<Entry> = listed
            .entries
            .iter()
            .map(|file| Entry::new(file, &named))
            .collect();
        Ok(json!({ "entries": entries }))
    }

    async fn make(&self, path: &str) -> Result<Value, RpcFailure> {
        let named = self.dir.client_path(path);
        let is_new = self
            .engine
            .make_directory(self.principal, self.kernel, named.path())
            .await?;
        if !is_new {
            let reason = format!("{} exists already", named.shown());
            return Err(RpcFailure::new(Code::AlreadyExists, reason));
        }
        self.stat(path).await
    }

    async fn rename(&self, source: &str, destination: &str) -> Result<Value, RpcFailure> {
        let (from, to) = (self.dir.client_path(source), self.dir.client_path(destination));
        self.engine
            .move_file(self.principal, self.kernel, from.path(), to.path())
            .await?;
        self.stat(destination).await
    }

    /// Removes a path. A missing path is removed already.
    async fn remove(&self, path: &str) -> Result<Value, RpcFailure> {
        let named = self.dir.client_path(path);
        match self
            .engine
            .delete_file(self.principal, self.kernel, named.path(), true)
            .await
        {
            Ok(_)
            | Err(EngineError::Files {
                code: FileError::NotFound,
                ..
            }) => Ok(json!({})),
            Err(error) => Err(error.into()),
        }
    }
}
