/** A session's log as it grows. */

import { ApiError } from 'himalia';
import { type LogRecord, parseRecord } from '../log/records';
import { gateway, said } from './gateway';

export type Connection = 'connecting' | 'live' | 'reconnecting' | 'ended' | 'refused';

export interface Follower {
  records(batch: LogRecord[]): void;
  connection(state: Connection, reason: string | null): void;
  /** The number of the last record that was taken. */
  position(): number;
}

/** Follows until `signal` ends it, the session is gone or the gateway refuses. */
export async function follow(session: string, follower: Follower, signal: AbortSignal): Promise<void> {
  follower.connection('connecting', null);
  try {
    const log = gateway.at(session).log({
      after: follower.position(),
      signal,
      onConnection: state => follower.connection(state, null)
    });
    for await (const batch of log) {
      const records = batch.map(parseRecord).filter(record => record !== null);
      if (records.length > 0) follower.records(records);
    }
    follower.connection('ended', 'The session has ended.');
  } catch (error) {
    if (signal.aborted) return;
    const isAbsent = error instanceof ApiError && error.status === 404;
    follower.connection(isAbsent ? 'ended' : 'refused', said(error));
  }
}
