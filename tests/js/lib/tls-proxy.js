// A reverse proxy with TLS, as stands before a gateway that others reach: it keeps Host and says by which scheme it was called.

import { once } from 'node:events';
import { request } from 'node:http';
import { createServer } from 'node:https';
import { createConnection } from 'node:net';
import { pipeline } from 'node:stream';
import { certificate } from './certificate.js';
import { Scratch } from './surroundings.js';

/** `url` has the prefix and no trailing slash. `seen` has the paths that were asked for. */
export class TlsProxy {
  seen = [];
  #server;
  #scratch = new Scratch();
  #target;
  #prefix;
  #strips;
  #sockets = new Set();

  /**
   * Before the gateway at `target`, for addresses that begin with `prefix`; all others return 404.
   * @param {{prefix: string, strips?: boolean}} options with `strips` the gateway sees no prefix but in `X-Forwarded-Prefix`.
   */
  static async before(target, { prefix, strips = false }) {
    const proxy = new TlsProxy();
    proxy.#target = new URL(target);
    proxy.#prefix = prefix;
    proxy.#strips = strips;
    const { key, cert } = certificate(proxy.#scratch);
    proxy.#server = createServer({ key, cert }, (incoming, outgoing) => proxy.#hand(incoming, outgoing));
    proxy.#server.on('upgrade', (incoming, near, early) => proxy.#upgrade(incoming, near, early));
    proxy.#server.on('connection', socket => {
      proxy.#sockets.add(socket);
      socket.once('close', () => proxy.#sockets.delete(socket));
    });
    proxy.#server.listen(0, '127.0.0.1');
    await once(proxy.#server, 'listening');
    proxy.url = `https://127.0.0.1:${proxy.#server.address().port}${prefix}`;
    return proxy;
  }

  /** The path for the gateway and the headers to send with it; null for what is not the gateway's. */
  #onward({ url, headers }) {
    this.seen.push(url);
    if (url !== this.#prefix && !url.startsWith(`${this.#prefix}/`)) return null;
    const path = this.#strips ? url.slice(this.#prefix.length) || '/' : url;
    const prefix = this.#strips ? { 'x-forwarded-prefix': this.#prefix } : {};
    return { path, headers: { ...headers, 'x-forwarded-proto': 'https', ...prefix } };
  }

  #hand(incoming, outgoing) {
    const onward = this.#onward(incoming);
    if (!onward) return outgoing.writeHead(404).end();
    const { hostname, port } = this.#target;
    const call = request({ hostname, port, method: incoming.method, ...onward }, answer => {
      outgoing.writeHead(answer.statusCode, answer.rawHeaders);
      pipeline(answer, outgoing, () => {});
    });
    call.on('error', () => outgoing.headersSent || outgoing.writeHead(502).end());
    outgoing.on('close', () => call.destroy());
    incoming.pipe(call);
  }

  #upgrade(incoming, near, early) {
    const onward = this.#onward(incoming);
    if (!onward) return near.destroy();
    const far = createConnection({ host: this.#target.hostname, port: Number(this.#target.port) });
    const lines = Object.entries(onward.headers).map(([name, value]) => `${name}: ${value}\r\n`);
    far.write(`${incoming.method} ${onward.path} HTTP/1.1\r\n${lines.join('')}\r\n`);
    far.write(early);
    near.pipe(far).pipe(near);
    for (const socket of [near, far]) socket.on('error', () => socket.destroy());
    near.once('close', () => far.destroy());
  }

  async stop() {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await once(this.#server, 'close');
    this.#scratch.remove();
  }
}
