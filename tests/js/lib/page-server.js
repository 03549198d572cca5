// Serves page/client.js, bundled for the browser, from an origin of its own.

import { once } from 'node:events';
import { createServer } from 'node:http';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const PAGE = '<!doctype html><meta charset="utf-8"><title>client</title><link rel="icon" href="data:,"><script src="/client.js"></script>';

/** Bundles once; each server is one more origin. The page has the client's functions in `globalThis.client`. */
export async function bundle() {
  const result = await build({
    entryPoints: [fileURLToPath(new URL('../page/client.js', import.meta.url))],
    bundle: true,
    write: false,
    format: 'iife',
    globalName: 'client',
    platform: 'browser',
    target: 'es2022',
    define: { global: 'globalThis' },
    external: ['ws'],
    logLevel: 'error'
  });
  return result.outputFiles[0].contents;
}

/** An HTTP server on a free port. */
export class PageServer {
  #server;

  static async start(script) {
    const page = new PageServer();
    page.#server = createServer((request, response) => {
      const wantsScript = request.url === '/client.js';
      response.setHeader('Content-Type', wantsScript ? 'text/javascript; charset=utf-8' : 'text/html; charset=utf-8');
      response.end(wantsScript ? script : PAGE);
    });
    page.#server.listen(0, '127.0.0.1');
    await once(page.#server, 'listening');
    page.origin = `http://127.0.0.1:${page.#server.address().port}`;
    return page;
  }

  stop() {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}
