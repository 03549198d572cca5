// A TCP relay in front of the gateway whose connections a test can end, as a failing network path would.

import { createConnection, createServer } from 'node:net';
import { once } from 'node:events';

/** Relays connections to `target` until it is severed; new ones then wait until it is restored. */
export class Relay {
  #server;
  #pairs = new Set();
  #whole = Promise.resolve();
  #restore = () => {};

  static async to(target) {
    const relay = new Relay(new URL(target));
    relay.#server.listen(0, '127.0.0.1');
    await once(relay.#server, 'listening');
    relay.url = `http://127.0.0.1:${relay.#server.address().port}`;
    return relay;
  }

  constructor({ hostname, port }) {
    this.#server = createServer({ allowHalfOpen: true }, async near => {
      near.on('error', () => {});
      await this.#whole;
      if (near.destroyed) return;
      const far = createConnection({ host: hostname, port: Number(port), allowHalfOpen: true });
      far.on('error', () => near.destroy());
      const pair = { near, far };
      this.#pairs.add(pair);
      near.pipe(far);
      far.pipe(near);
      near.once('close', () => {
        far.destroy();
        this.#pairs.delete(pair);
      });
    });
  }

  /**
   * Ends every connection: the gateway sees end of file, and what it had sent until then still
   * reaches the client, so that the loss of a byte would be the gateway's.
   */
  async sever() {
    this.#whole = new Promise(resolve => (this.#restore = resolve));
    await Promise.all([...this.#pairs].map(async ({ near, far }) => {
      const ended = once(far, 'close');
      near.unpipe(far);
      near.on('data', () => {}); // what the client says now is lost
      far.end();
      far.once('end', () => near.end());
      await ended;
      near.destroySoon();
    }));
  }

  /** Lets new connections through again. */
  restore() {
    this.#restore();
  }

  close() {
    this.#server.close();
    for (const { near, far } of this.#pairs) {
      near.destroy();
      far.destroy();
    }
  }
}
