// Output is hostile: whatever a kernel sends, nothing of it runs in the viewer's document and nothing leaves by it.

import assert from 'node:assert/strict';
import { after, before } from 'node:test';
import { NativeSession } from '../lib/native-session.js';
import { until } from '../lib/until.js';
import { Trap } from '../lib/viewer-site.js';
import { viewerSuite } from '../lib/viewer-suite.js';

let trap;
before(async () => {
  trap = await Trap.start();
});
const suite = viewerSuite();
after(async () => {
  await trap?.stop();
});

/** Python that shows one bundle as it is. */
const show = bundle => `from IPython.display import display\ndisplay(${JSON.stringify(bundle)}, raw=True)`;

/** A script for a frame: each of `tries` is awaited, and what came of it is written into the frame's own document. */
const trying = tries => `<ul id="tries"></ul><script>
const tries = {${Object.entries(tries).map(([name, code]) => `${JSON.stringify(name)}: async () => { ${code} }`)}};
(async () => {
  for (const [name, run] of Object.entries(tries)) {
    let outcome;
    try { outcome = 'got ' + (await run()); } catch (error) { outcome = 'refused ' + error.name; }
    const line = document.createElement('li'); line.textContent = name + ': ' + outcome; tries_.append(line);
  }
  const end = document.createElement('li'); end.id = 'over'; tries_.append(end);
})();
</script>`.replace('(async', "const tries_ = document.getElementById('tries');\n(async");

/** What a frame's tries came to, by name. */
async function outcomes(viewer, count) {
  const frame = await viewer.frame('#over', viewer.cell(count));
  const lines = await frame.locator('#tries li:not(#over)').allInnerTexts();
  return Object.fromEntries(lines.map(line => line.split(': ')));
}

suite.test('16: a script in HTML runs in its frame and reaches nothing', async viewer => {
  const session = await NativeSession.start(suite.gateway, 'reaching');
  await session.run(show({ 'text/html': trying({
    document: 'return parent.document.title',
    cookie: 'return document.cookie',
    storage: 'return localStorage.length',
    api: `return (await fetch('${suite.site.url}/v1/sessions')).status`,
    socket: `return await new Promise((ok, no) => { const ws = new WebSocket('${suite.site.url.replace('http', 'ws')}/v1'); ws.onopen = ok; ws.onerror = () => no(new TypeError()); })`
  }) }));
  await viewer.go('s/reaching');
  const seen = await outcomes(viewer, 1);
  assert.deepEqual(Object.keys(seen), ['document', 'cookie', 'storage', 'api', 'socket']);
  for (const [name, outcome] of Object.entries(seen)) assert.match(outcome, /^refused (SecurityError|TypeError)$/, name);
}, { isNoisy: true });

suite.test('17: a payload in every place that takes text runs nowhere in the viewer\'s document', async viewer => {
  const attack = '<img src=x onerror="top.owned=1;alert(1)"><script>top.owned=1;alert(1)</script>';
  const session = await NativeSession.start(suite.gateway, 'payloads', { labels: { team: attack.slice(0, 60) } });
  await session.run(show({ 'image/svg+xml': `<svg xmlns="http://www.w3.org/2000/svg" width="90" height="20" onload="top.owned=1"><script>top.owned=1</script><text y="15">drawn</text></svg>` }));
  await session.run(show({ 'text/markdown': `**shown** ${attack} [link](javascript:top.owned=1) <svg onload="top.owned=1">` }));
  await session.run(show({ 'application/json': { [attack]: [attack] } }));
  await session.run(show({ 'application/javascript': 'top.owned=1' }));
  await session.run(`class Odd(Exception): pass\nOdd.__name__ = ${JSON.stringify(attack)}\nraise Odd(${JSON.stringify(attack)})`);
  await session.run(`print(${JSON.stringify(`\x1b]8;;javascript:top.owned=1\x1b\\${attack}\x1b]8;;\x1b\\`)})`);
  await session.run(`# ${attack}\ntricky = ${JSON.stringify(attack)}`);
  const dialogs = [];
  viewer.page.on('dialog', dialog => { dialogs.push(dialog.message()); void dialog.dismiss(); });
  await viewer.go('s/payloads');
  await viewer.ended(7);
  for (let count = 7; count >= 1; count -= 1) {
    await viewer.page.keyboard.press('k');
    await viewer.page.locator('.cell.is-selected .cell-count', { hasText: `[${count}]` }).waitFor();
  }
  await viewer.cell(2).locator('.markdown strong').waitFor();
  for (const route of ['', 's/payloads/variables', 's/payloads/variables/tricky', 's/payloads/plots']) {
    await viewer.go(route);
    await viewer.page.locator('main').getByText(/payloads|tricky|SVG|All/i).first().waitFor();
  }
  await viewer.page.locator('.gallery a').first().click();
  await viewer.page.locator('.plate img').waitFor();
  assert.equal(await viewer.page.evaluate(() => 'owned' in globalThis), false);
  assert.deepEqual(dialogs, []);
}, { isNoisy: true });

suite.test('18: nothing leaves by an output: pictures, styles, scripts, forms, frames, beacons, prefetches', async viewer => {
  const session = await NativeSession.start(suite.gateway, 'leaking');
  const at = name => `${trap.url}/${name}`;
  await session.run(show({ 'text/html': `
    <img src="${at('img')}"><link rel=stylesheet href="${at('css')}"><link rel=prefetch href="${at('prefetch')}">
    <link rel=dns-prefetch href="${at('dns')}"><link rel=preconnect href="${at('preconnect')}">
    <style>body { background: url(${at('style')}) } @font-face { font-family: x; src: url(${at('font')}) } p { font-family: x }</style><p>text</p>
    <script src="${at('script')}"></script><iframe src="${at('iframe')}"></iframe><object data="${at('object')}"></object>
    <video src="${at('video')}"></video><form id=f method=post action="${at('form')}"></form>
    <script>
      document.getElementById('f').submit(); navigator.sendBeacon('${at('beacon')}', 'x'); fetch('${at('fetch')}').catch(() => {});
      new Image().src = '${at('image')}'; try { new Worker('${at('worker')}') } catch {} new EventSource('${at('events')}');
      import('${at('import')}').catch(() => {});
      const end = document.createElement('b'); end.id = 'tried'; end.textContent = 'tried'; document.body.append(end);
    </script>` }));
  await session.run(show({ 'text/markdown': `**md** ![x](${at('markdown')}) <img src="${at('markdown-img')}">` }));
  await session.run(show({ 'image/svg+xml': `<svg xmlns="http://www.w3.org/2000/svg" width="60" height="20"><image href="${at('svg')}" width="9" height="9"/></svg>` }));
  await session.run(show({ 'text/html': `<meta http-equiv=refresh content="0;url=${at('refresh')}"><script>location.href = '${at('location')}'</script>` }));
  await viewer.go('s/leaking');
  await viewer.cell(4).locator('iframe').waitFor();
  await until('the policy has refused to move the frame', () => viewer.page.errors.some(error => /^Framing/.test(error)));
  await viewer.page.keyboard.press('k');
  for (let at = 4; at > 1; at -= 1) await viewer.page.keyboard.press('k');
  await viewer.frame('#tried', viewer.cell(1));
  await viewer.cell(2).locator('.markdown strong').waitFor();
  await viewer.cell(3).locator('img').waitFor();
  // Whatever was sent before this request is there before its answer is.
  await viewer.page.evaluate(() => fetch('./icon.svg').then(answer => answer.text()));
  assert.deepEqual(trap.requests, []);
}, { isNoisy: true });

suite.test('19: bytes that a kernel made are served with a sandbox, nosniff and their type', async (_, gateway) => {
  const session = await NativeSession.start(gateway, 'bytes');
  const result = await session.run(show({ 'text/html': `<script>1</script>${'x'.repeat(4000)}`, 'text/plain': 'html' }));
  const { artifact } = result.outputs[0].data['text/html'];
  await session.write('page.html', '<script>1</script>');
  const kinds = {
    [`/v1/artifacts/${artifact.replace('sha256:', '')}`]: /./,
    [`${session.path}/files/page.html`]: /./,
    [`${session.path}/notebook.ipynb`]: /^application\/x-ipynb\+json/,
    [`${session.path}/script.py`]: /^text\/x-python/
  };
  for (const [path, kind] of Object.entries(kinds)) {
    const { status, headers } = await gateway.call('GET', path);
    assert.equal(status, 200, path);
    assert.match(headers.get('content-type') ?? '', kind, path);
    assert.equal(headers.get('x-content-type-options'), 'nosniff', path);
    assert.match(headers.get('content-disposition') ?? '', /^attachment/, path);
    assert.match(headers.get('content-security-policy') ?? '', /^sandbox(;|$)/, path);
  }
});

suite.test('21: a frame cannot move the window, open another, ask for a permission or fill the screen', async viewer => {
  const session = await NativeSession.start(suite.gateway, 'moving');
  await session.run(show({ 'text/html': trying({
    top: `top.location.href = '${trap.url}/top'; return 'moved'`,
    popup: `if (open('${trap.url}/popup') === null) throw new TypeError(); return 'opened'`,
    link: `const a = document.createElement('a'); a.href = '${trap.url}/link'; a.target = '_top'; a.click(); throw new TypeError()`,
    camera: 'await navigator.mediaDevices.getUserMedia({ video: true }); return 1',
    place: 'await new Promise((ok, no) => navigator.geolocation.getCurrentPosition(ok, no)).catch(e => { throw new TypeError(e.message) }); return 1',
    fullscreen: 'await document.documentElement.requestFullscreen(); return 1',
    clipboard: 'await navigator.clipboard.readText(); return 1'
  }) }));
  const opened = [];
  viewer.page.on('popup', page => opened.push(page.url()));
  await viewer.go('s/moving');
  const seen = await outcomes(viewer, 1);
  assert.equal(Object.keys(seen).length, 7);
  for (const [name, outcome] of Object.entries(seen)) assert.match(outcome, /^refused /, name);
  assert.ok(viewer.page.url().startsWith(`${suite.site.url}/`));
  assert.deepEqual([opened, trap.requests], [[], []]);
}, { isNoisy: true });

suite.test('6: an output that computes without end leaves Interrupt working', async viewer => {
  const session = await NativeSession.start(suite.gateway, 'spinning');
  await viewer.go('s/spinning');
  const id = await session.begin(`${show({ 'text/html': '<p>spins</p><script>setTimeout(() => { for (;;) {} }, 0)</script>' })}\nimport time\nwhile True: time.sleep(0.01)`);
  await viewer.cell(1).locator('iframe').waitFor();
  await viewer.page.keyboard.press('i');
  await viewer.page.keyboard.press('i');
  await viewer.page.getByRole('button', { name: 'Interrupt' }).waitFor();
  assert.equal((await session.over(id)).status, 'interrupted');
}, { isNoisy: true });
