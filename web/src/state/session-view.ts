/** One session on the screen: its log, followed, with signals that change at most once a frame. */

import { batch, type Signal, signal } from '@preact/signals';
import { type Connection, follow } from '../api/follow';
import type { Cell } from '../log/cell';
import type { LogRecord } from '../log/records';
import { SessionLog } from '../log/session-log';

export class SessionView {
  readonly log = new SessionLog();
  /** Changes with everything but the inside of a cell. */
  readonly revision = signal(0);
  readonly connection = signal<Connection>('connecting');
  readonly reason = signal<string | null>(null);
  /** Whether the end of the log stays in view. */
  readonly following = signal(true);
  /** The cell that keys act on. */
  readonly selected = signal<string | null>(null);
  private readonly cellRevisions = new WeakMap<Cell, Signal<number>>();
  private readonly closing = new AbortController();
  private frame = 0;

  constructor(readonly session: string) {}

  /** Begins to follow the log. */
  open(): void {
    void follow(
      this.session,
      {
        records: records => this.take(records),
        connection: (state, reason) => {
          this.connection.value = state;
          this.reason.value = reason;
        },
        position: () => this.log.seq
      },
      this.closing.signal
    );
  }

  close(): void {
    this.closing.abort();
    cancelAnimationFrame(this.frame);
  }

  /** Takes records at once; what is shown changes with the next frame. */
  take(records: LogRecord[]): void {
    for (const record of records) this.log.apply(record);
    if (this.frame === 0) this.frame = requestAnimationFrame(() => this.show());
  }

  /** Shows what was taken. */
  show(): void {
    this.frame = 0;
    const { cells, list } = this.log.takeChanges();
    batch(() => {
      for (const cell of cells) {
        const revision = this.cellRevisions.get(cell);
        if (revision) revision.value += 1;
      }
      if (list) this.revision.value += 1;
    });
  }

  /** Changes whenever something in the cell does. */
  revisionOf(cell: Cell): Signal<number> {
    let revision = this.cellRevisions.get(cell);
    if (!revision) {
      revision = signal(0);
      this.cellRevisions.set(cell, revision);
    }
    return revision;
  }
}
