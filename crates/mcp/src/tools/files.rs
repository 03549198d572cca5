//! `files`: lists, reads, writes and removes files of a session.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use himalia_engine::{ByteRange, EngineError, FileDownload, FileError, KernelId, ListedFile};
use rmcp::model::{CallToolResponse, CallToolResult, ContentBlock, Resource, Tool};
use serde::Deserialize;
use serde_json::{Value, json};
use time::format_description::well_known::Rfc3339;

use super::entry::{Effects, ToolEntry, tool};
use super::picture;
use crate::call::{Answer, Call, answer};
use crate::failure::Failure;
use crate::{arguments, file_uri, limits, sessions};

pub(super) const TOOL: ToolEntry = ToolEntry {
    name: "files",
    describe,
    run: |call| Box::pin(run(call)),
};

/// Directories inside of each other that a recursive list goes into.
const DEPTH: u32 = 20;
/// The longest character in UTF-8.
const CHARACTER: u64 = 4;

fn describe(name: &'static str) -> Tool {
    let effects = Effects {
        read_only: false,
        destructive: true,
        idempotent: true,
        open_world: false,
    };
    let schema = json!({
        "type": "object",
        "properties": {
            "op": {"enum": ["list", "read", "write", "delete"]},
            "session": {"type": "string"},
            "path": {"type": "string", "description": "relative to the work directory"},
            "text": {"type": "string", "description": "write"},
            "encoding": {"enum": ["utf-8", "base64"], "description": "of text"},
            "cursor": {"type": "string", "description": "read: first byte; list: next"},
            "limit": {"type": "integer", "description": "read: bytes (8192); list: entries (100)"},
            "recursive": {"type": "boolean", "description": "list, delete"}
        },
        "required": ["op", "session"]
    });
    let description = "Files of a session. read gives text, an image, or a link to what is large or neither.";
    tool(name, "Files", description, schema, &effects)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Op {
    List,
    Read,
    Write,
    Delete,
}

/// Encoding of bytes in `text`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
enum Encoding {
    #[serde(rename = "utf-8")]
    Utf8,
    #[serde(rename = "base64")]
    Base64,
}

/// Start of a page.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum FilePosition {
    Byte(u64),
    /// After this path.
    Path(String),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    op: Op,
    session: String,
    path: Option<String>,
    text: Option<String>,
    encoding: Option<Encoding>,
    cursor: Option<FilePosition>,
    limit: Option<u64>,
    recursive: Option<bool>,
}

impl Arguments {
    /// Refuses what the operation would ignore.
    fn check(&self) -> Result<(), Failure> {
        let given = [
            ("text", self.text.is_some(), self.op == Op::Write),
            (
                "encoding",
                self.encoding.is_some(),
                matches!(self.op, Op::Read | Op::Write),
            ),
            (
                "cursor",
                self.cursor.is_some(),
                matches!(self.op, Op::Read | Op::List),
            ),
            (
                "limit",
                self.limit.is_some(),
                matches!(self.op, Op::Read | Op::List),
            ),
            (
                "recursive",
                self.recursive.is_some(),
                matches!(self.op, Op::List | Op::Delete),
            ),
        ];
        match given.iter().find(|(_, given, used)| *given && !used) {
            None => Ok(()),
            Some((name, ..)) => Err(Failure::argument(name, "is not for this op")),
        }
    }

    fn path(&self) -> Result<&str, Failure> {
        self.path
            .as_deref()
            .ok_or_else(|| Failure::argument("path", "is missing"))
    }

    fn limit(&self, otherwise: u64, most: u64) -> Result<u64, Failure> {
        let limit = self.limit.unwrap_or(otherwise);
        if !(1..=most).contains(&limit) {
            return Err(Failure::argument("limit", format!("expected 1 to {most}")));
        }
        Ok(limit)
    }
}

async fn run(mut call: Call) -> Answer {
    let wanted: Arguments = arguments::read(call.take_arguments())?;
    wanted.check()?;
    let session = sessions::find(&call, &wanted.session)?;
    match wanted.op {
        Op::List => list(&call, session, &wanted).await,
        Op::Read => read(&call, session, &wanted).await,
        Op::Write => write(&call, session, wanted).await,
        Op::Delete => delete(&call, session, &wanted).await,
    }
}

async fn list(call: &Call, session: KernelId, wanted: &Arguments) -> Answer {
    let path = wanted.path.as_deref().unwrap_or_default();
    let limit = u32::try_from(wanted.limit(limits::FILES, limits::FILES_MOST)?).unwrap_or(u32::MAX);
    let depth = if wanted.recursive.unwrap_or(false) {
        DEPTH
    } else {
        1
    };
    let after = match &wanted.cursor {
        None => None,
        Some(FilePosition::Path(after)) => Some(after.as_str()),
        Some(FilePosition::Byte(_)) => {
            return Err(Failure::argument("cursor", "expected the next of a list"));
        }
    };
    let found = call
        .engine
        .list_files(&call.principal, session, path, depth, limit, after)
        .await?;
    let mut lines: Vec<String> = found.entries.iter().map(line).collect();
    let more = match &found.next {
        Some(next) => format!("; continue at cursor {next:?}"),
        None if found.truncated => "; there are more than are shown".to_owned(),
        None => String::new(),
    };
    lines.push(format!(
        "[{} entries, {} bytes of files{more}]",
        found.total_entries, found.total_bytes
    ));
    let entries: Vec<Value> = found.entries.iter().map(entry).collect();
    let body = json!({
        "path": path,
        "entries": entries,
        "total": {"entries": found.total_entries, "bytes": found.total_bytes},
        "truncated": found.truncated,
        "next": found.next,
    });
    Ok(answer(body, lines.join("\n")).into())
}

fn entry(file: &ListedFile) -> Value {
    json!({
        "path": file.path,
        "kind": file.kind,
        "bytes": file.bytes,
        "modified": file.modified.format(&Rfc3339).ok(),
    })
}

/// As `ls -p` marks directories, so that the kind costs a model one character.
fn line(file: &ListedFile) -> String {
    match json!(file.kind).as_str() {
        Some("file") => format!("{} {}", file.path, file.bytes),
        Some("directory") => format!("{}/", file.path),
        kind => format!("{} ({})", file.path, kind.unwrap_or("other")),
    }
}

async fn read(call: &Call, session: KernelId, wanted: &Arguments) -> Answer {
    let path = wanted.path()?;
    let offset = match &wanted.cursor {
        None => 0,
        Some(FilePosition::Byte(first)) => *first,
        Some(FilePosition::Path(text)) => {
            let first = text.parse();
            first.map_err(|_| Failure::argument("cursor", "expected a number of bytes"))?
        }
    };
    // A character is never cut, so there has to be room for one.
    let limit = wanted
        .limit(limits::PAGE_BYTES, limits::PAGE_BYTES_MOST)?
        .max(CHARACTER);
    let range = ByteRange::From {
        first: offset,
        last: Some(offset.saturating_add(limit - 1)),
    };
    let file = call
        .engine
        .read_file(&call.principal, session, path, Some(range))
        .await;
    let file = match file {
        // The file has no byte there: an empty one, or its end.
        Err(EngineError::Files {
            code: FileError::Range,
            ..
        }) if offset == 0 => {
            call.engine
                .read_file(&call.principal, session, path, None)
                .await?
        }
        other => other?,
    };
    let (bytes, total) = take(file, limit).await?;
    if wanted.encoding == Some(Encoding::Base64) {
        return Ok(encoded(path, &bytes, offset, total));
    }
    let whole = offset == 0 && bytes.len() as u64 >= total;
    let link = || {
        let uri = file_uri::of(session, path);
        (
            ContentBlock::resource_link(Resource::new(&uri, path).with_size(total)),
            uri,
        )
    };
    let Some((skipped, text)) = text_of(&bytes, offset, total) else {
        if offset == 0
            && let Some(shown) = picture::of(call, session, path, &bytes, total).await?
        {
            return Ok(shown.into());
        }
        let (link, uri) = link();
        let body = json!({"path": path, "bytes_total": total, "binary": true, "uri": uri});
        return Ok(with_link(
            answer(body, format!("[{path} is not text: {total} bytes, {uri}]")),
            link,
        )
        .into());
    };
    let first = offset + skipped as u64;
    let next = first + text.len() as u64;
    let mut body = json!({
        "path": path, "text": text, "offset": first, "next": (next < total).then_some(next), "bytes_total": total,
    });
    if whole {
        return Ok(answer(body, text.to_owned()).into());
    }
    let state = if next < total {
        format!("continue at cursor {next}")
    } else {
        "the end".to_owned()
    };
    let (link, uri) = link();
    body["uri"] = uri.into();
    let shown = answer(
        body,
        format!("{text}\n[bytes {first} to {next} of {total}: {state}]"),
    );
    Ok(with_link(shown, link).into())
}

/// A part of a file as it is.
fn encoded(path: &str, bytes: &[u8], offset: u64, total: u64) -> CallToolResponse {
    let end = offset + bytes.len() as u64;
    let body = json!({
        "path": path, "base64": BASE64_STANDARD.encode(bytes), "offset": offset,
        "next": (end < total).then_some(end), "bytes_total": total,
    });
    let text = format!(
        "{}\n[base64 of bytes {offset} to {end} of {total}]",
        BASE64_STANDARD.encode(bytes)
    );
    answer(body, text).into()
}

fn with_link(mut result: CallToolResult, link: ContentBlock) -> CallToolResult {
    result.content.push(link);
    result
}

/// At most `limit` bytes, and how many the whole file has.
pub(crate) async fn take(mut file: FileDownload, limit: u64) -> Result<(Vec<u8>, u64), EngineError> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let total = file.info.as_ref().map_or(0, |info| info.size);
    let mut bytes = Vec::new();
    while let Some(piece) = file.next().await {
        let piece = piece?;
        let room = limit.saturating_sub(bytes.len()).min(piece.len());
        bytes.extend_from_slice(piece.get(..room).unwrap_or_default());
        if room < piece.len() {
            break;
        }
    }
    Ok((bytes, total))
}

/// The whole characters of a part of a file, and how many bytes of a cut one are before them; `None` if it is no text.
fn text_of(bytes: &[u8], offset: u64, total: u64) -> Option<(usize, &str)> {
    let is_inner = |byte: &&u8| **byte & 0xC0 == 0x80;
    let skipped = if offset == 0 {
        0
    } else {
        bytes.iter().take(3).take_while(is_inner).count()
    };
    let rest = bytes.get(skipped..)?;
    let text = match std::str::from_utf8(rest) {
        Ok(text) => text,
        // The last character continues behind the part.
        Err(error) if error.error_len().is_none() && offset + (bytes.len() as u64) < total => {
            std::str::from_utf8(rest.get(..error.valid_up_to())?).ok()?
        }
        Err(_) => return None,
    };
    (!text.contains('\0')).then_some((skipped, text))
}

async fn write(call: &Call, session: KernelId, wanted: Arguments) -> Answer {
    let path = wanted.path()?.to_owned();
    let text = wanted
        .text
        .ok_or_else(|| Failure::argument("text", "is missing"))?;
    let bytes = match wanted.encoding {
        Some(Encoding::Base64) => {
            let decoded = BASE64_STANDARD.decode(text.as_bytes());
            decoded.map_err(|error| Failure::argument("text", format!("is not base64: {error}")))?
        }
        Some(Encoding::Utf8) | None => text.into_bytes(),
    };
    let mut upload = call
        .engine
        .write_file(&call.principal, session, &path, BTreeMap::new())
        .await?;
    upload.send(bytes.into()).await?;
    let written = upload.finish().await?;
    let body = json!({"path": path, "bytes": written.bytes, "created": written.created});
    let how = if written.created { "written" } else { "replaced" };
    Ok(answer(body, format!("{path} is {how}: {} bytes", written.bytes)).into())
}

async fn delete(call: &Call, session: KernelId, wanted: &Arguments) -> Answer {
    let path = wanted.path()?;
    let recursive = wanted.recursive.unwrap_or(false);
    let removed = call
        .engine
        .delete_file(&call.principal, session, path, recursive)
        .await?;
    let body = json!({"path": path, "removed": removed.entries});
    Ok(answer(body, format!("{path} is removed: {} entries", removed.entries)).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_text_has_whole_characters() {
        let all = "añ€o".as_bytes();
        let total = all.len() as u64;
        assert_eq!(text_of(all, 0, total), Some((0, "añ€o")));
        assert_eq!(text_of(&all[..2], 0, total), Some((0, "a")));
        assert_eq!(text_of(&all[2..5], 2, total), Some((1, "")));
        assert_eq!(text_of(&all[2..6], 2, total), Some((1, "€")));
        // At the end of a file nothing continues.
        assert_eq!(text_of(&all[..2], 0, 2), None);
        for binary in [&b"\x89PNG"[..], b"a\0b", b"\xff\xfe"] {
            assert_eq!(text_of(binary, 0, 100), None);
        }
        assert_eq!(text_of(b"", 0, 0), Some((0, "")));
    }
}
