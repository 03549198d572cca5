/** One session on the screen: its log, followed, with signals that change at most once a frame. */

import { batch, type Signal, signal } from '@preact/signals';
import { type Beginning, before, latest, START } from '../api/beginning';
import { type Connection, follow } from '../api/follow';
import type { Cell } from '../log/cell';
import type { LogRecord } from '../log/records';
import { SessionLog } from '../log/session-log';

/** Cells of a long log that are read at first. Whenever earlier ones are wanted, so many times more are. */
const FIRST_CELLS = 200;
const GROWTH = 4;

export class SessionView {
  /** Replaced by a longer one when earlier cells are wanted. */
  log = new SessionLog();
  /** Changes with everything but the inside of a cell. */
  readonly revision = signal(0);
  readonly connection = signal<Connection>('connecting');
  readonly reason = signal<string | null>(null);
  /** Whether the end of the log stays in view. */
  readonly following = signal(true);
  /** The cell that keys act on. */
  readonly selected = signal<string | null>(null);
  /** Cells before the first one that was read. */
  readonly earlier = signal(0);
  /** Earlier cells are being read. */
  readonly isReading = signal(false);
  private readonly cellRevisions = new WeakMap<Cell, Signal<number>>();
  private readonly closing = new AbortController();
  private follower = new AbortController();
  private beginning: Beginning = START;
  private cells = FIRST_CELLS;
  private frame = 0;

  constructor(readonly session: string) {}

  /** Begins to follow the log: all of it, or the latest cells of a long one. */
  async open(): Promise<void> {
    const signal = this.closing.signal;
    // What is wrong with the session is said by its log.
    const beginning = await latest(this.session, this.cells, signal).catch(() => START);
    if (signal.aborted) return;
    this.begin(beginning, new SessionLog(beginning.after, beginning.cells));
    this.read(this.log, this.follower, () => undefined);
  }

  /** Reads earlier cells too: the log once more from further back, shown when it is where this one is. */
  async older(): Promise<void> {
    if (this.beginning.cells === 0 || this.isReading.value) return;
    this.isReading.value = true;
    this.cells *= GROWTH;
    const ending = new AbortController();
    const give = (): void => {
      ending.abort();
      this.isReading.value = false;
    };
    try {
      const beginning = await before(this.session, this.beginning, this.cells, this.closing.signal);
      const log = new SessionLog(beginning.after, beginning.cells);
      this.read(log, ending, state => {
        if (log === this.log) return;
        if (state === 'ended' || state === 'refused') return give();
        if (log.seq < this.log.seq) return;
        this.follower.abort();
        this.follower = ending;
        this.begin(beginning, log);
        this.isReading.value = false;
        this.show();
      });
    } catch {
      give();
    }
  }

  close(): void {
    this.closing.abort();
    this.follower.abort();
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

  private begin(beginning: Beginning, log: SessionLog): void {
    this.log = log;
    this.beginning = beginning;
    this.earlier.value = beginning.cells;
  }

  /** Follows into a log. `progress` learns of all that arrived for a log that is not shown yet. */
  private read(log: SessionLog, ending: AbortController, progress: (state: Connection) => void): void {
    let current: Connection = 'connecting';
    void follow(
      this.session,
      {
        records: records => {
          if (log === this.log) return this.take(records);
          for (const record of records) log.apply(record);
          progress(current);
        },
        connection: (state, reason) => {
          current = state;
          progress(state);
          if (log !== this.log) return;
          this.connection.value = state;
          this.reason.value = reason;
        },
        position: () => log.seq
      },
      AbortSignal.any([this.closing.signal, ending.signal])
    );
  }
}
