/** Time: what ends a call, and pauses between attempts. */

/** A signal that ends a call, and what has ended it. `AbortSignal.any` is missing in older browsers and in Node 18. */
export class Deadline {
  private readonly controller = new AbortController();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private readonly abort = (): void => this.controller.abort(this.outer?.reason);
  /** It was the time. */
  expired = false;

  constructor(
    ms: number,
    private readonly outer?: AbortSignal | undefined
  ) {
    if (outer?.aborted) this.abort();
    else outer?.addEventListener('abort', this.abort, { once: true });
    this.extend(ms);
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  /** So many milliseconds from now; a number that timers do not have is no end. */
  extend(ms: number): void {
    clearTimeout(this.timer);
    if (ms > 2 ** 31 - 1) return;
    this.timer = setTimeout(() => {
      this.expired = true;
      this.controller.abort();
    }, ms);
  }

  /** Nothing is waited for any more. */
  done(): void {
    clearTimeout(this.timer);
    this.outer?.removeEventListener('abort', this.abort);
  }
}

/** Waits, or rejects with the reason of the signal. */
export function pause(ms: number, signal?: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const abort = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', abort);
      resolve();
    }, ms);
    signal?.addEventListener('abort', abort, { once: true });
  });
}
