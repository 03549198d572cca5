//! The meaning of each code of an error, its cause, whether to retry, and the remedy. docs/reference/errors.md, `x-error-codes` of
//! docs/openapi.json and the hints of the commands are made from this table.

/// Tells whether the same call may succeed later without a change by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Yes: `retryable` is true, and `retry_after_s` is the pause.
    Yes,
    /// No, before the cause is removed.
    No,
    /// `retryable` of the problem decides.
    Depends,
}

impl Retry {
    /// As pages and the description of the API have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::Depends => "depends",
        }
    }
}

/// One code.
#[derive(Debug)]
pub struct CodeExplanation {
    /// The chapter of the page.
    pub area: &'static str,
    /// The stable word for programs.
    pub code: &'static str,
    /// Rule for a client that repeats the call.
    pub retry: Retry,
    /// The problem, in one sentence.
    pub meaning: &'static str,
    /// Usual causes, in whole sentences.
    pub cause: &'static str,
    /// Actions of the caller or the operator, in whole sentences.
    pub remedy: &'static str,
}

macro_rules! explained {
    ($($area:literal: $($code:ident $retry:ident $meaning:literal $cause:literal $remedy:literal;)*)*) => {
        &[$($(CodeExplanation {
            area: $area,
            code: stringify!($code),
            retry: Retry::$retry,
            meaning: $meaning,
            cause: $cause,
            remedy: $remedy,
        },)*)*]
    };
}

/// All codes, in the order of the page.
pub const ERROR_CODES: &[CodeExplanation] = explained! {
"Requests":
bad_request No "A member, parameter or header of the request is invalid."
    "`field` names it, and `detail` the expected value. Unknown members are refused, too."
    "Correct the field and send the request again.";
unauthenticated No "The request has no valid token."
    "The token is missing, mistyped, expired or revoked, or the gateway has another token file."
    "Send `Authorization: Bearer TOKEN`. The operator's token is in the file `token` of the data directory; `himalia token create` makes others.";
too_many_wrong_tokens No "Too many requests with wrong tokens came from this address. The connection is closed."
    "A client repeats a wrong token."
    "Stop the client and correct its token: a valid token is accepted at once. Another wrong one is refused until `Retry-After` has passed.";
forbidden No "The token is valid, but its scope or tenant does not allow this call."
    "Calls that change something need the scope `execute`, approvals and tokens need `admin`."
    "Use a token with the needed scope. `GET /api/me` returns the scope of the token in use.";
not_found No "Nothing is at this address, or the object belongs to another caller."
    "A mistyped path, a missing base URL, or an id of another tenant."
    "Compare the path with `GET /v1/openapi.json`.";
method_not_allowed No "The path exists, but not with this method."
    "For example `POST` where only `GET` and `PUT` exist."
    "Look up the methods of the path in `GET /v1/openapi.json`.";
body_timeout No "The body of the request did not arrive in time."
    "A slow or interrupted connection, or a `Content-Length` that is larger than the body."
    "Send the request again over a faster connection, or send less at once.";
body_too_large No "The body of the request exceeds the limit of this operation."
    "`detail` names the limit."
    "Send less. Upload data as files, in parts.";
unsupported_encoding No "The body is compressed."
    "The header `Content-Encoding` has another value than `identity`."
    "Send the body without compression.";
websocket_required No "The address is a WebSocket, and the request is not an upgrade."
    "A plain HTTP request, or a proxy that removes `Upgrade` and `Connection`."
    "Open the address with a WebSocket client. Let the proxy forward upgrades.";
idempotency_key_reused No "The idempotency key was used before, for a different request."
    "A client uses one key for two requests, or changed the request before it repeated it."
    "Use a new key for each request, and repeat a request without changes.";
conflict No "The request contradicts the present state."
    "For example a name that is taken, or two changes of one object at the same time. `detail` names it."
    "Read the object, then decide whether to send the request again.";
unsupported No "This gateway, kernel or sandbox does not have the requested function."
    "A kernel that is not Python, a sandbox of another gateway version, or a gateway without `credentials_key_file`. `detail` names it."
    "Use a Python kernel, start a new session, or set `credentials_key_file`.";
internal No "The gateway failed. The request may have been done."
    "A failed disk, database or invariant. The log of the gateway has the cause with the `request_id`."
    "Give the `request_id` to the operator. Check whether the request was done before you repeat it.";
unavailable Depends "The gateway cannot do this now."
    "It is starting or stopping, a sandbox is not connected, or another replica does not respond."
    "If `retryable` is true, wait for `retry_after_s` and send the same request. If it is false, the request may have been done: check before you repeat it.";
timeout Yes "The operation took longer than its limit."
    "A kernel, a server or another replica was slow. `detail` names the limit."
    "Send the same request again. Raise `wait_s` or the time-out of the request if it has one.";
busy Depends "The kernel or the gateway was occupied and did not get to the request in time."
    "Code is running in the kernel, or many requests read logs at the same time."
    "Wait for the end of the execution, or interrupt it, and send the same request again. Begin a sign-in again.";

"Limits":
over_budget Yes "You, your tenant or the gateway use as much of a resource as allowed at the same time."
    "Connections, streams, requests per second, starts, memory of responses, or disk. `detail` names the resource."
    "Wait for `retry_after_s`. Close what you do not need, or ask the operator for a higher limit of the tenant.";
quota_exceeded Yes "A quota of the tenant is used up."
    "`quota` has its name, the limit and the use. With `resets`, it is a quota per day."
    "Wait until `resets`, end sessions, or ask the operator for a higher quota.";
disk_full Yes "The disk of the gateway has less free space than `--min-free-disk`."
    "Logs, artifacts and files of sessions fill the disk."
    "Operators: `himalia gc --dry-run`, then `himalia gc`. See the runbook for a full disk.";
queue_full Yes "As many executions of the session wait as allowed."
    "The client sends code faster than the kernel runs it."
    "Wait for executions to end before you send more.";
kernel_limit Yes "The gateway, the tenant or the session has as many kernels as allowed."
    "`max_kernels` of the gateway or of the tenant, or the limit of additional kernels of a session."
    "Delete sessions that you do not need (`himalia session ls`, `himalia session rm`), or ask the operator for a higher limit.";

"Start of a session":
kernelspec_not_found No "No kernelspec has this name."
    "A mistyped name, or a kernelspec that is not installed where the gateway looks."
    "`GET /api/kernelspecs` lists the names. `himalia doctor` reports kernelspecs that do not work.";
template_not_found No "No template or kernelspec has this name."
    "A mistyped name, or a template that was removed from the configuration."
    "Use one of the names in `detail`.";
isolation_unavailable No "The gateway cannot give the requested isolation level, which is a minimum."
    "The machine has only lower levels, or the template's provisioner gives a lower one."
    "`himalia doctor` reports the levels of the machine, and `GET /v1/templates` the levels of templates. Lower `isolation` in the request or the template, or use a template with another provisioner.";
network_unsupported No "The sandbox cannot have the requested network."
    "The template has no list of hosts, the list lacks a host, or the isolation level cannot enforce a list."
    "Request hosts of the template's list only, or use a template with `network = \"allow\"` at a level that enforces it.";
image_not_allowed No "The container image is not allowed."
    "`images` of the template or of the tenant does not list it, or the provisioner runs no images."
    "Use an image of these lists, or leave `image` out.";
limit_exceeded No "The request asks for more than the template allows."
    "`field` names the limit, for example `limits.memory_bytes`."
    "Ask for less, or use a template with higher `max`.";
provisioner_unavailable No "The provisioner of the template is not configured, or lacks a feature that the template needs."
    "A template for containers or pods on a gateway without them, or kept files or mounts that the provisioner does not have."
    "Configure the provisioner, or use another template.";
credential_not_allowed No "The session may not use this credential."
    "The template does not name it, or a host of the credential is not on the session's list of hosts. `detail` names both."
    "Add the credential and its host to the template, or leave it out.";
tool_not_allowed No "The session may not use this tool."
    "The template does not grant the tool or its server."
    "Request tools of the template only.";
kernel_start_failed No "The kernel process or its sandbox did not start."
    "`detail` has the cause, `stderr` the end of the kernel's error output: a missing package, a missing image, a memory limit that is too low."
    "Correct the cause. `himalia doctor` tries a start.";

"Sessions and executions":
session_not_found No "There is no session with this id or name."
    "It was never started, belongs to another caller, or ended and its log was removed. With `session`, the last session of that name has ended."
    "`GET /v1/sessions` lists sessions. `PUT /v1/sessions/{name}` starts one.";
session_ended No "The session has ended. Its log can still be read."
    "`reason` has the cause, such as `idle_culled` or `killed_by_user`, and `ended` the time."
    "Start another session. Read results of the ended one under its id.";
kernel_not_found No "The session has no kernel with this id or name."
    "A mistyped id, or an additional kernel that has ended."
    "`GET /v1/sessions/{session}/kernels` lists the kernels.";
kernel_dead No "The kernel has no process, and this call starts none."
    "The process or its sandbox ended: the memory limit (`oom`), a crash, or the loss of its node or replica. Variables are lost."
    "In a session of `/v1`, run code or send `PUT` of its name: both start the next process. Restart a kernel of `/api`. If the `reason` of a fork or of a kernel of `/api` begins with `sandbox_lost`, it cannot continue: start another session.";
kernel_restarted No "The kernel has another process than `expect_incarnation`. Nothing was run."
    "The kernel was restarted or died since you read its incarnation. Variables are lost."
    "Run the code that makes the variables, then use the `incarnation` of the error.";
failure_limit No "As many executions in a row have failed as `max_failures` allows. Nothing was run."
    "A program or a model repeats code that fails."
    "Look at the errors. Send one execution without `max_failures`: a success resets the count.";
language_not_supported No "The kernel does not run code in this language."
    "`language` has another value than the kernel supports. `detail` lists the languages."
    "Use one of these languages, or a kernel of the wanted language.";
execution_not_found No "There is no execution with this id."
    "A mistyped id, or an execution of another caller."
    "`GET /v1/sessions/{session}/executions` lists executions.";
removed_by_retention No "The log of the session was removed."
    "The session ended longer ago than `--retention`."
    "The data cannot be read again. A longer `--retention` keeps later sessions.";
removed_by_quota No "The execution was removed from the log of its session."
    "The log was larger than allowed, so its oldest part was removed."
    "The result cannot be read again. Run the code again, and print less.";
variable_not_found No "The kernel has no variable with this name."
    "The name was not assigned, was deleted, or is of an earlier process of the kernel."
    "`GET /v1/sessions/{session}/variables` lists variables.";
artifact_not_found No "There is no artifact with this SHA-256."
    "A mistyped digest, or an artifact that was removed because of the size limit of the session."
    "Use the digest in the result of an execution. Run the code again.";
prompt_not_found No "There is no prompt with this id."
    "The prompt was answered or withdrawn long ago, or belongs to another caller."
    "`GET /v1/prompts` lists open prompts.";

"Forks":
session_busy Yes "The session runs code or has requests waiting, so it is not forked."
    "A fork copies a kernel that does nothing."
    "Wait for the end of its executions and fork again.";
fork_hazard No "The session has something that a fork would break."
    "`hazards` lists threads, connections, GPU contexts or child processes."
    "Close these in the session. With `policy` `report`, only hazards that would break the branch refuse the fork.";
files_too_large No "The files of the session are larger than `max_copy_bytes` allows to copy."
    "Large files in the work directory."
    "Delete files, raise `max_copy_bytes`, or share the files (`files` `share`).";
fork_probe_failed No "The branch was made but did not respond. It was removed."
    "The state of the process did not survive the fork, such as a lock that a thread held."
    "Close threads and libraries that use them, and fork again. The parent is not affected.";
fork_undone No "This branch was removed because another branch of the same call failed."
    "The call makes all branches or none."
    "Look at the error of the other branch.";
fork_failed No "The fork failed."
    "`detail` has the cause, such as too little memory or too many processes."
    "Correct the cause and fork again. The parent is not affected.";

"Files":
bad_path No "The path is not a path of a file of the session."
    "It is empty, absolute or too long, or contains `..`."
    "Use a path relative to the work directory.";
path_outside No "The path leads out of the session's files."
    "A symbolic link on the path points outside the work directory."
    "Use the real path, or replace the link by a copy.";
permission_denied No "The user of the session has no permission for this file."
    "File modes that code in the session has set, or a read-only directory."
    "Change the mode with code in the session (`chmod`), or use another path.";
file_not_found No "The session has no file with this path."
    "A mistyped path, or code that has not written the file yet."
    "`GET /v1/sessions/{session}/files` lists files.";
directory_not_empty No "The directory has entries, so it was not removed."
    "`DELETE` of a directory without `recursive`."
    "Delete its entries first, or delete recursively.";
is_a_directory No "The path is a directory, and the operation needs a file."
    "For example `PUT` of a file over a directory."
    "Use another path. Directories are read as an archive.";
not_a_directory No "A part of the path is a file, not a directory."
    "For example `a/b` while `a` is a file."
    "Use another path, or remove the file.";
not_a_file No "The path is a pipe, a socket or a device."
    "Code in the session created it."
    "Use a regular file.";
file_too_large No "The transfer has more bytes or entries than allowed."
    "The limits of files per transfer."
    "Transfer in parts, or compress the file in the session.";
bad_archive No "The body is not a tar archive that the gateway accepts."
    "Another format, a damaged archive, or entries that are devices or lead outside."
    "Send a tar archive of regular files and directories, as `tar -cf - .` writes it.";
range_not_satisfiable No "The file does not have the requested bytes."
    "`Range` begins behind the end of the file."
    "Read the size first (`HEAD`), then request a range within it.";
too_many_transfers Yes "As many transfers of this sandbox run as allowed."
    "Several clients upload or download at the same time."
    "Wait for one to end.";
disk_quota_exceeded No "The files of the session have reached the session's disk limit."
    "The limit `disk` of the template or of the session."
    "Delete files in the session, or start a session with a higher limit.";
no_space No "The disk of the sandbox is full."
    "The volume or the machine has no free space."
    "Delete files. Operators: free space on the disk.";
file_failed No "The file could not be read or written."
    "Another error of the file system. `detail` names it."
    "Check the path in the session. The log of the gateway has the cause.";

"Tools":
unknown_server No "The session has no tool server with this name."
    "A mistyped name, or a server that the template does not grant."
    "Search tools without a server.";
unknown_tool No "The server has no tool with this name for this session."
    "A mistyped name, a tool that the server removed, or a tool that the policy hides."
    "Search for the tool, and use the name of the result.";
invalid_arguments No "The arguments do not fit the schema of the tool. Nothing was sent."
    "`detail` names the arguments."
    "Read the schema of the tool and correct the arguments.";
tool_denied No "The policy, or a person, does not allow this call. Nothing was sent."
    "The policy of the configuration, or a person who answered `deny`."
    "Use another tool, or ask the operator.";
approval_needed No "A person has to approve the call. Nothing was sent."
    "The policy of the tool asks for an approval. The error has the id of the prompt."
    "Wait with `GET /v1/prompts/{id}?wait_s=60` until the prompt is answered, then send the same call again with `approval` and the prompt's id.";
tool_limit No "The execution or the session has made as many calls as allowed. Nothing was sent."
    "`tool_calls_per_execution`, `tool_calls`, or the limits of child sessions."
    "Make fewer calls per execution, or ask the operator for a higher limit.";
tool_unavailable Yes "The tool server cannot be reached now. Nothing was done."
    "The server is down or starting, or refuses connections."
    "Wait and send the same call again. Operators: look at the server's log.";
tool_failed No "The tool or its server reports that it did not do it."
    "`server_status` has the HTTP status of the server, if there is one."
    "Read `detail`. If the problem has `retry_after_s`, wait that long before the next call.";
tool_timeout No "The tool did not reply in time. Whether it was done is unknown."
    "A slow tool, or a time limit that is too short."
    "Check the effect before you call again.";
outcome_unknown No "The connection ended before the reply. Whether it was done is unknown."
    "The server or the gateway ended during the call."
    "Check the effect before you call again.";
reply_too_large No "The reply is longer than allowed. The tool was called."
    "A tool that returns a lot of data."
    "Ask for less, such as a page or a filter.";

"Other objects":
token_not_found No "There is no access token with this id."
    "It expired or was revoked, or belongs to another tenant."
    "`himalia token list` lists tokens.";
credential_not_found No "There is no stored credential with this name."
    "It was deleted, belongs to another tenant, or is in the configuration and not in the database."
    "`himalia credential ls` lists credentials.";
skill_not_found No "There is no skill with this name or version."
    "It was not published, was deleted, or belongs to another tenant."
    "`GET /v1/skills` lists skills.";
workflow_not_found No "There is no workflow with this name or version."
    "It was not created, was deleted, or belongs to another tenant."
    "`GET /v1/workflows` lists workflows.";
run_not_found No "There is no run with this id."
    "A mistyped id, or a run that was removed after its retention time."
    "`GET /v1/runs` lists runs.";
workflow_step_not_found No "The workflow run has no step with this id."
    "A mistyped id, or a step of another version of the workflow."
    "The run lists its steps.";
schedule_not_found No "There is no schedule with this id or name."
    "It was deleted, or belongs to another caller."
    "`GET /v1/schedules` lists schedules.";
webhook_not_found No "There is no webhook with this id or name."
    "It was deleted, or belongs to another caller."
    "`GET /v1/webhooks` lists webhooks.";
prompt_webhook_not_found No "There is no webhook of prompts with this id or name."
    "It was deleted, or belongs to another tenant."
    "`GET /v1/prompt-webhooks` lists webhooks of prompts.";
delivery_not_found No "There is no delivery with this id."
    "Only the latest deliveries are kept."
    "List the deliveries of the schedule or webhook.";
tool_approval_not_found No "There is no stored approval of a tool with this id."
    "It expired or was revoked."
    "`himalia approval ls` lists approvals.";

"Sign-in of people":
sign_in_state No "The sign-in was not begun by this browser, or too long ago."
    "The browser refuses cookies, or calls the gateway at another address than `redirect_url`; gateways with different cookie keys."
    "Begin the sign-in again at the address of `redirect_url`, with cookies allowed.";
sign_in_refused No "The identity provider refused the sign-in."
    "The person cancelled it, or the provider does not allow the client."
    "Sign in again, or ask the administrator of the provider.";
sign_in_not_granted No "The person is known to the provider, but no grant applies."
    "No `[[oidc.grants]]` has a value of the person's groups."
    "Operators: add a grant, or the person to a group. Then sign in again.";
id_token_refused No "The ID token of the provider is invalid."
    "A wrong issuer, client, key or clock."
    "Operators: the log has the failed check with the `request_id`.";
provider_answer No "The provider's response cannot be used."
    "A wrong `issuer` or `client_secret`, or a provider that does not follow OpenID Connect."
    "Operators: the log has the failed check with the `request_id`.";
provider_unreachable No "The identity provider cannot be reached."
    "The network, its certificate, or an outage of the provider."
    "Wait for `Retry-After` and begin the sign-in again.";
};

/// The row of a code; `None`: of no code that operations are described with.
pub fn explain_code(code: &str) -> Option<&'static CodeExplanation> {
    ERROR_CODES.iter().find(|row| row.code == code)
}

/// The code for a missing object of a kind: `tool_approval_not_found` for "Tool approval".
pub fn not_found_code(kind: &str) -> &'static str {
    let code = format!("{}_not_found", kind.to_ascii_lowercase().replace(' ', "_"));
    explain_code(&code).map_or("not_found", |row| row.code)
}

impl CodeExplanation {
    /// Checks whether a problem with this code may be retryable, or not.
    pub const fn may_be(&self, retryable: bool) -> bool {
        match self.retry {
            Retry::Yes => retryable,
            Retry::No => !retryable,
            Retry::Depends => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_is_whole_sentences() {
        for row in ERROR_CODES {
            for text in [row.meaning, row.cause, row.remedy] {
                assert!(text.ends_with('.'), "{}: {text}", row.code);
            }
        }
    }
}
