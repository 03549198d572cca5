// Point 37: behind a reverse proxy with TLS and a path prefix, whether the gateway knows the prefix (--base-url) or the proxy cuts it off.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { Browser } from '../lib/browser.js';
import { Gateway } from '../lib/gateway.js';
import { NativeSession } from '../lib/native-session.js';
import { TlsProxy } from '../lib/tls-proxy.js';
import { ViewerPage } from '../lib/viewer-page.js';

const PREFIX = '/proxy/x';
const KINDS = {
  'a gateway with a base URL': { baseUrl: `${PREFIX}/`, strips: false },
  'a proxy that cuts the prefix off and says so': { baseUrl: undefined, strips: true }
};

for (const [kind, { baseUrl, strips }] of Object.entries(KINDS)) {
  test(`37: links, streams, WebSockets, frames and cookies work below a prefix behind TLS: ${kind}`, async () => {
    const gateway = await Gateway.start({ baseUrl });
    // The tests' own calls go to the gateway itself, below its base URL.
    if (baseUrl) gateway.url += PREFIX;
    const proxy = await TlsProxy.before(new URL(gateway.url).origin, { prefix: PREFIX, strips });
    const browser = await Browser.start(['--ignore-certificate-errors']);
    try {
      const viewer = await ViewerPage.open(browser, { url: proxy.url, token: gateway.token });
      await viewer.go();
      const cookies = await viewer.page.context().cookies();
      assert.deepEqual(cookies.map(({ secure, httpOnly, sameSite, path }) => ({ secure, httpOnly, sameSite, path })),
        [{ secure: true, httpOnly: true, sameSite: 'Strict', path: `${PREFIX}/` }]);

      const session = await NativeSession.start(gateway, 'behind');
      await viewer.page.getByRole('link', { name: /behind/ }).click();
      await viewer.run('from IPython.display import HTML\nprint("through the proxy")\nHTML("<p id=there>in its frame</p>")');
      await viewer.ended(1);
      await viewer.cell(1).getByText('through the proxy').first().waitFor();
      await viewer.frame('#there', viewer.cell(1));
      await session.run(`from IPython.display import display
display({"application/vnd.vegalite.v5+json": {"$schema": "https://vega.github.io/schema/vega-lite/v5.json", "data": {"values": [{"a": 1}]},
  "mark": "bar", "encoding": {"x": {"field": "a", "type": "quantitative"}}}}, raw=True)`);
      await viewer.frame('svg.marks', viewer.cell(2));

      const events = await viewer.page.evaluate(() => new Promise((done, failed) => {
        const socket = new WebSocket(new URL('./v1/sessions/behind/events?after=0', document.baseURI).href.replace('http', 'ws'));
        socket.onmessage = event => done(JSON.parse(event.data).seq);
        socket.onerror = () => failed(new Error('the socket was refused'));
      }));
      assert.equal(events, 1);
      const channels = await viewer.page.evaluate(id => new Promise((done, failed) => {
        const socket = new WebSocket(new URL(`./api/kernels/${id}/channels`, document.baseURI).href.replace('http', 'ws'));
        socket.onopen = () => done('open');
        socket.onerror = () => failed(new Error('the channels were refused'));
      }), session.id);
      assert.equal(channels, 'open');

      const download = viewer.page.waitForEvent('download');
      await viewer.page.getByRole('link', { name: '.ipynb' }).click();
      assert.equal(JSON.parse(readFileSync(await (await download).path(), 'utf8')).cells.length, 2);
      for (const tab of ['Plots', 'Variables', 'Cells']) await viewer.page.getByRole('link', { name: new RegExp(`^${tab}`) }).click();
      await viewer.page.reload();
      await viewer.ended(1);
      // Before the sign-in the gateway refuses, which the console tells.
      assert.deepEqual(viewer.page.errors.filter(error => !/status of 401/.test(error)), []);
      await viewer.page.getByRole('button', { name: 'Sign out' }).click();
      await viewer.page.getByLabel('Token').waitFor();
      assert.equal((await viewer.page.context().cookies()).length, 0);

      const isFavicon = path => path === '/favicon.ico';
      assert.deepEqual(proxy.seen.filter(path => !path.startsWith(`${PREFIX}/`) && !isFavicon(path)), [], 'asked for outside of the prefix');
      assert.deepEqual(viewer.left(), []);
    } finally {
      await browser.stop();
      await proxy.stop();
      await gateway.stop();
    }
  });
}
