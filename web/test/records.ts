// Makes records as the gateway streams them.

import type { JsonObject, LogRecord } from '../src/log/records';

/** Writes a log: every call is the next record. */
export class LogWriter {
  readonly records: LogRecord[] = [];
  incarnation = 1;
  private time = Date.parse('2026-01-02T03:04:05Z');

  private put(record: Omit<LogRecord, 'seq' | 'at' | 'incarnation'>): LogRecord {
    this.time += 10;
    const seq = this.records.length + 1;
    const whole = { seq, at: new Date(this.time).toISOString(), incarnation: this.incarnation, ...record };
    this.records.push(whole);
    return whole;
  }

  wait(ms: number): this {
    this.time += ms;
    return this;
  }

  life(detail: JsonObject): LogRecord {
    return this.put({ kind: 'lifecycle', detail });
  }

  network(detail: JsonObject): LogRecord {
    return this.put({ kind: 'network', detail });
  }

  toolCall(execution: number | undefined, detail: JsonObject): LogRecord {
    return this.put({ kind: 'tool_call', detail, ...(execution === undefined ? {} : { execution }) });
  }

  prompt(detail: JsonObject): LogRecord {
    return this.put({ kind: 'prompt', detail });
  }

  gap(detail: JsonObject): LogRecord {
    return this.put({ kind: 'gap', detail });
  }

  execution(detail: JsonObject): LogRecord {
    return this.put({ kind: 'execution', detail });
  }

  request(
    id: string,
    type: string,
    content: JsonObject,
    more: { session?: string; parent?: string; channel?: string } = {}
  ): LogRecord {
    return this.put({
      kind: 'request',
      channel: more.channel ?? 'shell',
      header: { msg_id: id, msg_type: type, session: more.session ?? 'lab', username: 'ada' },
      parent_header: more.parent ? { msg_id: more.parent } : {},
      content
    });
  }

  message(
    parent: string | null,
    type: string,
    content: JsonObject,
    metadata: JsonObject = {},
    channel = 'iopub'
  ): LogRecord {
    return this.put({
      kind: 'message',
      channel,
      header: { msg_id: `m${this.records.length}`, msg_type: type },
      parent_header: parent ? { msg_id: parent, msg_type: 'execute_request' } : {},
      metadata,
      content
    });
  }

  /** A file that code has written to be kept. */
  kept(parent: string, name: string, mediaType: string, bytes: number): void {
    this.message(parent, 'himalia_artifact', { name, media_type: mediaType }).bufferBytes = [bytes];
  }

  /** A native execution up to its beginning; the `msg_id` of its request. */
  begin(code: string, count: number, key: string | null = null): string {
    this.execution({ event: 'submitted', code, caller: 'operator', key, ahead: 0 });
    return this.sent(code, count);
  }

  sent(code: string, count: number): string {
    this.execution({ event: 'sent', attempt: 1, replaced: null });
    const id = `req-${this.records.length}`;
    this.request(id, 'execute_request', { code, silent: false }, { session: 'himalia-execution' });
    this.message(id, 'status', { execution_state: 'busy' });
    this.message(id, 'execute_input', { code, execution_count: count });
    return id;
  }

  stream(id: string, text: string, name = 'stdout'): void {
    this.message(id, 'stream', { name, text });
  }

  end(id: string, count: number, status = 'ok', metadata: JsonObject = {}): void {
    this.message(
      id,
      'execute_reply',
      { status: status === 'ok' ? 'ok' : 'error', execution_count: count },
      metadata,
      'shell'
    );
    this.message(id, 'status', { execution_state: 'idle' });
    this.execution({ event: 'ended', status, cause: null, ran: true, failed_before: 0 });
  }
}
