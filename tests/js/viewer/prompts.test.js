// What waits for a person, in the viewer: the approval of a call with all of its arguments, `input()`, and the list over all sessions.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';
import { violations } from '../lib/axe.js';
import { Browser, shot } from '../lib/browser.js';
import { Gateway } from '../lib/gateway.js';
import { NativeSession } from '../lib/native-session.js';
import { until } from '../lib/until.js';
import { ViewerPage } from '../lib/viewer-page.js';
import { ViewerSite } from '../lib/viewer-site.js';

const DESCRIPTION = {
  openapi: '3.0.3',
  info: { title: 'Orders', version: '1' },
  paths: {
    '/orders': {
      post: {
        operationId: 'create_order',
        summary: 'Creates an order.',
        requestBody: {
          required: true,
          content: { 'application/json': { schema: { type: 'object', properties: { note: { type: 'string' } }, required: ['note'] } } }
        },
        responses: { 200: { description: 'The order.' } }
      }
    }
  }
};

let server;
let gateway;
let site;
let browser;
const created = [];

before(async () => {
  server = createServer((request, response) => {
    response.setHeader('content-type', 'application/json');
    if (request.method === 'GET') return response.end(JSON.stringify(DESCRIPTION));
    created.push(request.url);
    return response.end('{"done": true}');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const orders = `http://127.0.0.1:${server.address().port}`;
  gateway = await Gateway.start({
    config: `
[tool_servers.orders]
openapi = "${orders}/openapi.json"
base_url = "${orders}"

[templates.tools]
kernelspec = "python3"
tools = ["orders"]
`
  });
  site = await ViewerSite.start(gateway);
  browser = await Browser.start();
});
after(async () => {
  await browser?.stop();
  await site?.stop();
  await gateway?.stop();
  server?.close();
});

async function signedIn() {
  const viewer = await ViewerPage.open(browser, site);
  await viewer.go();
  viewer.page.errors.length = 0;
  return viewer.page;
}

async function ready(name) {
  const session = await NativeSession.start(gateway, name, { template: 'tools' });
  await until('the server of tools is there', async () => {
    const { servers } = await (await gateway.call('GET', `${session.path}/tools/servers`)).json();
    return servers[0]?.ready;
  });
  return session;
}

const call = (session, more) => gateway.call('POST', `${session.path}/tools/calls`, { tool: 'orders.create_order', ...more });

test('a person reads the arguments in full and approves the tool for later sessions, and ends that', async () => {
  const session = await ready('first');
  const args = { note: `${'long '.repeat(400)}end` };
  const needed = await (await call(session, { arguments: args })).json();
  assert.equal(needed.code, 'approval_needed', JSON.stringify(needed));
  const page = await signedIn();
  const card = page.locator('.prompt');
  await card.getByText('orders.create_order').first().waitFor();
  assert.deepEqual(await card.getByRole('button').allInnerTexts(), ['Once', 'This session', 'Always', 'Deny']);
  const text = card.locator('pre');
  assert.equal(await card.locator('details').getAttribute('open'), null, 'long arguments are folded');
  await card.locator('summary').click();
  assert.deepEqual(JSON.parse(await text.innerText()), args);
  assert.deepEqual(await violations(page), []);
  await shot(page, 'approval');
  await card.getByRole('button', { name: 'Always' }).click();
  await card.waitFor({ state: 'detached' });
  const done = await call(session, { arguments: args, approval: needed.prompt });
  assert.equal(done.status, 200, await done.text());
  const later = await ready('later');
  assert.equal((await call(later, { arguments: { note: 'x' } })).status, 200);
  assert.equal(created.length, 2);

  await page.getByRole('link', { name: 'Credentials' }).click();
  const approvals = page.getByRole('region', { name: 'Approved tools' });
  await approvals.getByText('orders.create_order').waitFor();
  await approvals.getByText('approved by operator').waitFor();
  assert.deepEqual(await violations(page), []);
  await approvals.getByRole('button', { name: 'Revoke' }).click();
  await approvals.waitFor({ state: 'detached' });
  assert.equal((await (await call(later, { arguments: { note: 'y' } })).json()).code, 'approval_needed');
  assert.equal(created.length, 2);
  assert.deepEqual(page.errors, []);
  for (const one of [session, later]) await one.end();
});

test('input of any session is answered from the list, and a password is not shown', async () => {
  const session = await NativeSession.start(gateway, 'asks');
  const id = await session.begin('import getpass\nprint(input("Name? "), len(getpass.getpass("Word? ")))', { allow_stdin: true });
  const page = await signedIn();
  const field = label => page.locator('.prompt', { hasText: label }).locator('input');
  await field('Name?').fill('Ada');
  await page.locator('.prompt').getByRole('button', { name: 'Answer' }).click();
  await field('Word?').waitFor();
  assert.equal(await field('Word?').getAttribute('type'), 'password');
  await field('Word?').fill('hunter2');
  await page.locator('.prompt').getByRole('button', { name: 'Answer' }).click();
  const result = await session.over(id);
  assert.equal(result.text, 'Ada 7\n');
  await page.locator('.prompt').waitFor({ state: 'detached' });
  assert.deepEqual(page.errors, []);
  await session.end();
});
