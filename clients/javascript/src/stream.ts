/** Streams of events, which survive lost connections. */

import { ApiError, ConnectionFailed, HimaliaError, StreamEnded } from './errors.js';
import type { ExecutionEvent, LogRecord, NewExecution, SessionExecutionEvent } from './schema.js';
import { EventParser, type ServerEvent } from './sse.js';
import {
  type CallOptions,
  type Operation,
  type RequestOptions,
  route,
  type Transport,
  usualPause
} from './transport.js';
import { Deadline, pause } from './waiting.js';

const SSE = { Accept: 'text/event-stream' };
/** The gateway says something every 15 s. */
const SILENCE_MS = 45_000;
/** Time for the head of the answer. */
const OPEN_MS = 20_000;
/** Attempts without an event in between. */
const ATTEMPTS = 5;
/** Refusals that are the same the next time. */
const FINAL = [400, 401, 403, 404, 410];

/** Opens a stream, and gives what arrives, in batches. A connection that is silent for too long is cut. */
async function* batches(
  transport: Transport,
  [method, path]: [string, string],
  options: RequestOptions,
  opened: (response: Response) => void
): AsyncGenerator<ServerEvent[]> {
  const watch = new Deadline(OPEN_MS, options.signal);
  try {
    const response = await transport.attempt(method, path, { ...options, headers: SSE, signal: watch.signal });
    if (response instanceof Error) throw response;
    opened(response);
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    const parser = new EventParser();
    try {
      for (;;) {
        watch.extend(SILENCE_MS);
        const read = await reader?.read();
        if (!read || read.done) return;
        yield parser.push(read.value);
      }
    } finally {
      void reader?.cancel().catch(() => undefined);
    }
  } catch (error) {
    if (options.signal?.aborted) throw options.signal.reason;
    throw error instanceof HimaliaError
      ? error
      : new ConnectionFailed(watch.expired ? 'silence' : (error as Error).message, watch.expired);
  } finally {
    watch.done();
  }
}

/**
 * Each event of an execution after the number `after` once, the last one being `done`.
 *
 * `what` is the id of the execution; or a session and a request with an idempotency key, which starts it.
 */
export async function* executionEvents(
  transport: Transport,
  what: string | { session: string; body: NewExecution },
  after: number,
  options: CallOptions
): AsyncGenerator<ExecutionEvent> {
  let id = typeof what === 'string' ? what : null;
  let position = after;
  for (let failures = 0; ; failures++) {
    let broken: HimaliaError;
    try {
      const starts = id === null && typeof what !== 'string';
      const request = starts
        ? route('execute', { session_id: what.session })
        : route('stream_execution_events', { execution_id: id });
      const more = starts ? { body: what.body } : { query: { after: position } };
      const stream = batches(transport, request, { ...options, ...more }, response => {
        id ??= response.headers.get('Location')?.split('/').at(-1) ?? null;
      });
      for await (const batch of stream) {
        for (const { data } of batch) {
          const event = JSON.parse(data) as ExecutionEvent | { event: 'end'; reason?: string };
          if (event.event === 'end') {
            if (event.reason === 'draining') break;
            throw new StreamEnded(id ?? '', event.reason ?? 'unknown');
          }
          position = event.seq;
          failures = 0;
          yield event;
          if (event.event === 'done') return;
        }
      }
      broken = new ConnectionFailed('the connection was closed');
    } catch (error) {
      const isKnown = error instanceof ConnectionFailed || (error instanceof ApiError && error.retryable);
      if (!isKnown) throw error;
      broken = error;
    }
    if (failures + 1 >= ATTEMPTS)
      throw new ConnectionFailed(`the events of ${id ?? 'a new execution'} broke off: ${broken.message}`);
    await pause(usualPause(failures) * 1000, options.signal);
  }
}

/**
 * The events of all executions of a session: from now on, or after a number. It reconnects for as long as the gateway does not refuse, and
 * ends when the session does.
 */
export async function* sessionEvents(
  transport: Transport,
  session: string,
  options: FollowOptions
): AsyncGenerator<SessionExecutionEvent> {
  for await (const batch of followed<SessionExecutionEvent>(transport, 'stream_executions', session, options))
    yield* batch;
}

/** How a stream of a session stands. */
export type Connection = 'live' | 'reconnecting';

export interface FollowOptions extends CallOptions {
  /** Continue after this number; 0 for all that is kept. */
  after?: number | undefined;
  /** A kernel of the session; default: the first one. */
  kernel?: string | undefined;
  /** Called when the connection is there, and when it is lost. */
  onConnection?: ((state: Connection) => void) | undefined;
}

/**
 * The records of a session's log as they are written, in batches of what arrived together. It reconnects for as long as the gateway does not
 * refuse, and ends when the session does.
 */
export function logRecords(transport: Transport, session: string, options: FollowOptions): AsyncGenerator<LogRecord[]> {
  return followed(transport, 'stream_session_events', session, { after: 0, ...options });
}

/** A stream of a session that has its position in the log, in batches of what arrived together. */
async function* followed<T extends { seq: number }>(
  transport: Transport,
  operation: Operation,
  session: string,
  options: FollowOptions
): AsyncGenerator<T[]> {
  let position = options.after;
  for (let failures = 0; ; failures++) {
    try {
      const query = { after: position, kernel: options.kernel };
      const stream = batches(transport, route(operation, { session_id: session }), { ...options, query }, () => {
        options.onConnection?.('live');
        failures = 0;
      });
      for await (const batch of stream) {
        const records = batch
          .filter(one => one.event !== 'end' && one.data !== '')
          .map(one => JSON.parse(one.data) as T);
        const last = batch.findLast(one => one.id !== null)?.id;
        if (last) position = Number(last);
        if (records.length > 0) yield records;
        const end = batch.find(one => one.event === 'end');
        if (end && (JSON.parse(end.data) as { reason?: string }).reason === 'kernel_gone') return;
      }
    } catch (error) {
      const isKnown = error instanceof ConnectionFailed || (error instanceof ApiError && !FINAL.includes(error.status));
      if (!isKnown) throw error;
    }
    options.onConnection?.('reconnecting');
    await pause(Math.max(200, usualPause(failures) * 1000), options.signal);
  }
}
