/** Where to begin with a log that is too long to be read as a whole. */

import type { schema } from 'himalia';
import { gateway } from './gateway';

/** Entries of a page of history. */
const MOST = 1000;

/** A place between two cells. */
export interface Beginning {
  /** The number of the record before it. */
  after: number;
  /** Cells before it. */
  cells: number;
  /** Where the history of those is read. */
  cursor: string | null;
}

export const START: Beginning = { after: 0, cells: 0, cursor: null };

/** The place before the latest `count` cells. */
export function latest(session: string, count: number, signal: AbortSignal): Promise<Beginning> {
  return back(session, null, count, signal);
}

/** The place `count` cells before another one. */
export async function before(session: string, from: Beginning, count: number, signal: AbortSignal): Promise<Beginning> {
  return from.cells <= count ? START : back(session, from.cursor, count, signal);
}

/** Goes back from a cursor, else from the end, a page at a time. */
async function back(session: string, from: string | null, count: number, signal: AbortSignal): Promise<Beginning> {
  let page: schema.HistoryPage;
  let first: number | null = null;
  let left = count;
  let cursor = from;
  do {
    const query = { cursor: cursor ?? undefined, limit: Math.min(left, MOST), order: 'desc' as const };
    page = await gateway.call('list_history', { path: { session_id: session }, query }, { signal });
    for (const { seq } of page.history) first = first === null ? seq : Math.min(first, seq);
    left -= page.history.length;
    cursor = page.next;
  } while (cursor !== null && left > 0 && page.history.length > 0);
  // Where the first one waits still, one before it may be running: then nothing may be left out.
  if (page.offset === 0 || first === null || page.history.at(-1)?.status === 'queued') return START;
  return { after: first - 1, cells: page.offset, cursor };
}
