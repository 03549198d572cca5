//! Messages about files that take too much space: to clients whose execution is refused, and to users.

use bytes::Bytes;
use himalia_model::DiskUse;
use himalia_wire::Channel;
use serde_json::json;

use super::watch::{Execute, FREE_SPACE};
use crate::event::Request;
use crate::executions::records::execution_of;
use crate::synthetic;

/// Error code of a refusal, and reason of a stopped process.
pub(super) const CODE: &str = "disk_quota_exceeded";

/// The answers to an execution that is not accepted, with their owners: those of a kernel whose code has failed.
pub(super) fn answers(
    request: &Request,
    found: &DiskUse,
    kernel_session: &str,
) -> Vec<(Channel, u64, Bytes)> {
    let reason = format!("{}. {}", reason(found), advice());
    let error = json!({"ename": CODE, "evalue": reason, "traceback": [format!("{CODE}: {reason}")]});
    let mut reply = error.clone();
    reply["status"] = "error".into();
    // No execution has no number; clients want one.
    reply["execution_count"] = 0.into();
    reply["user_expressions"] = json!({});
    let silent = Execute::of(request.frame.content()).silent;
    let state = |state: &str| json!({"execution_state": state});
    let all = [
        (Channel::Iopub, "status", state("busy")),
        (Channel::Iopub, "error", error),
        (Channel::Shell, "execute_reply", reply),
        (Channel::Iopub, "status", state("idle")),
    ];
    let shown = all
        .into_iter()
        .filter(|(_, msg_type, _)| !(silent && *msg_type == "error"));
    let to_owner = execution_of(request.owner).is_some();
    shown
        .map(|(channel, msg_type, content)| {
            let frame = synthetic::answer(
                kernel_session,
                channel,
                msg_type,
                request.frame.header(),
                &content,
            );
            let owner = if channel == Channel::Shell || to_owner {
                request.owner
            } else {
                0
            };
            (channel, owner, frame)
        })
        .collect()
}

/// Message to users about a remedy, in one line.
pub(super) fn notice(found: &DiskUse, done: &str) -> String {
    format!("[himalia: {}. {done}. {}]\n", reason(found), advice())
}

fn reason(found: &DiskUse) -> String {
    let limit = mebibytes(found.limit_bytes);
    if found.uncounted {
        return format!(
            "disk quota exceeded: this session has more files, or deeper directories, than can be counted; its limit is {limit}"
        );
    }
    format!(
        "disk quota exceeded: the files of this session take {}, the limit is {limit}",
        mebibytes(found.used_bytes)
    )
}

fn advice() -> String {
    format!(
        "Until there is room, only executions that begin with the line `# {FREE_SPACE}` are taken: delete files in one"
    )
}

/// With one digit, never rounded down: what is over its limit looks so.
fn mebibytes(bytes: u64) -> String {
    let tenths = (u128::from(bytes) * 10).div_ceil(1 << 20);
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}
