/**
 * A session as its log tells it: record by record to cells, outputs and the kernel's state. No clock, no network.
 *
 * The same records in the same order give the same state, wherever they are cut into batches.
 */

import { bytes } from '../ui/format';
import { Cell, type CellStatus, type DisplayOutput } from './cell';
import { type JsonObject, type LogRecord, number, object, text } from './records';
import { WidgetModels } from './widgets';

/** Cells that are kept, the latest ones. */
export const MAX_CELLS = 10_000;
/** Characters of all displays that are kept, those of the latest cells. */
export const MAX_DISPLAY_CHARS = 96 << 20;
/** Lifecycle entries that are kept. */
const MAX_LIFE = 500;

export type KernelState = 'unknown' | 'starting' | 'idle' | 'busy' | 'restarting' | 'dead';

/** Something that happened to the kernel's process, between cells. */
export interface LifeEvent {
  seq: number;
  at: string;
  text: string;
  isLoss: boolean;
}

/** A cell, or a line between two cells. */
export type Entry = { type: 'cell'; cell: Cell } | { type: 'life'; event: LifeEvent };

/** Types whose replies come from looks at the kernel and not from work in it. */
const LOOKS = [
  'kernel_info_request',
  'complete_request',
  'inspect_request',
  'history_request',
  'is_complete_request',
  'comm_info_request'
];
/** The header's `session` of requests that the gateway makes for native executions. */
const NATIVE_SESSION = 'himalia-execution';
/** How this viewer marks what it has run itself: the beginning of its idempotency keys. */
export const VIEWER_KEY = 'viewer:';

export class SessionLog {
  entries: Entry[] = [];
  state: KernelState = 'unknown';
  incarnation = 0;
  /** Why the kernel is in its state, if that needs saying. */
  reason: string | null = null;
  /** What can be done about a process that runs and does not answer; null for one that answers. */
  unresponsive: string | null = null;
  /** How often a person was asked something, or that ended: what is open has changed. */
  prompts = 0;
  /** The record up to which this is. */
  seq: number;
  /** Earlier cells that are not kept. */
  omitted: number;
  readonly widgets = new WidgetModels();
  /** What has changed since it was last taken. */
  private changedCells = new Set<Cell>();
  private listChanged = false;

  private readonly cells = new Map<string, Cell>();
  /** Native executions that wait, oldest first, and the one that was sent. */
  private queue: Cell[] = [];
  private current: Cell | null = null;
  /** Cells by the `msg_id` of their requests. */
  private readonly byRequest = new Map<string, Cell>();
  private displayChars = 0;
  private firstWithOutputs = 0;

  /** Of the records after `seq`, with so many cells before them. What belongs to those is left out. */
  constructor(seq = 0, omitted = 0) {
    this.seq = seq;
    this.omitted = omitted;
  }

  /** Takes the next record. One that was there already is left out. */
  apply(record: LogRecord): void {
    if (record.seq <= this.seq) return;
    this.seq = record.seq;
    this.listChanged = true;
    switch (record.kind) {
      case 'execution':
        this.execution(record);
        break;
      case 'request':
        this.request(record);
        break;
      case 'message':
        this.message(record);
        break;
      case 'lifecycle':
        this.lifecycle(record);
        break;
      case 'gap':
        this.gap(record);
        break;
      case 'network':
        this.network(record);
        break;
      case 'prompt':
        this.prompts += 1;
        break;
      case 'tool_call':
        this.toolCall(record);
    }
  }

  /** The cells that changed since the last call. */
  takeChanges(): { cells: Set<Cell>; list: boolean } {
    const changes = { cells: this.changedCells, list: this.listChanged };
    this.changedCells = new Set();
    this.listChanged = false;
    return changes;
  }

  /** Cells that have not ended, oldest first. */
  get open(): Cell[] {
    return [...this.cells.values()].filter(cell => !cell.isOver);
  }

  get asking(): Cell | null {
    return this.open.find(cell => cell.question) ?? null;
  }

  cell(key: string): Cell | null {
    return this.cells.get(key) ?? null;
  }

  private execution(record: LogRecord): void {
    const detail = object(record.detail);
    if (text(detail.event) === 'submitted') {
      const cell = new Cell({
        key: `x${record.seq}`,
        execution: record.seq,
        asker: text(detail.key).startsWith(VIEWER_KEY) ? 'viewer' : 'native',
        who: text(detail.caller),
        code: text(detail.code),
        language: text(detail.language) || null,
        asked: record.at,
        incarnation: record.incarnation
      });
      this.queue.push(cell);
      this.add(cell);
      return;
    }
    const cell = this.subject(record, detail);
    if (!cell) return;
    switch (text(detail.event)) {
      case 'sent':
        this.current = cell;
        this.queue = this.queue.filter(other => other !== cell);
        cell.again(record.incarnation);
        break;
      case 'stopping':
        cell.stopping = true;
        break;
      case 'ended':
        this.end(cell, endStatus(text(detail.status)), record.at);
        if (detail.ran === false && cell.status === 'kernel_died') cell.note('The kernel ended before this ran.');
        this.queue = this.queue.filter(other => other !== cell);
        if (this.current === cell) this.current = null;
    }
    this.changedCells.add(cell);
  }

  /** Executions run one at a time in their order, so most records say by themselves which one they are about. */
  private subject(record: LogRecord, detail: JsonObject): Cell | null {
    if (record.execution !== undefined) return this.cells.get(`x${record.execution}`) ?? null;
    const next = this.queue[0] ?? null;
    switch (text(detail.event)) {
      case 'sent':
        return (number(detail.attempt) ?? 1) > 1 && this.current ? this.current : next;
      case 'ended':
        // One that was taken back while another runs: the latest, as a rule.
        if (detail.ran === false && this.current?.began) return this.queue.at(-1) ?? null;
        return this.current ?? next;
      default:
        return this.current;
    }
  }

  private request(record: LogRecord): void {
    const header = object(record.header);
    const content = object(record.content);
    const type = text(header.msg_type);
    if (type === 'input_reply') {
      const parent = this.byRequest.get(text(object(record.parent_header).msg_id));
      for (const cell of parent ? [parent] : this.open) {
        if (!cell.question) continue;
        cell.question = null;
        this.changedCells.add(cell);
      }
      return;
    }
    if (type !== 'execute_request') return;
    const id = text(header.msg_id);
    if (text(header.session) === NATIVE_SESSION) {
      const cell = record.execution === undefined ? this.current : this.cells.get(`x${record.execution}`);
      if (cell) this.byRequest.set(id, cell);
      return;
    }
    // A request that is sent again after a crash of the gateway has its old id.
    if (content.silent === true || this.byRequest.has(id)) return;
    const cell = new Cell({
      key: `r${record.seq}`,
      execution: null,
      asker: 'jupyter',
      who: text(header.username),
      code: text(content.code),
      language: /^%%(bash|sh)\b/.test(text(content.code)) ? 'bash' : null,
      asked: record.at,
      incarnation: record.incarnation
    });
    this.byRequest.set(id, cell);
    this.add(cell);
  }

  private message(record: LogRecord): void {
    const type = text(object(record.header).msg_type);
    const parent = object(record.parent_header);
    const content = object(record.content);
    if (type === 'status') {
      const state = text(content.execution_state);
      // The first look at a new process is how the gateway learns that it is ready.
      const isFirst = state === 'idle' && ['unknown', 'starting', 'restarting'].includes(this.state);
      if (isFirst || !LOOKS.includes(text(parent.msg_type))) this.status(state, record.incarnation);
      if (text(content.execution_state) !== 'busy') return;
    }
    const cell = this.byRequest.get(text(parent.msg_id)) ?? null;
    if (type.startsWith('comm_')) {
      this.widgets.message(type, content);
      if (cell) this.changedCells.add(cell);
      return;
    }
    if (!cell) return;
    this.changedCells.add(cell);
    const before = cell.chars;
    this.output(cell, type, record, content);
    this.displayChars += cell.chars - before;
    this.fit();
  }

  private output(cell: Cell, type: string, record: LogRecord, content: JsonObject): void {
    switch (type) {
      case 'status':
        if (cell.status === 'queued') cell.status = 'running';
        cell.began ??= record.at;
        break;
      case 'execute_input':
        if (!cell.isOver) cell.status = 'running';
        cell.began ??= record.at;
        cell.incarnation = record.incarnation;
        cell.count = number(content.execution_count) ?? cell.count;
        break;
      case 'stream':
        cell.stream(text(content.name) === 'stderr' ? 'stderr' : 'stdout', text(content.text));
        break;
      case 'display_data':
      case 'execute_result':
        cell.display(this.shown(record, content, type === 'execute_result'));
        break;
      case 'update_display_data':
        this.update(record, content, cell);
        break;
      case 'clear_output':
        cell.clearOutput(content.wait === true);
        break;
      case 'error':
        cell.error(content);
        break;
      case 'himalia_artifact':
        cell.files.add(record, content);
        break;
      case 'input_request':
        cell.question = { prompt: text(content.prompt), password: content.password === true };
        break;
      case 'execute_reply':
        this.reply(cell, record, content);
    }
  }

  private shown(record: LogRecord, content: JsonObject, isResult: boolean): Omit<DisplayOutput, 'type' | 'key'> {
    return {
      seq: record.seq,
      at: record.at,
      isResult,
      data: object(content.data),
      metadata: object(content.metadata),
      displayId: text(object(content.transient).display_id) || null
    };
  }

  /** A display may stand in an earlier cell than the one that updates it. */
  private update(record: LogRecord, content: JsonObject, cell: Cell): void {
    const shown = this.shown(record, content, false);
    const id = shown.displayId;
    let found = false;
    if (id) {
      for (const other of this.cells.values()) {
        const before = other.chars;
        if (!other.update(id, shown.data, shown.metadata)) continue;
        if (other !== cell) this.displayChars += other.chars - before;
        this.changedCells.add(other);
        found = true;
      }
    }
    if (!found) cell.display(shown);
  }

  private reply(cell: Cell, record: LogRecord, content: JsonObject): void {
    const status = text(content.status);
    cell.count = number(content.execution_count) ?? cell.count;
    cell.question = null;
    if (status === 'error' && !cell.hasError()) cell.error(content);
    const notes = object(object(record.metadata).himalia);
    if (notes.variables) cell.variables = object(notes.variables);
    if (notes.artifacts) cell.files.leftOut(object(notes.artifacts));
    cell.hint = text(object(notes.error).hint) || null;
    // A native execution ends with a record of its own, which knows more.
    if (cell.execution === null) {
      this.end(cell, status === 'ok' ? 'ok' : status === 'error' ? 'error' : 'aborted', record.at);
    }
  }

  private end(cell: Cell, status: CellStatus, at: string): void {
    cell.status = status;
    cell.ended = at;
    cell.question = null;
    cell.stopping = false;
  }

  private status(state: string, incarnation: number): void {
    if (!['starting', 'idle', 'busy', 'restarting', 'dead'].includes(state)) return;
    this.state = state as KernelState;
    this.incarnation = Math.max(this.incarnation, incarnation);
    if (state === 'idle' || state === 'busy') this.reason = null;
  }

  private lifecycle(record: LogRecord): void {
    const detail = object(record.detail);
    const cause = text(detail.cause);
    switch (text(detail.event)) {
      case 'started': {
        this.incarnation = number(detail.incarnation) ?? this.incarnation;
        this.state = 'starting';
        this.unresponsive = null;
        this.widgets.clear();
        if (this.incarnation > 1)
          this.life(record, `Process ${this.incarnation} started. Its variables begin empty.`, true);
        break;
      }
      case 'start_failed':
        this.life(record, `The process could not be started: ${text(detail.reason)}`, true);
        break;
      case 'exited': {
        const said = exitCause(object(detail.cause)) + (text(detail.detail) ? ` (${text(detail.detail)})` : '');
        this.reason = said;
        this.state = detail.asked === true ? 'restarting' : 'dead';
        this.unresponsive = null;
        this.lost(number(detail.incarnation) ?? record.incarnation, record.at);
        if (detail.asked !== true) this.life(record, `Process ${record.incarnation} ended: ${said}`, true);
        break;
      }
      case 'restarting':
        this.state = 'restarting';
        this.reason = cause;
        this.lost(record.incarnation, record.at);
        this.life(record, `The kernel is being restarted: ${cause}`, false);
        break;
      case 'dead':
        this.state = 'dead';
        this.reason = cause;
        this.unresponsive = null;
        this.lost(record.incarnation, record.at);
        this.life(
          record,
          detail.over === true ? `The session ended: ${cause.replaceAll('_', ' ')}` : `The kernel is dead: ${cause}`,
          true
        );
        break;
      case 'unresponsive':
        this.unresponsive = text(detail.advice);
        this.life(record, 'The kernel does not answer.', true);
        break;
      case 'responsive':
        this.unresponsive = null;
        this.life(record, 'The kernel answers again.', false);
        break;
      case 'new_sandbox':
        this.unresponsive = null;
        this.life(record, 'The session continues in a new sandbox. It has no variables yet.', true);
        break;
      case 'forked':
        this.life(record, 'A branch of this session was made.', false);
        break;
      case 'execution_limit':
        this.life(record, `An execution took longer than its limit: ${text(detail.step)}`, false);
        break;
      case 'disk_quota':
        this.life(record, `The session's files take more space than they may: ${text(detail.step)}`, true);
    }
  }

  /** A process that ends takes with it what Jupyter clients had it run; native executions get a record each. */
  private lost(incarnation: number, at: string): void {
    for (const cell of this.open) {
      if (cell.execution !== null || !cell.began || cell.incarnation > incarnation) continue;
      this.end(cell, 'kernel_died', at);
      this.changedCells.add(cell);
    }
  }

  private gap(record: LogRecord): void {
    const detail = object(record.detail);
    const [from, to] = [number(detail.from_seq), number(detail.to_seq)];
    const messages = number(detail.messages);
    const said =
      from !== null && to !== null
        ? `Records ${from} to ${to} are no longer kept.`
        : `${messages ?? 'Some'} messages of the kernel were dropped (${number(detail.bytes) ?? 0} bytes).`;
    const running = this.open.filter(cell => cell.began);
    for (const cell of running) {
      cell.note(said);
      this.changedCells.add(cell);
    }
    if (running.length === 0) this.life(record, said, true);
  }

  /** A call of a tool has begun, has ended or was refused. Those that no cell makes are a client's of the gateway. */
  private toolCall(record: LogRecord): void {
    const detail = object(record.detail);
    const cell =
      record.execution === undefined
        ? this.open.findLast(other => other.execution === null && other.began)
        : this.cells.get(`x${record.execution}`);
    if (cell && text(detail.caller) !== 'model') {
      const before = cell.chars;
      cell.call(record, detail);
      this.displayChars += cell.chars - before;
      this.changedCells.add(cell);
      this.fit();
    } else if (text(detail.state) !== 'ended') {
      const refused = text(detail.state) === 'refused' ? ` was refused: ${text(detail.reason)}` : '';
      this.life(record, `A client called ${text(detail.tool)}${refused}`, false);
    }
  }

  /** A connection to the network that has ended or was refused. */
  private network(record: LogRecord): void {
    const detail = object(record.detail);
    const count = (name: string) => number(detail[name]) ?? 0;
    const omitted = count('omitted');
    const did = `${bytes(count('sent_bytes'))} sent, ${bytes(count('received_bytes'))} received`;
    const used = text(detail.credential) ? `, with the credential ${text(detail.credential)}` : '';
    const said = text(detail.reason) || `${text(detail.host)}:${count('port')}${used}: ${did}`;
    this.life(record, `Network: ${said}${omitted > 0 ? `, and ${omitted} other connections` : ''}`, false);
  }

  private life(record: LogRecord, said: string, isLoss: boolean): void {
    this.entries.push({ type: 'life', event: { seq: record.seq, at: record.at, text: said, isLoss } });
    const events = this.entries.filter(entry => entry.type === 'life');
    if (events.length > MAX_LIFE) this.entries = this.entries.filter(entry => entry !== events[0]);
  }

  private add(cell: Cell): void {
    this.cells.set(cell.key, cell);
    this.entries.push({ type: 'cell', cell });
    if (this.cells.size > MAX_CELLS) this.forget(MAX_CELLS / 8);
  }

  /** Leaves out the oldest cells, several at once, so that this is not done for every single one. */
  private forget(count: number): void {
    const old = new Set([...this.cells.values()].slice(0, count));
    for (const cell of old) {
      this.cells.delete(cell.key);
      this.displayChars -= cell.chars;
    }
    for (const [id, cell] of this.byRequest) if (old.has(cell)) this.byRequest.delete(id);
    this.entries = this.entries.filter(entry => entry.type !== 'cell' || !old.has(entry.cell));
    this.omitted += old.size;
    this.firstWithOutputs = 0;
  }

  /** Gives up outputs of the oldest cells until the others fit. */
  private fit(): void {
    while (this.displayChars > MAX_DISPLAY_CHARS && this.firstWithOutputs < this.entries.length - 1) {
      const entry = this.entries[this.firstWithOutputs++];
      if (entry?.type !== 'cell' || entry.cell.chars === 0 || !entry.cell.isOver) continue;
      this.displayChars -= entry.cell.chars;
      entry.cell.drop();
      this.changedCells.add(entry.cell);
    }
  }
}

function endStatus(word: string): CellStatus {
  const known: CellStatus[] = ['ok', 'error', 'timeout', 'interrupted', 'kernel_died', 'oom_killed'];
  return known.find(status => status === word) ?? 'error';
}

function exitCause(cause: JsonObject): string {
  switch (text(cause.kind)) {
    case 'exit':
      return `exit(${number(cause.code) ?? '?'})`;
    case 'signal':
      return `signal(${number(cause.signal) ?? '?'})`;
    default:
      return text(cause.kind) || 'unknown';
  }
}
