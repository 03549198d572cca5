//! `filesystem.Filesystem`: calls on files.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use himalia_engine::{EngineError, FileError, FileKind, ListedFile, MAX_LISTED, Principal};
use serde::Deserialize;
use serde_json::{Value, json};

use super::watch::{self, Watch};
use super::{Entry, Files, kind};
use crate::caller::{Caller, SandboxName, message};
use crate::connect::{Code, RpcFailure, deadline, failed, first, streamed};
use crate::envd::user::check_header;
use crate::facade::Facade;

/// Members that all calls have.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct FileCall {
    path: String,
    depth: u32,
    source: String,
    destination: String,
    recursive: bool,
    include_entry: bool,
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
            has_entries: self.include_entry,
        }
    }
}

/// Links that are followed, one after the other.
const LINKS: usize = 8;

/// The target of a link at this absolute path, by the texts of both.
fn beside(link: &str, target: &str) -> String {
    let mut names: Vec<&str> = if target.starts_with('/') {
        Vec::new()
    } else {
        let above = link.rsplit_once('/').map_or("", |(above, _)| above);
        above.split('/').collect()
    };
    for name in target.split('/') {
        match name {
            "" | "." => {}
            ".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    names.retain(|name| !name.is_empty());
    format!("/{}", names.join("/"))
}

impl Files<'_> {
    async fn stat(&self, path: &str) -> Result<Value, RpcFailure> {
        let named = self.dir.client_path(path);
        let file = self
            .engine
            .stat_file(self.principal, self.kernel, named.path())
            .await?;
        let mut entry = Entry::new(&file, &named);
        if file.kind == FileKind::Symlink {
            self.follow(&mut entry, file).await;
        }
        Ok(json!({ "entry": entry }))
    }

    /// Gives the entry of a link the type of its target, and the target as an absolute path. The entry of a link that leads nowhere stays
    /// as it is.
    async fn follow(&self, entry: &mut Entry, link: ListedFile) {
        let (mut path, mut found) = (entry.path.clone(), link);
        for _ in 0..LINKS {
            let Some(target) = &found.target else { break };
            path = beside(&path, target);
            let named = self.dir.client_path(&path);
            let next = self
                .engine
                .stat_file(self.principal, self.kernel, named.path())
                .await;
            let Ok(next) = next else { return };
            found = next;
        }
        if found.kind != FileKind::Symlink {
            entry.r#type = kind(found.kind);
            entry.symlink_target = Some(path);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_of_a_link_is_found_by_its_text() {
        for (link, target, expected) in [
            ("/home/user/dir/link", "file", "/home/user/dir/file"),
            ("/home/user/dir/link", "../file", "/home/user/file"),
            ("/home/user/dir/link", "./a//b/", "/home/user/dir/a/b"),
            ("/home/user/link", "/tmp/x", "/tmp/x"),
            ("/link", "../../x", "/x"),
        ] {
            assert_eq!(beside(link, target), expected, "{link} {target}");
        }
    }
}
