// Signing in with an identity provider, and out again.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Browser, shot } from '../lib/browser.js';
import { Gateway } from '../lib/gateway.js';
import { Process } from '../lib/process.js';
import { Scratch, testPython } from '../lib/surroundings.js';

const PROVIDER = fileURLToPath(new URL('../../python/support/identity.py', import.meta.url));
const SECRET = 's3cret of the client: a+b';

let provider;
let gateway;
let scratch;

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

before(async () => {
  scratch = new Scratch();
  provider = new Process(testPython(), [PROVIDER], { env: { PATH: process.env.PATH } });
  const [issuer] = await provider.line(/http:\/\/127\.0\.0\.1:\d+/);
  const port = await freePort();
  const secret = join(scratch.directory('secret'), 'secret');
  writeFileSync(secret, SECRET, { mode: 0o600 });
  gateway = await Gateway.start({
    port,
    config: `[tenants.acme]
[oidc]
issuer = "${issuer}"
name = "Example Lab"
client_id = "himalia"
client_secret_file = "${secret}"
redirect_url = "http://127.0.0.1:${port}/viewer/oidc/callback"
[[oidc.grants]]
value = "analysts"
tenant = "acme"
scope = "execute"
`
  });
});
after(async () => {
  await gateway?.stop();
  await provider?.stop();
  scratch?.remove();
});

test('identity provider: a person signs in by a link, runs code, and signs out', async () => {
  const browser = await Browser.start();
  try {
    const page = await browser.page();
    await page.goto(gateway.url);
    const link = page.getByRole('link', { name: 'Sign in with Example Lab' });
    await link.waitFor();
    await page.getByLabel('Token').waitFor();
    await shot(page, 'sign-in-provider');
    // The console has the refusal that made the viewer ask who calls; after that there must be none.
    page.errors.length = 0;
    await link.click();
    await page.getByRole('heading', { name: 'Sessions' }).waitFor();
    assert.equal(new URL(page.url()).search, '');
    const kept = await page.evaluate(() => JSON.stringify([document.cookie, { ...localStorage }, { ...sessionStorage }]));
    assert.equal(kept, '["",{},{}]');
    const [cookie, ...others] = await page.context().cookies();
    assert.deepEqual([cookie.httpOnly, cookie.sameSite, others], [true, 'Strict', []]);
    const ran = await page.evaluate(async () => {
      const post = async (path, body) => (await fetch(path, { method: 'POST', body: JSON.stringify(body) })).json();
      const { id } = await post('./v1/sessions', {});
      return post(`./v1/sessions/${id}/executions`, { code: '6 * 7' });
    });
    assert.deepEqual([ran.status, ran.caller], ['ok', 'acme/ada']);
    await page.reload();
    await page.getByRole('heading', { name: 'Sessions' }).waitFor();
    assert.deepEqual(page.errors, []);
    await page.getByRole('button', { name: 'Sign out' }).click();
    await link.waitFor();
    assert.equal(await page.evaluate(() => fetch('./v1/sessions').then(answer => answer.status)), 401);
    // A failure is a page that says what to do.
    await page.goto(`${gateway.url}/viewer/oidc/callback?state=x&code=y`);
    await page.getByRole('heading', { name: 'Sign-in failed' }).waitFor();
    await page.getByRole('link', { name: 'Back to the sign-in' }).click();
    await link.waitFor();
  } finally {
    await browser.stop();
  }
});
