//! The public interface: each command or query of the engine, one entry of the list below.
//!
//! [`Commands`] is private to this crate, so that no command can be reached but through a method that the macro makes of its entry
//! ([`commands!`](crate::commands)), and that method notes the call in the audit log ([`crate::audit`]).

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use bytes::Bytes;
use himalia_budget::BudgetUse;
use himalia_executions::{
    ArtifactInfo, Ask, Attach, Attachment, Completion, EventFeed, Execute, ExecutionBrief, ExecutionFeed,
    ExecutionId, ExecutionResult, ExecutionText, History, HistoryPosition, Inspection, OutputPage,
    PromptInfo, PromptKind, PromptName, Provenance, SessionFeed, StoredArtifact, SubmittedExecution,
    VariablePage, VariableQuery, VariablesReply,
};
use himalia_kernel::APPROVE_ALWAYS;
use himalia_model::credential::CredentialInfo;
use himalia_model::{
    AccessToken, ApiServers, Branch, CallTool, Collected, EngineError, ForkKernel, FoundTools, GatewayStatus,
    JupyterSessionId, KernelId, KernelModel, KernelSpec, KernelSpecs, NewKernel, NewSession, NewToken,
    OwnerUsage, PoolStatus, Principal, ProvisionerInfo, ResourceRef, SessionChange, SessionId, SessionInfo,
    SessionModel, SessionOwner, SessionPatch, SpecFile, StartSession, TemplateInfo, ToolInfo, ToolReply,
};
use himalia_session::{
    ByteRange, FileDownload, FileListing, FileUpload, GrantAnswer, ListedFile, Process, RemovedFiles,
    StartedGrant,
};
use himalia_shim_protocol::RunProcess;
use uuid::Uuid;

use crate::api::{
    Commands, Drain, ExecutionTarget, FeedStart, LatestPrompt, LoggedKernel, NamedSession, NewCredential,
    PromptPage, PromptPlace, RevokedToken, SessionUsage, ToolApproval,
};
use crate::audit::{Audit, Subject};
use crate::commands;

/// The engine. Clones are cheap and name the same engine.
#[derive(Clone)]
pub struct Engine {
    pub(crate) commands: Commands,
    pub(crate) audit: Audit,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Engine")
    }
}

impl Engine {
    /// Answers a prompt: as [`Engine::approve_always`] where that is what the answer means, so that the audit log tells of it, and else as
    /// [`Engine::answer_prompt`].
    pub async fn answer(
        &self,
        principal: &Principal,
        id: &PromptName,
        value: String,
    ) -> Result<PromptInfo, EngineError> {
        if value == APPROVE_ALWAYS {
            let asked = self.prompt(principal, id, Duration::ZERO).await?;
            if asked.kind == PromptKind::Approval {
                return self.approve_always(principal, id).await;
            }
        }
        self.answer_prompt(principal, id, value).await
    }
}

commands! {
    /// Every command and query of the engine, with its effect and its cost.
    impl Engine;
    asynchronous {
        /// Removes what is left of sessions that are over for too long, and what belongs to no session, and gives the room in the
        /// database back; with `dry_run` it only says what that is. The gateway does the same by itself every ten minutes, a
        /// part each time. At most 10,000 sessions and as many orphans: [`Collected::more`].
        Change(Rows) collect(dry_run: bool) -> Collected, Subject::Gateway;
        /// Takes an execution: when this returns it is in the log, and runs when its turn comes, also if its caller goes away meanwhile.
        ///
        /// Executions of one kernel run one at a time, in the order in which they came. One that the kernel drops because
        /// another client's code failed is sent again. Errors beside the usual ones: [`EngineError::QueueFull`],
        /// [`EngineError::IncarnationMismatch`], [`EngineError::FailureLimit`], [`EngineError::KernelDead`], [`EngineError::KeyReused`],
        /// [`EngineError::LanguageNotSupported`].
        Change(Kernel) execute(kernel: KernelId, wanted: Execute) -> SubmittedExecution, Subject::Kernel(kernel);
        /// Takes an execution, as [`Engine::execute`], in a kernel that is looked up once, and follows it.
        Change(Kernel, Stream) submit(target: ExecutionTarget<'_>, wanted: Execute, from: FeedStart) -> (SubmittedExecution, ExecutionFeed), target.subject(), |made| Some(made.0.id.kernel);
        /// What came of an execution so far, at any later time. Costs what is new in the log since it was asked for lately.
        Look(Log) execution(id: ExecutionId) -> ExecutionResult, Subject::Kernel(id.kernel);
        /// The same, and the environment that it ran in or will run in.
        Look(Log) execution_with_provenance(id: ExecutionId) -> (ExecutionResult, Provenance), Subject::Kernel(id.kernel);
        /// What becomes of an execution, from its beginning; events up to the record `after` are not told.
        Look(Stream) follow_execution(id: ExecutionId, after: Option<u64>) -> ExecutionFeed, Subject::Kernel(id.kernel);
        /// An execution to be waited for: its events up to now are not told, and are not read again.
        Look(Stream) watch_execution(id: ExecutionId) -> ExecutionFeed, Subject::Kernel(id.kernel);
        /// At most `limit` bytes of an execution's text after `offset` bytes. Whole characters, at least one if there is one.
        /// While it runs, the last line of each stream may still change.
        Look(Log) execution_output(id: ExecutionId, offset: u64, limit: usize) -> OutputPage, Subject::Kernel(id.kernel);
        /// All text of an execution after `offset` bytes, as it is now, piece by piece.
        Look(Log) execution_text(id: ExecutionId, offset: u64) -> ExecutionText, Subject::Kernel(id.kernel);
        /// Every execution of a kernel that is not complete, and the latest thousand that are, in the order in which they came. Of a
        /// session that is over those whose first record its log has still.
        Look(Log) executions(kernel: KernelId) -> Vec<ExecutionBrief>, Subject::Kernel(kernel);
        /// Interrupts an execution, up to three times, or takes it back if it did not run yet. The kernel's process and its
        /// variables stay. `false` if it was complete already. Returns before it has stopped.
        Change(Kernel) interrupt_execution(id: ExecutionId) -> bool, Subject::Kernel(id.kernel);
        /// Answers what an execution asks. [`EngineError::Conflict`] if it asks nothing, [`EngineError::SessionEnded`] if nothing is
        /// there any more who could.
        Change(Kernel) answer_execution(id: ExecutionId, value: String) -> (), Subject::Kernel(id.kernel);
        /// Asks a person on behalf of the code that runs, or of the session; with a key that was used before, the prompt that there is.
        /// The time of the execution that runs stands still until the prompt has ended.
        Change(Kernel) ask_person(kernel: KernelId, wanted: Ask) -> PromptInfo, Subject::Kernel(kernel);
        /// A page of what a person is asked on behalf of the sessions and by steps of the workflows that the principal sees, as far as it
        /// waits for an answer: at most `limit` after a place.
        Look(Rows, Turn) open_prompts(after: Option<PromptPlace>, limit: usize) -> PromptPage, Subject::Gateway;
        /// The prompts of a kernel that are open and the latest 64 that have ended, in the order in which they were asked, `input()` of
        /// executions among them.
        Look(Kernel) prompts(kernel: KernelId) -> Vec<PromptInfo>, Subject::Kernel(kernel);
        /// A prompt, when it has ended or after this time. Of those that wait for one prompt the ninth ends the wait of the first.
        Look(Kernel) prompt(id: &PromptName, wait: Duration) -> PromptInfo, Subject::of_prompt(id);
        /// Answers a prompt, once: [`EngineError::Conflict`] if it has ended. Approvals, those of steps too, need the scope `admin`: a caller who
        /// runs code may not approve what that code does.
        Change(Kernel) answer_prompt(id: &PromptName, value: String) -> PromptInfo, Subject::of_prompt(id);
        /// Answers an approval with `always`: its tool may be called in later sessions too that the same caller starts of the same template.
        /// [`EngineError::Conflict`] if the prompt has ended, or as many are approved as may be. Needs the scope `admin`.
        Change(Rows) approve_always(id: &PromptName) -> PromptInfo, Subject::of_prompt(id);
        /// Tools that are approved for later sessions of the principal's tenant, or for the operator of all, by owner, caller, template and tool.
        Look(Rows) tool_approvals() -> Vec<ToolApproval>, Subject::Gateway;
        /// Ends one of those approvals: the next call is asked for again.
        Change(Rows) revoke_tool_approval(id: Uuid) -> (), Subject::Gateway;
        /// The servers of tools that a session may use.
        Look(Memory) tool_servers(kernel: KernelId) -> ApiServers, Subject::Kernel(kernel);
        /// Tools of a session that fit some words, of one server or of all; at most 100.
        Look(Memory) search_tools(kernel: KernelId, server: Option<&str>, query: &str, limit: usize) -> FoundTools, Subject::Kernel(kernel);
        /// All about a tool of a session.
        Look(Memory) tool_info(kernel: KernelId, id: &str) -> ToolInfo, Subject::Kernel(kernel);
        /// Calls a tool for a session, once. [`EngineError::Tool`] says what became of a call without a reply.
        Change(Turn, Kernel) call_tool(kernel: KernelId, call: CallTool) -> ToolReply, Subject::Kernel(kernel);
        /// An artifact by its SHA-256 (64 lower-case hex digits), of any kernel that the principal sees, or of a session of those that
        /// has ended and whose log is kept. Each log has artifacts of its own, so the hash of another tenant's finds nothing. It is read
        /// piece by piece: [`StoredArtifact::read`].
        Content(Log) artifact(sha256: &str) -> StoredArtifact, Subject::Gateway;
        /// An artifact that the result of an execution refers to, as [`Engine::artifact`] of its session alone.
        Content(Log) execution_artifact(id: ExecutionId, sha256: &str) -> StoredArtifact, Subject::Kernel(id.kernel);
        /// The artifacts that are stored beside the log of a kernel now, by their hashes; at most 4,096. They are made when a result
        /// that refers to them is read, so that there may be more later.
        Look(Log) artifacts(kernel: KernelId) -> Vec<ArtifactInfo>, Subject::Kernel(kernel);
        /// Reads a file, or a part of it.
        Content(Sandbox) read_file(kernel: KernelId, path: &str, range: Option<ByteRange>) -> FileDownload, Subject::Kernel(kernel);
        /// Writes a file with its metadata, and the directories above it. It is there, as a whole, once the upload is finished.
        Change(Sandbox) write_file(kernel: KernelId, path: &str, metadata: BTreeMap<String, String>) -> FileUpload, Subject::Kernel(kernel);
        /// What is in a directory: `depth` directories inside of each other, at most `limit` entries, in the order of paths; with
        /// `after` those after that path ([`FileListing::next`]).
        Look(Sandbox) list_files(kernel: KernelId, path: &str, depth: u32, limit: u32, after: Option<&str>) -> FileListing, Subject::Kernel(kernel);
        /// What one file, link or directory is, a link as a link; an empty path is the work directory.
        Look(Sandbox) stat_file(kernel: KernelId, path: &str) -> ListedFile, Subject::Kernel(kernel);
        /// Makes a directory, with those above it; whether it is new.
        Change(Sandbox) make_directory(kernel: KernelId, path: &str) -> bool, Subject::Kernel(kernel);
        /// Gives a file, a link or a directory another path, in the place of a file that has it.
        Change(Sandbox) move_file(kernel: KernelId, from: &str, to: &str) -> (), Subject::Kernel(kernel);
        /// Runs a command beside the kernels: with the variables and limits of the session, and with a directory below its work
        /// directory. It ends when what this gives is dropped, and with the gateway. [`EngineError::Files`] where the program or the
        /// directory is not there, or as many commands as may ([`MAX_PROCESSES`](himalia_session::MAX_PROCESSES)) run.
        Change(Sandbox) start_process(kernel: KernelId, wanted: RunProcess) -> Process, Subject::Kernel(kernel);
        /// Removes a file, a link, or a directory, which must be empty unless it is `recursive`.
        Change(Sandbox) delete_file(kernel: KernelId, path: &str, recursive: bool) -> RemovedFiles, Subject::Kernel(kernel);
        /// Reads a directory as a tar archive.
        Content(Sandbox) read_archive(kernel: KernelId, path: &str) -> FileDownload, Subject::Kernel(kernel);
        /// Writes the files of a tar archive into a directory. Nothing is written unless the whole archive is good.
        Change(Sandbox) write_archive(kernel: KernelId, path: &str) -> FileUpload, Subject::Kernel(kernel);
        /// What native callers and Jupyter clients ran, in the order in which the kernel came to it: at most `limit` entries
        /// (1 to 1,000) from a position on, or the latest ones. Silent requests are left out.
        Content(Log) history(kernel: KernelId, from: Option<HistoryPosition>, limit: u64) -> History, Subject::Kernel(kernel);
        /// The same as a notebook (nbformat 4.5) with all outputs, within 64 MiB: the outputs of earlier cells are left out
        /// beyond that, and say so. JSON, which counts as the principal's memory until it is dropped.
        Content(Log) notebook(kernel: KernelId) -> Bytes, Subject::Kernel(kernel);
        /// The same as one Python file, in UTF-8. [`EngineError::Unsupported`] where the kernel's language is known to be another.
        Content(Log) script(kernel: KernelId) -> Bytes, Subject::Kernel(kernel);
        /// Starts a kernel; returns when its process is up, before it is ready. A failed start leaves nothing behind. If the
        /// caller goes away meanwhile the kernel is ended again, unless the caller had chosen its id.
        Change(Start, Disk) start_kernel(start: StartSession) -> KernelModel, Subject::Gateway, |made| Some(made.id);
        /// Ends a kernel; returns when its process is gone. A second call meanwhile waits for the same end.
        Change(Kernel) shutdown_kernel(id: KernelId) -> (), Subject::Kernel(id);
        /// What a Jupyter client means by ending a kernel: one that the Jupyter API made is ended, that of a native session stays,
        /// since it is not the client's to end.
        Change(Kernel) release_kernel(id: KernelId) -> (), Subject::Kernel(id);
        /// Interrupts a kernel; returns when the signal or message is sent, not when the code stopped. A kernel that is
        /// starting is interrupted once it is ready, at most `EngineConfig::ready_timeout` later.
        Change(Kernel) interrupt_kernel(id: KernelId) -> (), Subject::Kernel(id);
        /// Replaces a kernel's process in place; returns when the new one is up, before it is ready.
        Change(Start) restart_kernel(id: KernelId) -> KernelModel, Subject::Kernel(id);
        /// Attaches a client. Waits while the kernel is starting, at most `EngineConfig::ready_timeout`, then attaches
        /// all the same. An older attachment with the same wire session is closed first.
        Change(Stream) attach(id: KernelId, attach: Attach) -> Attachment, Subject::Kernel(id);
        /// Stops: refuses commands, ends all feeds with [`FeedClosed::Draining`](himalia_executions::Closed::Draining), syncs the logs, keeps or ends the
        /// kernels. Returns when that is done; the caller then exits.
        Change(Memory) drain(drain: Drain) -> (), Subject::Gateway;
        /// Which replica has the session or kernel of this id; `None` where the principal sees none. With one replica it is
        /// always this one.
        Look(Rows) session_owner(sought: &ResourceRef) -> Option<SessionOwner>, Subject::Gateway;
        /// What a tenant uses and today has used, beside what it may: that of the principal, or for the operator any one
        /// (`operator` for its own). [`EngineError::Forbidden`] for that of another; [`EngineError::BadRequest`] for one that is not
        /// configured.
        Look(Rows) usage(tenant: Option<&str>) -> OwnerUsage, Subject::Gateway;
        /// The other replicas that live and listen for replicas: name and address.
        Look(Rows) other_replicas() -> Vec<(String, String)>, Subject::Gateway;
        /// The variables of a kernel, also while it runs code: at most `limit` (1 to 1,000) after the first `offset`, in the order of
        /// their definition. Leaves no trace in it and is no activity.
        ///
        /// Errors beside the usual ones: [`EngineError::Unsupported`] for a kernel that cannot tell,
        /// [`EngineError::KernelDead`], [`EngineError::Busy`].
        Content(Kernel) variables(kernel: KernelId, offset: u64, limit: u64) -> VariablesReply, Subject::Kernel(kernel);
        /// A part of one variable, as [`Engine::variables`].
        Content(Kernel) variable(kernel: KernelId, name: &str, query: &VariableQuery) -> VariablePage, Subject::Kernel(kernel);
        /// How code may continue at a position, in characters; its end if `None`. [`EngineError::Busy`] while other code runs for long.
        Content(Kernel) complete(kernel: KernelId, code: &str, cursor: Option<u64>) -> Completion, Subject::Kernel(kernel);
        /// What is known of the object at a place in the code, as [`Engine::complete`]. `detail`: 0, or 1 for its source too.
        Content(Kernel) inspect(kernel: KernelId, code: &str, cursor: Option<u64>, detail: u8) -> Inspection, Subject::Kernel(kernel);
        /// Starts the session of a run that a crate above the engine keeps, as [`Engine::start_session`], with the id or the name that this
        /// crate chose; returns whether it was started now. With [`StartSession::once`], a session that had the same key and has ended is
        /// [`EngineError::NameEnded`].
        Change(Start, Disk) start_run_session(start: StartSession) -> (SessionInfo, bool), Subject::Gateway, |made| Some(made.0.kernel.id);
        /// Starts a kernel as [`Engine::start_kernel`] does, and tells what is around it.
        Change(Start, Disk) start_session(start: StartSession) -> SessionInfo, Subject::Gateway, |made| Some(made.kernel.id);
        /// The session of this name (`start.session_name`), which is started if there is none; whether it was. With a key, the session
        /// that was started with it ([`EngineError::KeyReused`] if that was another start). Calls with one name
        /// take turns, so that they find one session. A template that `start` names must be the session's:
        /// [`EngineError::Conflict`]; the rest of `start` counts for a new one only.
        Change(Start, Disk) put_session(start: StartSession) -> (SessionInfo, bool), Subject::Gateway, |made| Some(made.0.kernel.id);
        /// Changes what its owner may change of a session. Within its template's limits.
        Change(Rows) change_session(id: SessionId, change: SessionChange) -> SessionInfo, Subject::Kernel(id.first_kernel());
        /// What the sandbox of a session uses now, measured from outside; branches share their sandbox. Errors:
        /// [`EngineError::KernelDead`] when it is gone, [`EngineError::Timeout`] when its provisioner does not say in time,
        /// [`EngineError::Unavailable`] while its container engine is away.
        Look(Sandbox) session_usage(id: SessionId) -> SessionUsage, Subject::Kernel(id.first_kernel());
        /// Bytes of memory that the sandboxes of these sessions use, measured within the last seconds, for lists; branches share their
        /// sandbox. Sessions that the principal does not see, and those whose use is unknown, are left out.
        Look(Memory) session_memory(ids: &[SessionId]) -> HashMap<SessionId, u64>, Subject::Gateway;
        /// Makes branches of a kernel, one after another: each has the parent's variables as of now, in a process of its own
        /// in the same sandbox. One result for each that was tried, in order; after a failure no other one is. If the caller
        /// goes away meanwhile they are ended again.
        ///
        /// # Errors
        /// When nothing was tried. With `atomic` also the failure of any branch; those before it are ended then.
        Change(Start, Disk) fork_kernel(id: KernelId, fork: ForkKernel) -> Vec<Result<Branch, EngineError>>, Subject::Kernel(id);
        /// Every template: those of the configuration, then one for each other kernelspec. Other images and networks are those that the
        /// principal's tenant is granted.
        Look(Memory) templates() -> Vec<TemplateInfo>, Subject::Gateway;
        /// Starts an additional kernel in the sandbox of a session; returns when its process is up, before it is ready. A failed
        /// start leaves nothing behind. If the caller goes away meanwhile the kernel is ended again.
        ///
        /// Errors beside the usual ones: [`EngineError::KernelLimit`] (of the gateway, or
        /// [`MAX_SESSION_KERNELS`](himalia_session::MAX_SESSION_KERNELS)),
        /// [`EngineError::KernelStart`], [`EngineError::KernelDead`] when the sandbox is gone.
        Change(Start) start_session_kernel(session: SessionId, wanted: NewKernel) -> SessionInfo, Subject::Kernel(session.first_kernel()), |made| Some(made.kernel.id);
        /// Ends an additional kernel; returns when its process is gone. [`EngineError::Conflict`] for the first one, which ends with
        /// the session.
        Change(Kernel) end_session_kernel(session: SessionId, kernel: &str) -> (), Subject::Kernel(session.first_kernel());
        /// All Jupyter sessions; those whose kernel is gone are dropped.
        Look(Rows) sessions() -> Vec<SessionModel>, Subject::Gateway;
        /// Makes a Jupyter session, or returns the one that has its path. Unknown kernelspec:
        /// [`EngineError::NoSuchKernelspec`].
        Change(Start, Disk) create_session(new: NewSession) -> SessionModel, Subject::Gateway;
        /// One Jupyter session.
        Look(Rows) session(id: JupyterSessionId) -> SessionModel, Subject::JupyterSession(id);
        /// Changes a Jupyter session. A changed kernel shuts the old one down unless another session uses it.
        Change(Start) patch_session(id: JupyterSessionId, patch: SessionPatch) -> SessionModel, Subject::JupyterSession(id);
        /// Deletes a Jupyter session and shuts its kernel down. [`EngineError::Gone`] if the kernel was deleted before.
        Change(Kernel) delete_session(id: JupyterSessionId) -> (), Subject::JupyterSession(id);
        /// All kernelspecs, the broken ones with their problem. Only the operator sees their commands.
        Look(Memory) kernelspecs() -> KernelSpecs, Subject::Gateway;
        /// One kernelspec, as [`Engine::kernelspecs`] has it.
        Look(Memory) kernelspec(name: &str) -> KernelSpec, Subject::Gateway;
        /// A file beside a `kernel.json` (logos, `kernel.js`). Plain names within the directory only.
        Look(Memory) kernelspec_file(name: &str, file: &str) -> SpecFile, Subject::Gateway;
        /// Makes an access token, of the principal's tenant, or for the operator of any: with its text, which is nowhere else. Its scope and
        /// its expiry are within those of the principal. [`EngineError::Forbidden`], [`EngineError::BadRequest`] on `tenant`, `caller`,
        /// `description` or `expires_in_s`; [`EngineError::Conflict`] when there are too many.
        Change(Rows, Disk) create_token(new: NewToken) -> (AccessToken, String), Subject::Gateway;
        /// Revokes an access token: its next request is refused, what its holder has open is ended, and the workflow runs that it has started
        /// are cancelled.
        Change(Rows) revoke_token(id: Uuid) -> RevokedToken, Subject::Gateway;
        /// Sets a credential of the principal's tenant, or for the operator of any, in the place of the one of its name. All requests
        /// after this use it. [`EngineError::Forbidden`], [`EngineError::BadRequest`] on `name` or a member; [`EngineError::Conflict`] for
        /// one of the configuration, or when there are too many; [`EngineError::Unsupported`] where none can be stored.
        Change(Rows, Disk) set_credential(name: &str, new: NewCredential) -> CredentialInfo, Subject::Named("credential", name);
        /// Begins the grant of a person for a credential of kind `oauth2`: the page of the authorization server, from which the browser comes
        /// back to `redirect_uri`. [`EngineError::NotFound`], [`EngineError::BadRequest`] on `redirect_uri`; [`EngineError::Conflict`] if
        /// there is nothing to grant, or the server cannot be used; [`EngineError::Unavailable`] if it is not reached.
        Change(Rows) begin_grant(name: &str, tenant: Option<&str>, redirect_uri: &str) -> StartedGrant, Subject::Named("credential", name);
        /// Finishes the grant that the principal began, with what came back with the browser; once, within 10 minutes.
        /// [`EngineError::BadRequest`] on `state`, [`EngineError::Conflict`] if it was refused, [`EngineError::Unavailable`].
        Change(Rows) finish_grant(answer: GrantAnswer) -> CredentialInfo, Subject::Gateway;
        /// Ends the grant of a credential: its tokens are forgotten, and revoked if the server can.
        Change(Rows) end_grant(name: &str, tenant: Option<&str>) -> (), Subject::Named("credential", name);
        /// Deletes a credential: the next request with it is refused.
        Change(Rows) delete_credential(name: &str, tenant: Option<&str>) -> (), Subject::Named("credential", name);
        /// The credentials of the principal's tenant, or for the operator all, without their values.
        Look(Rows) credentials(tenant: Option<&str>) -> Vec<CredentialInfo>, Subject::Gateway;
    }
    immediate {
        /// What each tenant and the operator use now, and what they were refused, by their names. For the operator.
        Look(Memory) budgets() -> Vec<BudgetUse>, Subject::Gateway;
        /// Ended sessions whose logs are kept, the latest end first, at most 1,000: those whose ids name them. One
        /// whose id a session has again is left out, as additional kernels are: they are no sessions.
        Look(Memory) ended_sessions() -> Vec<SessionInfo>, Subject::Gateway;
        /// All kernels that the principal may see, in order of their start. Never paged: a Jupyter client takes an
        /// absent kernel for culled.
        Look(Memory) kernels() -> Vec<KernelModel>, Subject::Gateway;
        /// The session that an earlier start of this name has made, whether it lives or has ended ([`StartSession::once`]).
        /// [`EngineError::KeyReused`] if that was another start.
        Look(Memory) session_started_once(name: &str, start: &StartSession) -> Option<KernelId>, Subject::Gateway;
        /// The session of the principal's tenant that has this name, or the latest one that had it and whose log is kept.
        Look(Memory) session_named(name: &str) -> Option<NamedSession>, Subject::Gateway;
        /// The owner and the kernelspec of a kernel whose log can be read, also of one that has ended.
        Look(Memory) logged_kernel(kernel: KernelId) -> LoggedKernel, Subject::Kernel(kernel);
        /// The latest prompt of each kernel that the principal sees. Clients do not call it, and it is no activity.
        Look(Memory) latest_prompts() -> Vec<LatestPrompt>, Subject::Gateway;
        /// One kernel.
        Look(Memory) kernel(id: KernelId) -> KernelModel, Subject::Kernel(id);
        /// What becomes of all executions of a kernel, after the record `after` or from now on.
        Look(Stream) follow_executions(id: KernelId, after: Option<u64>) -> SessionFeed, Subject::Kernel(id);
        /// Every record of the kernel's log after `after` (`None` = from now on; 0 = all that is kept). The feed of a session that is
        /// over ends with what there is.
        Content(Stream) events(id: KernelId, after: Option<u64>) -> EventFeed, Subject::Kernel(id);
        /// Everything that is counted, as `OpenMetrics` text. For the operator: the counts tell what all tenants do. Reading is no
        /// activity.
        Look(Memory) metrics() -> String, Subject::Gateway;
        /// Counts and times of all kernels that the principal sees.
        Look(Memory) status() -> GatewayStatus, Subject::Gateway;
        /// The session that a text names: by its id, which need not be one, or by the name that its owner gave it. Names are the
        /// principal's own, also for the operator. A name is that of a session that lives; [`EngineError::NameEnded`] tells of the last
        /// one that had it.
        Look(Memory) find_session(text: &str) -> SessionId, Subject::Gateway;
        /// Every session that the principal sees: its first kernel with what is around it, in order of their start; those that wait in a
        /// pool have no owner and are not listed.
        Look(Memory) session_infos() -> Vec<SessionInfo>, Subject::Gateway;
        /// One kernel with what is around it; of a session that is over what it was, as long as its log is kept.
        /// [`EngineError::Removed`] afterwards.
        Look(Memory) session_info(id: KernelId) -> SessionInfo, Subject::Kernel(id);
        /// Every pool, by the names of their templates. For the operator: their counts tell what others do.
        Look(Memory) pools() -> Vec<PoolStatus>, Subject::Gateway;
        /// Every provisioner, in order of preference.
        Look(Memory) provisioners() -> Vec<ProvisionerInfo>, Subject::Gateway;
        /// The kernels of a session, its first one first.
        Look(Memory) session_kernels(session: SessionId) -> Vec<SessionInfo>, Subject::Kernel(session.first_kernel());
        /// The kernel of a session that a text names: one of its ids, or its first one if `None`. Whether the session is there
        /// is then still to be seen.
        Look(Memory) session_kernel(session: SessionId, kernel: Option<&str>) -> KernelId, Subject::Kernel(session.first_kernel());
        /// The access tokens of the principal's tenant, or for the operator all, oldest first.
        Look(Memory) tokens() -> Vec<AccessToken>, Subject::Gateway;
    }
}
