/** A session's log as it grows: reconnects by itself and continues after the last record. */

import { type LogRecord, parseRecord } from '../log/records';
import { segment } from './base';
import { ApiError, call } from './client';
import { EventParser } from './sse';

export type Connection = 'connecting' | 'live' | 'reconnecting' | 'ended' | 'refused';

/** Waits between attempts, milliseconds; then always the last. */
const WAITS = [200, 500, 1000, 2000, 4000];
/** The gateway says something every 15 s. */
const SILENCE_MS = 45_000;
/** Time for the first byte of the answer. */
const OPEN_MS = 20_000;

export interface Follower {
  records(batch: LogRecord[]): void;
  connection(state: Connection, reason: string | null): void;
  /** The number of the last record that was taken. */
  position(): number;
}

/** Follows until `signal` ends it, the session is gone or the gateway refuses. */
export async function follow(session: string, follower: Follower, signal: AbortSignal): Promise<void> {
  let failures = 0;
  follower.connection('connecting', null);
  while (!signal.aborted) {
    try {
      const ended = await once(session, follower, signal, () => {
        failures = 0;
      });
      if (ended === 'kernel_gone') {
        follower.connection('ended', 'The session has ended.');
        return;
      }
    } catch (error) {
      if (signal.aborted) return;
      const status = error instanceof ApiError ? error.status : 0;
      if ([401, 403, 404, 410].includes(status)) {
        follower.connection(status === 404 ? 'ended' : 'refused', (error as Error).message);
        return;
      }
    }
    if (signal.aborted) return;
    follower.connection('reconnecting', null);
    await pause(WAITS[Math.min(failures, WAITS.length - 1)] ?? 4000, signal);
    failures += 1;
  }
}

async function once(
  session: string,
  follower: Follower,
  signal: AbortSignal,
  live: () => void
): Promise<string | null> {
  const silence = new AbortController();
  let timer = setTimeout(() => silence.abort(), OPEN_MS);
  try {
    const response = await call('GET', `v1/sessions/${segment(session)}/events?after=${follower.position()}`, {
      accept: 'text/event-stream',
      signal: AbortSignal.any([signal, silence.signal]),
      timeout: 2 ** 31 - 1
    });
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    if (!reader) return null;
    live();
    follower.connection('live', null);
    const parser = new EventParser();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return null;
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(), SILENCE_MS);
      const batch: LogRecord[] = [];
      let end: string | null = null;
      for (const event of parser.push(value)) {
        if (event.event === 'end') end = reason(event.data);
        const record = event.event === 'end' ? null : parseRecord(event.data);
        if (record) batch.push(record);
      }
      if (batch.length > 0) follower.records(batch);
      if (end) return end;
    }
  } finally {
    clearTimeout(timer);
  }
}

function reason(data: string): string {
  try {
    return String((JSON.parse(data) as { reason?: unknown }).reason);
  } catch {
    return 'unknown';
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener('abort', done);
  });
}
