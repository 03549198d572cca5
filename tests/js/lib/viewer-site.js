// Where the viewer is: at the gateway itself, or, with a gateway that has none or with TEST_VIEWER_DIST, its build behind web/scripts/serve.js.

import { fileURLToPath } from 'node:url';
import { Process } from './process.js';

const SERVE = fileURLToPath(new URL('../../../web/scripts/serve.js', import.meta.url));

/** `url` has no trailing slash; `isGateway` tells whether the gateway serves the viewer itself. */
export class ViewerSite {
  #process;

  /**
   * @param {import('./gateway.js').Gateway} gateway
   * @param {{without?: string}} options a header that the build is served without, as to a browser that does not know it.
   */
  static async start(gateway, { without } = {}) {
    const site = new ViewerSite();
    const page = await fetch(`${gateway.url}/`);
    site.isGateway = page.ok && (await page.text()).includes('id="app"');
    site.token = gateway.token;
    if (without || process.env.TEST_VIEWER_DIST) site.isGateway = false;
    if (site.isGateway) {
      site.url = gateway.url;
      return site;
    }
    site.#process = new Process(process.execPath, [SERVE, '0'], {
      env: { PATH: process.env.PATH, HIMALIA_URL: gateway.url, HIMALIA_TOKEN: gateway.token, HIMALIA_WITHOUT: without ?? '' }
    });
    [, site.url] = await site.#process.line(/(http:\/\/127\.0\.0\.1:\d+)/);
    return site;
  }

  async stop() {
    await this.#process?.stop();
  }
}
