/**
 * One execution and its outputs, by the rules of `crates/outcome/src/cell.rs`: a stream is one output for each name between two
 * displays, as a terminal leaves it; `update_display_data` and `clear_output` are applied.
 */

import { Excerpt } from '../text/excerpt';
import { Screen, type StreamName } from '../text/screen';
import { KeptFiles } from './kept-files';
import { type JsonObject, type LogRecord, text } from './records';
import { ToolCalls } from './tool-calls';

/** Outputs that are kept: half of them the first ones, half the last ones. */
export const MAX_OUTPUTS = 200;
/** Characters of one stream that are kept, half of them from its beginning. */
export const STREAM_CHARS = 200_000;

export type CellStatus =
  | 'queued'
  | 'running'
  | 'ok'
  | 'error'
  | 'timeout'
  | 'interrupted'
  | 'kernel_died'
  | 'oom_killed'
  | 'aborted';

/** Who had the code run. */
export type Asker = 'viewer' | 'native' | 'jupyter';

export interface StreamOutput {
  type: 'stream';
  key: number;
  name: StreamName;
  screen: Screen<Excerpt>;
}

export interface DisplayOutput {
  type: 'display';
  key: number;
  /** The record that brought it. */
  seq: number;
  at: string;
  /** The value of the last expression. */
  isResult: boolean;
  data: JsonObject;
  metadata: JsonObject;
  displayId: string | null;
}

export interface ErrorOutput {
  type: 'error';
  key: number;
  name: string;
  value: string;
  traceback: string[];
}

/** A place where something is missing. */
export interface NoteOutput {
  type: 'note';
  key: number;
  text: string;
}

export type Output = StreamOutput | DisplayOutput | ErrorOutput | NoteOutput;

export interface Question {
  prompt: string;
  password: boolean;
}

export class Cell {
  readonly key: string;
  /** The number of the native execution's first record; null for one of a Jupyter client. */
  readonly execution: number | null;
  readonly asker: Asker;
  /** The principal, or the user that a Jupyter client names. */
  readonly who: string;
  readonly code: string;
  /** `bash`, or null for the kernel's own. */
  readonly language: string | null;
  readonly asked: string;
  incarnation: number;
  status: CellStatus = 'queued';
  count: number | null = null;
  began: string | null = null;
  ended: string | null = null;
  stopping = false;
  question: Question | null = null;
  variables: JsonObject | null = null;
  hint: string | null = null;
  outputs: Output[] = [];
  calls = new ToolCalls();
  files = new KeptFiles();
  /** Outputs between the first and the last ones that are not kept. */
  omitted = 0;
  private outputChars = 0;
  /** All outputs were dropped for lack of room. */
  dropped = false;
  private clearNext = false;
  private nextKey = 0;

  constructor(begin: {
    key: string;
    execution: number | null;
    asker: Asker;
    who: string;
    code: string;
    language: string | null;
    asked: string;
    incarnation: number;
  }) {
    this.key = begin.key;
    this.execution = begin.execution;
    this.asker = begin.asker;
    this.who = begin.who;
    this.code = begin.code;
    this.language = begin.language;
    this.asked = begin.asked;
    this.incarnation = begin.incarnation;
  }

  /** What all outputs, calls and names of files take, about, in characters; streams left aside. */
  get chars(): number {
    return this.outputChars + this.calls.chars + this.files.chars;
  }

  get isOver(): boolean {
    return this.status !== 'queued' && this.status !== 'running';
  }

  /** It goes to the kernel once more, from the beginning. */
  again(incarnation: number): void {
    this.incarnation = incarnation;
    this.began = null;
    this.ended = null;
    this.count = null;
    this.question = null;
    this.calls = new ToolCalls();
    this.files = new KeptFiles();
    this.clear();
  }

  stream(name: StreamName, added: string): void {
    if (this.dropped) return;
    this.clearIfDue();
    for (let at = this.outputs.length - 1; at >= 0; at--) {
      const output = this.outputs[at];
      if (output?.type !== 'stream') break;
      if (output.name === name) {
        output.screen.write(name, added);
        return;
      }
    }
    const screen = new Screen(new Excerpt(STREAM_CHARS / 2));
    screen.write(name, added);
    this.keep({ type: 'stream', key: this.nextKey++, name, screen });
  }

  display(shown: Omit<DisplayOutput, 'type' | 'key'>): void {
    if (this.dropped) return;
    this.clearIfDue();
    this.keep({ type: 'display', key: this.nextKey++, ...shown });
  }

  /** Another content for the displays of this id. False if there is none. */
  update(displayId: string, data: JsonObject, metadata: JsonObject): boolean {
    let found = false;
    for (const [at, output] of this.outputs.entries()) {
      if (output.type !== 'display' || output.displayId !== displayId) continue;
      this.outputChars += weight({ data }) - weight(output);
      this.outputs[at] = { ...output, data, metadata };
      found = true;
    }
    return found;
  }

  error(content: JsonObject): void {
    if (this.dropped) return;
    this.clearIfDue();
    const traceback = Array.isArray(content.traceback) ? content.traceback.map(text) : [];
    this.keep({
      type: 'error',
      key: this.nextKey++,
      name: text(content.ename),
      value: text(content.evalue),
      traceback
    });
  }

  note(line: string): void {
    this.keep({ type: 'note', key: this.nextKey++, text: line });
  }

  clearOutput(wait: boolean): void {
    this.clearNext = true;
    if (!wait) this.clearIfDue();
  }

  /** A call of a tool by its code. */
  call(record: LogRecord, detail: JsonObject): void {
    this.calls.apply(record, detail);
    if (this.dropped) this.calls.drop();
  }

  /** Gives up all outputs, those to come included. */
  drop(): void {
    this.clear();
    this.calls.drop();
    this.files = new KeptFiles();
    this.dropped = true;
  }

  hasError(): boolean {
    return this.outputs.some(output => output.type === 'error');
  }

  private keep(output: Output): void {
    this.outputChars += weight(output);
    this.outputs.push(output);
    if (this.outputs.length <= MAX_OUTPUTS) return;
    const [oldest] = this.outputs.splice(MAX_OUTPUTS / 2, 1);
    if (oldest) this.outputChars -= weight(oldest);
    this.omitted += 1;
  }

  private clearIfDue(): void {
    if (this.clearNext) this.clear();
  }

  private clear(): void {
    this.clearNext = false;
    this.outputs = [];
    this.omitted = 0;
    this.outputChars = 0;
  }
}

function weight(output: Output | { data: JsonObject }): number {
  if (!('data' in output)) return 0;
  let chars = 0;
  for (const value of Object.values(output.data)) {
    chars += typeof value === 'string' ? value.length : JSON.stringify(value).length;
  }
  return chars;
}
