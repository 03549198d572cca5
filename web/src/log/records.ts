/**
 * Records of a session's log, as `GET /v1/sessions/{id}/events` streams them. What stands in them was written by kernels and
 * clients: every member may be missing or of another type.
 */

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type JsonObject = { [name: string]: Json };

export interface LogRecord {
  /** Dense per session. Of a gap, the last number that is missing. */
  seq: number;
  /** When it was stored, UTC. */
  at: string;
  kind: 'message' | 'request' | 'lifecycle' | 'gap' | 'execution' | 'network' | 'prompt' | 'tool_call';
  incarnation: number;
  /** Of a message or a request. */
  channel?: string;
  header?: JsonObject;
  parent_header?: JsonObject;
  metadata?: JsonObject;
  content?: JsonObject;
  /** The lengths of a message's binary buffers. */
  bufferBytes?: number[];
  /** Of the others. */
  detail?: JsonObject;
  /** The native execution that the record belongs to, by the number of that one's first record. */
  execution?: number;
}

const KINDS = ['message', 'request', 'lifecycle', 'gap', 'execution', 'network', 'prompt', 'tool_call'];

/** A record that was read; null if it is none that this viewer knows. */
export function parseRecord(value: unknown): LogRecord | null {
  if (!isObject(value)) return null;
  const { seq, at, event: kind, incarnation } = value;
  if (typeof seq !== 'number' || typeof kind !== 'string' || !KINDS.includes(kind)) return null;
  const record: LogRecord = {
    seq,
    at: typeof at === 'string' ? at : '',
    kind: kind as LogRecord['kind'],
    incarnation: typeof incarnation === 'number' ? incarnation : 0
  };
  if (typeof value.channel === 'string') record.channel = value.channel;
  if (typeof value.execution_id === 'string') record.execution = Number(value.execution_id.split('_').pop());
  if (Array.isArray(value.buffer_bytes)) {
    record.bufferBytes = value.buffer_bytes.filter(bytes => typeof bytes === 'number');
  }
  for (const name of ['header', 'parent_header', 'metadata', 'content', 'detail'] as const) {
    const member = value[name];
    if (isObject(member)) record[name] = member as JsonObject;
  }
  return record;
}

export function isObject(value: unknown): value is { [name: string]: unknown } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function object(value: Json | undefined): JsonObject {
  return isObject(value) ? (value as JsonObject) : {};
}

export function text(value: Json | undefined): string {
  return typeof value === 'string' ? value : '';
}

export function number(value: Json | undefined): number | null {
  return typeof value === 'number' && Number.isFinite(value) ? value : null;
}

/** A text that nbformat also allows as a list of lines. */
export function multiline(value: Json | undefined): string {
  return Array.isArray(value) ? value.map(text).join('') : text(value);
}
