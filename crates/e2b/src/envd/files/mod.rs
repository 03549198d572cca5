//! Files of a sandbox: read and written over HTTP, and listed, moved and removed by calls.

pub(super) mod content;
pub(super) mod service;
pub(super) mod watch;

use std::collections::BTreeMap;

use himalia_engine::{Engine, EngineError, FileKind, KernelId, ListedFile, Principal, SessionId};
use serde::Serialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::path::{ClientPath, WorkDir};

/// The files of one sandbox.
struct Files<'a> {
    engine: &'a Engine,
    principal: &'a Principal,
    kernel: KernelId,
    dir: WorkDir,
}

impl<'a> Files<'a> {
    fn of(engine: &'a Engine, principal: &'a Principal, session: SessionId) -> Result<Self, EngineError> {
        let kernel = session.first_kernel();
        let info = engine.session_info(principal, kernel)?;
        Ok(Self {
            engine,
            principal,
            kernel,
            dir: WorkDir::of(&info),
        })
    }
}

/// A file as calls show it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    name: String,
    r#type: &'static str,
    path: String,
    /// 64-bit numbers are texts in this form of JSON.
    size: String,
    mode: u32,
    permissions: String,
    owner: &'static str,
    group: &'static str,
    modified_time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    symlink_target: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metadata: BTreeMap<String, String>,
}

impl Entry {
    fn new(file: &ListedFile, named: &ClientPath) -> Self {
        let path = named.show(&file.path);
        let mode = file.mode.unwrap_or(0);
        Self {
            name: name(&path),
            r#type: kind(file.kind),
            path,
            size: file.bytes.to_string(),
            mode,
            permissions: permissions(file.kind, mode),
            owner: "user",
            group: "user",
            modified_time: text(file.modified),
            symlink_target: file.target.clone(),
            metadata: file.metadata.clone(),
        }
    }
}

fn kind(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Directory => "FILE_TYPE_DIRECTORY",
        FileKind::Symlink => "FILE_TYPE_SYMLINK",
        FileKind::File | FileKind::Other => "FILE_TYPE_FILE",
    }
}

/// The last part of a path.
fn name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

/// As `ls` shows it.
fn permissions(kind: FileKind, mode: u32) -> String {
    let kind = match kind {
        FileKind::Directory => 'd',
        FileKind::Symlink => 'L',
        FileKind::File | FileKind::Other => '-',
    };
    let bits = (0..9).rev().map(|bit| {
        let letter = ["x", "w", "r"].get(bit % 3).copied().unwrap_or_default();
        if mode & (1 << bit) == 0 { "-" } else { letter }
    });
    std::iter::once(kind.to_string())
        .chain(bits.map(str::to_owned))
        .collect()
}

fn text(at: OffsetDateTime) -> String {
    at.format(&Rfc3339).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_shown_as_letters() {
        assert_eq!(permissions(FileKind::File, 0o644), "-rw-r--r--");
        assert_eq!(permissions(FileKind::Directory, 0o755), "drwxr-xr-x");
        assert_eq!(name("/session/a/b.txt"), "b.txt");
    }
}
