/** The plots of a session, in the order of time. */

import type { Cell, DisplayOutput } from './cell';
import type { Entry } from './session-log';

/** MIME types that count as a plot, the one that shows most first. */
export const PLOT_TYPES = [
  'application/vnd.plotly.v1+json',
  'application/vnd.vegalite.v6+json',
  'application/vnd.vegalite.v5+json',
  'application/vnd.vega.v6+json',
  'application/vnd.vega.v5+json',
  'image/svg+xml',
  'image/png',
  'image/jpeg',
  'image/webp',
  'image/gif'
];
/** Of these, what an `<img>` shows without running anything. */
export const PICTURE_TYPES = ['image/png', 'image/jpeg', 'image/webp', 'image/gif', 'image/svg+xml'];

export interface Plot {
  key: string;
  cell: Cell;
  output: DisplayOutput;
  /** The type of the full view. */
  type: string;
  /** The type of a still picture of it, if it has one. */
  picture: string | null;
}

export function plots(entries: Entry[]): Plot[] {
  const found: Plot[] = [];
  for (const entry of entries) {
    if (entry.type !== 'cell') continue;
    for (const output of entry.cell.outputs) {
      if (output.type !== 'display') continue;
      const type = PLOT_TYPES.find(name => output.data[name] !== undefined);
      if (!type) continue;
      const picture = PICTURE_TYPES.find(name => typeof output.data[name] === 'string') ?? null;
      found.push({ key: `${entry.cell.key}-${output.key}`, cell: entry.cell, output, type, picture });
    }
  }
  return found;
}
