// Signing in: by the link that is good once, by the token, and what of them stays in the browser. What it keeps of the viewer's files.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Browser } from '../lib/browser.js';
import { Gateway } from '../lib/gateway.js';

let gateway;
let link;
before(async () => {
  gateway = await Gateway.start();
  link = gateway.output.match(/(http\S+#sign-in=\S+)/)?.[1];
  assert.ok(link, `no link:\n${gateway.output}`);
});
after(async () => {
  await gateway?.stop();
});

/** A page of a fresh browser, and all that it sends. */
async function inFreshBrowser(body) {
  const browser = await Browser.start();
  try {
    const page = await browser.page();
    const sent = [];
    page.on('request', request => sent.push(`${request.url().split('#')[0]} ${request.headers().referer ?? ''}`));
    await body(page, sent);
  } finally {
    await browser.stop();
  }
}

/** Every address that the tab's history has. */
async function remembered(page) {
  const client = await page.context().newCDPSession(page);
  return (await client.send('Page.getNavigationHistory')).entries.map(({ url }) => url);
}

/** Nothing that could sign in is in an address, in what was sent as one, or where scripts could read it. */
async function leavesNothing(page, sent, secret) {
  const kept = await page.evaluate(() => JSON.stringify([location.href, document.referrer, document.cookie, { ...localStorage }, { ...sessionStorage }]));
  for (const text of [kept, ...sent]) assert.ok(!text.includes(secret), text);
}

test('sign-in: the link is good once; the second time it says so, and what to do', async () => {
  const code = link.split('#sign-in=')[1];
  await inFreshBrowser(async (page, sent) => {
    await page.goto(link);
    await page.getByRole('heading', { name: 'Sessions' }).waitFor();
    await leavesNothing(page, sent, code);
    assert.deepEqual((await remembered(page)).filter(url => url.includes(code)), []);
    const [cookie] = await page.context().cookies();
    assert.deepEqual([cookie.httpOnly, cookie.sameSite, cookie.path, cookie.secure], [true, 'Strict', '/', false]);
    assert.ok(!code.includes(cookie.value));
    await page.reload();
    await page.getByRole('heading', { name: 'Sessions' }).waitFor();
  });
  await inFreshBrowser(async (page, sent) => {
    await page.goto(link);
    const said = await page.getByRole('alert').innerText();
    assert.match(said, /has been used.*Paste the token/);
    assert.ok(!page.url().includes('sign-in='));
    assert.equal((await page.context().cookies()).length, 0);
    await page.getByLabel('Token').fill(gateway.token);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('heading', { name: 'Sessions' }).waitFor();
    await leavesNothing(page, sent, gateway.token);
  });
});

test('sign-in: a link with the token in its fragment signs in and leaves no trace; one with a query does not', async () => {
  await inFreshBrowser(async (page, sent) => {
    await page.goto(`${gateway.url}/#token=${gateway.token}`);
    await page.getByRole('heading', { name: 'Sessions' }).waitFor();
    await leavesNothing(page, sent, gateway.token);
    assert.deepEqual((await remembered(page)).filter(url => url.includes(gateway.token)), []);
  });
  await inFreshBrowser(async page => {
    await page.goto(`${gateway.url}/#token=wrong`);
    await page.getByRole('alert').waitFor();
    assert.ok(!page.url().includes('token='));
    await page.goto(`${gateway.url}/?token=${gateway.token}`);
    await page.getByLabel('Token').waitFor();
    assert.equal((await page.context().cookies()).length, 0);
  });
});

test('sign-in: a token that is pasted, a wrong one first, and signing out', async () => {
  await inFreshBrowser(async (page, sent) => {
    await page.goto(`${gateway.url}/#/s/somewhere`);
    const field = page.getByLabel('Token');
    assert.equal(await field.getAttribute('type'), 'password');
    await field.fill('not-the-token');
    await field.press('Enter');
    await page.getByRole('alert').waitFor();
    assert.equal(await field.inputValue(), '');
    await field.fill(` ${gateway.token}\n`);
    await field.press('Enter');
    // Where the user wanted to go is where the user is then.
    await page.getByText('There is no such session').waitFor();
    await leavesNothing(page, sent, gateway.token);
    const status = () => page.evaluate(() => fetch('./v1/sessions').then(answer => answer.status));
    assert.equal(await status(), 200);
    const { value } = (await page.context().cookies())[0];
    await page.getByRole('button', { name: 'Sign out' }).click();
    await field.waitFor();
    assert.equal(await status(), 401);
    // The gateway has forgotten it too.
    const name = `himalia-${new URL(gateway.url).port}`;
    assert.equal((await fetch(`${gateway.url}/v1/sessions`, { headers: { Cookie: `${name}=${value}` } })).status, 401);
  });
});

test('36: assets are cached permanently and come compressed, pages are revalidated by their tag', async () => {
  const index = await fetch(`${gateway.url}/`);
  assert.equal(index.headers.get('cache-control'), 'no-cache');
  assert.match(index.headers.get('etag') ?? '', /^"/);
  assert.equal(index.headers.get('referrer-policy'), 'no-referrer');
  const again = await fetch(`${gateway.url}/`, { headers: { 'If-None-Match': index.headers.get('etag') } });
  assert.deepEqual([again.status, await again.text()], [304, '']);
  const assets = [...(await index.text()).matchAll(/(?:src|href)="\.\/(assets\/[^"]+)"/g)].map(([, path]) => path);
  assert.ok(assets.some(path => path.endsWith('.js')) && assets.some(path => path.endsWith('.css')), assets.join());
  for (const path of assets) {
    const { status, headers } = await fetch(`${gateway.url}/${path}`, { headers: { 'Accept-Encoding': 'br' } });
    assert.equal(status, 200);
    assert.match(headers.get('cache-control') ?? '', /max-age=31536000, immutable/);
    assert.equal(headers.get('content-encoding'), 'br');
    assert.match(headers.get('etag') ?? '', /^"/);
  }
  for (const path of ['frame.html', 'frame/frame.js', 'icon.svg']) {
    assert.equal((await fetch(`${gateway.url}/${path}`)).headers.get('cache-control'), 'no-cache', path);
  }
  await inFreshBrowser(async page => {
    await page.goto(gateway.url);
    await page.getByLabel('Token').waitFor();
    await page.reload();
    await page.getByLabel('Token').waitFor();
    const loaded = await page.evaluate(() => performance.getEntriesByType('resource').filter(entry => entry.name.includes('/assets/'))
      .map(({ name, transferSize, decodedBodySize }) => ({ name, transferSize, isThere: decodedBodySize > 0 })));
    assert.ok(loaded.length > 0);
    for (const { name, transferSize, isThere } of loaded) assert.deepEqual([transferSize, isThere], [0, true], `${name} was loaded once more`);
  });
});
