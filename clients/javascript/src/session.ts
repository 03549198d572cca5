/** A session: code that runs in it, its variables and its files. */

import { CodeError, Gone, NotFound } from './errors.js';
import { Files } from './files.js';
import type {
  Branch,
  Execution,
  ExecutionBrief,
  ExecutionEvent,
  ExecutionResult,
  HistoryEntry,
  Input,
  LogRecord,
  NewBranches,
  NewExecution,
  Operations,
  Prompt,
  SandboxUsage,
  SessionChange,
  SessionExecutionEvent,
  Session as SessionInfo,
  SessionKernel,
  VariableInfo,
  VariablePart
} from './schema.js';
import { executionEvents, type FollowOptions, logRecords, sessionEvents } from './stream.js';
import { all, type CallOptions, route, type Transport, WAIT_S } from './transport.js';

/** Bytes of images that a result contains: the gateway's maximum. */
const IMAGE_BYTES = 4 << 20;
/** Seconds for a whole text to arrive. */
const DOWNLOAD_S = 600;
/** How long code is interrupted at the end of its time, until it is known that it ignores that. */
const STOP_S = 10;
const ENDED: readonly string[] = ['ok', 'error', 'timeout', 'interrupted', 'kernel_died', 'oom_killed', 'aborted'];

/** The members of a request that a caller chooses. */
export type Submission = Omit<NewExecution, 'code' | 'background' | 'wait_s'>;

export interface WaitOptions extends CallOptions {
  /** Called when the code asks for input, and gives the answer. */
  onInput?: ((question: Input) => string | Promise<string>) | undefined;
  /** Throws a `CodeError` unless the code ended well. */
  check?: boolean | undefined;
  /** Bytes of images that the result contains in base64. */
  imageBytes?: number | undefined;
  /** Pixels on a side of these images. */
  imagePixels?: number | undefined;
}

/** A session of a gateway. Its variables live until it ends, whatever happens to this object. */
export class Session {
  readonly files: Files;
  private readonly path: { session_id: string };

  /** `session` is the id or the name of one that exists. */
  constructor(
    private readonly transport: Transport,
    readonly session: string,
    /** The session as it was last read here; null before. */
    public info: SessionInfo | null = null
  ) {
    this.path = { session_id: session };
    this.files = new Files(transport, session);
  }

  /** The address of its notebook. */
  get notebookUrl(): string {
    return this.transport.address(route('get_notebook', this.path)[1]);
  }

  /** Its id, once it was read; else what it was named by. */
  get id(): string {
    return this.info?.id ?? this.session;
  }

  /** Reads `info` again, and returns it. */
  async refresh(options: CallOptions = {}): Promise<SessionInfo> {
    this.info = await this.transport.call('get_session', { path: this.path }, options);
    return this.info;
  }

  /**
   * Runs code and waits for its end. `submission` has the members of the request: `timeout_s`, `on_timeout`, `env`, `idempotency_key` and
   * others. A lost connection neither stops the code nor runs it twice. Code that ignores interrupts is not waited for: the result is
   * unfinished, and has `stuck`.
   */
  async execute(code: string, submission: Submission = {}, options: WaitOptions = {}): Promise<ExecutionResult> {
    // The response would not come when the code asks.
    const step = stepOf(submission.timeout_s);
    const waitS = options.onInput ? 0 : step;
    const body = { ...submitted(code, submission, options), wait_s: waitS };
    const found = await this.transport.call('execute', { path: this.path, body }, { ...options, repeat: true, waitS });
    return this.waitInSteps(found, step, options);
  }

  /** Runs code without waiting for it. */
  start(code: string, submission: Submission = {}, options: CallOptions = {}): Promise<ExecutionResult> {
    const body = { ...submitted(code, submission, {}), background: true };
    return this.transport.call('execute', { path: this.path, body }, { ...options, repeat: true });
  }

  /** Waits for the end of an execution. Without `onInput` it also returns when the code asks for input. */
  async wait(execution: ExecutionResult | string, options: WaitOptions = {}): Promise<ExecutionResult> {
    const found = typeof execution === 'string' ? await this.execution(execution, options) : execution;
    return this.waitInSteps(found, WAIT_S, options);
  }

  private async waitInSteps(found: ExecutionResult, waitS: number, options: WaitOptions): Promise<ExecutionResult> {
    while (!isEnded(found) && !found.stuck) {
      if (found.input) {
        if (!options.onInput) return found;
        await this.answer(found.id, await options.onInput(found.input), options);
      }
      found = await this.execution(found.id, { ...options, waitS });
    }
    if (options.check && isEnded(found) && found.status !== 'ok') throw new CodeError(found);
    return found;
  }

  /** An execution as it is now, or after at most `waitS` seconds. */
  execution(
    id: string,
    options: CallOptions & { imageBytes?: number | undefined; imagePixels?: number | undefined } = {}
  ): Promise<Execution> {
    const query = {
      image_bytes: options.imageBytes ?? IMAGE_BYTES,
      image_pixels: options.imagePixels,
      wait_s: options.waitS
    };
    return this.transport.call('get_execution', { path: { execution_id: id }, query }, options);
  }

  /** Runs code and yields its events, the last one being `done` with the result. It continues where it was after a lost connection. */
  stream(code: string, submission: Submission = {}, options: CallOptions = {}): AsyncGenerator<ExecutionEvent> {
    return executionEvents(
      this.transport,
      { session: this.session, body: submitted(code, submission, {}) },
      0,
      options
    );
  }

  /** The events of an execution, after the number `after`. */
  follow(
    execution: string,
    options: CallOptions & { after?: number | undefined } = {}
  ): AsyncGenerator<ExecutionEvent> {
    return executionEvents(this.transport, execution, options.after ?? 0, options);
  }

  /** The events of all its executions, those of other callers too: from now on, or after a number. It ends when the session does. */
  events(options: FollowOptions = {}): AsyncGenerator<SessionExecutionEvent> {
    return sessionEvents(this.transport, this.session, options);
  }

  /** The records of its log, from the first one or after a number, and as they are written. It ends when the session does. */
  log(options: FollowOptions = {}): AsyncGenerator<LogRecord[]> {
    return logRecords(this.transport, this.session, options);
  }

  /** Answers the question of code that was started with `allow_stdin`. */
  async answer(execution: string, value: string, options: CallOptions = {}): Promise<void> {
    await this.transport.call('answer_execution', { path: { execution_id: execution }, body: { value } }, options);
  }

  /** What a person is asked, and the latest that was answered or withdrawn; with `open` what waits for an answer. */
  async prompts(options: CallOptions & { open?: boolean | undefined } = {}): Promise<Prompt[]> {
    const query = { open: options.open };
    return (await this.transport.call('list_prompts', { path: this.path, query }, options)).prompts;
  }

  /** Answers a prompt, once. Approvals need a token with the scope `admin`. */
  answerPrompt(prompt: string, value: string, options: CallOptions = {}): Promise<Prompt> {
    return this.transport.call('answer_prompt', { path: { prompt_id: prompt }, body: { value } }, options);
  }

  /** Interrupts what runs in the session; or one execution, which is cancelled if it waits. */
  async interrupt(execution?: string, options: CallOptions = {}): Promise<void> {
    if (execution === undefined) await this.transport.call('interrupt_session', { path: this.path }, options);
    else await this.transport.call('interrupt_execution', { path: { execution_id: execution } }, options);
  }

  /** Replaces the process of the kernel. All variables are gone. */
  async restart(options: CallOptions = {}): Promise<SessionInfo> {
    this.info = await this.transport.call('restart_session', { path: this.path }, { waitS: WAIT_S, ...options });
    return this.info;
  }

  /** A session with a copy of all variables, in the same sandbox. */
  async fork(request: Omit<NewBranches, 'count' | 'atomic'> = {}, options: CallOptions = {}): Promise<Session> {
    const [branch] = await this.forks(1, request, options);
    return (branch as { session: Session }).session;
  }

  /** So many of them, of the same moment, at most 16: all or none; with what each of them may have lost. */
  async forks(
    count: number,
    request: Omit<NewBranches, 'count' | 'atomic'> = {},
    options: CallOptions = {}
  ): Promise<{ session: Session; hazards: Branch['hazards'] }[]> {
    const input = { path: this.path, body: { ...request, count, atomic: true } };
    const made = await this.transport.call('fork_session', input, { waitS: WAIT_S, ...options });
    const branches = made.branches.filter((one): one is Branch => 'session' in one);
    return branches.map(one => ({
      session: new Session(this.transport, one.session.id, one.session),
      hazards: one.hazards
    }));
  }

  /** Changes `labels`, `idle_timeout_s`, `lifetime_s` and what else a session can change. */
  async change(change: SessionChange, options: CallOptions = {}): Promise<SessionInfo> {
    this.info = await this.transport.call('update_session', { path: this.path, body: change }, options);
    return this.info;
  }

  /** Ends the session. Nothing happens if it has ended already. */
  async end(options: CallOptions = {}): Promise<void> {
    try {
      await this.transport.call('end_session', { path: this.path }, { waitS: WAIT_S, ...options });
    } catch (error) {
      if (!(error instanceof NotFound || error instanceof Gone)) throw error;
    }
  }

  /** All text of an execution, also what its result omits. */
  async output(execution: string, options: CallOptions = {}): Promise<Blob> {
    const path = `/v1/executions/${encodeURIComponent(execution)}/output`;
    const headers = { Accept: 'text/plain' };
    const response = await this.transport.request('GET', path, { timeoutS: DOWNLOAD_S, ...options, headers });
    return this.transport.whole(response, () => response.blob());
  }

  /** All variables of the kernel, also while it runs code. */
  variables(options: CallOptions = {}): Promise<VariableInfo[]> {
    return all(this.transport.pages<VariableInfo>('list_variables', 'variables', { path: this.path }, options));
  }

  /** A part of a variable: `limit`, `offset`, `sort`, `descending`, `filter`. */
  variable(
    name: string,
    query: Operations['get_variable']['input']['query'] = {},
    options: CallOptions = {}
  ): Promise<VariablePart> {
    return this.transport.call('get_variable', { path: { ...this.path, name }, query }, options);
  }

  /** Its executions, in order of arrival. */
  executions(
    query: Operations['list_executions']['input']['query'] = {},
    options: CallOptions = {}
  ): AsyncGenerator<ExecutionBrief> {
    return this.transport.pages('list_executions', 'executions', { path: this.path, query }, options);
  }

  /** What was run in it: the oldest first, or with `order: 'desc'` the newest. */
  history(
    query: Operations['list_history']['input']['query'] = { order: 'asc' },
    options: CallOptions = {}
  ): AsyncGenerator<HistoryEntry> {
    return this.transport.pages('list_history', 'history', { path: this.path, query }, options);
  }

  /** All kernels in its sandbox, its first one first. */
  kernels(options: CallOptions = {}): Promise<SessionKernel[]> {
    return all(this.transport.pages<SessionKernel>('list_kernels', 'kernels', { path: this.path }, options));
  }

  /** What its sandbox uses now. */
  usage(options: CallOptions = {}): Promise<SandboxUsage> {
    return this.transport.call('get_session_usage', { path: this.path }, options);
  }
}

/** Whether its status is final. */
export function isEnded(execution: ExecutionResult): boolean {
  return ENDED.includes(execution.status);
}

/** The `repr` of its last expression; null if it has no value. */
export function resultText(execution: ExecutionResult): string | null {
  const text = execution.outputs.filter(one => one.output_type === 'execute_result').at(-1)?.data['text/plain'];
  return typeof text === 'string' ? text : null;
}

/** How long one request waits. */
function stepOf(timeoutS: number | null | undefined): number {
  return timeoutS == null ? WAIT_S : Math.min(WAIT_S, timeoutS + STOP_S);
}

function submitted(code: string, submission: Submission, options: WaitOptions): NewExecution {
  return {
    image_bytes: options.imageBytes ?? IMAGE_BYTES,
    image_pixels: options.imagePixels,
    allow_stdin: options.onInput !== undefined,
    idempotency_key: newKey(),
    ...submission,
    code
  };
}

/** An idempotency key: it has to be another one than all others, and is no secret. */
export function newKey(): string {
  const numbers =
    globalThis.crypto?.getRandomValues(new Uint32Array(4)) ?? Array.from({ length: 4 }, () => Math.random() * 2 ** 32);
  return Array.from(numbers, number => Math.floor(number).toString(36)).join('-');
}
