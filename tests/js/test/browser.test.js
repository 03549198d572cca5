// JupyterLab's own services in a browser, from a page of another origin, straight at the gateway.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Browser, shot } from '../lib/browser.js';
import { V1 } from '../lib/frames.js';
import { Gateway } from '../lib/gateway.js';
import { bundle, PageServer } from '../lib/page-server.js';
import { until } from '../lib/until.js';

/** Kernel code: an image widget whose picture is drawn by hand, so that nothing but ipywidgets is needed. */
const WIDGET = `
import struct, zlib
def picture(width, height, colour):
    def chunk(kind, data):
        return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
    rows = (b'\\0' + bytes(colour) * width) * height
    return (b'\\x89PNG\\r\\n\\x1a\\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', width, height, 8, 2, 0, 0, 0))
            + chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b''))
import ipywidgets
image = ipywidgets.Image(value=picture(120, 80, (200, 80, 20)), format='png')
print('made', len(image.value))
`;

let own;
let foreign;
let gateway;
let browser;

before(async () => {
  const script = await bundle();
  own = await PageServer.start(script);
  foreign = await PageServer.start(script);
  gateway = await Gateway.start({ allowOrigin: own.origin });
  browser = await Browser.start();
});
after(async () => {
  await browser?.stop();
  await gateway?.stop();
  own?.stop();
  foreign?.stop();
});

test('a page of an allowed origin runs code and shares a widget with binary data, both ways', async () => {
  const page = await browser.page();
  await page.goto(own.origin);
  const call = (name, ...args) => page.evaluate(([name, args]) => client[name](...args), [name, args]);

  assert.deepEqual(await call('start', gateway.url, gateway.token), { language: 'python', protocol: V1 });
  assert.deepEqual(await call('execute', 'print(6 * 7)'), { status: 'ok', text: '42\n' });

  const made = await call('showImageWidget', WIDGET);
  assert.equal(made.status, 'ok', made.text);
  assert.equal(made.format, 'png');
  assert.deepEqual(made.paths, [['value']]);
  const size = () => page.locator('#widget').evaluate(img => [img.naturalWidth, img.naturalHeight]);
  await until('the kernel\'s picture is shown', async () => `${await size()}` === '120,80');
  await shot(page, 'browser-widget');

  const sent = await call('sendPicture', 333, 222);
  // A comm message may travel on a subshell of its own: ask until it is there.
  await until('the kernel has the page\'s picture', async () => {
    const { text } = await call('execute', 'import hashlib; print(len(image.value), hashlib.sha256(image.value).hexdigest())');
    return text === `${sent.bytes} ${sent.sha256}\n`;
  });

  await call('execute', 'image.value = picture(64, 48, (20, 80, 200))');
  await until('the kernel\'s second picture is shown', async () => `${await size()}` === '64,48');
  await shot(page, 'browser-widget-updated');
  await call('stop');
  assert.deepEqual(page.errors, []);
  await page.close();
});

test('a page of any other origin gets nothing, not even with the token', async () => {
  const page = await browser.page();
  await page.goto(foreign.origin);
  const outcome = await page.evaluate(async ([url, token]) => {
    const headers = { Authorization: `token ${token}` };
    return fetch(`${url}/api/kernels`, { headers }).then(() => 'answered', () => 'refused');
  }, [gateway.url, gateway.token]);
  assert.equal(outcome, 'refused');
  await page.close();
});
