/** Calls of tools by the code of one cell, from the records of their beginnings and ends. */

import { type JsonObject, type LogRecord, number, text } from './records';

/** Calls that are kept: half of them the first ones, half the last ones. */
export const MAX_CALLS = 200;

export interface ToolCall {
  key: number;
  /** Its number in the session; null of one that was refused. */
  number: number | null;
  tool: string;
  at: string;
  /** `running`, `refused`, or how it ended: `done`, `failed`, `not_done`, `unknown`. */
  state: string;
  /** JSON, which may be cut. */
  arguments: string;
  reply: string;
  replyBytes: number;
  /** Why it failed or was refused. */
  reason: string;
  milliseconds: number | null;
  /** The line of the cell that calls it. */
  line: number | null;
}

/** The calls of one cell. Each change makes other objects. */
export class ToolCalls {
  shown: ToolCall[] = [];
  /** Calls between the first and the last ones that are not kept. */
  omitted = 0;
  total = 0;
  failed = 0;
  /** Characters of arguments and replies. */
  chars = 0;
  /** The first half of them, if some are omitted. */
  readonly firstHalf = MAX_CALLS / 2;

  /** Takes a record of a call. */
  apply(record: LogRecord, detail: JsonObject): void {
    const state = text(detail.state);
    if (state === 'ended') {
      this.end(detail);
      return;
    }
    const isRefused = state === 'refused';
    if (!isRefused && state !== 'begun') return;
    // Refusals of which only the first ones have records.
    const more = number(detail.omitted) ?? 0;
    this.total += 1 + more;
    if (isRefused) this.failed += 1 + more;
    this.omitted += more;
    this.keep({
      key: record.seq,
      number: number(detail.call),
      tool: text(detail.tool),
      at: record.at,
      state: isRefused ? 'refused' : 'running',
      arguments: text(detail.arguments),
      reply: '',
      replyBytes: 0,
      reason: text(detail.reason),
      milliseconds: null,
      line: number(detail.line)
    });
  }

  /** Gives up all of them; the counts stay. */
  drop(): void {
    this.shown = [];
    this.chars = 0;
  }

  private end(detail: JsonObject): void {
    const outcome = text(detail.outcome);
    if (outcome !== 'done') this.failed += 1;
    const at = this.shown.findLastIndex(call => call.number !== null && call.number === number(detail.call));
    const call = this.shown[at];
    if (!call) return;
    const reply = text(detail.reply);
    this.chars += reply.length;
    this.shown[at] = {
      ...call,
      state: outcome,
      reply,
      replyBytes: number(detail.reply_bytes) ?? 0,
      reason: text(detail.reason),
      milliseconds: number(detail.duration_ms)
    };
  }

  private keep(call: ToolCall): void {
    this.shown.push(call);
    this.chars += call.arguments.length;
    if (this.shown.length <= MAX_CALLS) return;
    const [oldest] = this.shown.splice(this.firstHalf, 1);
    if (oldest) this.chars -= oldest.arguments.length + oldest.reply.length;
    this.omitted += 1;
  }
}
