/** Made from docs/openapi.json by `generate.py`: change the API, and run `make openapi`. */

/** An access token, without its secret. */
export interface AccessToken {
  /** Name of the caller that its holder is. */
  caller: string;
  created: string;
  /** The caller that created it. */
  created_by: string;
  description: string;
  /** Null: it does not expire. */
  expires: string | null;
  id: string;
  /** The tenant of its owner, or `operator`. */
  owner: string;
  scope: Scope;
}

/** Hosts that a session may reach. */
export type AllowList = NetworkRule[];

/** A server of tools, as a session sees it. */
export interface ApiServer {
  /** Purpose, for a model. */
  description: string;
  /** Name of the server. */
  name: string;
  /** True if the server can be called now. */
  ready: boolean;
  /** Reason why the server cannot be called. */
  reason?: string | null | undefined;
  /** Number of tools that the session may use. */
  tools: number;
}

/** The servers of a session. */
export interface ApiServers {
  /** By name. */
  servers: ApiServer[];
  /** The same for a model: one line for each, within a budget of characters. */
  text: string;
}

/** A file that is kept with the log. */
export interface ArtifactFile {
  /** `sha256:` and 64 hexadecimal digits. */
  artifact: string;
  /** Length in bytes. */
  bytes: number;
  /** Guessed by its name. */
  media_type: string;
  /** Path below the directory of artifacts. */
  name: string;
}

/** A page of the list. */
export interface ArtifactPage {
  artifacts: ListedArtifact[];
  /** The cursor of the next page; null at the end. */
  next: string | null;
}

/** An image or another large value: `GET /v1/artifacts/{artifact}`. */
export interface ArtifactReference {
  /** `sha256:` and 64 hexadecimal digits. */
  artifact: string;
  /** The content of an image, within `image_bytes` and `image_pixels`. */
  base64?: string | null | undefined;
  /** Length in bytes. */
  bytes: number;
  /** Height of an image, in pixels. */
  height?: number | null | undefined;
  /** Width of an image, in pixels. */
  width?: number | null | undefined;
}

/** A new branch. */
export interface Branch {
  /** The copy of its parent's files. */
  copied_bytes: number;
  /** Parts that the branch may have lost. */
  hazards: Hazard[];
  /** Duration of each step. */
  ms: { [name: string]: number };
  session: Session;
}

/** The new branches. */
export interface Branches {
  branches: Branch[];
}

/** Sessions and orphans that a collection removed, or would remove in a dry run. */
export interface Collected {
  /** Bytes of both, as far as they are known. */
  bytes: number;
  /** Bytes of the database, after. */
  database_bytes: number;
  /** Bytes of the database that hold nothing, before. */
  database_free_bytes: number;
  /** True if nothing was removed. */
  dry_run: boolean;
  /** There is more to remove than one call does. */
  more: boolean;
  /** Data that belongs to no session. */
  orphans: Orphan[];
  /** Sessions. */
  sessions: CollectedSession[];
}

/** A session that goes. */
export interface CollectedSession {
  /** Bytes of its log and artifacts. Kept files are not counted. */
  bytes: number;
  /** Id that the session had. */
  id: KernelId;
  /** Name that the owner gave the session. */
  name: string | null;
  /** Reason of the removal. */
  reason: Overdue;
}

/** A garbage collection. */
export interface Collection {
  /** If true, the data is reported and not removed. Default: false. */
  dry_run?: boolean | null | undefined;
}

/** Completions of a piece of code. */
export interface Completion {
  /** Characters before the end of the replaced text. */
  cursor_end: number;
  /** Characters before the replaced text. */
  cursor_start: number;
  /** Texts for the part between `cursor_start` and `cursor_end`. */
  matches: string[];
  /** Metadata of the matches, as the kernel sends it. */
  metadata: { [name: string]: unknown };
}

/** A new webhook of prompts. */
export interface CreatedPromptWebhook {
  /** Secret that signs the answers. It is shown once. */
  answer_secret: string;
  /** As whom answers are given. */
  caller: string;
  created: string;
  id: string;
  name: string;
  /** The tenant of its owner, or `operator`. */
  owner: string;
  /** With which prompts are signed. It is shown once. */
  secret: string;
  /** The target of prompts: scheme, host and port. The rest of the URL can be a secret, and is not shown. */
  url: string;
}

/** A new schedule. */
export interface CreatedSchedule {
  /** The target of results: scheme, host and port. The rest of the URL can be a secret, and is not shown. */
  callback: string | null;
  /** Secret that signs results posted to `callback`. It is shown once. */
  callback_secret: string | null;
  /** As whom runs are started. */
  caller: string;
  created: string;
  cron: string;
  enabled: boolean;
  id: string;
  inputs: { [name: string]: unknown };
  /** The latest run. */
  last_run: ListedRun | null;
  missed: MissedPolicy;
  name: string;
  /** When it is due next; null: it is not. */
  next: string | null;
  overlap: Overlap;
  /** The tenant of its owner, or `operator`. */
  owner: string;
  /** The reason why the gateway has switched it off. */
  stopped: string | null;
  target: RunTarget;
  template: string | null;
  time_zone: string;
  timeout_s: number | null;
}

/** A new access token. */
export interface CreatedToken {
  /** Name of the caller that its holder is. */
  caller: string;
  created: string;
  /** The caller that created it. */
  created_by: string;
  description: string;
  /** Null: it does not expire. */
  expires: string | null;
  id: string;
  /** The tenant of its owner, or `operator`. */
  owner: string;
  scope: Scope;
  /** The text that clients send. It is shown once and stored as a hash. */
  token: string;
}

/** A new webhook. */
export interface CreatedWebhook {
  /** The target of results: scheme, host and port. The rest of the URL can be a secret, and is not shown. */
  callback: string | null;
  /** Secret that signs results posted to `callback`. It is shown once. */
  callback_secret: string | null;
  /** As whom runs are started. */
  caller: string;
  created: string;
  enabled: boolean;
  id: string;
  inputs: { [name: string]: unknown };
  /** The latest run. */
  last_run: ListedRun | null;
  name: string;
  /** The tenant of its owner, or `operator`. */
  owner: string;
  /** The target of messages: a path of the gateway's address. */
  path: string;
  /** With which senders sign. It is shown once. */
  secret: string;
  target: RunTarget;
  template: string | null;
  timeout_s: number | null;
}

/** A credential, without its secret. */
export interface Credential {
  /** For `aws_sigv4`: id of the access key. */
  access_key?: string | null | undefined;
  /** For `oauth2`: authorization page, if the authorization server has no metadata. */
  authorization_url?: string | null | undefined;
  /** The host behind the internal name, one of `hosts`. Default: the first one without a wildcard. */
  base_url?: string | null | undefined;
  /** For `oauth2`: client id of this gateway. If it is missing, `authorization_code` registers the gateway as a client. */
  client_id?: string | null | undefined;
  /** For `oauth2`: `client_credentials`, `authorization_code` or `refresh_token`. */
  grant?: string | null | undefined;
  /** For `header`: name of the header. */
  header?: string | null | undefined;
  /** Hosts that it is sent to: `api.example.org`, `*.example.org`, `api.example.org:8443`, or `http://…` for plain text. */
  hosts: string[];
  /** For `oauth2`: issuer of the tokens. The endpoints are read from its metadata. */
  issuer?: string | null | undefined;
  /** `header`, `query`, `bearer`, `basic`, `aws_sigv4` or `oauth2`. */
  kind: string;
  name: string;
  /** The tenant of its owner, or `operator`. */
  owner: string;
  /** For `query`: name of the parameter. */
  parameter?: string | null | undefined;
  /** For `header`: text before the secret. */
  prefix?: string | null | undefined;
  /** For `aws_sigv4`: region. Default: the region of the original signature. */
  region?: string | null | undefined;
  /**
   * For `oauth2`: URL of the resource, for example an MCP server. Without `issuer`, the metadata of the resource names the authorization
   * server. This works only for `authorization_code` without `client_secret`.
   */
  resource?: string | null | undefined;
  /** For `oauth2`: scopes, separated by spaces. */
  scope?: string | null | undefined;
  /** For `aws_sigv4`: service. Default: the service of the original signature. */
  service?: string | null | undefined;
  /** When it was set last; null: it is in the configuration. */
  set: string | null;
  /** The caller that set it last; null: it is in the configuration. */
  set_by: string | null;
  /** For `oauth2`: token endpoint, if the authorization server has no metadata. */
  token_url?: string | null | undefined;
  /** For `oauth2`: the state of its tokens. */
  tokens: CredentialTokens | null;
  /** For `basic`: user name. */
  user?: string | null | undefined;
}

/** A page of the list. */
export interface CredentialPage {
  credentials: Credential[];
  /** The cursor of the next page; null at the end. */
  next: string | null;
}

/** The state of the tokens of a credential. No token is shown. */
export interface CredentialTokens {
  /** Expiry of the access token. The gateway fetches the next token before that time. */
  expires: string | null;
  /** When that was. */
  granted: string | null;
  /** The caller that granted it last. */
  granted_by: string | null;
  /** The reason why it is not `ready`, and the remedy. */
  problem: string | null;
  /** The scopes that the authorization server gave, if it said so. */
  scope: string | null;
  /** `ready`, `grant_needed` or `ended`. */
  state: string;
}

/** The death of a kernel under an execution. */
export interface Death {
  /** `oom`, `exit(3)`, `signal(11)`, `restart`, `killed_by_user`, `execution_timeout` … */
  cause: string;
  /** The process that ended. */
  incarnation: number;
  /** The number that the next process has. */
  next_incarnation: number;
  /** Variables of the process at the end of its latest execution before, from kernels that report them. */
  variables_lost: LostVariables | null;
}

/** A delivery of the result of a run. */
export interface Delivery {
  /** The latest 16 attempts, the latest one last. */
  attempts: DeliveryAttempt[];
  created: string;
  id: string;
  /** Time of the next attempt. Null: it has ended. */
  next_attempt: string | null;
  /** The run that it tells of, `run_…`. */
  run: string;
  state: DeliveryState;
  /** The target: scheme, host and port. The rest of the URL can be a secret, and is not shown. */
  url: string;
}

/** An attempt of a delivery. */
export interface DeliveryAttempt {
  at: string;
  /** The reason why there was none. */
  error: string | null;
  /** The status of the response. */
  status: number | null;
}

/** A page of deliveries. */
export interface DeliveryPage {
  deliveries: Delivery[];
  /** The cursor of the next page; null at the end. */
  next: string | null;
}

/**
 * How far a delivery is.
 * - `pending`: It is to be tried, perhaps again.
 * - `delivered`: The receiver has it.
 * - `failed`: It was given up.
 */
export type DeliveryState = "pending" | "delivered" | "failed";

/** A position in code, and the level of detail. */
export interface DetailedPlace {
  code: string;
  /** Position in characters; default: the end of the code. */
  cursor_pos?: number | null | undefined;
  /** 1: include the source if the kernel has it; default 0. */
  detail_level?: number | null | undefined;
  /** A kernel of the session; default: the first one. */
  kernel?: string | null | undefined;
}

/** Bytes of logs, artifacts and rows. */
export interface Disk {
  /** Logs and artifacts of ended sessions. */
  ended: number;
  /** The limit for all together. Null: no limit. */
  limit: number | null;
  /** Logs and artifacts of living sessions. */
  live: number;
  /** Rows in the database: skills, workflows, schedules, webhooks, inputs and outputs of their runs, credentials and access tokens. */
  rows: number;
}

/**
 * The mechanism that enforces a limit.
 * - `none`: The limit is not enforced.
 * - `watched`: The gateway measures it at intervals, and ends what exceeds it.
 * - `rlimit`: A resource limit of each process.
 * - `cgroup`: The Linux kernel, for the whole sandbox.
 * - `hard`: The size of a file system.
 * - `gateway`: The gateway.
 */
export type Enforcer = "none" | "watched" | "rlimit" | "cgroup" | "hard" | "gateway";

/** A result with its provenance. */
export interface Execution {
  /** Files that it wrote below `/session/artifacts` or `/tmp/artifacts`, which are kept with the log. */
  artifacts?: ArtifactFile[] | undefined;
  /** Files that are not kept. */
  artifacts_omitted?: OmittedArtifacts | null | undefined;
  /** The execution that the kernel has, while this one waits. */
  behind?: ExecutionId | null | undefined;
  /** Caller: `operator`, or tenant and caller as `tenant/caller`. */
  caller: string;
  /** Name that the client gave itself, if it did. It is not verified. */
  client?: string | null | undefined;
  /** Time at which the gateway accepted it, UTC. */
  created: string;
  /** Reason of its end, if it did not end by itself. */
  death?: Death | null | undefined;
  /** True if its timeout had passed, and it continued. */
  detached: boolean;
  /** Milliseconds from then until its end. */
  duration_ms: number;
  /** Exception that the code raised. */
  error: Failure | null;
  /** The kernel's own count. */
  execution_count: number | null;
  /** With which code a script in Bash ended: 0, or one that is an error; 128 and its number after a signal. */
  exit_code?: number | null | undefined;
  /** Earlier executions of the very same code that failed, among the latest thousand of the session. */
  failed_before: number;
  /** Executions of the session in a row that failed, up to this one and whatever their code. */
  failures_in_a_row?: number | undefined;
  /** Files that the code wrote. Null if the kernel does not report files. */
  files: WrittenFiles | null;
  /** Records of it that are missing: dropped by the sandbox, or no longer kept. */
  gaps?: number | undefined;
  /** Id of the execution. */
  id: ExecutionId;
  /** The question that it waits with. */
  input?: Input | null | undefined;
  /** The process that it ran in; before that, the one that there was when it was taken. */
  kernel: ExecutionKernel;
  /** `bash`; left out where it is the kernel's own. */
  language?: Language | undefined;
  /** Data that the caller stored with the execution. */
  metadata?: { [name: string]: unknown } | undefined;
  /** Displays and results. */
  outputs: Output[];
  /** Outputs in the middle that were left out. */
  outputs_omitted?: number | undefined;
  /** Executions that have to end before it, while it waits. */
  position?: number | null | undefined;
  /** Open prompts on its behalf. */
  prompts?: Prompt[] | undefined;
  provenance: Provenance;
  /** Milliseconds from its acceptance until the kernel began with it. */
  queued_ms: number;
  /** Parts that the quota of the session's log has removed. */
  quota?: QuotaLoss | null | undefined;
  /** True if the kernel has begun with the code. If not, the code can be sent again safely. One that never ran can be sent again without a thought. */
  ran: boolean;
  /**
   * Characters that tools of MCP have returned about it so far. Null where that is not known: of ended sessions, and of executions
   * before the latest thousand that something was returned about.
   */
  returned_chars: number | null;
  /** Number of the latest record that is in here: where its events continue. */
  seq: number;
  /** Id of the session. */
  session: KernelId;
  /** Progress of the execution. */
  status: ExecutionStatus;
  /** The execution that ignores interrupts: this one, or the running one that it waits for. */
  stuck?: StuckExecution | null | undefined;
  /** Printed text, as a terminal shows it: head and tail within the budget. */
  text: string;
  /** Size of the text, if a part of it is left out. */
  truncated: TextTruncated | null;
  /** Resources that the execution took. */
  usage: ExecutionUsage;
  /** Variables that it changed. Null if the kernel does not report variables. */
  variables: VariableChanges | null;
}

/** One execution in a list. */
export interface ExecutionBrief {
  /** Caller: `operator`, or tenant and caller as `tenant/caller`. */
  caller: string;
  /** Name that the client gave itself, if it did. It is not verified. */
  client?: string | null | undefined;
  /** Time at which the gateway accepted it, UTC. */
  created: string;
  /** Id of the execution. */
  id: ExecutionId;
  /** `bash`; left out where it is the kernel's own. */
  language?: Language | undefined;
  /** Data that the caller stored with the execution. */
  metadata?: { [name: string]: unknown } | undefined;
  /** Progress of the execution. */
  status: ExecutionStatus;
  /** The beginning of its first line of code. */
  title: string;
}

/** The data of one event. */
export type ExecutionEvent = ({
  event: "queued";
  /** Number of executions that have to end before. */
  position: number;
} | ExecutionKernel & {
  event: "started";
} | {
  event: "stdout";
  /** The text. */
  text: string;
} | {
  event: "stderr";
  /** The text. */
  text: string;
} | Output & {
  event: "display";
} | Output & {
  event: "result";
} | Output & {
  event: "update_display";
} | {
  event: "clear_output";
  /** When the next output comes. */
  wait: boolean;
} | Input & {
  event: "input_request";
} | Prompt & {
  event: "prompt";
} | Failure & {
  event: "exception";
} | {
  event: "stopping";
  /** `interrupt` or `timeout`. */
  reason: StopReason;
} | {
  event: "detached";
} | StuckExecution & {
  event: "stuck";
} | {
  event: "gap";
  /** One line. */
  text: string;
} | {
  event: "done";
  /** Result of the execution. */
  result: ExecutionResult;
}) & {
  at: string;
  execution_id: ExecutionId;
  seq: number;
};

export type ExecutionId = string;

/** The answer to the prompt of an execution. */
export interface ExecutionInput {
  value: string;
}

/** The kernel process of an execution. */
export interface ExecutionKernel {
  /** Number of the kernel process. If it differs from the number of the previous execution, the variables are gone. */
  incarnation: number;
  /** The process before, and the reason of its end. Only in the first execution in a new process. */
  replaced: ReplacedExecution | null;
}

/** A page of the list. */
export interface ExecutionPage {
  executions: ExecutionBrief[];
  /** The cursor of the next page; null at the end. */
  next: string | null;
}

/** Result of an execution so far: the same for every interface. */
export interface ExecutionResult {
  /** Files that it wrote below `/session/artifacts` or `/tmp/artifacts`, which are kept with the log. */
  artifacts?: ArtifactFile[] | undefined;
  /** Files that are not kept. */
  artifacts_omitted?: OmittedArtifacts | null | undefined;
  /** The execution that the kernel has, while this one waits. */
  behind?: ExecutionId | null | undefined;
  /** Caller: `operator`, or tenant and caller as `tenant/caller`. */
  caller: string;
  /** Name that the client gave itself, if it did. It is not verified. */
  client?: string | null | undefined;
  /** Time at which the gateway accepted it, UTC. */
  created: string;
  /** Reason of its end, if it did not end by itself. */
  death?: Death | null | undefined;
  /** True if its timeout had passed, and it continued. */
  detached: boolean;
  /** Milliseconds from then until its end. */
  duration_ms: number;
  /** Exception that the code raised. */
  error: Failure | null;
  /** The kernel's own count. */
  execution_count: number | null;
  /** With which code a script in Bash ended: 0, or one that is an error; 128 and its number after a signal. */
  exit_code?: number | null | undefined;
  /** Earlier executions of the very same code that failed, among the latest thousand of the session. */
  failed_before: number;
  /** Executions of the session in a row that failed, up to this one and whatever their code. */
  failures_in_a_row?: number | undefined;
  /** Files that the code wrote. Null if the kernel does not report files. */
  files: WrittenFiles | null;
  /** Records of it that are missing: dropped by the sandbox, or no longer kept. */
  gaps?: number | undefined;
  /** Id of the execution. */
  id: ExecutionId;
  /** The question that it waits with. */
  input?: Input | null | undefined;
  /** The process that it ran in; before that, the one that there was when it was taken. */
  kernel: ExecutionKernel;
  /** `bash`; left out where it is the kernel's own. */
  language?: Language | undefined;
  /** Data that the caller stored with the execution. */
  metadata?: { [name: string]: unknown } | undefined;
  /** Displays and results. */
  outputs: Output[];
  /** Outputs in the middle that were left out. */
  outputs_omitted?: number | undefined;
  /** Executions that have to end before it, while it waits. */
  position?: number | null | undefined;
  /** Open prompts on its behalf. */
  prompts?: Prompt[] | undefined;
  /** Milliseconds from its acceptance until the kernel began with it. */
  queued_ms: number;
  /** Parts that the quota of the session's log has removed. */
  quota?: QuotaLoss | null | undefined;
  /** True if the kernel has begun with the code. If not, the code can be sent again safely. One that never ran can be sent again without a thought. */
  ran: boolean;
  /** Number of the latest record that is in here: where its events continue. */
  seq: number;
  /** Id of the session. */
  session: KernelId;
  /** Progress of the execution. */
  status: ExecutionStatus;
  /** The execution that ignores interrupts: this one, or the running one that it waits for. */
  stuck?: StuckExecution | null | undefined;
  /** Printed text, as a terminal shows it: head and tail within the budget. */
  text: string;
  /** Size of the text, if a part of it is left out. */
  truncated: TextTruncated | null;
  /** Resources that the execution took. */
  usage: ExecutionUsage;
  /** Variables that it changed. Null if the kernel does not report variables. */
  variables: VariableChanges | null;
}

/**
 * The state of a kernel as Jupyter names it, and one more.
 * - `starting`: The process is up, the kernel has not answered yet.
 * - `idle`: Waiting for requests.
 * - `busy`: Working on a request.
 * - `restarting`: The process has ended, and a new one is being started.
 * - `dead`: The process has ended permanently.
 * - `unknown`: The sandbox is not connected (yet).
 * - `ended`: The session has ended and its log is kept. Of sessions of the native API only; Jupyter knows no such word.
 */
export type ExecutionState = "starting" | "idle" | "busy" | "restarting" | "dead" | "unknown" | "ended";

/**
 * Progress of an execution, or its end.
 * - `queued`: It waits for its turn or for the kernel.
 * - `running`: The kernel works on it.
 * - `ok`: The code completed.
 * - `error`: The code raised an exception.
 * - `timeout`: It was interrupted because it took too long.
 * - `interrupted`: It was interrupted, or taken back before it ran.
 * - `kernel_died`: The kernel's process ended.
 * - `oom_killed`: The kernel's process was killed because it ran out of memory.
 */
export type ExecutionStatus = "queued" | "running" | "ok" | "error" | "timeout" | "interrupted" | "kernel_died" | "oom_killed";

/** Resources that an execution took. */
export interface ExecutionUsage {
  /** Bytes of the messages that the kernel sent for it, so far. */
  bytes_out: number;
  /**
   * Processor time in milliseconds, of the kernel's process and of those of its processes that ended meanwhile. From kernels that
   * tell, when it has come to its end.
   */
  cpu_ms: number | null;
  /** Calls of models by its code, including refused calls and answers from the cache. */
  model_calls: number;
  /** Number of model calls that were answered from the cache. */
  model_calls_cached: number;
  /** Number of failed model calls. */
  model_calls_failed: number;
  /** Number of refused model calls, which were not sent. */
  model_calls_refused: number;
  /** Number of model calls with an unknown outcome. */
  model_calls_unknown: number;
  /** Tokens that models have read for it. */
  model_input_tokens: number;
  /** Tokens that models have written for it. */
  model_output_tokens: number;
  /** Cost by the prices of the configuration, in its currency unit. */
  model_spend: number;
  /** Bytes that hosts sent to its network connections. Only ended connections are counted. */
  network_received_bytes: number;
  /** Bytes that its network connections sent to hosts. Only ended connections are counted. */
  network_sent_bytes: number;
  /** The most memory of the kernel's process meanwhile, in bytes. From kernels and systems that tell, when it has come to its end. */
  peak_memory_bytes: number | null;
  /** Calls of tools by its code, including refused calls. */
  tool_calls: number;
  /** Number of failed tool calls. */
  tool_calls_failed: number;
  /** Number of refused tool calls, which were not sent. */
  tool_calls_refused: number;
  /** Number of tool calls with an unknown outcome. */
  tool_calls_unknown: number;
  /** Bytes that tools have returned. */
  tool_reply_bytes: number;
}

/** Exception that the code raised. */
export interface Failure {
  /** Place in the caller's own code, if that is known. */
  frame: Frame | null;
  /** Hint for a fix, from kernels that give one. */
  hint: string | null;
  /** `ename`: the exception's class. */
  name: string;
  /** Lines without colours; the middle of a long one is left out, and says so. */
  traceback: string[];
  /** `evalue`: its text. */
  value: string;
}

/** A file. */
export interface FileEntry {
  bytes: number;
  kind: FileKind;
  modified: string;
  path: string;
}

/** The kind of a file. */
export type FileKind = "file" | "directory" | "symlink" | "other";

/** A listing of a directory. */
export interface FilePage {
  entries: FileEntry[];
  /** The cursor of the next page; null at the end. */
  next: string | null;
  path: string;
  total: FileTotal;
  /** There are more entries than shown or examined. */
  truncated: boolean;
}

/** The number of entries and bytes that were examined. */
export interface FileTotal {
  bytes: number;
  entries: number;
}

/**
 * Lifetime of the files in a work directory.
 * - `ephemeral`: Files end with the sandbox.
 * - `session`: Files survive the sandbox and end with the session.
 */
export type FilesMode = "ephemeral" | "session";

/** A tool that was found. */
export interface FoundTool {
  /** Description, for a model. */
  description: string;
  /** Id: `server.tool`. */
  id: string;
  /** True for a tool that changes nothing. */
  read_only: boolean;
}

/** Result of a search for tools. */
export interface FoundTools {
  /** The same for a model, with parameters: one line for each, within a budget of characters. */
  text: string;
  /** The best first. */
  tools: FoundTool[];
}

/** A line of the caller's code. */
export interface Frame {
  /** Line number in the sent code, from 1. */
  line: number;
  /** The line itself, without the blanks around it. */
  source: string;
}

/** A rule with ports and methods. */
export interface FullNetworkRule {
  /** `example.org`, `*.example.org` for the names below it, or `*` for every name. */
  host: string;
  /** Methods of plain HTTP; without any, all. A rule with methods allows no TLS, in which they cannot be read. */
  methods?: string[] | undefined;
  /** Without any: 80 and 443. */
  ports?: number[] | undefined;
}

/** A grant that has begun. */
export interface Grant {
  /** Time until which the grant can be finished. */
  expires: string | null;
  /** The page of the authorization server where the person consents. */
  url: string;
}

/** The answer of the authorization server, from the browser. */
export interface GrantAnswer {
  /** The authorization code, which is valid once. */
  code?: string | null | undefined;
  /** Error of the authorization server, in place of `code`. */
  error?: string | null | undefined;
  /** The server's words about the error. */
  error_description?: string | null | undefined;
  /** The authorization server. */
  iss?: string | null | undefined;
  /** As it came. */
  state: string;
}

/** Something in a session that a fork may break. */
export interface Hazard {
  /** One line for humans. */
  detail: string;
  /** `native-thread`, `process-pool`, `cuda` … */
  kind: string;
  /** Name of the hazard, for example of a thread, a library or a pool. */
  name: string;
  severity: Severity;
}

/** One entry of the history: code that was run. */
export interface HistoryEntry {
  /** When it was taken. */
  at: string;
  /** Caller: `operator`, or tenant and caller as `tenant/caller`; `None` when a Jupyter client ran it, which the log does not have. */
  caller: string | null;
  /** Name that the client gave itself, if it did. It is not verified. */
  client?: string | null | undefined;
  /** The code. */
  code: string;
  /** The kernel's own count, once it is known. */
  execution_count: number | null;
  /** The native execution that it was; `None` when a Jupyter client ran it. */
  id: ExecutionId | null;
  /** The kernel process that it was for. */
  incarnation: number;
  /** `bash`; left out where it is the kernel's own. */
  language?: Language | undefined;
  /** Data that the caller stored with the execution. */
  metadata?: { [name: string]: unknown } | undefined;
  /** Number of its first record in the log. */
  seq: number;
  /** Status of the entry. */
  status: HistoryStatus;
}

/** A page of the history, in the order of the kernel or backwards. */
export interface HistoryPage {
  /** The newest last. */
  history: HistoryEntry[];
  /** The cursor of the next page; null at the end. */
  next: string | null;
  /** Entries before the page. */
  offset: number;
  /** Older ones that are not listed: their records are gone, or there are too many. */
  omitted: number;
  /** Entries in all. */
  total: number;
}

/**
 * Status of an entry.
 * - `queued`: The kernel has not begun with it.
 * - `running`: The kernel works on it.
 * - `ok`: The code completed.
 * - `error`: The code raised an exception.
 * - `timeout`: It was interrupted because its time had expired.
 * - `interrupted`: It was interrupted.
 * - `aborted`: It never ran: an earlier one had failed, and the kernel dropped what was queued by then.
 * - `kernel_died`: The process ended.
 * - `oom_killed`: The process ended because it ran out of memory.
 */
export type HistoryStatus = "queued" | "running" | "ok" | "error" | "timeout" | "interrupted" | "aborted" | "kernel_died" | "oom_killed";

/** Request for input by the code. */
export interface Input {
  /** The prompt that it is, by which it is answered. The fold of messages does not know it. */
  id?: string | null | undefined;
  /** The answer is a secret. */
  password: boolean;
  /** The question, at most [`crate::MAX_PROMPT_CHARS`] characters without control characters other than line feeds and tabs. */
  prompt: string;
}

/** Description of the object at a cursor. */
export interface Inspection {
  /** Texts by MIME type. */
  data: { [name: string]: unknown };
  /** True if there is an object. */
  found: boolean;
  /** More about them, in the kernel's words. */
  metadata: { [name: string]: unknown };
}

/**
 * Isolation levels, weakest first; they compare in this order.
 * - `none`: A plain process of the gateway's user. For development.
 * - `namespaces`: Linux namespaces, seccomp and a built root. Not for tenants that are hostile to each other.
 * - `container`: A hardened container.
 * - `gvisor`: A container under gVisor.
 * - `microvm`: A virtual machine of its own.
 */
export type Isolation = "none" | "namespaces" | "container" | "gvisor" | "microvm";

/** Identifies one kernel for its whole life, restarts included. On the wire a hyphenated lower-case UUID. */
export type KernelId = string;

/** A page of the list. */
export interface KernelPage {
  kernels: SessionKernel[];
  /** The cursor of the next page; null at the end. */
  next: string | null;
}

/**
 * Kind of a skill.
 * - `instructions`: Text for a model: `SKILL.md` and additional files.
 * - `code`: A function in Python: `main` in `main.py`, and additional files.
 */
export type Kind = "instructions" | "code";

/**
 * Language of an execution's code.
 * - `kernel`: The kernel's own language.
 * - `bash`: Bash, run by a kernel of ours as a `%%bash` cell.
 */
export type Language = "kernel" | "bash";

/** A limit and the mechanism that enforces it. */
export interface Limit {
  enforcement: Enforcer;
  /** Null: no limit. */
  value: number | null;
}

/** Limits of a session. */
export interface LimitValues {
  cpu_millis: number | null;
  disk_bytes: number | null;
  execution_ms: number | null;
  memory_bytes: number | null;
  open_files: number | null;
  output_bytes: number | null;
  pids: number | null;
  shm_bytes: number | null;
  tmp_bytes: number | null;
}

/** The limits of a session, with the names that a request uses. */
export interface Limits {
  cpu_millis: Limit;
  disk_bytes: Limit;
  execution_ms: Limit;
  memory_bytes: Limit;
  open_files: Limit;
  output_bytes: Limit;
  pids: Limit;
  shm_bytes: Limit;
  tmp_bytes: Limit;
}

/** An artifact in a list. */
export interface ListedArtifact {
  /** `sha256:` and 64 hexadecimal digits. */
  artifact: string;
  bytes: number;
  media_type: string;
  /** When it was stored. */
  modified: string;
}

/** A run, as lists have it. */
export interface ListedRun {
  /** The principal who asked a schedule for the run, if it was not due. */
  asked_by: string | null;
  /** The principal who cancelled the run of a workflow. */
  cancelled_by: string | null;
  /** When the run was asked for, or due. */
  created: string;
  /** The address of the content of that version, if it is known. */
  digest: string | null;
  ended: string | null;
  /** The reason why the run failed, did not begin, or waits. */
  error: RunError | null;
  /** The execution that a run of a skill is. */
  execution: string | null;
  /** `run_` and 32 hexadecimal digits. */
  id: string;
  kind: RunKind;
  /** Due times before this one that were missed, at most 1,000. Null if no schedule has started the run. */
  missed_before: number | null;
  /** The name of the skill or workflow. */
  name: string;
  origin: RunOrigin;
  /** The session that a skill runs in. */
  session: string | null;
  started: string | null;
  /** The principal whose rights the run has. */
  started_by: string;
  status: RunStatus;
  /** The version that runs. Null until the run begins. */
  version: string | null;
}

/** A session in a list. */
export interface ListedSession {
  /** With `allow`: the hosts that it may reach. */
  allow: AllowList;
  connections: number;
  created: string;
  /** Names of the credentials that it may use. */
  credentials: string[];
  cwd: string;
  /** Time of its end; null while it lives. */
  ended: string | null;
  expires: string | null;
  files: FilesMode;
  /** Also the id of its first kernel: every route of a kernel accepts it. */
  id: KernelId;
  idle_timeout_s: number | null;
  image: string | null;
  /** Counts kernel processes, from 1. If it changes, the variables are gone. */
  incarnation: number;
  isolation: Isolation;
  /** When its log is removed at the latest; null while it lives. */
  kept_until: string | null;
  kernelspec: string;
  labels: { [name: string]: string };
  last_activity: string;
  limits: Limits;
  /** Maximum memory of the sandbox, including file systems in memory; null: no limit. */
  memory_total_bytes: number | null;
  /**
   * Memory that its sandbox uses, measured within the last seconds; branches share it. Null if it is unknown, and for
   * an ended session.
   */
  memory_used_bytes: number | null;
  /** The name that its owner gave it; while it lives, every route of a session accepts it in place of the id. */
  name: string | null;
  /** `none`, `allow`, or the name of an open network. */
  network: string;
  origin: Origin;
  /** The tenant that owns it, or `operator`. */
  owner: string;
  parent: SessionId | null;
  provisioner: string;
  /** The reason for its state: a cause of death such as `oom`, of its end such as `idle_culled`, or null. */
  reason: string | null;
  start_ms: number;
  /** The reason why it was not taken from the pool of its template, or null. */
  start_reason: string | null;
  /** `pool`, `zygote`, `cold` or `fork`. */
  started_by: StartPath;
  state: ExecutionState;
  template: string;
  /** Tools that it may use: servers, and patterns of their tools. */
  tools: string[];
  /** The place in a tree, if code of another session has started it, or null. */
  tree: SessionTree | null;
  /** Set if its process runs and does not respond; null if it responds, or is only busy. */
  unresponsive: Unresponsive | null;
}

/** The latest version of a skill in a list. */
export interface ListedSkill {
  description: string;
  /** The address of its content: `sha256:` and 64 hexadecimal digits. */
  digest: string;
  kind: Kind;
  name: string;
  /** When it was published. */
  published: string;
  /** The caller that published it. */
  published_by: string;
  /** The latest version. */
  version: string;
  /** All versions, the latest first. */
  versions: string[];
}

/** The latest version of a workflow in a list. */
export interface ListedWorkflow {
  description: string;
  /** The address of its content: `sha256:` and 64 hexadecimal digits. */
  digest: string;
  name: string;
  /** When it was published. */
  published: string;
  /** The caller that published it. */
  published_by: string;
  /** The latest version. */
  version: string;
  /** All versions, the latest first. */
  versions: string[];
}

/** A record of a session's log. A message or request has a channel and its parts, the others have a `detail`. */
export interface LogRecord {
  /** When it was stored. */
  at: string;
  /** Sizes of its binary buffers. */
  buffer_bytes?: number[] | undefined;
  /** The binary buffers in base64, with `buffers=base64`. */
  buffers?: string[] | undefined;
  /** `shell`, `control`, `stdin` or `iopub`. */
  channel?: string | null | undefined;
  content?: unknown | undefined;
  /** Content of a record that is not a message. */
  detail?: unknown | undefined;
  /** The kind of record, which is also the name of the server-sent event. */
  event: LogRecordKind;
  /** The native execution that it belongs to. */
  execution_id?: ExecutionId | null | undefined;
  /** As it was written, like the parts after it; null if it is not JSON. */
  header?: unknown | undefined;
  /** The kernel process that it belongs to. */
  incarnation: number;
  metadata?: unknown | undefined;
  parent_header?: unknown | undefined;
  /** The number of the record, without gaps; for a gap record the last missing number. */
  seq: number;
  /** Set if the message cannot be parsed. */
  unreadable?: boolean | undefined;
}

/**
 * Kind of an event's record.
 * - `message`: A message of the kernel; `body` is a v1 frame.
 * - `request`: A request of a client to the kernel; `body` is a v1 frame.
 * - `lifecycle`: A change in the kernel's life; `body` is JSON.
 * - `gap`: Messages that are missing; `body` is JSON `{from, to, …}`.
 * - `execution`: Record of a native execution; `body` is JSON.
 * - `network`: A connection to the network that has ended or was refused; `body` is JSON.
 * - `prompt`: A person is asked something, or what became of that; `body` is JSON.
 * - `tool_call`: A call of a tool: that it is about to be sent, how it has ended, or that it was refused; `body` is JSON.
 */
export type LogRecordKind = "message" | "request" | "lifecycle" | "gap" | "execution" | "network" | "prompt" | "tool_call";

/** Variables that went with a kernel's process. */
export interface LostVariables {
  /** Names in alphabetical order, at most 500. */
  names: string[];
  /** If true, more variables may have been lost. */
  truncated: boolean;
}

/**
 * Policy for due times at which no gateway ran, or that were seen more than a minute late.
 * - `skip`: Missed due times are skipped.
 * - `run_once`: The latest one is made up for, if it is not more than a week ago.
 */
export type MissedPolicy = "skip" | "run_once";

/** The spelling of a rule. */
export type NetworkRule = string | FullNetworkRule;

/** The requested branches; every member is optional. */
export interface NewBranches {
  /** All or none; default false. */
  atomic?: boolean | null | undefined;
  /** Number of branches; default 1. */
  count?: number | null | undefined;
  /** Variables that differ in the branches. */
  env?: { [name: string]: string } | null | undefined;
  /** `copy` unless said. */
  files?: "copy" | "share" | null | undefined;
  /** Default: the labels of the parent. */
  labels?: { [name: string]: string } | null | undefined;
  /** Larger files are not copied; default 256 MiB. Only for `copy`. */
  max_copy_bytes?: number | null | undefined;
  /** `strict` unless said. */
  policy?: "strict" | "report" | null | undefined;
}

/** A call. */
export interface NewCall {
  /** The prompt by which a person has approved it, if one has to. */
  approval?: string | null | undefined;
  /** Names the prompt that asks for its approval: the same key is the same prompt. */
  approval_key?: string | null | undefined;
  /** The arguments of the tool. */
  arguments?: { [name: string]: unknown } | undefined;
  /** Seconds that it may take, if that is less than its server permits. */
  timeout_s?: number | null | undefined;
  /** `server.tool`. */
  tool: string;
}

/** The requested credential. Which members are needed follows from `kind`. */
export interface NewCredential {
  /** For `aws_sigv4`: the id of the key. */
  access_key?: string | null | undefined;
  /** For `oauth2`: the page where a person consents, if the authorization server publishes no metadata. */
  authorization_url?: string | null | undefined;
  /** The host behind `http://NAME.credential.internal/`, one of `hosts`. Default: the first one without a wildcard. */
  base_url?: string | null | undefined;
  /** For `oauth2`: the id of this gateway with the authorization server. Without one, `authorization_code` registers the gateway there. */
  client_id?: string | null | undefined;
  /** For `oauth2`: the secret of the client. */
  client_secret?: string | null | undefined;
  /** For `oauth2`: the way to get tokens: `client_credentials`, `authorization_code` (a person grants it) or `refresh_token`. */
  grant?: string | null | undefined;
  /** For `header`: the name of the header. */
  header?: string | null | undefined;
  /**
   * The only hosts that it is sent to: `api.example.org`, `*.example.org` for the names below it, `api.example.org:8443`, or
   * `http://api.example.org` for plain text.
   */
  hosts: string[];
  /** For `oauth2`: the authorization server, whose addresses are read from its metadata. */
  issuer?: string | null | undefined;
  /** `header`, `query`, `bearer`, `basic`, `aws_sigv4` or `oauth2`. */
  kind: string;
  /** For `query`: the name of the parameter. */
  parameter?: string | null | undefined;
  /** For `header`: the text before the value. */
  prefix?: string | null | undefined;
  /** For `aws_sigv4`. Default: the region in the signature of the request. */
  region?: string | null | undefined;
  /**
   * For `oauth2`: the URL of the resource that the tokens are for, such as an MCP server. Without `issuer`, it names the authorization
   * server.
   */
  resource?: string | null | undefined;
  /** For `oauth2`: the requested scopes, separated by spaces. */
  scope?: string | null | undefined;
  /** For `aws_sigv4`. Default: the region in the signature of the request. */
  service?: string | null | undefined;
  /** For `aws_sigv4`: the token of a session. */
  session_token?: string | null | undefined;
  /** A tenant of the configuration. Default: the tenant of the caller. Only the operator may name another tenant. */
  tenant?: string | null | undefined;
  /** For `oauth2`: the token endpoint, if the authorization server publishes no metadata. */
  token_url?: string | null | undefined;
  /** For `basic`: the user. */
  user?: string | null | undefined;
  /**
   * The secret: token, value of the header or the parameter, password or secret key. Of `oauth2` with grant `refresh_token`: the refresh
   * token; the other grants have none.
   */
  value?: string | null | undefined;
}

/** Code of a session that becomes a skill. */
export interface NewDraft {
  /** Numbers of entries of the session's history (`seq`), in the order in which they run. */
  cells: number[];
  /** The purpose of the skill. */
  description: string;
  /** Variables that the code assigns and that become arguments. */
  inputs?: string[] | undefined;
  /** A kernel of the session; default: the first one. */
  kernel?: string | null | undefined;
  /** The name of the skill. */
  name: string;
  /** Variables that are returned. */
  outputs?: string[] | undefined;
}

/** Code to run. */
export interface NewExecution {
  /** If true, the code may request input. Default: false. */
  allow_stdin?: boolean | null | undefined;
  /** Respond immediately with JSON, whatever `Accept` says; default false. */
  background?: boolean | null | undefined;
  code: string;
  /** The working directory while the code runs, absolute or relative to the directory of the session. */
  cwd?: string | null | undefined;
  /** Environment variables while the code runs; afterwards they are as before. Only for kernels of `himalia_kernel`. */
  env?: { [name: string]: string } | null | undefined;
  /** Run only in this kernel process. */
  expect_incarnation?: number | null | undefined;
  /** A repeated request with this key is the same execution. */
  idempotency_key?: string | null | undefined;
  /** Bytes of images that a JSON response contains in base64; larger ones are addresses. Default 0. */
  image_bytes?: number | null | undefined;
  /**
   * Pixels on a side of these images; of a larger one the response contains the smaller copy (`preview`), if there is one. Default: any
   * number.
   */
  image_pixels?: number | null | undefined;
  /** A kernel of the session; default: the first one. */
  kernel?: string | null | undefined;
  /** The language of the kernel (the default), or `bash` if the kernel runs `himalia_kernel`. */
  language?: string | null | undefined;
  /** Refuse it if this many consecutive executions of the session have failed, whatever their code. */
  max_failures?: number | null | undefined;
  /** Data of the caller that is returned with the execution; at most 4,096 bytes as JSON. */
  metadata?: { [name: string]: unknown } | null | undefined;
  /** Only with `timeout_s`; default `interrupt`. */
  on_timeout?: "interrupt" | "detach" | "restart" | "kill" | null | undefined;
  /** If true, the kernel counts it and stores it in its history; default true. */
  store_history?: boolean | null | undefined;
  /** Characters of text in the result; default 8,000. */
  text_chars?: number | null | undefined;
  /**
   * Seconds that the code may run, without its wait in the queue or for input; default: no limit. Without `wait_s`, the response
   * waits about 10 seconds longer at most.
   */
  timeout_s?: number | null | undefined;
  /**
   * Seconds that a JSON response waits for the end; after that it is 202, and the execution continues. Default 300, and less if
   * `timeout_s` has expired.
   */
  wait_s?: number | null | undefined;
}

/** The page where a person grants access, and the address that the browser returns to. */
export interface NewGrant {
  /** `https://…/viewer/grant` of this gateway, or an address of the person's own machine, such as `http://127.0.0.1:41000/`. It has no query. */
  redirect_uri: string;
  /** A tenant of the configuration. Default: the tenant of the caller. Only the operator may name another tenant. */
  tenant?: string | null | undefined;
}

/** An additional kernel; every member is optional. */
export interface NewKernel {
  /** The first directory, absolute or relative to the directory of the session. Default: the directory of the session. */
  cwd?: string | null | undefined;
  /** Environment variables of its processes. Variables of the session are not included. */
  env?: { [name: string]: string } | null | undefined;
  /** Default: the kernelspec of the first kernel. Its program must exist in the session's sandbox. */
  kernelspec?: string | null | undefined;
  /** Environment variables that are neither shown nor stored. */
  secrets?: { [name: string]: string } | null | undefined;
}

/** A question for a person. */
export interface NewPrompt {
  /** A kernel of the session; default: the first one. */
  kernel?: string | null | undefined;
  /** A repeated request with the same key returns the same prompt. */
  key?: string | null | undefined;
  /** The possible answers. Default: none, and the answer is a text. */
  options?: string[] | undefined;
  /** The text that the person reads. */
  text: string;
  /** Seconds that it may stay open; default: a day. */
  timeout_s?: number | null | undefined;
}

/** A webhook of prompts to create. */
export interface NewPromptWebhook {
  /** 1 to 64 lower-case letters, digits and hyphens; one of the tenant. */
  name: string;
  /** The URL that prompts are posted to. */
  url: string;
}

/** A schedule to create. */
export interface NewSchedule {
  /** The URL that the result of each run is posted to. */
  callback?: string | null | undefined;
  /** When it is due: minute, hour, day of the month, month and weekday, with a second before them if need be. */
  cron: string;
  /** If true, it starts runs; default true. */
  enabled?: boolean | null | undefined;
  /** The inputs of each run, which fit the schema of the target. */
  inputs?: { [name: string]: unknown } | undefined;
  /** The handling of due times that no gateway saw within a minute; default `run_once`. */
  missed?: "skip" | "run_once" | undefined;
  /** 1 to 64 lower-case letters, digits and hyphens; one of the tenant. */
  name: string;
  /** The handling of a due time while an earlier run is in progress; default `skip`. */
  overlap?: "skip" | "allow" | undefined;
  /** A skill or a workflow. */
  target: {
    /** The name of a skill that is code. */
    skill?: string | null | undefined;
    /** Its version. Default: the latest one, at each run. */
    version?: string | null | undefined;
    /** The name of a workflow, in place of a skill. */
    workflow?: string | null | undefined;
  };
  /** The template of the sessions of runs of a skill. Default: the template of the skill, or the default kernelspec. */
  template?: string | null | undefined;
  /** The time zone of `cron`, by its name in the IANA database; default `UTC`. */
  time_zone?: string | null | undefined;
  /** Seconds that a run of a skill may take, if that is less than the skill says. */
  timeout_s?: number | null | undefined;
}

/** A run of a schedule that is asked for. */
export interface NewScheduleRun {
  /** A repeated request with the same key returns the same run while it is listed. A different request with the key gets 422. */
  idempotency_key?: string | null | undefined;
  /** The handling of this run while an earlier one is in progress: `skip` is 409. Default: as the schedule has it for due times. */
  overlap?: "skip" | "allow" | null | undefined;
}

/** The requested session; every member is optional. */
export interface NewSessionWithId {
  /** Names of credentials that it may use, from the credentials of the template. Default: all of them. */
  credentials?: string[] | null | undefined;
  /** The first directory of its kernel. */
  cwd?: string | null | undefined;
  /** Environment variables of its processes. */
  env?: { [name: string]: string } | null | undefined;
  /** A chosen id, so that a repeated request creates no second session. */
  id?: string | null | undefined;
  /** A repeated request with this key is the same session, as long as it lives. Only for `POST`: the name of a `PUT` is its key. */
  idempotency_key?: string | null | undefined;
  /** Seconds without activity after which it is ended. */
  idle_timeout_s?: number | null | undefined;
  image?: string | null | undefined;
  /** The minimum level. */
  isolation?: "none" | "namespaces" | "container" | "gvisor" | "microvm" | null | undefined;
  /** Labels of the caller. */
  labels?: { [name: string]: string } | null | undefined;
  /** Seconds after its start when it is ended. */
  lifetime_s?: number | null | undefined;
  /** Requested limits. Absent limits have the value of the template. */
  limits?: {
    cpu_millis?: number | null | undefined;
    disk_bytes?: number | null | undefined;
    execution_ms?: number | null | undefined;
    memory_bytes?: number | null | undefined;
    open_files?: number | null | undefined;
    output_bytes?: number | null | undefined;
    pids?: number | null | undefined;
    shm_bytes?: number | null | undefined;
    tmp_bytes?: number | null | undefined;
  } | null | undefined;
  /** Unique among living sessions of its owner. */
  name?: string | null | undefined;
  /** `none`, the name of an open network, `allow` for all hosts that the template allows, or a part of them. */
  network?: string | {
    /** Some of the hosts that the template allows. */
    allow: (string | {
      /** `example.org`, `*.example.org` for the names below it, or `*` for every name. */
      host: string;
      /** Methods of plain HTTP; without any, all. A rule with methods allows no TLS, in which they cannot be read. */
      methods?: string[] | undefined;
      /** Without any: 80 and 443. */
      ports?: number[] | undefined;
    })[];
  } | null | undefined;
  /** Environment variables that are neither shown nor stored. */
  secrets?: { [name: string]: string } | null | undefined;
  /** Name of a template or a kernelspec. */
  template?: string | null | undefined;
  /** Tools that it may use, from the tools of the template. Default: all of them. */
  tools?: string[] | null | undefined;
}

/** The requested session; every member is optional. */
export interface NewSessionWithNoId {
  /** Names of credentials that it may use, from the credentials of the template. Default: all of them. */
  credentials?: string[] | null | undefined;
  /** The first directory of its kernel. */
  cwd?: string | null | undefined;
  /** Environment variables of its processes. */
  env?: { [name: string]: string } | null | undefined;
  /** A chosen id, so that a repeated request creates no second session. */
  id?: null | undefined;
  /** A repeated request with this key is the same session, as long as it lives. Only for `POST`: the name of a `PUT` is its key. */
  idempotency_key?: string | null | undefined;
  /** Seconds without activity after which it is ended. */
  idle_timeout_s?: number | null | undefined;
  image?: string | null | undefined;
  /** The minimum level. */
  isolation?: "none" | "namespaces" | "container" | "gvisor" | "microvm" | null | undefined;
  /** Labels of the caller. */
  labels?: { [name: string]: string } | null | undefined;
  /** Seconds after its start when it is ended. */
  lifetime_s?: number | null | undefined;
  /** Requested limits. Absent limits have the value of the template. */
  limits?: {
    cpu_millis?: number | null | undefined;
    disk_bytes?: number | null | undefined;
    execution_ms?: number | null | undefined;
    memory_bytes?: number | null | undefined;
    open_files?: number | null | undefined;
    output_bytes?: number | null | undefined;
    pids?: number | null | undefined;
    shm_bytes?: number | null | undefined;
    tmp_bytes?: number | null | undefined;
  } | null | undefined;
  /** Unique among living sessions of its owner. */
  name?: string | null | undefined;
  /** `none`, the name of an open network, `allow` for all hosts that the template allows, or a part of them. */
  network?: string | {
    /** Some of the hosts that the template allows. */
    allow: (string | {
      /** `example.org`, `*.example.org` for the names below it, or `*` for every name. */
      host: string;
      /** Methods of plain HTTP; without any, all. A rule with methods allows no TLS, in which they cannot be read. */
      methods?: string[] | undefined;
      /** Without any: 80 and 443. */
      ports?: number[] | undefined;
    })[];
  } | null | undefined;
  /** Environment variables that are neither shown nor stored. */
  secrets?: { [name: string]: string } | null | undefined;
  /** Name of a template or a kernelspec. */
  template?: string | null | undefined;
  /** Tools that it may use, from the tools of the template. Default: all of them. */
  tools?: string[] | null | undefined;
}

/** A skill to publish. */
export interface NewSkill {
  /** The files by their relative paths. */
  files: { [name: string]: {
    /** Content that is not UTF-8. */
    base64?: string | null | undefined;
    /** UTF-8. */
    text?: string | null | undefined;
  } };
  /** The manifest. Default: `skill.json` among the files, or the front matter of `SKILL.md`. */
  manifest?: {
    /** Purpose and use, for people and models; at most 1,024 characters. */
    description: string;
    /** The digest of the environment that it needs: of the lock file or the image. It does not run in another one. */
    environment?: string | null | undefined;
    /** JSON Schema of the inputs, an object: the arguments of `main`. Code has one. */
    inputs?: unknown | undefined;
    /** Kind of the skill. */
    kind: "instructions" | "code";
    /** Names of models that a run may call. It can use the models that the template and the caller have as well. */
    models?: string[] | undefined;
    /** 1 to 64 lower-case letters, digits and hyphens; it begins with a letter and does not end with a hyphen. */
    name: string;
    /** Hosts that the skill needs. A run reaches hosts that are both here and in the template. */
    network?: (string | {
      /** `example.org`, `*.example.org` for the names below it, or `*` for every name. */
      host: string;
      /** Methods of plain HTTP; without any, all. A rule with methods allows no TLS, in which they cannot be read. */
      methods?: string[] | undefined;
      /** Without any: 80 and 443. */
      ports?: number[] | undefined;
    })[] | undefined;
    /** JSON Schema of the value that `main` returns. Needed for code. */
    outputs?: unknown | undefined;
    /** Skills that it runs, each with a requirement of its version: `^1.2`. */
    skills?: { [name: string]: string } | undefined;
    /** The template of the session in which it runs. Default: the template that the caller names. */
    template?: string | null | undefined;
    /** Runs with a known result. */
    tests?: ({
      /** The name of the expected exception, in place of outputs: `ValueError`. */
      error?: string | null | undefined;
      /** The inputs. */
      inputs?: { [name: string]: unknown } | undefined;
      /** Title of the test case. */
      name: string;
      /** The outputs that it has then. Without them, any that fit the schema. */
      outputs?: unknown | undefined;
    })[] | undefined;
    /** Seconds that a run may take. Default: 600. */
    timeout_s?: number | null | undefined;
    /** Tools that a run may call: `SERVER`, or `SERVER.TOOL` with `*`. It can use the tools that the template and the caller have as well. */
    tools?: string[] | undefined;
    /** A semantic version: `1.2.0`. */
    version: string;
  } | null | undefined;
}

/** A run of a skill to start. */
export interface NewSkillRun {
  /** The URL that its result is posted to. */
  callback?: string | null | undefined;
  /** The arguments of `main`, which fit the schema. */
  inputs?: { [name: string]: unknown } | undefined;
  /** The template of its session. Default: the template of the skill, or the default kernelspec. */
  template?: string | null | undefined;
  /** Seconds that it may take, if that is less than the skill says. */
  timeout_s?: number | null | undefined;
  /** Default: the latest one. */
  version?: string | null | undefined;
  /** Seconds that the response waits for the end; default 300. The run continues afterwards. */
  wait_s?: number | null | undefined;
}

/** The requested token. */
export interface NewToken {
  /** Name of the caller that its holder is, as executions and the audit log show it. */
  caller: string;
  /** The purpose of the token. */
  description?: string | null | undefined;
  /** Seconds until it expires. Default: it expires together with the token that creates it, or never. */
  expires_in_s?: number | null | undefined;
  /** Within the scope of the token that creates it. */
  scope: "read" | "execute" | "admin";
  /** A tenant of the configuration. Default: the tenant of the creating token. Only the operator may name another tenant. */
  tenant?: string | null | undefined;
}

/** A webhook to create. */
export interface NewWebhook {
  /** The URL that the result of each run is posted to. */
  callback?: string | null | undefined;
  /** If true, it starts runs; default true. */
  enabled?: boolean | null | undefined;
  /** Inputs of each run, independent of the message. */
  inputs?: { [name: string]: unknown } | undefined;
  /** 1 to 64 lower-case letters, digits and hyphens; one of the tenant. */
  name: string;
  /** A skill or a workflow. */
  target: {
    /** The name of a skill that is code. */
    skill?: string | null | undefined;
    /** Its version. Default: the latest one, at each run. */
    version?: string | null | undefined;
    /** The name of a workflow, in place of a skill. */
    workflow?: string | null | undefined;
  };
  /** The template of the sessions of runs of a skill. Default: the template of the skill, or the default kernelspec. */
  template?: string | null | undefined;
  /** Seconds that a run of a skill may take, if that is less than the skill says. */
  timeout_s?: number | null | undefined;
}

/** A workflow to publish. */
export interface NewWorkflow {
  /** The definition of the workflow. */
  definition: {
    /** Purpose and use, for people and models; at most 1,024 characters. */
    description: string;
    /** JSON Schema of the inputs of a run, an object. */
    inputs: unknown;
    /** 1 to 64 lower-case letters, digits and hyphens; it begins with a letter and does not end with a hyphen. */
    name: string;
    /** Outputs of a run, by name. */
    outputs?: { [name: string]: {
      from: string;
    } | {
      value: unknown;
    } } | undefined;
    /**
     * Steps, at most 100. A step begins when all steps to which it is wired, or after which it comes, have succeeded; other steps run in
     * parallel.
     */
    steps: ({
      /** Ids of steps that it comes after without a wire. */
      after?: string[] | undefined;
      /** Question to a person, instead of a skill. The outputs are `answer`, one of the options, and `by`, the person. */
      approval?: {
        /** The answers that can be chosen, 2 to 16. */
        options?: string[] | undefined;
        /** The answers with which the run continues; any other ends it. Default: the first option. */
        proceed?: string[] | undefined;
        /** Text for the person; at most 4,000 characters. */
        text: string;
        /** Seconds to wait for an answer, at most 30 days. Default: 7 days. */
        timeout_s?: number | undefined;
      } | null | undefined;
      /** 1 to 64 lower-case letters, digits, hyphens and `_`; one of the workflow. */
      id: string;
      /** Inputs of the skill, or values that the person sees, by name. */
      inputs?: { [name: string]: {
        from: string;
      } | {
        value: unknown;
      } } | undefined;
      /** Runs the skill once for each item of a list. The outputs of the step are the list of their outputs, in its order. */
      map?: {
        /** The list, of at most 1,000 items. An item is `item` in the inputs of the step. */
        over: {
          from: string;
        } | {
          value: unknown;
        };
        /** Number of items that run at the same time. */
        parallel?: number | undefined;
      } | null | undefined;
      /** Tries again after a failure. Without it a failure ends the run. */
      retries?: {
        /** Number of attempts after the first one. */
        limit: number;
        /** Seconds before the first of them. Before each other one it is twice as long as before the last, at most an hour. */
        wait_s?: number | undefined;
      } | null | undefined;
      /** The code skill that runs. */
      skill?: {
        /** The address of its content. */
        digest?: string | null | undefined;
        /** Name of the skill. */
        name: string;
        /**
         * A version, or a range of versions of which the latest is taken when the workflow is published: `1.2.0`, `^1.2`, `>=1, <3`. Default:
         * the latest one.
         */
        version?: string | null | undefined;
      } | null | undefined;
      /** The template of its sessions. Default: the template of the skill. */
      template?: string | null | undefined;
      /** Seconds that one attempt may run, if that is less than the skill says. */
      timeout_s?: number | null | undefined;
    })[];
    /** A semantic version: `1.2.0`. */
    version: string;
  };
}

/** A run of a workflow to start. */
export interface NewWorkflowRun {
  /** The URL that its result is posted to. */
  callback?: string | null | undefined;
  /** A repeated request with the same key returns the same run. A different request with the key gets 422. */
  idempotency_key?: string | null | undefined;
  /** The inputs, which fit the schema of the workflow. */
  inputs?: { [name: string]: unknown } | undefined;
  /** Default: the latest one. */
  version?: string | null | undefined;
  /** Seconds that the response waits for the end; default 0. The run continues afterwards. */
  wait_s?: number | null | undefined;
}

/** The usage of one caller, now and today. */
export interface OfCaller {
  buffered_bytes: number;
  caller: string;
  connections: number;
  execution_ms: number;
  executions: number;
  /** Characters that tools of MCP have returned to it today, of all replicas. */
  returned_chars: number;
}

/** A file that was to be kept, and is not. */
export interface OmittedArtifact {
  /** Length in bytes. */
  bytes: number;
  /** Path below the directory of artifacts. */
  name: string;
  /** `too_large`, `too_many`, `same_name` (as one in the other directory) or `unreadable`. */
  reason: string;
}

/** Files that were to be kept, and are not. */
export interface OmittedArtifacts {
  /** The first ones. */
  files: OmittedArtifact[];
  /** Number of further files. */
  more: number;
  /** The kernel did not look at all files: there may be others. */
  truncated: boolean;
}

/** A prompt that waits for an answer. */
export interface OpenPrompt {
  /** The answer, if there is one and it is not secret. */
  answer?: string | null | undefined;
  /** Caller that answered: `operator`, or tenant and caller as `tenant/caller`. Of `input()` it is not known after the end of its gateway. */
  answered_by?: string | null | undefined;
  /** The arguments of that call, as long as it is open; of a step its inputs. */
  arguments?: unknown | undefined;
  /** When it was asked, UTC. */
  created: string;
  /** The execution that waits for the answer, if any. Its time limit is paused. */
  execution?: ExecutionId | null | undefined;
  /** Until when it may stay open, UTC. Without it: as long as its code waits. */
  expires?: string | null | undefined;
  /** Id of the prompt. */
  id: PromptId;
  /** Reason for the prompt. */
  kind: PromptKind;
  /** The possible answers. Without any, the answer is a text. */
  options: string[];
  /** The answer is a secret, which is kept nowhere. */
  password?: boolean | undefined;
  /** Reason why the prompt ended without an answer. */
  reason?: string | null | undefined;
  /** Id of the workflow run, if the prompt belongs to a step. */
  run?: string | null | undefined;
  /** Id of the session. */
  session?: KernelId | null | undefined;
  /** State of the prompt. */
  state: PromptState;
  /** The step of that run. */
  step?: string | null | undefined;
  /** Text for the person. It comes from the code of the session, a tool or a workflow, and is not the gateway's. */
  text: string;
  /** The tool that wants to be called: `server.tool`. */
  tool?: string | null | undefined;
  /**
   * In the operator's list: how many prompts of its owner waited when it was asked: of steps for a step, of kernels for a kernel. The pages
   * of that list have low turns first, so that the prompts of one owner do not hide those of others. Without it: 0.
   */
  turn?: number | undefined;
}

/** A page of prompts that wait for an answer. */
export interface OpenPromptPage {
  /** The cursor of the next page; null at the end. */
  next: string | null;
  /** In the order in which they were asked. */
  prompts: OpenPrompt[];
  /** Replicas whose part is missing. */
  unanswered?: string[] | undefined;
}

/**
 * Through which interface a kernel was made. It decides what follows a crash.
 * - `jupyter`: `/api`: a crashed process is replaced at once, as `jupyter_server` does.
 * - `v1`: `/v1`: a crashed process is replaced by the next execution or restart only.
 */
export type Origin = "jupyter" | "v1";

/** Data that belongs to no session. */
export interface Orphan {
  /** Size in bytes; `None`: unknown. */
  bytes: number | null;
  /** Kind of the orphan. */
  kind: OrphanKind;
  /** Name in the data directory or at the provisioner. */
  name: string;
}

/**
 * Kind of an orphan.
 * - `log`: A log with its artifacts that belongs to no session.
 * - `files`: Kept files of no session.
 */
export type OrphanKind = "log" | "files";

/** One output, in the form of nbformat. */
export interface Output {
  /** By MIME type: text, JSON, or where the content is. */
  data: { [name: string]: OutputContent };
  /** `display_data` or `execute_result`. */
  output_type: string;
  /** Data of a figure, from kernels that send it: its lines, scatters and bars as `{axes}`, or a reference to it. */
  plot?: PlotOrArtifact | null | undefined;
  /** Reference to a smaller copy of an image with more than 2,000 pixels on a side, from kernels that send it. */
  preview?: ArtifactReference | null | undefined;
  /** Text of a display without a useful `text/plain` (Markdown, HTML, a styled frame, a figure of plotly), from kernels that send it. */
  summary?: string | null | undefined;
  /** Head of a frame or series, from kernels that send it: `{shape, columns, columns_total, index, rows}`, or a reference to it. */
  table?: TableOrArtifact | null | undefined;
  /** Size of a text that is shown in part. */
  truncated?: TruncatedText | null | undefined;
}

/** A representation of an output: text or JSON as the kernel made it, or where the content is. */
export type OutputContent = string | ArtifactReference | { [name: string]: unknown } | unknown[] | number | boolean | null;

/** A part of the text of an execution, whole characters. */
export interface OutputPage {
  /** UTF-8 bytes of all text so far. */
  bytes_total: number;
  /** No more text will come. */
  complete: boolean;
  /**
   * The cursor of the next part. Null: this is the last one, and no more text will come. While the execution runs it may be
   * `bytes_total`: ask again later.
   */
  next: number | null;
  /** UTF-8 bytes before it. */
  offset: number;
  text: string;
}

/**
 * Reason why a session is removed.
 * - `age`: The retention time has passed.
 * - `space`: All of them together are too large, or too many.
 * - `lost`: The sandbox is lost, and the session was not used since.
 */
export type Overdue = "age" | "space" | "lost";

/**
 * Policy for a due time while an earlier run is in progress.
 * - `skip`: The run is omitted.
 * - `allow`: The run starts, and both are in progress.
 */
export type Overlap = "skip" | "allow";

/** A position in code. */
export interface PlaceInCode {
  code: string;
  /** Position in characters; default: the end of the code. */
  cursor_pos?: number | null | undefined;
  /** A kernel of the session; default: the first one. */
  kernel?: string | null | undefined;
}

/** The data of a figure. */
export interface Plot {
  axes?: PlotAxes[] | null | undefined;
}

/** One coordinate system of a figure. */
export interface PlotAxes {
  series?: PlotSeries[] | null | undefined;
  title?: string | null | undefined;
  /** Label of the axis. */
  x?: string | null | undefined;
  /** Label of the axis. */
  y?: string | null | undefined;
}

/** The data of a figure, or where it is. */
export type PlotOrArtifact = ArtifactReference | Plot;

/** One line, scatter or bar series of a plot. */
export interface PlotSeries {
  /** `line`, `scatter` or `bar`. */
  kind?: string | null | undefined;
  label?: string | null | undefined;
  /** Points of the whole. */
  points?: number | null | undefined;
  x?: unknown[] | null | undefined;
  y?: unknown[] | null | undefined;
}

/** A pool. */
export interface Pool {
  failures: number;
  hits: number;
  max: number;
  misses: number;
  /** The reason why it is not full, or null. */
  problem: string | null;
  /** Kernels that can be claimed. */
  ready: number;
  size: number;
  /** Kernels that are being started. */
  starting: number;
  /** The current target: between `size` and `max`, depending on claims. */
  target: number;
  template: string;
}

/** All pools, one for each template that has one. */
export interface PoolPage {
  /** The cursor of the next page; null at the end. */
  next: string | null;
  pools: Pool[];
}

/** A problem document (RFC 9457). */
export interface Problem {
  /** A stable code for programs. */
  code: string;
  /** One line for humans. */
  detail: string;
  /** Time of its end. */
  ended?: string | null | undefined;
  /** The invalid member or parameter. */
  field?: string | null | undefined;
  /** The hazards in a session that prevent a fork. */
  hazards?: Hazard[] | undefined;
  /** The current kernel process, which is not the expected one. */
  incarnation?: number | null | undefined;
  /** The quota that is exhausted. */
  quota?: Quota | null | undefined;
  /** The reason of the end: `killed_by_user`, `idle_culled`, `ttl` … */
  reason?: string | null | undefined;
  /** The id of the request, as in the header `X-Request-Id` and in the gateway's log. */
  request_id?: string | null | undefined;
  /**
   * Seconds after which to try again, as in the header `Retry-After`: for every retryable problem, and for a failed call of a tool
   * whose server named them.
   */
  retry_after_s?: number | null | undefined;
  /** True if the same call may succeed later. */
  retryable: boolean;
  /** The HTTP status with which the server of a tool refused the call: 300 to 599. */
  server_status?: number | null | undefined;
  /** The ended session. */
  session?: KernelId | null | undefined;
  status: number;
  /** The end of the kernel's standard error, for a failed start. */
  stderr?: string | null | undefined;
  title: string | null;
  type: string;
}

/** Prompt to a person, and its answer. */
export interface Prompt {
  /** The answer, if there is one and it is not secret. */
  answer?: string | null | undefined;
  /** Caller that answered: `operator`, or tenant and caller as `tenant/caller`. Of `input()` it is not known after the end of its gateway. */
  answered_by?: string | null | undefined;
  /** The arguments of that call, as long as it is open; of a step its inputs. */
  arguments?: unknown | undefined;
  /** When it was asked, UTC. */
  created: string;
  /** The execution that waits for the answer, if any. Its time limit is paused. */
  execution?: ExecutionId | null | undefined;
  /** Until when it may stay open, UTC. Without it: as long as its code waits. */
  expires?: string | null | undefined;
  /** Id of the prompt. */
  id: PromptId;
  /** Reason for the prompt. */
  kind: PromptKind;
  /** The possible answers. Without any, the answer is a text. */
  options: string[];
  /** The answer is a secret, which is kept nowhere. */
  password?: boolean | undefined;
  /** Reason why the prompt ended without an answer. */
  reason?: string | null | undefined;
  /** Id of the workflow run, if the prompt belongs to a step. */
  run?: string | null | undefined;
  /** Id of the session. */
  session?: KernelId | null | undefined;
  /** State of the prompt. */
  state: PromptState;
  /** The step of that run. */
  step?: string | null | undefined;
  /** Text for the person. It comes from the code of the session, a tool or a workflow, and is not the gateway's. */
  text: string;
  /** The tool that wants to be called: `server.tool`. */
  tool?: string | null | undefined;
}

/** The answer to a prompt. */
export interface PromptAnswer {
  /** One of the options, if the prompt has some. */
  value: string;
}

export type PromptId = string;

/**
 * Reason for a prompt.
 * - `question`: Code asks a question of its own.
 * - `approval`: A call of a tool has to be approved.
 * - `input`: `input()` or `getpass()` waits.
 * - `step`: A step of a workflow has to be approved.
 */
export type PromptKind = "question" | "approval" | "input" | "step";

/**
 * State of a prompt.
 * - `open`: It waits for an answer.
 * - `answered`: It was answered.
 * - `withdrawn`: No answer is of use any more.
 */
export type PromptState = "open" | "answered" | "withdrawn";

/** A webhook of prompts. */
export interface PromptWebhook {
  /** As whom answers are given. */
  caller: string;
  created: string;
  id: string;
  name: string;
  /** The tenant of its owner, or `operator`. */
  owner: string;
  /** The target of prompts: scheme, host and port. The rest of the URL can be a secret, and is not shown. */
  url: string;
}

/** A page of the list. */
export interface PromptWebhookPage {
  /** The cursor of the next page; null at the end. */
  next: string | null;
  webhooks: PromptWebhook[];
}

/** The prompts of a kernel. */
export interface Prompts {
  /** In the order in which they were asked. */
  prompts: Prompt[];
}

/** The environment that an execution ran in. */
export interface Provenance {
  /** The name of the image, where one was named. */
  image: string | null;
  /** The digest of the image that the sandbox was started from; null without containers. */
  image_digest: string | null;
  /** The level of the sandbox. */
  isolation: Isolation;
  /** The kernelspec. */
  kernelspec: string;
  /** The limits of the session. Absent limits have no bound. */
  limits: SessionLimits;
  /** The first 16 hexadecimal digits of the SHA-256 of the lock file of the Python environment, if the gateway built that. */
  lock_hash: string | null;
  /**
   * The first 16 hexadecimal digits of a SHA-256 of the names and versions of the Python packages that the kernel could import when
   * the execution ended: another one after an installation. From kernels that tell.
   */
  packages_hash: string | null;
  /** The template. */
  template: string;
}

/** A quota that is exhausted. */
export interface Quota {
  limit: number;
  /** The key in the configuration: `cpu_seconds_per_day`, `sandbox_memory`. */
  name: string;
  /** When it will be possible again. Null: when less is used. */
  resets: string | null;
  /** The unit of both numbers: `seconds`, `bytes`, `characters`. */
  unit: string;
  used: number;
}

/** Losses of an execution since the log of its session had reached its quota (`output_bytes`): the oldest part of a log goes first. */
export interface QuotaLoss {
  /** Removed records of the session log since the beginning of the execution, including records of other executions. */
  records_removed: number;
}

/** The previous kernel process. */
export interface ReplacedExecution {
  /** Reason of its end, if that is known. */
  cause: string | null;
  /** Number of the process. Variables of executions in it are gone. */
  incarnation: number;
  /** Further losses, if the session has another sandbox since. */
  sandbox_lost?: SandboxLoss | null | undefined;
  /** Variables of the process, from kernels that report them. */
  variables_lost: LostVariables | null;
}

/** A revoked token. */
export interface RevokedToken {
  /** The number of workflow runs that were cancelled because the token had started them. */
  stopped: number;
  /** The ids of these runs. */
  stopped_runs: string[];
}

/** A run with its inputs and outputs. */
export interface Run {
  /** The principal who asked a schedule for the run, if it was not due. */
  asked_by: string | null;
  /** The principal who cancelled the run of a workflow. */
  cancelled_by: string | null;
  /** When the run was asked for, or due. */
  created: string;
  /** The address of the content of that version, if it is known. */
  digest: string | null;
  ended: string | null;
  /** The reason why the run failed, did not begin, or waits. */
  error: RunError | null;
  /** The execution that a run of a skill is. */
  execution: string | null;
  /** `run_` and 32 hexadecimal digits. */
  id: string;
  /** The inputs of a workflow. Null for a skill. */
  inputs: unknown;
  kind: RunKind;
  /** Due times before this one that were missed, at most 1,000. Null if no schedule has started the run. */
  missed_before: number | null;
  /** The name of the skill or workflow. */
  name: string;
  origin: RunOrigin;
  /** The returned outputs. Null until then. Once the log of a skill that a schedule or a webhook has started is gone, up to 16 KiB. */
  outputs: unknown;
  /** The execution of a skill, with its text and its error. */
  result: ExecutionResult | null;
  /** The session that a skill runs in. */
  session: string | null;
  started: string | null;
  /** The principal whose rights the run has. */
  started_by: string;
  status: RunStatus;
  /** The steps of a workflow, in its order. */
  steps: WorkflowRunStep[];
  /** The version that runs. Null until the run begins. */
  version: string | null;
  /** The violations of the schema by the outputs of a skill. */
  violations: SchemaViolation[];
}

/** Why a run failed, or did not begin. */
export interface RunError {
  /** A stable name. */
  code: string;
  /** Description of the failure. */
  message: string;
  /** The step that failed, of a workflow. */
  step?: string | null | undefined;
}

/** The data of one event: the run as it is then. */
export interface RunEvent {
  /** The principal who asked a schedule for the run, if it was not due. */
  asked_by: string | null;
  /** The principal who cancelled the run of a workflow. */
  cancelled_by: string | null;
  /** When the run was asked for, or due. */
  created: string;
  /** The address of the content of that version, if it is known. */
  digest: string | null;
  ended: string | null;
  /** The reason why the run failed, did not begin, or waits. */
  error: RunError | null;
  /** `run`. */
  event: string;
  /** The execution that a run of a skill is. */
  execution: string | null;
  /** `run_` and 32 hexadecimal digits. */
  id: string;
  kind: RunKind;
  /** Due times before this one that were missed, at most 1,000. Null if no schedule has started the run. */
  missed_before: number | null;
  /** The name of the skill or workflow. */
  name: string;
  origin: RunOrigin;
  /** The session that a skill runs in. */
  session: string | null;
  started: string | null;
  /** The principal whose rights the run has. */
  started_by: string;
  status: RunStatus;
  /** The state of each step of a workflow, by its id. */
  steps: { [name: string]: StepStatus };
  /** The version that runs. Null until the run begins. */
  version: string | null;
}

/**
 * Kind of the run.
 * - `skill`: A code skill, as an execution in a session that ends with it.
 * - `workflow`: A workflow, whose steps are runs of skills.
 */
export type RunKind = "skill" | "workflow";

/** Starter of a run. */
export interface RunOrigin {
  /** Its id; null for a client. */
  id: string | null;
  /** Kind of the starter. */
  kind: RunOriginKind;
}

/**
 * Kind of the starter of a run.
 * - `client`: A client of the gateway.
 * - `code`: Code in a session. The id is the id of the session.
 * - `schedule`: A schedule, by its id.
 * - `webhook`: A webhook, by its id.
 * - `step`: A step of a run of a workflow. The id is the id of the run.
 */
export type RunOriginKind = "client" | "code" | "schedule" | "webhook" | "step";

/** A page of the list. */
export interface RunPage {
  /** The cursor of the next page; null at the end. A page may have fewer runs than `limit`, and a next one. */
  next: string | null;
  runs: ListedRun[];
  /** The replicas whose runs of skills are missing. */
  unanswered?: string[] | undefined;
}

/**
 * How far a run is, and how it ended.
 * - `queued`: A schedule or a webhook has asked for the run, which has not begun.
 * - `running`: The run continues. It may wait for a person.
 * - `succeeded`: The run has returned outputs that fit the schema.
 * - `failed`: The run has ended without such outputs: `error` has the reason.
 * - `cancelled`: A caller or the gateway has ended the run.
 * - `skipped`: The due time came while earlier runs were in progress.
 * - `missed`: The due time had passed before a gateway saw it.
 */
export type RunStatus = "queued" | "running" | "succeeded" | "failed" | "cancelled" | "skipped" | "missed";

/** The started object: either a skill or a workflow. */
export interface RunTarget {
  /** The name of a skill that is code. */
  skill?: string | null | undefined;
  /** Its version. Default: the latest one, at each run. */
  version?: string | null | undefined;
  /** The name of a workflow, in place of a skill. */
  workflow?: string | null | undefined;
}

/** Losses with a sandbox, in addition to the variables, that cannot be restored. */
export interface SandboxLoss {
  /** Ids of sessions that were forks in the same sandbox. At most 16. */
  branches: string[];
  /** The files of its work directory, which were not kept. */
  files: boolean;
  /** Ids of the session's additional kernels. At most 16. */
  kernels: string[];
  /** Names of secrets that the session was started with: their values are stored nowhere. At most 16. */
  secrets: string[];
}

/** Current resource use of a session's sandbox. */
export interface SandboxUsage {
  /** Processor time of the living processes, in milliseconds. */
  cpu_ms: number;
  /** Resident memory of all its processes; shared pages count in each process. */
  memory_bytes: number;
  /** Calls of models, including refused calls and answers from the cache. */
  model_calls: number;
  /** Calls that were answered from the cache. */
  model_calls_cached: number;
  model_calls_failed: number;
  model_calls_refused: number;
  /** Calls that may have been done or not. */
  model_calls_unknown: number;
  /** Tokens that models have read. */
  model_input_tokens: number;
  /** Tokens that models have written. */
  model_output_tokens: number;
  /** The costs of the calls by the prices of the configuration, in its currency unit. */
  model_spend: number;
  /** Connections to the network that have ended or were refused, of the session's kernel and its sandbox. */
  network_connections: number;
  /** Bytes of these connections from hosts. */
  network_received_bytes: number;
  /** Bytes of these connections to hosts. */
  network_sent_bytes: number;
  processes: number;
  /** Characters that tools of MCP have returned about it. */
  returned_chars: number;
  /** Calls of tools, including refused calls. */
  tool_calls: number;
  tool_calls_failed: number;
  tool_calls_refused: number;
  /** Calls that may have been done or not. */
  tool_calls_unknown: number;
  /** Bytes that tools have returned. */
  tool_reply_bytes: number;
}

/** A schedule. */
export interface Schedule {
  /** The target of results: scheme, host and port. The rest of the URL can be a secret, and is not shown. */
  callback: string | null;
  /** As whom runs are started. */
  caller: string;
  created: string;
  cron: string;
  enabled: boolean;
  id: string;
  inputs: { [name: string]: unknown };
  /** The latest run. */
  last_run: ListedRun | null;
  missed: MissedPolicy;
  name: string;
  /** When it is due next; null: it is not. */
  next: string | null;
  overlap: Overlap;
  /** The tenant of its owner, or `operator`. */
  owner: string;
  /** The reason why the gateway has switched it off. */
  stopped: string | null;
  target: RunTarget;
  template: string | null;
  time_zone: string;
  timeout_s: number | null;
}

/** The changes. Members that are left out stay. */
export interface ScheduleChange {
  cron?: string | null | undefined;
  enabled?: boolean | null | undefined;
  inputs?: { [name: string]: unknown } | null | undefined;
  missed?: "skip" | "run_once" | null | undefined;
  overlap?: "skip" | "allow" | null | undefined;
  /** The started object: either a skill or a workflow. */
  target?: {
    /** The name of a skill that is code. */
    skill?: string | null | undefined;
    /** Its version. Default: the latest one, at each run. */
    version?: string | null | undefined;
    /** The name of a workflow, in place of a skill. */
    workflow?: string | null | undefined;
  } | null | undefined;
  /** Empty: the template of the skill, or the default kernelspec. */
  template?: string | null | undefined;
  time_zone?: string | null | undefined;
  timeout_s?: number | null | undefined;
}

/** A page of the list. */
export interface SchedulePage {
  /** The cursor of the next page; null at the end. */
  next: string | null;
  schedules: Schedule[];
}

/** A violation of the schema by a part of the outputs. */
export interface SchemaViolation {
  /** The place, as a JSON Pointer. Empty: the outputs as a whole. */
  path: string;
  /** The keyword of the schema. */
  rule: string;
  /** The expected value. */
  text: string;
}

/**
 * Permission of a token. A scope includes those before it.
 * - `read`: Read everything of its owner, and change nothing.
 * - `execute`: Run code, and start, change and end sessions.
 * - `admin`: Manage access tokens. For the operator, also resources that all tenants share.
 */
export type Scope = "read" | "execute" | "admin";

/** A session: a kernel and its sandbox. */
export interface Session {
  /** With `allow`: the hosts that it may reach. */
  allow: AllowList;
  connections: number;
  created: string;
  /** Names of the credentials that it may use. */
  credentials: string[];
  cwd: string;
  /** Time of its end; null while it lives. */
  ended: string | null;
  expires: string | null;
  files: FilesMode;
  /** Also the id of its first kernel: every route of a kernel accepts it. */
  id: KernelId;
  idle_timeout_s: number | null;
  image: string | null;
  /** Counts kernel processes, from 1. If it changes, the variables are gone. */
  incarnation: number;
  isolation: Isolation;
  /** When its log is removed at the latest; null while it lives. */
  kept_until: string | null;
  kernelspec: string;
  labels: { [name: string]: string };
  last_activity: string;
  limits: Limits;
  /** Maximum memory of the sandbox, including file systems in memory; null: no limit. */
  memory_total_bytes: number | null;
  /** The name that its owner gave it; while it lives, every route of a session accepts it in place of the id. */
  name: string | null;
  /** `none`, `allow`, or the name of an open network. */
  network: string;
  origin: Origin;
  /** The tenant that owns it, or `operator`. */
  owner: string;
  parent: SessionId | null;
  provisioner: string;
  /** The reason for its state: a cause of death such as `oom`, of its end such as `idle_culled`, or null. */
  reason: string | null;
  start_ms: number;
  /** The reason why it was not taken from the pool of its template, or null. */
  start_reason: string | null;
  /** `pool`, `zygote`, `cold` or `fork`. */
  started_by: StartPath;
  state: ExecutionState;
  template: string;
  /** Tools that it may use: servers, and patterns of their tools. */
  tools: string[];
  /** The place in a tree, if code of another session has started it, or null. */
  tree: SessionTree | null;
  /** Set if its process runs and does not respond; null if it responds, or is only busy. */
  unresponsive: Unresponsive | null;
}

/** Changes of a session; every member is optional. */
export interface SessionChange {
  /** Seconds without activity after which it is ended; null: the value of the template. */
  idle_timeout_s?: number | null | undefined;
  /** Labels with null are removed, others stay as they are. */
  labels?: { [name: string]: string | null } | null | undefined;
  /** Seconds from now when it is ended; null: the value of the template. */
  lifetime_s?: number | null | undefined;
  /** The network from now on, a part of the present one: `none`, or rules. Other connections are cut. */
  network?: string | {
    /** Some of the hosts that the template allows. */
    allow: (string | {
      /** `example.org`, `*.example.org` for the names below it, or `*` for every name. */
      host: string;
      /** Methods of plain HTTP; without any, all. A rule with methods allows no TLS, in which they cannot be read. */
      methods?: string[] | undefined;
      /** Without any: 80 and 443. */
      ports?: number[] | undefined;
    })[];
  } | null | undefined;
}

/** The data of one event of a session. */
export type SessionExecutionEvent = ({
  event: "queued";
  /** Number of executions that have to end before. */
  position: number;
} | ExecutionKernel & {
  event: "started";
} | {
  event: "stdout";
  /** The text. */
  text: string;
} | {
  event: "stderr";
  /** The text. */
  text: string;
} | Output & {
  event: "display";
} | Output & {
  event: "result";
} | Output & {
  event: "update_display";
} | {
  event: "clear_output";
  /** When the next output comes. */
  wait: boolean;
} | Input & {
  event: "input_request";
} | Prompt & {
  event: "prompt";
} | Failure & {
  event: "exception";
} | {
  event: "stopping";
  /** `interrupt` or `timeout`. */
  reason: StopReason;
} | {
  event: "detached";
} | StuckExecution & {
  event: "stuck";
} | {
  event: "gap";
  /** One line. */
  text: string;
} | {
  event: "done";
  /** Result of the execution. */
  result: ExecutionResult;
}) & ({
  at: string;
  /** Null for a `gap` that may concern several executions. */
  execution_id: ExecutionId | null;
  seq: number;
});

/**
 * Identifies one session: a sandbox with its log and its kernels. Its first kernel has the same id; additional kernels have ids of
 * their own. On the wire a hyphenated lower-case UUID.
 */
export type SessionId = string;

/** A kernel of a session. All of them share the sandbox: files, limits, network and end. */
export interface SessionKernel {
  connections: number;
  created: string;
  cwd: string;
  /** True for the first kernel of the session, which ends with it and has its id. */
  first: boolean;
  /** Routes of the Jupyter API accept it too. */
  id: KernelId;
  /** Counts kernel processes, from 1. If it changes, the variables are gone. */
  incarnation: number;
  kernelspec: string;
  last_activity: string;
  /** The reason for its state: a cause of death such as `oom`, or null. */
  reason: string | null;
  session: SessionId;
  start_ms: number;
  /** `pool`, `zygote`, `cold` or `fork`. */
  started_by: StartPath;
  state: ExecutionState;
  /** Set if its process runs and does not respond; null if it responds, or is only busy. */
  unresponsive: Unresponsive | null;
}

/** Limits of a session. Null: no limit. In a request, null is the limit of the template. */
export interface SessionLimits {
  /** Processors, in thousandths of one. */
  cpu_millis?: number | null | undefined;
  /** Files in the work directory, in bytes. */
  disk_bytes?: number | null | undefined;
  /**
   * Wall time of one execution, in milliseconds. Over it the execution is interrupted, then interrupted again, then
   * the kernel's process is replaced (or ended, for `/v1`).
   */
  execution_ms?: number | null | undefined;
  /** Memory, in bytes. */
  memory_bytes?: number | null | undefined;
  /** Open files of each process. */
  open_files?: number | null | undefined;
  /** Output that is kept in the session's log, in bytes; older output becomes a marked gap. */
  output_bytes?: number | null | undefined;
  /** Processes and threads. */
  pids?: number | null | undefined;
  /** Size of `/dev/shm`, in bytes. */
  shm_bytes?: number | null | undefined;
  /** Size of `/tmp`, in bytes. */
  tmp_bytes?: number | null | undefined;
}

/** A page of the list. */
export interface SessionPage {
  /** The cursor of the next page; null at the end. */
  next: string | null;
  sessions: ListedSession[];
  /** Names of the replicas of the gateway that did not respond: their sessions are missing. */
  unanswered?: string[] | undefined;
}

/** The place of a session that code of another session has started. */
export interface SessionTree {
  /** Number of sessions above it, at least 1. */
  depth: number;
  /** The session whose code has started this one. */
  parent: SessionId;
  /** The session at the top, which a client has started. */
  root: SessionId;
  /** The execution there whose code, through sessions between, has started this one; null: there was none. */
  root_execution: string | null;
}

/**
 * The effect of a hazard on a fork.
 * - `refuse`: It prevents the fork under every policy.
 * - `warn`: It prevents the fork under `strict`, and is reported under `report`.
 */
export type Severity = "refuse" | "warn";

/** A version of a skill. Manifest and files are as they are published. */
export interface Skill {
  /** The address of its content: `sha256:` and 64 hexadecimal digits. */
  digest: string;
  /** The files by their relative paths. */
  files: { [name: string]: SkillFile };
  manifest: SkillManifest;
  name: string;
  /** When it was published; null: it is a draft. */
  published: string | null;
  /** The caller that published it; null: it is a draft. */
  published_by: string | null;
  version: string;
}

/** The content of a file: one of the two. */
export interface SkillFile {
  /** Content that is not UTF-8. */
  base64?: string | null | undefined;
  /** UTF-8. */
  text?: string | null | undefined;
}

/** Manifest of a skill, as its author writes it. */
export interface SkillManifest {
  /** Purpose and use, for people and models; at most 1,024 characters. */
  description: string;
  /** The digest of the environment that it needs: of the lock file or the image. It does not run in another one. */
  environment?: string | null | undefined;
  /** JSON Schema of the inputs, an object: the arguments of `main`. Code has one. */
  inputs?: unknown | undefined;
  /** Kind of the skill. */
  kind: Kind;
  /** Names of models that a run may call. It can use the models that the template and the caller have as well. */
  models?: string[] | undefined;
  /** 1 to 64 lower-case letters, digits and hyphens; it begins with a letter and does not end with a hyphen. */
  name: string;
  /** Hosts that the skill needs. A run reaches hosts that are both here and in the template. */
  network?: AllowList | undefined;
  /** JSON Schema of the value that `main` returns. Needed for code. */
  outputs?: unknown | undefined;
  /** Skills that it runs, each with a requirement of its version: `^1.2`. */
  skills?: { [name: string]: string } | undefined;
  /** The template of the session in which it runs. Default: the template that the caller names. */
  template?: string | null | undefined;
  /** Runs with a known result. */
  tests?: SkillTest[] | undefined;
  /** Seconds that a run may take. Default: 600. */
  timeout_s?: number | null | undefined;
  /** Tools that a run may call: `SERVER`, or `SERVER.TOOL` with `*`. It can use the tools that the template and the caller have as well. */
  tools?: string[] | undefined;
  /** A semantic version: `1.2.0`. */
  version: string;
}

/** A page of the list. */
export interface SkillPage {
  /** The cursor of the next page; null at the end. */
  next: string | null;
  skills: ListedSkill[];
}

/** A run with a known result. */
export interface SkillTest {
  /** The name of the expected exception, in place of outputs: `ValueError`. */
  error?: string | null | undefined;
  /** The inputs. */
  inputs: { [name: string]: unknown };
  /** Title of the test case. */
  name: string;
  /** The outputs that it has then. Without them, any that fit the schema. */
  outputs?: unknown | undefined;
}

/** Fewer branches than requested. */
export interface SomeBranches {
  branches: Branch[];
  /** The reason why there are no more. */
  error: Problem;
}

/**
 * Origin of a session's first process.
 * - `pool`: It was waiting in the pool.
 * - `zygote`: Forked from a zygote for this session.
 * - `cold`: A new process.
 * - `fork`: Forked from a living session.
 */
export type StartPath = "pool" | "zygote" | "cold" | "fork";

/** The body: a run that was started, with the secret of its callback. */
export interface StartedBody {
  /** The principal who asked a schedule for the run, if it was not due. */
  asked_by: string | null;
  /** With which its result is signed that is posted to `callback`. It is in responses to its start alone; left out without a callback. */
  callback_secret?: string | null | undefined;
  /** The principal who cancelled the run of a workflow. */
  cancelled_by: string | null;
  /** When the run was asked for, or due. */
  created: string;
  /** The address of the content of that version, if it is known. */
  digest: string | null;
  ended: string | null;
  /** The reason why the run failed, did not begin, or waits. */
  error: RunError | null;
  /** The execution that a run of a skill is. */
  execution: string | null;
  /** `run_` and 32 hexadecimal digits. */
  id: string;
  /** The inputs of a workflow. Null for a skill. */
  inputs: unknown;
  kind: RunKind;
  /** Due times before this one that were missed, at most 1,000. Null if no schedule has started the run. */
  missed_before: number | null;
  /** The name of the skill or workflow. */
  name: string;
  origin: RunOrigin;
  /** The returned outputs. Null until then. Once the log of a skill that a schedule or a webhook has started is gone, up to 16 KiB. */
  outputs: unknown;
  /** The execution of a skill, with its text and its error. */
  result: ExecutionResult | null;
  /** The session that a skill runs in. */
  session: string | null;
  started: string | null;
  /** The principal whose rights the run has. */
  started_by: string;
  status: RunStatus;
  /** The steps of a workflow, in its order. */
  steps: WorkflowRunStep[];
  /** The version that runs. Null until the run begins. */
  version: string | null;
  /** The violations of the schema by the outputs of a skill. */
  violations: SchemaViolation[];
}

/** The answer of a person. */
export interface StepAnswer {
  /** One of the options. */
  value: string;
}

/**
 * The state of a step or an attempt.
 * - `pending`: A step that it needs has not succeeded yet.
 * - `skipped`: It did not begin before the run ended.
 * - `delayed`: It is tried again later.
 * - `running`: The skill runs.
 * - `waiting`: A person is asked.
 * - `succeeded`: It has ended well.
 * - `failed`: It has failed.
 * - `cancelled`: It was stopped because the run has ended.
 */
export type StepStatus = "pending" | "skipped" | "delayed" | "running" | "waiting" | "succeeded" | "failed" | "cancelled";

/**
 * Reason why an execution is being stopped.
 * - `interrupt`: The caller, or another one, interrupted the kernel.
 * - `timeout`: The timeout of the execution, or the limit of the session, has passed.
 */
export type StopReason = "interrupt" | "timeout";

/** The result of an interrupt. */
export interface Stopping {
  /** False if the execution has already ended. */
  stopping: boolean;
}

/** An execution that ignores interrupts. */
export interface StuckExecution {
  /** Id of the execution. */
  execution: ExecutionId;
  /** Command that stops it. */
  hint: string;
}

/** A column. */
export interface TableColumn {
  dtype?: string | null | undefined;
  name: string;
}

/** The head of a frame or series. */
export interface TableHead {
  columns?: TableColumn[] | null | undefined;
  /** Columns of the whole. */
  columns_total?: number | null | undefined;
  /** Labels of the rows, if it has any. */
  index?: unknown[] | null | undefined;
  rows?: (unknown[])[] | null | undefined;
  /** Rows and columns of the whole. */
  shape?: number[] | null | undefined;
}

/** The head of a frame or series, or where it is. */
export type TableOrArtifact = ArtifactReference | TableHead;

/** Something that sessions can be started from, as far as the caller may use it. */
export interface Template {
  /** Names of credentials that its sessions may use. */
  credentials: string[];
  /** The kernelspec's name for people. */
  display_name: string | null;
  files: FilesMode;
  /** Seconds without activity after which a session is ended, and the maximum that it may ask for. Null: no limit. */
  idle_timeout_s: number | null;
  /** The image of its sandboxes, if it names one. */
  image: string | null;
  /** More images that the caller may request. */
  images: string[];
  /** True for a kernelspec that the configuration has no template for. */
  implicit: boolean;
  /** The minimum level of isolation. A session may ask for more. */
  isolation: Isolation;
  kernelspec: string;
  /** The kernelspec's language. */
  language: string | null;
  /** Seconds after which a session is ended, and the maximum that it may ask for. Null: no limit. */
  lifetime_s: number | null;
  /** Limits of a session that asks for none. Null: no limit. */
  limits: LimitValues;
  /** The maximum that a session may ask for. Null: no maximum. */
  max_limits: LimitValues;
  /** Directories that are mounted into its sandboxes, in addition to their own files. */
  mounts: TemplateMount[];
  name: string;
  /** `none`, `allow` (a list of hosts), or the name of an open network. */
  network: string;
  /** More networks that the caller may request. `none` is always possible. */
  networks: string[];
  /** True if kernels are kept ready, so that a start takes milliseconds. */
  pooled: boolean;
  /** Modules that are imported before a session starts, in sandboxes that start from a zygote. */
  preload: string[];
  /** One line if it is known that it cannot be started. */
  problem: string | null;
  /** `local` (also for the level `namespaces`), `docker`, `kubernetes`, or `auto`: chosen for each session. */
  provisioner: string;
  /** Tools that its sessions may use: servers, and patterns of their tools. */
  tools: string[];
}

/** A directory that the operator shares with sandboxes. */
export interface TemplateMount {
  name: string;
  /** The path in a sandbox. */
  path: string;
  /** True if each tenant or caller has a part of its own. */
  personal: boolean;
  writable: boolean;
}

/** A page of the list. */
export interface TemplatePage {
  /** The template of a session that names none; null if there is none. */
  default: string | null;
  /** The cursor of the next page; null at the end. */
  next: string | null;
  templates: Template[];
}

/** Size of the shown text, and where to read the rest. */
export interface TextTruncated {
  /** Bytes of the text in the result. */
  bytes_shown: number;
  /** UTF-8 bytes of all text. */
  bytes_total: number;
  /** Offset of the first byte that is left out. */
  from: number;
  /** Offset after the last byte that is left out. */
  to: number;
}

/** A page of the list. */
export interface TokenPage {
  /** The cursor of the next page; null at the end. */
  next: string | null;
  tokens: AccessToken[];
}

/** A tool that is called without a question, in sessions of one template that one caller starts. */
export interface ToolApproval {
  /** When it was approved. */
  approved: string;
  /** The caller that approved it. */
  approved_by: string;
  /** The caller that starts the sessions. */
  caller: string;
  id: string;
  /** The tenant of the sessions, or `operator`. */
  owner: string;
  /** The template of the sessions. */
  template: string;
  /** The tool: `server.tool`. */
  tool: string;
}

/** A page of the list. */
export interface ToolApprovalPage {
  approvals: ToolApproval[];
  /** The cursor of the next page; null at the end. */
  next: string | null;
}

/**
 * Caller of a tool: the model or code.
 * - `model`: A client of the gateway, such as an agent that calls the tool itself.
 * - `code`: Code in a sandbox.
 */
export type ToolCaller = "model" | "code";

/** A file in a reply. */
export interface ToolFile {
  /** Content, in base64. */
  data: string;
  /** MIME type that the server reports. Not checked. */
  mime_type: string;
}

/** Details of a tool. */
export interface ToolInfo {
  /** True if a person has to approve each call, or the tool for the session. */
  approval: boolean;
  /** Allowed callers: `model`, `code`. */
  callers: ToolCaller[];
  /** Description, for a model. */
  description: string;
  /** True if the tool may delete or overwrite data. */
  destructive: boolean;
  /** Arguments that show the form of a call. */
  example: unknown;
  /** Id: `server.tool`. */
  id: string;
  /** A second call with the same arguments changes nothing more. */
  idempotent: boolean;
  /** JSON Schema of its arguments, which are an object. */
  input_schema: unknown;
  /** JSON Schema of its result, if its server publishes one. */
  output_schema?: unknown | undefined;
  /** True if the policy of the session allows the tool, possibly after an approval. */
  permitted: boolean;
  /** True if the tool only reads. */
  read_only: boolean;
  /** All of it for a model, within a budget of characters. */
  text: string;
}

/** Result of a tool call. */
export interface ToolReply {
  /** Bytes of the reply of the server. */
  bytes: number;
  /** The number of the call in its session. */
  call: number;
  /** Structured content; otherwise the text, as JSON if it parses. */
  content: unknown;
  /** Milliseconds from the call to the reply. */
  duration_ms: number;
  /** Images and other files. */
  files?: ToolFile[] | undefined;
}

/** Size of a text, and of its shown part. */
export interface TruncatedText {
  /** UTF-8 bytes of it that are shown. */
  bytes_shown: number;
  /** UTF-8 bytes of the whole. */
  bytes_total: number;
}

/**
 * Request or signal that a kernel does not answer.
 * - `heartbeat`: Three heartbeats: its process is stopped, thrashes, or has lost the thread that answers them.
 * - `kernel_info`: Twelve `kernel_info_request`s since its process was started.
 * - `control`: A request of the gateway on the control channel.
 */
export type Unanswered = "heartbeat" | "kernel_info" | "control";

/** A kernel that does not respond. */
export interface Unresponsive {
  /** The problem and the possible remedies. */
  advice: string;
  problem: Unanswered;
  since: string;
}

/** The usage of a tenant, or of the operator. */
export interface Usage {
  /** Large responses in memory. */
  buffered_bytes: Used;
  /** All callers for the scope `admin` and the operator, otherwise the requesting caller. */
  callers: OfCaller[];
  connections: Used;
  /** Processor time of sandboxes today, milliseconds, of all replicas. */
  cpu_ms: Used;
  disk_bytes: Disk;
  /** The duration of the executions. */
  execution_ms: number;
  /** Native executions that have ended today, of all replicas. */
  executions: number;
  /** Kernels, of all replicas. */
  kernels: Used;
  /** Tokens that the models have read. */
  model_input_tokens: number;
  /** Tokens that the models have written. */
  model_output_tokens: number;
  /** The costs of the calls. */
  model_spend: UsedSpend;
  /** Tokens that models have read and written for code today, of all replicas. */
  model_tokens: Used;
  /** Bytes of sandboxes to and from the network today, of all replicas. */
  network_bytes: Used;
  /** Connections of sandboxes to the network now. */
  network_connections: Used;
  /** Bytes of these connections from hosts. */
  network_received_bytes: number;
  /** Bytes of these connections to hosts. */
  network_sent_bytes: number;
  /** The tenant, or `operator`. */
  owner: string;
  /** Null: no limit. */
  requests_per_second: number | null;
  /** End of the day (UTC) to which the daily counts belong. */
  resets: string;
  /** Characters that tools of MCP have returned today, of all replicas. */
  returned_chars: Used;
  /** Memory of sandboxes now. */
  sandbox_memory_bytes: Used;
  /** Null: no limit. */
  starts_per_second: number | null;
  /** Clients of events and of kernels. */
  streams: Used;
  /** Calls of tools by code and models today, of all replicas. */
  tool_calls: Used;
}

/** An amount that is used, and its limit. */
export interface Used {
  /** Null: no limit of its own. */
  limit: number | null;
  used: number;
}

/** An amount of money that is used, and its limit, in the currency unit of the configuration. */
export interface UsedSpend {
  /** Null: no limit. */
  limit: number | null;
  used: number;
}

/** Names of the variables that an execution touched. */
export interface VariableChanges {
  /** New ones. */
  added: string[];
  /** Names of variables with another value. */
  changed: string[];
  /** Names of removed variables. */
  removed: string[];
  /** There are more than are named. */
  truncated: boolean;
}

/** A column of a table, or the name of one of items. */
export type VariableColumn = {
  dtype: string | null;
  name: string;
} | string;

/** One variable in a list. Missing members are null. */
export interface VariableInfo {
  /** Size of the object itself, without objects to which it refers. */
  bytes: number | null;
  /** The type of the elements of an array or a series. */
  dtype: string | null;
  /** Number of its elements. */
  length: number | null;
  /** The module of its type. */
  module: string | null;
  /** Name of the variable. */
  name: string;
  /** The beginning of its value, as text. */
  preview: string | null;
  /** Lengths by dimension, of arrays and frames. */
  shape: number[] | null;
  /** The name of its type. */
  type: string;
}

/** A page of the list. */
export interface VariablePage {
  /** The kernel process that they are in. */
  incarnation: number;
  /** The cursor of the next page; null at the end. */
  next: string | null;
  /** All variables that there are. */
  total: number;
  /** There are more than on this page, or some are listed by their types alone. */
  truncated: boolean;
  /** In the order of their definition. */
  variables: VariableInfo[];
}

/** A part of a variable. */
export interface VariablePart {
  /** The kernel process that it is in. */
  incarnation: number;
  /** `table`, `array`, `items`, `text` or `object`. */
  kind?: string | null | undefined;
  /** The rows; absent for an `object`. */
  page?: VariableRows | null | undefined;
  /** As in the list. */
  variable: VariableInfo;
}

/** Rows of a variable, or characters of a text. */
export interface VariableRows {
  /** The columns of a table, or of items. */
  columns?: VariableColumn[] | null | undefined;
  columns_total?: number | null | undefined;
  /** Rows of the page were left out, because the page would be too large. */
  cut?: boolean | null | undefined;
  /** Labels of the rows of a table, if it has any. */
  index?: unknown[] | null | undefined;
  limit?: number | null | undefined;
  /** Rows that fulfil the conditions, of a table. */
  matched?: number | null | undefined;
  /** Rows before the page. */
  offset?: number | null | undefined;
  /** A list of cells for each row. */
  rows?: (unknown[])[] | null | undefined;
  /** The part of a text. */
  text?: string | null | undefined;
  /** Number of all rows. */
  total?: number | null | undefined;
}

/** A webhook. */
export interface Webhook {
  /** The target of results: scheme, host and port. The rest of the URL can be a secret, and is not shown. */
  callback: string | null;
  /** As whom runs are started. */
  caller: string;
  created: string;
  enabled: boolean;
  id: string;
  inputs: { [name: string]: unknown };
  /** The latest run. */
  last_run: ListedRun | null;
  name: string;
  /** The tenant of its owner, or `operator`. */
  owner: string;
  /** The target of messages: a path of the gateway's address. */
  path: string;
  target: RunTarget;
  template: string | null;
  timeout_s: number | null;
}

/** The changes. Members that are left out stay. */
export interface WebhookChange {
  enabled?: boolean | null | undefined;
  inputs?: { [name: string]: unknown } | null | undefined;
  /** The started object: either a skill or a workflow. */
  target?: {
    /** The name of a skill that is code. */
    skill?: string | null | undefined;
    /** Its version. Default: the latest one, at each run. */
    version?: string | null | undefined;
    /** The name of a workflow, in place of a skill. */
    workflow?: string | null | undefined;
  } | null | undefined;
  /** Empty: the template of the skill, or the default kernelspec. */
  template?: string | null | undefined;
  timeout_s?: number | null | undefined;
}

/** A page of the list. */
export interface WebhookPage {
  /** The cursor of the next page; null at the end. */
  next: string | null;
  webhooks: Webhook[];
}

/** A version of a workflow. */
export interface Workflow {
  /** The published definition. Each skill has its exact version and its digest. */
  definition: WorkflowDefinition;
  /** The address of its content: `sha256:` and 64 hexadecimal digits. It covers the digests of its skills. */
  digest: string;
  name: string;
  /** When it was published. */
  published: string;
  /** The caller that published it. */
  published_by: string;
  version: string;
}

/** Question to a person. */
export interface WorkflowApproval {
  /** The answers that can be chosen, 2 to 16. */
  options: string[];
  /** The answers with which the run continues; any other ends it. Default: the first option. */
  proceed?: string[] | undefined;
  /** Text for the person; at most 4,000 characters. */
  text: string;
  /** Seconds to wait for an answer, at most 30 days. Default: 7 days. */
  timeout_s: number;
}

/** An attempt of a step. */
export interface WorkflowAttempt {
  /** The answer of a person. */
  answer: string | null;
  /** The caller that has answered. */
  answered_by: string | null;
  /** 1 is the first. */
  attempt: number;
  begun: string | null;
  /** When it begins, if it is delayed, or the question expires. */
  due: string | null;
  ended: string | null;
  error: RunError | null;
  /** The execution that it is. */
  execution: string | null;
  /** The position of the item of a list; else 0. */
  item: number;
  /** The run of its skill. */
  run: string | null;
  /** The session that it runs in. */
  session: string | null;
  status: StepStatus;
}

/** A workflow: steps that are runs of skills, wired output to input. */
export interface WorkflowDefinition {
  /** Purpose and use, for people and models; at most 1,024 characters. */
  description: string;
  /** JSON Schema of the inputs of a run, an object. */
  inputs: unknown;
  /** 1 to 64 lower-case letters, digits and hyphens; it begins with a letter and does not end with a hyphen. */
  name: string;
  /** Outputs of a run, by name. */
  outputs?: { [name: string]: WorkflowValue } | undefined;
  /**
   * Steps, at most 100. A step begins when all steps to which it is wired, or after which it comes, have succeeded; other steps run in
   * parallel.
   */
  steps: WorkflowStep[];
  /** A semantic version: `1.2.0`. */
  version: string;
}

/** For each item of a list. */
export interface WorkflowMap {
  /** The list, of at most 1,000 items. An item is `item` in the inputs of the step. */
  over: WorkflowValue;
  /** Number of items that run at the same time. */
  parallel: number;
}

/** A page of the list. */
export interface WorkflowPage {
  /** The cursor of the next page; null at the end. */
  next: string | null;
  workflows: ListedWorkflow[];
}

/** Retries after a failure. */
export interface WorkflowRetries {
  /** Number of attempts after the first one. */
  limit: number;
  /** Seconds before the first of them. Before each other one it is twice as long as before the last, at most an hour. */
  wait_s: number;
}

/** A step of a run. */
export interface WorkflowRunStep {
  /** The question for a person, in place of a skill. */
  approval: WorkflowApproval | null;
  /** All attempts; of a step with a list they are with the step alone. */
  attempts: WorkflowAttempt[];
  id: string;
  /** The inputs. Null before it begins, and for a step with a list, whose items have them. */
  inputs: unknown;
  /** The number of items of its list, once that is known; null for a step without one. */
  items: number | null;
  /** Ids of the steps that it comes after. */
  needs: string[];
  /** True if inputs or outputs have more than 16 KiB and are left out: only the step itself has them. */
  omitted: boolean;
  /** The returned outputs. Null until then. */
  outputs: unknown;
  /** The skill that it runs. */
  skill: WorkflowSkill | null;
  status: StepStatus;
  /** The number of items, or 1 for a step without a list, whose skill has returned. */
  succeeded: number;
}

/** Reference to a skill. In a published workflow the version is exact, and the digest is set. */
export interface WorkflowSkill {
  /** The address of its content. */
  digest?: string | null | undefined;
  /** Name of the skill. */
  name: string;
  /**
   * A version, or a range of versions of which the latest is taken when the workflow is published: `1.2.0`, `^1.2`, `>=1, <3`. Default:
   * the latest one.
   */
  version?: string | null | undefined;
}

/** A step: a skill that runs, or a person who approves. One of the two. */
export interface WorkflowStep {
  /** Ids of steps that it comes after without a wire. */
  after?: string[] | undefined;
  /** Question to a person, instead of a skill. The outputs are `answer`, one of the options, and `by`, the person. */
  approval?: WorkflowApproval | null | undefined;
  /** 1 to 64 lower-case letters, digits, hyphens and `_`; one of the workflow. */
  id: string;
  /** Inputs of the skill, or values that the person sees, by name. */
  inputs?: { [name: string]: WorkflowValue } | undefined;
  /** Runs the skill once for each item of a list. The outputs of the step are the list of their outputs, in its order. */
  map?: WorkflowMap | null | undefined;
  /** Tries again after a failure. Without it a failure ends the run. */
  retries?: WorkflowRetries | null | undefined;
  /** The code skill that runs. */
  skill?: WorkflowSkill | null | undefined;
  /** The template of its sessions. Default: the template of the skill. */
  template?: string | null | undefined;
  /** Seconds that one attempt may run, if that is less than the skill says. */
  timeout_s?: number | null | undefined;
}

/** A value of an input or an output. */
export type WorkflowValue = {
  from: string;
} | {
  value: unknown;
};

/** An archive that was written. */
export interface WrittenArchive {
  bytes: number;
  entries: number;
  path: string;
}

/** A file that was written. */
export interface WrittenFile {
  bytes: number;
  path: string;
}

/** Files that an execution wrote. */
export interface WrittenFiles {
  /** There are more than are named. */
  truncated: boolean;
  /** Paths, relative to the work directory. */
  written: string[];
}

/** The input and the result of each operation. The result is that of JSON; streams and bytes have none. */
export interface Operations {
  /** Get an image or another large value */
  get_artifact: {
    input: {
      path: {
        /** The SHA-256 of the content, with or without `sha256:` before it. */
        sha256: string;
      };
    };
    result: undefined;
  };
  /** List credentials, without their secrets */
  list_credentials: {
    input: {
      query?: {
        /** The `next` of the page before. */
        cursor?: string | undefined;
        /** Credentials of a page; default 1,000. */
        limit?: number | undefined;
        /** Only objects of this tenant, or `operator`. */
        tenant?: string | undefined;
      };
    };
    result: CredentialPage;
  };
  /** Set a credential */
  set_credential: {
    input: {
      path: {
        /** The credential's name. */
        credential: string;
      };
      body: NewCredential;
    };
    result: Credential;
  };
  /** Delete a credential */
  delete_credential: {
    input: {
      path: {
        /** The credential's name. */
        credential: string;
      };
      query?: {
        /** A tenant of the configuration. Default: the tenant of the caller. Only the operator may name another tenant. */
        tenant?: string | undefined;
      };
    };
    result: undefined;
  };
  /** Begin the grant of a person for a credential */
  begin_grant: {
    input: {
      path: {
        /** The credential's name. */
        credential: string;
      };
      body: NewGrant;
    };
    result: Grant;
  };
  /** End the grant of a credential */
  end_grant: {
    input: {
      path: {
        /** The credential's name. */
        credential: string;
      };
      query?: {
        /** A tenant of the configuration. Default: the tenant of the caller. Only the operator may name another tenant. */
        tenant?: string | undefined;
      };
    };
    result: undefined;
  };
  /** Deliver a result again */
  retry_delivery: {
    input: {
      path: {
        /** The delivery's id. */
        delivery: string;
      };
    };
    result: Delivery;
  };
  /** Get the current result of an execution */
  get_execution: {
    input: {
      path: {
        /** The execution's id. */
        execution_id: string;
      };
      query?: {
        /** Bytes of images that the response contains in base64; larger ones are addresses. Default 0. */
        image_bytes?: number | undefined;
        /** Pixels on a side of these images; of a larger one the smaller copy (`preview`), if there is one. Default: any number. */
        image_pixels?: number | undefined;
        /** Seconds that the response waits for the end, or for a prompt; default 0. */
        wait_s?: number | undefined;
      };
    };
    result: Execution;
  };
  /** Stream the events of an execution */
  stream_execution_events: {
    input: {
      path: {
        /** The execution's id. */
        execution_id: string;
      };
      query?: {
        /** Continue after this number. */
        after?: number | undefined;
      };
    };
    result: undefined;
  };
  /** Answer the prompt of an execution */
  answer_execution: {
    input: {
      path: {
        /** The execution's id. */
        execution_id: string;
      };
      body: ExecutionInput;
    };
    result: undefined;
  };
  /** Interrupt an execution */
  interrupt_execution: {
    input: {
      path: {
        /** The execution's id. */
        execution_id: string;
      };
    };
    result: Stopping;
  };
  /** Get a part of the text of an execution */
  get_execution_output: {
    input: {
      path: {
        /** The execution's id. */
        execution_id: string;
      };
      query?: {
        /** The `next` of the page before: the first byte. Default 0. */
        cursor?: number | undefined;
        /** Maximum number of bytes; default 65,536. */
        limit?: number | undefined;
      };
    };
    result: OutputPage;
  };
  /** Collect garbage: remove expired data */
  collect_garbage: {
    input: {
      body?: Collection;
    };
    result: Collected;
  };
  /** Finish the grant of a person */
  finish_grant: {
    input: {
      body: GrantAnswer;
    };
    result: Credential;
  };
  /** Get this description */
  get_description: {
    input: { path?: undefined };
    result: unknown;
  };
  /** List pools of started kernels */
  list_pools: {
    input: {
      query?: {
        /** The `next` of the page before. */
        cursor?: string | undefined;
        /** Entries of a page; default 1,000. */
        limit?: number | undefined;
      };
    };
    result: PoolPage;
  };
  /** List webhooks of prompts */
  list_prompt_webhooks: {
    input: {
      query?: {
        /** The `next` of the page before. */
        cursor?: string | undefined;
        /** Entries of a page; default 1,000. */
        limit?: number | undefined;
      };
    };
    result: PromptWebhookPage;
  };
  /** Create a webhook of prompts */
  create_prompt_webhook: {
    input: {
      body: NewPromptWebhook;
    };
    result: CreatedPromptWebhook;
  };
  /** Delete a webhook of prompts */
  delete_prompt_webhook: {
    input: {
      path: {
        /** The id or name of the webhook of prompts. */
        prompt_webhook: string;
      };
    };
    result: undefined;
  };
  /** List deliveries of prompts */
  list_prompt_deliveries: {
    input: {
      path: {
        /** The id or name of the webhook of prompts. */
        prompt_webhook: string;
      };
      query?: {
        /** The `next` of the page before. */
        cursor?: string | undefined;
        /** Entries of a page; default 1,000. */
        limit?: number | undefined;
      };
    };
    result: DeliveryPage;
  };
  /** List what waits for an answer of a person */
  list_open_prompts: {
    input: {
      query?: {
        /** The `next` of the page before. */
        cursor?: string | undefined;
        /** Entries of a page; default 1,000. */
        limit?: number | undefined;
      };
    };
    result: OpenPromptPage;
  };
  /** Get a prompt, or wait for its answer */
  get_prompt: {
    input: {
      path: {
        /** The prompt's id. */
        prompt_id: string;
      };
      query?: {
        /** Seconds to wait for the end of the prompt; default 0. */
        wait_s?: number | undefined;
      };
    };
    result: Prompt;
  };
  /** Answer a prompt */
  answer_prompt: {
    input: {
      path: {
        /** The prompt's id. */
        prompt_id: string;
      };
      body: PromptAnswer;
    };
    result: Prompt;
  };
  /** List runs of skills and workflows */
  list_runs: {
    input: {
      query?: {
        /** The `next` of the page before. */
        cursor?: string | undefined;
        /** Kind of the run. */
        kind?: "skill" | "workflow" | undefined;
        /** Runs of a page; default 100. */
        limit?: number | undefined;
        /** Kind of the starter of a run. */
        origin?: "client" | "code" | "schedule" | "webhook" | "step" | undefined;
        /** Only runs that this schedule has asked for, by its id or name. */
        schedule?: string | undefined;
        /** Only runs in the session with this id, and runs that its code has started. */
        session?: string | undefined;
        /** Only runs of this skill. */
        skill?: string | undefined;
        /** How far a run is, and how it ended. */
        status?: "queued" | "running" | "succeeded" | "failed" | "cancelled" | "skipped" | "missed" | undefined;
        /** Only runs that this webhook has asked for, by its id or name. */
        webhook?: string | undefined;
        /** Only runs of this workflow. */
        workflow?: string | undefined;
      };
    };
    result: RunPage;
  };
  /** Get a run, or wait for its end */
  get_run: {
    input: {
      path: {
        /** The run's id, `run_…`. */
        run_id: string;
      };
      query?: {
        /** Seconds that the response waits for the end; default 0. */
        wait_s?: number | undefined;
      };
    };
    result: Run;
  };
  /** End a run */
  cancel_run: {
    input: {
      path: {
        /** The run's id, `run_…`. */
        run_id: string;
      };
    };
    result: Run;
  };
  /** List deliveries of the result of a run */
  list_run_deliveries: {
    input: {
      path: {
        /** The run's id, `run_…`. */
        run_id: string;
      };
      query?: {
        /** The `next` of the page before. */
        cursor?: string | undefined;
        /** Entries of a page; default 1,000. */
        limit?: number | undefined;
      };
    };
    result: DeliveryPage;
  };
  /** Stream the states of a run */
  stream_run_events: {
    input: {
      path: {
        /** The run's id, `run_…`. */
        run_id: string;
      };
    };
    result: undefined;
  };
  /** Get a step of a run of a workflow */
  get_run_step: {
    input: {
      path: {
        /** The run's id, `run_…`. */
        run_id: string;
        /** The step's id in its workflow. */
        step: string;
      };
      query?: {
        /** For a step with a list, the item whose inputs and outputs are shown; default 0. */
        item?: number | undefined;
      };
    };
    result: WorkflowRunStep;
  };
  /** Answer a step that waits for a person */
  answer_run_step: {
    input: {
      path: {
        /** The run's id, `run_…`. */
        run_id: string;
        /** The step's id in its workflow. */
        step: string;
      };
      body: StepAnswer;
    };
    result: Run;
  };
  /** List schedules */
  list_schedules: {
    input: {
      query?: {
        /** The `next` of the page before. */
        cursor?: string | undefined;
        /** Entries of a page; default 1,000. */
        limit?: number | undefined;
      };
    };
    result: SchedulePage;
  };
  /** Create a schedule */
  create_schedule: {
    input: {
      body: NewSchedule;
    };
    result: CreatedSchedule;
  };
  /** Get a schedule */
  get_schedule: {
    input: {
      path: {
        /** The schedule's id or name. */
        schedule: string;
      };
    };
    result: Schedule;
  };
  /** Change a schedule */
  update_schedule: {
    input: {
      path: {
        /** The schedule's id or name. */
        schedule: string;
      };
      body?: ScheduleChange;
    };
    result: Schedule;
  };
  /** Delete a schedule */
  delete_schedule: {
    input: {
      path: {
        /** The schedule's id or name. */
        schedule: string;
      };
    };
    result: undefined;
  };
  /** List deliveries of results of a schedule */
  list_schedule_deliveries: {
    input: {
      path: {
        /** The schedule's id or name. */
        schedule: string;
      };
      query?: {
        /** The `next` of the page before. */
        cursor?: string | undefined;
        /** Entries of a page; default 1,000. */
        limit?: number | undefined;
      };
    };
    result: DeliveryPage;
  };
  /** Start a run of a schedule now */
  run_schedule: {
    input: {
      path: {
        /** The schedule's id or name. */
        schedule: string;
      };
      body?: NewScheduleRun;
    };
    result: StartedBody;
  };
  /** List sessions */
  list_sessions: {
    input: {
      query?: {
        /** The `next` of the page before. */
        cursor?: string | undefined;
        /** Ended sessions whose logs are kept, instead of living ones; the latest end first. */
        ended?: boolean | undefined;
        /** `name=value`, or `name` for any value. Several must all be there. */
        label?: string[] | undefined;
        /** Sessions of a page; default 1,000. */
        limit?: number | undefined;
        /** Only sessions of this owner: a tenant, or `operator`. */
        owner?: string | undefined;
        /** Only sessions in this state, or in one of several. */
        state?: ("starting" | "idle" | "busy" | "restarting" | "dead" | "unknown" | "ended")[] | undefined;
        /** Only sessions of this template. */
        template?: string | undefined;
      };
    };
    result: SessionPage;
  };
  /** Start a session */
  create_session: {
    input: {
      body?: NewSessionWithId;
    };
    result: Session;
  };
  /** Get a session */
  get_session: {
    input: {
      path: {
        /** The session's id or name. */
        session_id: string;
      };
    };
    result: Session;
  };
  /** Get the session with this name, or start it */
  put_session: {
    input: {
      path: {
        /** The session's id or name. */
        session_id: string;
      };
      body?: NewSessionWithNoId;
    };
    result: Session;
  };
  /** Change a session's labels and lifetimes */
  update_session: {
    input: {
      path: {
        /** The session's id or name. */
        session_id: string;
      };
      body?: SessionChange;
    };
    result: Session;
  };
  /** End a session */
  end_session: {
    input: {
      path: {
        /** The session's id or name. */
        session_id: string;
      };
    };
    result: undefined;
  };
  /** Get a directory as a tar archive */
  download_archive: {
    input: {
      path: {
        /** The session's id or name. */
        session_id: string;
      };
      query?: {
        /** Default: the work directory. */
        path?: string | undefined;
      };
    };
    result: undefined;
  };
  /** List the artifacts of a session */
  list_artifacts: {
    input: {
      path: {
        /** The session's id or name. */
        session_id: string;
      };
      query?: {
        /** The `next` of the page before. */
        cursor?: string | undefined;
        /** A kernel of the session; default: the first one. */
        kernel?: string | undefined;
        /** Artifacts of a page; default 1,000. */
        limit?: number | undefined;
        /** Only artifacts of this media type. */
        media_type?: string | undefined;
      };
    };
    result: ArtifactPage;
  };
  /** Complete code */
  complete_code: {
    input: {
      path: {
        /** The session's id or name. */
        session_id: string;
      };
      body: PlaceInCode;
    };
    result: Completion;
  };
  /** Stream the log of a kernel */
  stream_session_events: {
    input: {
      path: {
        /** The session's id or name. */
        session_id: string;
      };
      query?: {
        /** Continue after this number; 0 for all records. */
        after?: number | undefined;
        /** `sizes` unless said. */
        buffers?: "sizes" | "base64" | undefined;
        /** A kernel of the session; default: the first one. */
        kernel?: string | undefined;
      };
    };
    result: undefined;
  };
  /** List the latest executions of a session */
  list_executions: {
    input: {
      path: {
        /** The session's id or name. */
        session_id: string;
      };
      query?: {
        /** Only executions of this caller: `operator`, or tenant and caller. */
        caller?: string | undefined;
        /** The `next` of the page before, with the same `order`. */
        cursor?: string | undefined;
        /** A kernel of the session; default: the first one. */
        kernel?: string | undefined;
        /** Executions of a page; default: all that are remembered. */
        limit?: number | undefined;
        /** Default: the oldest first. */
        order?: "asc" | "desc" | undefined;
        /** Only executions with this status, or with one of several. */
        status?: ("queued" | "running" | "ok" | "error" | "timeout" | "interrupted" | "kernel_died" | "oom_killed")[] | undefined;
      };
    };
    result: ExecutionPage;
  };
  /** Run code in a session */
  execute: {
    input: {
      path: {
        /** The session's id or name. */
        session_id: string;
      };
      body: NewExecution;
    };
    result: ExecutionResult;
  };
  /** Stream the events of all executions of a session */
  stream_executions: {
    input: {
      path: {
        /** The session's id or name. */
        session_id: string;
      };
      query?: {
        /** Continue after this number. 0: all kept events. Default: only new events. */
        after?: number | undefined;
        /** A kernel of the session; default: the first one. */
        kernel?: string | undefined;
      };
    };
    result: undefined;
  };
  /** List the files of a session */
  list_files: {
    input: {
      path: {
        /** The session's id or name. */
        session_id: string;
      };
      query?: {
        /** The `next` of the page before, of the same directory. */
        cursor?: string | undefined;
        /** Depth of directories; default 1. */
        depth?: number | undefined;
        /** Entries of a page; default 1,000. */
        limit?: number | undefined;
        /** A directory; default: the work directory. */
        path?: string | undefined;
      };
    };
    result: FilePage;
  };
  /** Get a file */
  read_file: {
    input: {
      path: {
        /** The session's id or name. */
        session_id: string;
        /** A path relative to the session's work directory. */
        path: string;
      };
    };
    result: undefined;
  };
  /** Write a file */
  write_file: {
    input: {
      path: {
        /** The session's id or name. */
        session_id: string;
        /** A path relative to the session's work directory. */
        path: string;
      };
    };
    result: WrittenFile;
  };
  /** Remove a file or a directory */
  delete_file: {
    input: {
      path: {
        /** The session's id or name. */
        session_id: string;
        /** A path relative to the session's work directory. */
        path: string;
      };
      query?: {
        /** Remove a directory with its content. */
        recursive?: boolean | undefined;
      };
    };
    result: undefined;
  };
  /** Branch a live session */
  fork_session: {
    input: {
      path: {
        /** The session's id or name. */
        session_id: string;
      };
      body?: NewBranches;
    };
    result: Branches | SomeBranches;
  };
  /** List the history of a session */
  list_history: {
    input: {
      path: {
        /** The session's id or name. */
        session_id: string;
      };
      query?: {
        /** The `next` of the page before. */
        cursor?: string | undefined;
        /** A kernel of the session; default: the first one. */
        kernel?: string | undefined;
        /** Number of entries; default 100. */
        limit?: number | undefined;
        /** The order of a list. */
        order?: "asc" | "desc" | undefined;
      };
    };
    result: HistoryPage;
  };
  /** Inspect an object in code */
  inspect_code: {
    input: {
      path: {
        /** The session's id or name. */
        session_id: string;
      };
      body: DetailedPlace;
    };
    result: Inspection;
  };
  /** Interrupt the running code of a session */
  interrupt_session: {
    input: {
      path: {
        /** The session's id or name. */
        session_id: string;
      };
    };
    result: undefined;
  };
  /** List the kernels of a session */
  list_kernels: {
    input: {
      path: {
        /** The session's id or name. */
        session_id: string;
      };
      query?: {
        /** The `next` of the page before. */
        cursor?: string | undefined;
        /** Entries of a page; default 1,000. */
        limit?: number | undefined;
      };
    };
    result: KernelPage;
  };
  /** Start an additional kernel in a session */
  create_kernel: {
    input: {
      path: {
        /** The session's id or name. */
        session_id: string;
      };
      body?: NewKernel;
    };
    result: SessionKernel;
  };
  /** Get a kernel of a session */
  get_kernel: {
    input: {
      path: {
        /** The session's id or name. */
        session_id: string;
        /** The kernel's id. */
        kernel_id: string;
      };
    };
    result: SessionKernel;
  };
  /** End an additional kernel */
  end_kernel: {
    input: {
      path: {
        /** The session's id or name. */
        session_id: string;
        /** The kernel's id. */
        kernel_id: string;
      };
    };
    result: undefined;
  };
  /** Interrupt a kernel */
  interrupt_kernel: {
    input: {
      path: {
        /** The session's id or name. */
        session_id: string;
        /** The kernel's id. */
        kernel_id: string;
      };
    };
    result: undefined;
  };
  /** Restart a kernel */
  restart_kernel: {
    input: {
      path: {
        /** The session's id or name. */
        session_id: string;
        /** The kernel's id. */
        kernel_id: string;
      };
    };
    result: SessionKernel;
  };
  /** Get the history as a notebook */
  get_notebook: {
    input: {
      path: {
        /** The session's id or name. */
        session_id: string;
      };
      query?: {
        /** A kernel of the session; default: the first one. */
        kernel?: string | undefined;
      };
    };
    result: undefined;
  };
  /** List what a person is asked in a session */
  list_prompts: {
    input: {
      path: {
        /** The session's id or name. */
        session_id: string;
      };
      query?: {
        /** A kernel of the session; default: the first one. */
        kernel?: string | undefined;
        /** List only prompts that wait for an answer. */
        open?: boolean | undefined;
      };
    };
    result: Prompts;
  };
  /** Ask a person on behalf of a session */
  create_prompt: {
    input: {
      path: {
        /** The session's id or name. */
        session_id: string;
      };
      body: NewPrompt;
    };
    result: Prompt;
  };
  /** Restart the kernel of a session */
  restart_session: {
    input: {
      path: {
        /** The session's id or name. */
        session_id: string;
      };
    };
    result: Session;
  };
  /** Get the history as a Python file */
  get_script: {
    input: {
      path: {
        /** The session's id or name. */
        session_id: string;
      };
      query?: {
        /** A kernel of the session; default: the first one. */
        kernel?: string | undefined;
      };
    };
    result: undefined;
  };
  /** Make a skill of code in the history */
  draft_skill: {
    input: {
      path: {
        /** The session's id or name. */
        session_id: string;
      };
      body: NewDraft;
    };
    result: Skill;
  };
  /** Search the tools of a session */
  search_tools: {
    input: {
      path: {
        /** The session's id or name. */
        session_id: string;
      };
      query?: {
        /** Tools of the answer; default 10. */
        limit?: number | undefined;
        /** Words of names, descriptions and parameters; default: the first tools. */
        query?: string | undefined;
        /** A server; default: all. */
        server?: string | undefined;
      };
    };
    result: FoundTools;
  };
  /** Call a tool */
  call_tool: {
    input: {
      path: {
        /** The session's id or name. */
        session_id: string;
      };
      body: NewCall;
    };
    result: ToolReply;
  };
  /** List the servers of tools of a session */
  list_tool_servers: {
    input: {
      path: {
        /** The session's id or name. */
        session_id: string;
      };
    };
    result: ApiServers;
  };
  /** Get all about a tool */
  get_tool: {
    input: {
      path: {
        /** The session's id or name. */
        session_id: string;
        /** The tool's id, `server.tool`. */
        tool: string;
      };
    };
    result: ToolInfo;
  };
  /** Write files from a tar archive */
  upload_archive: {
    input: {
      path: {
        /** The session's id or name. */
        session_id: string;
      };
      query?: {
        /** Default: the work directory. */
        path?: string | undefined;
      };
    };
    result: WrittenArchive;
  };
  /** Get the resource use of a session's sandbox */
  get_session_usage: {
    input: {
      path: {
        /** The session's id or name. */
        session_id: string;
      };
    };
    result: SandboxUsage;
  };
  /** List the variables of a session */
  list_variables: {
    input: {
      path: {
        /** The session's id or name. */
        session_id: string;
      };
      query?: {
        /** The `next` of the page before. */
        cursor?: string | undefined;
        /** A kernel of the session; default: the first one. */
        kernel?: string | undefined;
        /** Variables of a page; default 1,000. */
        limit?: number | undefined;
      };
    };
    result: VariablePage;
  };
  /** Get a part of a variable */
  get_variable: {
    input: {
      path: {
        /** The session's id or name. */
        session_id: string;
        /** The variable's name. */
        name: string;
      };
      query?: {
        /** Only with `sort`. */
        descending?: boolean | undefined;
        /** A JSON object `{column, op, value}`; may be repeated for several conditions. */
        filter?: string[] | undefined;
        /** The format of a variable's content. */
        format?: "json" | "arrow" | undefined;
        /** A kernel of the session; default: the first one. */
        kernel?: string | undefined;
        /** Rows of the page, at most. Without it, the kernel decides, and the answer has its `limit`. */
        limit?: number | undefined;
        /** Rows before the page; default 0. */
        offset?: number | undefined;
        /** The label of a column. */
        sort?: string | undefined;
      };
    };
    result: VariablePart;
  };
  /** List skills */
  list_skills: {
    input: {
      query?: {
        /** The `next` of the page before. */
        cursor?: string | undefined;
        /** Entries of a page; default 1,000. */
        limit?: number | undefined;
      };
    };
    result: SkillPage;
  };
  /** Publish a version of a skill */
  publish_skill: {
    input: {
      body: NewSkill;
    };
    result: Skill;
  };
  /** Get a skill with its files */
  get_skill: {
    input: {
      path: {
        /** The skill's name. */
        skill: string;
      };
      query?: {
        /** Default: the latest one. */
        version?: string | undefined;
      };
    };
    result: Skill;
  };
  /** Delete a version of a skill, or all */
  delete_skill: {
    input: {
      path: {
        /** The skill's name. */
        skill: string;
      };
      query?: {
        /** Default: all of them. */
        version?: string | undefined;
      };
    };
    result: undefined;
  };
  /** Run a skill */
  run_skill: {
    input: {
      path: {
        /** The skill's name. */
        skill: string;
      };
      body?: NewSkillRun;
    };
    result: StartedBody;
  };
  /** List what sessions can be started from */
  list_templates: {
    input: {
      query?: {
        /** The `next` of the page before. */
        cursor?: string | undefined;
        /** Entries of a page; default 1,000. */
        limit?: number | undefined;
      };
    };
    result: TemplatePage;
  };
  /** List access tokens */
  list_tokens: {
    input: {
      query?: {
        /** Only tokens of this caller. */
        caller?: string | undefined;
        /** The `next` of the page before. */
        cursor?: string | undefined;
        /** Tokens of a page; default 1,000. */
        limit?: number | undefined;
      };
    };
    result: TokenPage;
  };
  /** Create an access token */
  create_token: {
    input: {
      body: NewToken;
    };
    result: CreatedToken;
  };
  /** Revoke an access token */
  revoke_token: {
    input: {
      path: {
        /** The token's id. */
        token_id: string;
      };
    };
    result: RevokedToken;
  };
  /** List tools that are approved for later sessions */
  list_tool_approvals: {
    input: {
      query?: {
        /** The `next` of the page before. */
        cursor?: string | undefined;
        /** Entries of a page; default 1,000. */
        limit?: number | undefined;
      };
    };
    result: ToolApprovalPage;
  };
  /** Ask for each call of an approved tool again */
  revoke_tool_approval: {
    input: {
      path: {
        /** The approval's id. */
        approval_id: string;
      };
    };
    result: undefined;
  };
  /** Get what a tenant and its callers use */
  get_usage: {
    input: {
      query?: {
        /** A tenant of the configuration, for the operator. Default: the tenant of the token. */
        tenant?: string | undefined;
      };
    };
    result: Usage;
  };
  /** List webhooks */
  list_webhooks: {
    input: {
      query?: {
        /** The `next` of the page before. */
        cursor?: string | undefined;
        /** Entries of a page; default 1,000. */
        limit?: number | undefined;
      };
    };
    result: WebhookPage;
  };
  /** Create a webhook */
  create_webhook: {
    input: {
      body: NewWebhook;
    };
    result: CreatedWebhook;
  };
  /** Get a webhook */
  get_webhook: {
    input: {
      path: {
        /** The webhook's id or name. */
        webhook: string;
      };
    };
    result: Webhook;
  };
  /** Change a webhook */
  update_webhook: {
    input: {
      path: {
        /** The webhook's id or name. */
        webhook: string;
      };
      body?: WebhookChange;
    };
    result: Webhook;
  };
  /** Delete a webhook */
  delete_webhook: {
    input: {
      path: {
        /** The webhook's id or name. */
        webhook: string;
      };
    };
    result: undefined;
  };
  /** List deliveries of results of a webhook */
  list_webhook_deliveries: {
    input: {
      path: {
        /** The webhook's id or name. */
        webhook: string;
      };
      query?: {
        /** The `next` of the page before. */
        cursor?: string | undefined;
        /** Entries of a page; default 1,000. */
        limit?: number | undefined;
      };
    };
    result: DeliveryPage;
  };
  /** List workflows */
  list_workflows: {
    input: {
      query?: {
        /** The `next` of the page before. */
        cursor?: string | undefined;
        /** Entries of a page; default 1,000. */
        limit?: number | undefined;
      };
    };
    result: WorkflowPage;
  };
  /** Publish a version of a workflow */
  publish_workflow: {
    input: {
      body: NewWorkflow;
    };
    result: Workflow;
  };
  /** Get a workflow with its definition */
  get_workflow: {
    input: {
      path: {
        /** The workflow's name. */
        workflow: string;
      };
      query?: {
        /** Default: the latest one. */
        version?: string | undefined;
      };
    };
    result: Workflow;
  };
  /** Delete a version of a workflow, or all */
  delete_workflow: {
    input: {
      path: {
        /** The workflow's name. */
        workflow: string;
      };
      query?: {
        /** Default: all of them. */
        version?: string | undefined;
      };
    };
    result: undefined;
  };
  /** Start a run of a workflow */
  run_workflow: {
    input: {
      path: {
        /** The workflow's name. */
        workflow: string;
      };
      body?: NewWorkflowRun;
    };
    result: StartedBody;
  };
}

/** The method and the path of each operation. */
export const ROUTES: { readonly [O in keyof Operations]: string } = {
  get_artifact: 'GET /v1/artifacts/{sha256}',
  list_credentials: 'GET /v1/credentials',
  set_credential: 'PUT /v1/credentials/{credential}',
  delete_credential: 'DELETE /v1/credentials/{credential}',
  begin_grant: 'POST /v1/credentials/{credential}/grant',
  end_grant: 'DELETE /v1/credentials/{credential}/grant',
  retry_delivery: 'POST /v1/deliveries/{delivery}/retry',
  get_execution: 'GET /v1/executions/{execution_id}',
  stream_execution_events: 'GET /v1/executions/{execution_id}/events',
  answer_execution: 'POST /v1/executions/{execution_id}/input',
  interrupt_execution: 'POST /v1/executions/{execution_id}/interrupt',
  get_execution_output: 'GET /v1/executions/{execution_id}/output',
  collect_garbage: 'POST /v1/gc',
  finish_grant: 'POST /v1/grants',
  get_description: 'GET /v1/openapi.json',
  list_pools: 'GET /v1/pools',
  list_prompt_webhooks: 'GET /v1/prompt-webhooks',
  create_prompt_webhook: 'POST /v1/prompt-webhooks',
  delete_prompt_webhook: 'DELETE /v1/prompt-webhooks/{prompt_webhook}',
  list_prompt_deliveries: 'GET /v1/prompt-webhooks/{prompt_webhook}/deliveries',
  list_open_prompts: 'GET /v1/prompts',
  get_prompt: 'GET /v1/prompts/{prompt_id}',
  answer_prompt: 'POST /v1/prompts/{prompt_id}/answer',
  list_runs: 'GET /v1/runs',
  get_run: 'GET /v1/runs/{run_id}',
  cancel_run: 'POST /v1/runs/{run_id}/cancel',
  list_run_deliveries: 'GET /v1/runs/{run_id}/deliveries',
  stream_run_events: 'GET /v1/runs/{run_id}/events',
  get_run_step: 'GET /v1/runs/{run_id}/steps/{step}',
  answer_run_step: 'POST /v1/runs/{run_id}/steps/{step}/answer',
  list_schedules: 'GET /v1/schedules',
  create_schedule: 'POST /v1/schedules',
  get_schedule: 'GET /v1/schedules/{schedule}',
  update_schedule: 'PATCH /v1/schedules/{schedule}',
  delete_schedule: 'DELETE /v1/schedules/{schedule}',
  list_schedule_deliveries: 'GET /v1/schedules/{schedule}/deliveries',
  run_schedule: 'POST /v1/schedules/{schedule}/runs',
  list_sessions: 'GET /v1/sessions',
  create_session: 'POST /v1/sessions',
  get_session: 'GET /v1/sessions/{session_id}',
  put_session: 'PUT /v1/sessions/{session_id}',
  update_session: 'PATCH /v1/sessions/{session_id}',
  end_session: 'DELETE /v1/sessions/{session_id}',
  download_archive: 'GET /v1/sessions/{session_id}/archive',
  list_artifacts: 'GET /v1/sessions/{session_id}/artifacts',
  complete_code: 'POST /v1/sessions/{session_id}/complete',
  stream_session_events: 'GET /v1/sessions/{session_id}/events',
  list_executions: 'GET /v1/sessions/{session_id}/executions',
  execute: 'POST /v1/sessions/{session_id}/executions',
  stream_executions: 'GET /v1/sessions/{session_id}/executions/events',
  list_files: 'GET /v1/sessions/{session_id}/files',
  read_file: 'GET /v1/sessions/{session_id}/files/{path}',
  write_file: 'PUT /v1/sessions/{session_id}/files/{path}',
  delete_file: 'DELETE /v1/sessions/{session_id}/files/{path}',
  fork_session: 'POST /v1/sessions/{session_id}/fork',
  list_history: 'GET /v1/sessions/{session_id}/history',
  inspect_code: 'POST /v1/sessions/{session_id}/inspect',
  interrupt_session: 'POST /v1/sessions/{session_id}/interrupt',
  list_kernels: 'GET /v1/sessions/{session_id}/kernels',
  create_kernel: 'POST /v1/sessions/{session_id}/kernels',
  get_kernel: 'GET /v1/sessions/{session_id}/kernels/{kernel_id}',
  end_kernel: 'DELETE /v1/sessions/{session_id}/kernels/{kernel_id}',
  interrupt_kernel: 'POST /v1/sessions/{session_id}/kernels/{kernel_id}/interrupt',
  restart_kernel: 'POST /v1/sessions/{session_id}/kernels/{kernel_id}/restart',
  get_notebook: 'GET /v1/sessions/{session_id}/notebook.ipynb',
  list_prompts: 'GET /v1/sessions/{session_id}/prompts',
  create_prompt: 'POST /v1/sessions/{session_id}/prompts',
  restart_session: 'POST /v1/sessions/{session_id}/restart',
  get_script: 'GET /v1/sessions/{session_id}/script.py',
  draft_skill: 'POST /v1/sessions/{session_id}/skill',
  search_tools: 'GET /v1/sessions/{session_id}/tools',
  call_tool: 'POST /v1/sessions/{session_id}/tools/calls',
  list_tool_servers: 'GET /v1/sessions/{session_id}/tools/servers',
  get_tool: 'GET /v1/sessions/{session_id}/tools/{tool}',
  upload_archive: 'POST /v1/sessions/{session_id}/upload',
  get_session_usage: 'GET /v1/sessions/{session_id}/usage',
  list_variables: 'GET /v1/sessions/{session_id}/variables',
  get_variable: 'GET /v1/sessions/{session_id}/variables/{name}',
  list_skills: 'GET /v1/skills',
  publish_skill: 'POST /v1/skills',
  get_skill: 'GET /v1/skills/{skill}',
  delete_skill: 'DELETE /v1/skills/{skill}',
  run_skill: 'POST /v1/skills/{skill}/runs',
  list_templates: 'GET /v1/templates',
  list_tokens: 'GET /v1/tokens',
  create_token: 'POST /v1/tokens',
  revoke_token: 'DELETE /v1/tokens/{token_id}',
  list_tool_approvals: 'GET /v1/tool-approvals',
  revoke_tool_approval: 'DELETE /v1/tool-approvals/{approval_id}',
  get_usage: 'GET /v1/usage',
  list_webhooks: 'GET /v1/webhooks',
  create_webhook: 'POST /v1/webhooks',
  get_webhook: 'GET /v1/webhooks/{webhook}',
  update_webhook: 'PATCH /v1/webhooks/{webhook}',
  delete_webhook: 'DELETE /v1/webhooks/{webhook}',
  list_webhook_deliveries: 'GET /v1/webhooks/{webhook}/deliveries',
  list_workflows: 'GET /v1/workflows',
  publish_workflow: 'POST /v1/workflows',
  get_workflow: 'GET /v1/workflows/{workflow}',
  delete_workflow: 'DELETE /v1/workflows/{workflow}',
  run_workflow: 'POST /v1/workflows/{workflow}/runs'
};
