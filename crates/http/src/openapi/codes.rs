//! The stable codes of errors with their statuses, in the groups in which operations have them.

use std::collections::BTreeSet;

use himalia_engine::not_found_code;

use super::operation::IN_PATHS;

/// Codes that come together.
pub(crate) type Group = &'static [(u16, &'static str)];

/// Codes of every operation.
pub(crate) const EVERY: Group = &[
    (400, "bad_request"),
    (401, "unauthenticated"),
    (403, "forbidden"),
    (404, "not_found"),
    (429, "over_budget"),
    (429, "quota_exceeded"),
    (429, "too_many_wrong_tokens"),
    (500, "internal"),
    (503, "unavailable"),
];
/// Parameters of paths whose codes are named in another way than `not_found_code` does.
const OF_PARAMETERS: &[(&str, &[&str])] = &[
    ("session_id", &["kernel_not_found", "session_not_found"]),
    ("sha256", &["artifact_not_found"]),
    ("name", &["variable_not_found"]),
    ("approval_id", &["tool_approval_not_found"]),
    ("step", &["workflow_step_not_found"]),
];

/// Codes of an operation whose path has this parameter: of the object that it names, if that is missing.
pub(super) fn of_parameter(name: &str) -> Vec<(u16, &'static str)> {
    let other = OF_PARAMETERS.iter().find(|(other, _)| *other == name);
    let codes = match other {
        Some((_, codes)) => codes.to_vec(),
        None => vec![not_found_code(name.strip_suffix("_id").unwrap_or(name))],
    };
    codes.into_iter().map(|code| (404, code)).collect()
}

/// Codes of an operation that reads a body.
pub(crate) const BODY: Group = &[
    (408, "body_timeout"),
    (413, "body_too_large"),
    (415, "unsupported_encoding"),
];
/// Codes of an operation that starts a session.
pub(crate) const START: Group = &[
    (404, "kernelspec_not_found"),
    (404, "template_not_found"),
    (409, "conflict"),
    (422, "idempotency_key_reused"),
    (422, "isolation_unavailable"),
    (422, "network_unsupported"),
    (422, "image_not_allowed"),
    (422, "limit_exceeded"),
    (422, "provisioner_unavailable"),
    (422, "credential_not_allowed"),
    (422, "tool_not_allowed"),
    (429, "kernel_limit"),
    (500, "kernel_start_failed"),
    (504, "timeout"),
    (507, "disk_full"),
];
/// Codes of an operation that searches tools.
pub(crate) const TOOLS: Group = &[
    (404, "unknown_server"),
    (404, "unknown_tool"),
    (503, "tool_unavailable"),
];
/// Codes of an operation that calls a tool.
pub(crate) const CALL: Group = &[
    (400, "invalid_arguments"),
    (403, "tool_denied"),
    (409, "approval_needed"),
    (422, "idempotency_key_reused"),
    (422, "tool_failed"),
    (429, "tool_limit"),
    (502, "reply_too_large"),
    (504, "outcome_unknown"),
    (504, "tool_timeout"),
];
/// Codes of an operation that changes the limits or the network of a session.
pub(crate) const CHANGE: Group = &[
    (409, "conflict"),
    (422, "limit_exceeded"),
    (422, "network_unsupported"),
];
/// Codes of an operation that finds the trigger of a run.
pub(crate) const TRIGGER: Group = &[(404, "schedule_not_found"), (404, "webhook_not_found")];
/// Codes of an operation that changes access tokens or credentials.
pub(crate) const TOKENS: Group = &[(409, "conflict")];
/// Codes of an operation that changes a schedule or a webhook.
pub(crate) const SCHEDULED: Group = &[
    (404, "skill_not_found"),
    (404, "template_not_found"),
    (409, "conflict"),
];
/// Codes of an operation that needs a kernel of Python.
pub(crate) const UNSUPPORTED: Group = &[(501, "unsupported")];
/// Codes of an operation that stores a secret.
pub(crate) const STORED: Group = &[(501, "unsupported")];
/// Codes of an operation that asks an authorization server.
pub(crate) const ASKED: Group = &[(504, "timeout")];
/// Codes of an operation that a session's kernel takes part in.
pub(crate) const KERNEL: Group = &[
    (409, "conflict"),
    (409, "kernel_dead"),
    (410, "removed_by_retention"),
    (410, "session_ended"),
    (504, "timeout"),
];
/// Codes of an operation that asks the kernel.
pub(crate) const QUESTION: Group = &[(501, "unsupported"), (503, "busy")];
/// Codes of an operation that starts the next process of a session, perhaps in a new sandbox.
pub(crate) const RESTART: Group = &[
    (404, "template_not_found"),
    (422, "isolation_unavailable"),
    (422, "limit_exceeded"),
    (500, "kernel_start_failed"),
];
/// Codes of an operation that an idempotency key makes repeatable.
pub(crate) const KEYED: Group = &[(422, "idempotency_key_reused")];
/// Codes of an operation that asks a person.
pub(crate) const PROMPTS: Group = &[(422, "idempotency_key_reused")];
/// Codes of an operation that starts an additional kernel in a session.
pub(crate) const ADDITIONAL: Group = &[
    (404, "kernelspec_not_found"),
    (429, "kernel_limit"),
    (500, "kernel_start_failed"),
    (501, "unsupported"),
];
/// Codes of an operation that makes branches.
pub(crate) const FORK: Group = &[
    (409, "fork_hazard"),
    (409, "fork_undone"),
    (409, "session_busy"),
    (413, "files_too_large"),
    (429, "kernel_limit"),
    (500, "fork_failed"),
    (500, "fork_probe_failed"),
    (501, "unsupported"),
    (507, "disk_full"),
];
/// Codes of an operation that runs code.
pub(crate) const RUN: Group = &[
    (400, "language_not_supported"),
    (409, "failure_limit"),
    (409, "kernel_dead"),
    (409, "kernel_restarted"),
    (422, "idempotency_key_reused"),
    (429, "queue_full"),
    (501, "unsupported"),
    (504, "timeout"),
];
/// Codes of an operation that reads a session's log.
pub(crate) const LOG: Group = &[(503, "busy")];
/// Codes of an operation on a session that may have ended.
pub(crate) const RETENTION: Group = &[(410, "removed_by_retention")];
/// Codes of an operation on an execution whose session may have ended.
pub(crate) const REMOVED: Group = &[(410, "removed_by_quota"), (410, "removed_by_retention")];
/// Codes of an operation that can be a WebSocket.
pub(crate) const WEBSOCKET: Group = &[(426, "websocket_required")];
/// Codes of an operation that reads or writes files.
pub(crate) const FILES: Group = &[
    (400, "bad_path"),
    (400, "path_outside"),
    (403, "permission_denied"),
    (404, "file_not_found"),
    (409, "directory_not_empty"),
    (409, "is_a_directory"),
    (409, "not_a_directory"),
    (409, "not_a_file"),
    (413, "file_too_large"),
    (429, "too_many_transfers"),
    (500, "file_failed"),
    (501, "unsupported"),
];
/// Codes of an operation that reads a part of a file.
pub(crate) const RANGE: Group = &[(416, "range_not_satisfiable")];
/// Codes of an operation that writes files.
pub(crate) const WRITE: Group = &[
    (422, "bad_archive"),
    (507, "disk_quota_exceeded"),
    (507, "no_space"),
];
/// Codes of the sign-in with an identity provider, which is not a described operation.
const SIGN_IN: Group = &[
    (400, "sign_in_state"),
    (403, "id_token_refused"),
    (403, "sign_in_not_granted"),
    (403, "sign_in_refused"),
    (502, "provider_answer"),
    (503, "provider_unreachable"),
];
/// Codes of paths with other methods, which no described operation has.
const OTHER_METHODS: Group = &[(405, "method_not_allowed")];

/// All codes with their statuses.
fn every_code() -> impl Iterator<Item = (u16, &'static str)> {
    [
        EVERY,
        BODY,
        START,
        TOOLS,
        CALL,
        CHANGE,
        ASKED,
        KERNEL,
        QUESTION,
        RESTART,
        ADDITIONAL,
        FORK,
        RUN,
        LOG,
        RETENTION,
        REMOVED,
        WEBSOCKET,
        FILES,
        RANGE,
        WRITE,
        SIGN_IN,
        SCHEDULED,
        UNSUPPORTED,
        OTHER_METHODS,
    ]
    .into_iter()
    .flatten()
    .copied()
    .chain(IN_PATHS.iter().flat_map(|(name, _)| of_parameter(name)))
}

/// Checks whether an operation is described with this code at this status. Debug builds check every problem that they write.
pub(crate) fn known(status: u16, code: &str) -> bool {
    every_code().any(|found| found == (status, code))
}

/// The statuses with which a code is returned, ascending.
pub(super) fn statuses(code: &str) -> BTreeSet<u16> {
    every_code()
        .filter(|(_, found)| *found == code)
        .map(|(status, _)| status)
        .collect()
}

/// The names of all codes.
#[cfg(test)]
pub(super) fn all() -> BTreeSet<&'static str> {
    every_code().map(|(_, code)| code).collect()
}
