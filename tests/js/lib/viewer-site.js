// Where the viewer is: at the gateway itself, or, with a gateway that has none, its build behind web/scripts/serve.js.

import { once } from 'node:events';
import { createServer } from 'node:http';
import { fileURLToPath } from 'node:url';
import { Process } from './process.js';

const SERVE = fileURLToPath(new URL('../../../web/scripts/serve.js', import.meta.url));

/** `url` has no trailing slash; `isGateway` tells whether the gateway serves the viewer itself. */
export class ViewerSite {
  #process;

  /** @param {import('./gateway.js').Gateway} gateway */
  static async start(gateway) {
    const site = new ViewerSite();
    const page = await fetch(`${gateway.url}/`);
    site.isGateway = page.ok && (await page.text()).includes('id="app"');
    site.token = gateway.token;
    if (site.isGateway) {
      site.url = gateway.url;
      return site;
    }
    site.#process = new Process(process.execPath, [SERVE, '0'], {
      env: { PATH: process.env.PATH, HIMALIA_URL: gateway.url, HIMALIA_TOKEN: gateway.token }
    });
    [, site.url] = await site.#process.line(/(http:\/\/127\.0\.0\.1:\d+)/);
    return site;
  }

  async stop() {
    await this.#process?.stop();
  }
}

/** A server that must not be called: `requests` has what was asked of it. */
export class Trap {
  requests = [];
  #server;

  static async start() {
    const trap = new Trap();
    trap.#server = createServer((request, response) => {
      trap.requests.push(`${request.method} ${request.url}`);
      response.writeHead(200, { 'Access-Control-Allow-Origin': '*' }).end('trapped');
    });
    trap.#server.listen(0, '127.0.0.1');
    await once(trap.#server, 'listening');
    trap.url = `http://127.0.0.1:${trap.#server.address().port}`;
    return trap;
  }

  async stop() {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }
}
