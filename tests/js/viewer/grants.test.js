// A person grants a credential: from the viewer to the pages of a real authorization server, and back.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Browser, shot } from '../lib/browser.js';
import { Gateway } from '../lib/gateway.js';
import { Process } from '../lib/process.js';

const SERVER = fileURLToPath(new URL('../lib/oauth-server.js', import.meta.url));

let server;
let origin;
let gateway;
let browser;

async function freePort() {
  const listener = createServer().listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const { port } = listener.address();
  listener.close();
  await once(listener, 'close');
  return port;
}

before(async () => {
  const port = await freePort();
  server = new Process(process.execPath, [SERVER, String(port)], { env: { PATH: process.env.PATH } });
  [origin] = await server.line(/http:\/\/127\.0\.0\.1:\d+/);
  gateway = await Gateway.start({ config: `private_addresses = ["127.0.0.1:${port}"]\n` });
  const body = { kind: 'oauth2', grant: 'authorization_code', resource: `${origin}/api`, scope: 'read', hosts: [`http://127.0.0.1:${port}`] };
  const set = await gateway.call('PUT', '/v1/credentials/linear', body);
  assert.equal(set.status, 200, await set.text());
  browser = await Browser.start();
});
after(async () => {
  await browser?.stop();
  await gateway?.stop();
  await server?.stop();
});

test('a person sees what is to be granted, consents, and sees the result', async () => {
  const page = await browser.page();
  await page.goto(gateway.url);
  await page.getByLabel('Token').fill(gateway.token);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('link', { name: 'Credentials' }).click();
  await page.getByText('it has no grant yet').waitFor();
  await page.getByText(`from ${origin}/api`).waitFor();
  await shot(page, 'credentials');
  page.errors.length = 0;
  await page.getByRole('button', { name: 'Grant', exact: true }).click();
  // The pages of the server.
  await page.locator('input[name=login]').fill('ada');
  await page.locator('input[name=password]').fill('any');
  await page.locator('button[type=submit]').click();
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.getByText('linear is granted').waitFor();
  assert.equal(new URL(page.url()).hash, '#/grant');
  assert.equal(new URL(page.url()).search, '');
  await shot(page, 'credentials-granted');
  await page.getByRole('link', { name: 'All credentials' }).click();
  await page.getByText('granted by').waitFor();
  // The answer is gone: nothing is left of it to be used again.
  await page.goto(`${gateway.url}/#/grant`);
  await page.getByText('Begin the grant again').waitFor();
  const tokens = await (await fetch(`${origin}/tokens`)).json();
  const seen = await page.evaluate(() => JSON.stringify([document.documentElement.outerHTML, { ...localStorage }, { ...sessionStorage }]));
  assert.ok(tokens.length >= 2 && tokens.every(token => !seen.includes(token)));
});

test('who refuses is shown what that means, and the grant of another person is not finished', async () => {
  const page = await browser.page();
  await page.goto(`${gateway.url}/viewer/grant?error=access_denied&state=x`);
  await page.getByText('was not made by this gateway').waitFor();
  const begun = await gateway.call('POST', '/v1/credentials/linear/grant', { redirect_uri: `${gateway.url}/viewer/grant` });
  const { url } = await begun.json();
  const state = new URL(url).searchParams.get('state');
  await page.goto(`${gateway.url}/viewer/grant?error=access_denied&state=${encodeURIComponent(state)}&iss=${encodeURIComponent(origin)}`);
  await page.getByText('access_denied').waitFor();
});
