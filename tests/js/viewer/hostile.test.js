// Output is hostile: whatever a kernel sends, nothing of it runs in the viewer's document and nothing leaves by it.

import assert from 'node:assert/strict';
import { after, before } from 'node:test';
import { NativeSession } from '../lib/native-session.js';
import { until } from '../lib/until.js';
import { documents, scriptedLinks, Trap, ways } from '../lib/trap.js';
import { ViewerPage } from '../lib/viewer-page.js';
import { ViewerSite } from '../lib/viewer-site.js';
import { viewerSuite } from '../lib/viewer-suite.js';

let trap;
before(async () => {
  trap = await Trap.start();
});
const suite = viewerSuite(undefined, () => trap.browser);
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

/**
 * Everything that `ways` tries from a page without a policy, until the trap has heard all of it: so the trap hears, and whatever was sent
 * before has come to it.
 */
async function everythingIsHeard(viewer, tag) {
  const ear = await trap.ear();
  const open = await suite.browser.page();
  await open.goto(trap.page(`<!doctype html>${ways(tag, ear)}${scriptedLinks(tag, ear)}`), { waitUntil: 'commit' });
  const names = ['hint', 'ahead', 'prefetch', 'preload', 'module', 'css', 'style', 'img', 'video', 'object', 'iframe', 'script', 'beacon', 'image',
    'events', 'socket', 'transport', 'import', 'fetch', 'turn', 'scripted-dns-prefetch', 'scripted-preconnect'].map(name => `${tag}-${name}`);
  await until('the trap hears all of a page without a policy', () => names.every(name => trap.names.has(name)));
  await until('and its packets', () => ear.heard.some(line => /^udp: (20|28) bytes/.test(line)) && ear.heard.some(line => /^tcp: GET/.test(line)));
  await open.close();
}

/** Names of the trap with this tag that were looked up. */
const lookedUp = tag => [...trap.names].filter(name => name.startsWith(`${tag}-`));

suite.test('18: nothing leaves by an output: no request, no packet, no name is looked up', async viewer => {
  const ear = await trap.ear();
  const session = await NativeSession.start(suite.gateway, 'leaking');
  const at = name => `http://leak-${name}.trap.test:${ear.port}/${name}`;
  await session.run(show({ 'text/html': `${ways('leak', ear)}${scriptedLinks('leak', ear)}<form id=f method=post action="${at('form')}"></form>
    <script>document.getElementById('f').submit(); try { new Worker('${at('worker')}') } catch {}</script>` }));
  await session.run(show({ 'text/markdown': `**md** ![x](${at('markdown')}) <img src="${at('markdown-img')}"> <link rel=dns-prefetch href="${at('markdown-link')}">` }));
  await session.run(show({ 'image/svg+xml': `<svg xmlns="http://www.w3.org/2000/svg" width="60" height="20"><image href="${at('svg')}" width="9" height="9"/><text y="15">svg</text></svg>` }));
  await session.run(show({ 'text/html': `<meta http-equiv=refresh content="0;url=${at('refresh')}"><script>location.href = '${at('location')}'</script>` }));
  await viewer.go('s/leaking');
  await viewer.cell(4).locator('iframe').waitFor();
  await until('the policy has refused to move the frame', () => viewer.page.errors.some(error => /^Framing/.test(error)));
  await viewer.page.keyboard.press('k');
  for (let at = 4; at > 1; at -= 1) await viewer.page.keyboard.press('k');
  await viewer.frame('#tried', viewer.cell(1));
  await viewer.cell(2).locator('.markdown strong').waitFor();
  await viewer.cell(3).locator('img').waitFor();
  await everythingIsHeard(viewer, 'open');
  assert.deepEqual([ear.heard, lookedUp('leak')], [[], []]);
}, { isNoisy: true });

suite.test('18: documents within an output are none, however they are made', async viewer => {
  const ear = await trap.ear();
  const session = await NativeSession.start(suite.gateway, 'nested');
  await session.run(show({ 'text/html': documents(ways('nested', ear)) }));
  await viewer.go('s/nested');
  const frame = await viewer.frame('#nested', viewer.cell(1));
  assert.equal(await frame.locator('#nested').textContent(), 'kept');
  await everythingIsHeard(viewer, 'open-nested');
  assert.deepEqual([ear.heard, lookedUp('nested')], [[], []]);
  // The viewer itself continues.
  await viewer.run('"still here"');
  await viewer.ended(2);
}, { isNoisy: true });

suite.test('18: where the browser does not know the header for connections, only links that a script makes look a name up', async () => {
  const ear = await trap.ear();
  const session = await NativeSession.start(suite.gateway, 'older');
  await session.run(show({ 'text/html': `${ways('older', ear)}${documents(ways('older-nested', ear))}` }));
  const site = await ViewerSite.start(suite.gateway, { without: 'connection-allowlist' });
  const viewer = await ViewerPage.open(suite.browser, site);
  try {
    assert.equal((await fetch(`${site.url}/frame.html`)).headers.get('connection-allowlist'), null);
    await viewer.go('s/older');
    const frame = await viewer.frame('#tried', viewer.cell(1));
    assert.equal(await frame.locator('#nested').textContent(), 'kept');
    await everythingIsHeard(viewer, 'open-older');
    assert.deepEqual([ear.heard, lookedUp('older')], [[], []]);
  } finally {
    await viewer.close();
    await site.stop();
  }
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

/** What needs a permission or a click in a page, with both given: in a page of its own each of it works. */
const powers = {
  camera: 'const stream = await navigator.mediaDevices.getUserMedia({ video: true }); return stream.getTracks().length',
  place: 'await new Promise((ok, no) => navigator.geolocation.getCurrentPosition(ok, error => no(new TypeError(error.message)))); return 1',
  clipboard: 'await navigator.clipboard.readText(); return 1',
  fullscreen: 'await document.documentElement.requestFullscreen(); await document.exitFullscreen(); return 1'
};
/** `tries` begin with a click, which gives their document all that a click can give. */
const onClick = tries => `<button id="begin">begin</button>${trying(tries).replace('(async () => {', "document.getElementById('begin').onclick = async () => {")
  .replace('})();\n</script>', '};\n</script>')}`;

suite.test('21: a frame cannot move the window, open another, use a permission or fill the screen, with a click and every permission given', async viewer => {
  const ear = await trap.ear();
  const permissions = ['camera', 'geolocation', 'clipboard-read'];
  await viewer.page.context().grantPermissions(permissions);
  await viewer.page.context().setGeolocation({ latitude: 1, longitude: 2 });
  // The tries themselves are right: a page that is no frame can do it all.
  const control = await suite.browser.page();
  await control.goto(trap.page(`<!doctype html>${onClick({ ...powers, popup: `if (open('${ear.url}/control') === null) throw new TypeError(); return 1` })}`));
  await control.locator('#begin').click();
  await control.locator('#over').waitFor({ state: 'attached' });
  for (const line of await control.locator('#tries li:not(#over)').allInnerTexts()) assert.match(line, /: got /);
  await until('the trap hears of the window that was opened', () => ear.heard.some(line => line.includes('/control')));
  await control.close();
  ear.heard.length = 0;

  const session = await NativeSession.start(suite.gateway, 'moving');
  await session.run(show({ 'text/html': onClick({
    ...powers,
    popup: `if (open('${ear.url}/popup') === null) throw new TypeError(); return 'opened'`,
    link: `const a = document.createElement('a'); a.href = '${ear.url}/link'; a.target = '_top'; document.body.append(a); a.click(); throw new TypeError()`,
    top: `top.location.href = '${ear.url}/top'; return 'moved'`
  }) }));
  const opened = [];
  viewer.page.on('popup', page => opened.push(page.url()));
  await viewer.go('s/moving');
  const frame = await viewer.frame('#begin', viewer.cell(1));
  // A frame that is drawn anew between its appearance and the click has not heard of it.
  await until('the tries have begun', async () => {
    await frame.locator('#begin').click();
    return (await frame.locator('#tries li').count()) > 0;
  });
  const seen = await outcomes(viewer, 1);
  assert.deepEqual(Object.keys(seen), [...Object.keys(powers), 'popup', 'link', 'top']);
  for (const [name, outcome] of Object.entries(seen)) assert.match(outcome, /^refused /, name);
  assert.ok(viewer.page.url().startsWith(`${suite.site.url}/`));
  await everythingIsHeard(viewer, 'open-moving');
  assert.deepEqual([opened, ear.heard], [[], []]);
}, { isNoisy: true });

suite.test('16: messages that another frame, window or site forges draw nothing and change nothing', async viewer => {
  const forged = `{ type: 'render', kind: 'html', data: '<b id=forged>forged</b><script>top.owned = 1</script>', theme: 'light' }`.replace('</script>', '<\\/script>');
  const session = await NativeSession.start(suite.gateway, 'forging');
  // It counts what comes to it, so that the test knows when the forged messages have come.
  await session.run(show({ 'text/html': '<p id="victim">0</p><script>let got = 0; addEventListener("message", () => { document.getElementById("victim").textContent = ++got; })</script>' }));
  await session.run(show({ 'text/html': `<p id="forger">forges</p><script>setInterval(() => {
    for (let at = 0; at < parent.frames.length; at += 1) {
      parent.frames[at].postMessage(${forged}, '*', [new MessageChannel().port1]);
      if (parent.frames[at] !== window) try { parent.frames[at].location = 'data:text/html,<b id=forged>forged</b>'; } catch {}
    }
    for (const message of [{ type: 'resize', height: 5000 }, { type: 'failed', reason: 'forged' }, ${forged}]) parent.postMessage(message, '*', [new MessageChannel().port1]);
  }, 50)</script>` }));
  await viewer.go('s/forging');
  await viewer.page.evaluate(() => { globalThis.got = 0; addEventListener('message', () => { globalThis.got += 1; }); });
  await viewer.frame('#forger', viewer.cell(2));
  const victim = await viewer.frame('#victim', viewer.cell(1));
  await until('forged messages have come', async () => Number(await victim.locator('#victim').textContent()) >= 5 && await viewer.page.evaluate(() => globalThis.got >= 15));
  for (const count of [1, 2]) {
    assert.equal(await viewer.cell(count).frameLocator('iframe').locator('#forged').count(), 0);
    assert.ok(await viewer.cell(count).locator('iframe').evaluate(frame => frame.clientHeight) < 400);
  }
  assert.equal(await viewer.page.getByText('forged', { exact: true }).count(), 0);
  assert.equal(await viewer.page.evaluate(() => 'owned' in globalThis), false);

  // A page of another site may neither hold a frame of the viewer nor keep hold of a window with it.
  const other = await suite.browser.page();
  await other.goto(trap.page(`<!doctype html><iframe src="${suite.site.url}/frame.html"></iframe><iframe src="${suite.site.url}/"></iframe><button>open</button><script>
    setInterval(() => { for (let at = 0; at < frames.length; at += 1) frames[at].postMessage(${forged}, '*', [new MessageChannel().port1]); }, 50);
    document.querySelector('button').onclick = () => { globalThis.opened = open('${suite.site.url}/#/s/forging'); };
  </script>`));
  await until('the browser refuses to frame both', () => other.errors.filter(error => /frame-ancestors/.test(error)).length >= 2);
  const [opened] = await Promise.all([other.waitForEvent('popup'), other.getByRole('button').click()]);
  await opened.locator('main').waitFor();
  await until('the window is out of reach', () => other.evaluate(() => globalThis.opened.closed));
  assert.equal(await opened.evaluate(() => globalThis.opener), null);
  for (const frame of other.frames()) assert.equal(await frame.locator('#forged').count(), 0);
  await opened.close();
  await other.close();
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
