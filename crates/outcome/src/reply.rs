//! What an `execute_reply` says beside its status.

use serde::Serialize;
use serde_json::{Map, Value as Json};

/// JSON bytes of one of the notes; larger ones are left out.
const NOTE_BYTES: usize = 64 << 10;

/// Status of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replied {
    /// The code ran to its end.
    Ok,
    /// It raised.
    Error,
    /// It never ran: an earlier request failed, and the kernel dropped what had been queued by then.
    Aborted,
}

impl Replied {
    /// From the `status` of a reply's content; anything unknown counts as an error.
    pub fn from_status(status: &str) -> Self {
        match status {
            "ok" => Self::Ok,
            // Old kernels say `abort`.
            "aborted" | "abort" => Self::Aborted,
            _ => Self::Error,
        }
    }
}

/// What `himalia_kernel` adds to the metadata of a reply, under `himalia`. Other kernels add nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Notes {
    /// `{added, changed, removed}`: names of variables.
    pub variables: Option<Json>,
    /// `{written, truncated}`: files that were written.
    pub files: Option<Json>,
    /// The exit code of a `%%bash` cell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// `{line, source, hint}` of an exception.
    #[serde(skip)]
    pub(crate) error: Option<Json>,
}

impl Notes {
    pub(crate) fn read(metadata: &mut Map<String, Json>) -> Self {
        let Some(Json::Object(mut notes)) = metadata.remove("himalia") else {
            return Self::default();
        };
        let mut take = |name: &str, right: fn(&Json) -> bool| {
            let small = |note: &Json| note.to_string().len() <= NOTE_BYTES;
            notes.remove(name).filter(|note| right(note) && small(note))
        };
        Self {
            variables: take("variables", Json::is_object),
            files: take("files", Json::is_object),
            exit_code: take("exit_code", Json::is_i64).and_then(|code| code.as_i64()),
            error: take("error", Json::is_object),
        }
    }
}
