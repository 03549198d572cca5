/** Where to begin with a log that is too long to be read as a whole. */

import { api } from './client';

/** Entries of a page of history. */
const MOST = 1000;

/** A place between two cells. */
export interface Beginning {
  /** The number of the record before it. */
  after: number;
  /** Cells before it. */
  cells: number;
}

export const START: Beginning = { after: 0, cells: 0 };

/** The place before the latest `count` cells, at most 1,000. */
export async function latest(session: string, count: number, signal: AbortSignal): Promise<Beginning> {
  return place(await api.history(session, null, count, signal));
}

/** The place `count` cells before another one. */
export async function before(session: string, from: Beginning, count: number, signal: AbortSignal): Promise<Beginning> {
  const offset = Math.max(0, from.cells - count);
  return offset === 0 ? START : place(await api.history(session, offset, MOST, signal));
}

function place({ history, offset }: Awaited<ReturnType<typeof api.history>>): Beginning {
  const [first] = history;
  // Where the first one waits still, one before it may be running: then nothing may be left out.
  if (offset === 0 || !first || first.status === 'queued') return START;
  return { after: Math.min(...history.map(entry => entry.seq)) - 1, cells: offset };
}
