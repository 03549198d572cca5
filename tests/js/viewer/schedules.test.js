// A person sees schedules with their next and last runs, starts one, and pauses it.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Browser, shot } from '../lib/browser.js';
import { Gateway } from '../lib/gateway.js';

let gateway;
let browser;

async function made(method, path, body) {
  const reply = await gateway.call(method, path, body);
  assert.ok(reply.ok, await reply.clone().text());
  return reply.json();
}

before(async () => {
  gateway = await Gateway.start();
  const manifest = {
    name: 'reconcile',
    version: '1.0.0',
    kind: 'code',
    description: 'Adds numbers up.',
    inputs: { type: 'object' },
    outputs: { type: 'object' }
  };
  const files = { 'main.py': { text: 'def main():\n    return {"total": 42}\n' } };
  await made('POST', '/v1/skills', { manifest, files });
  const new_one = { name: 'monthly', cron: '0 6 1 * *', time_zone: 'Europe/Berlin', target: { skill: 'reconcile' } };
  await made('POST', '/v1/schedules', new_one);
  browser = await Browser.start();
});
after(async () => {
  await browser?.stop();
  await gateway?.stop();
});

test('a person sees schedules, starts a run, sees its result and pauses the schedule', async () => {
  const page = await browser.page();
  await page.goto(gateway.url);
  await page.getByLabel('Token').fill(gateway.token);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('link', { name: 'Schedules' }).click();
  await page.getByText('monthly').waitFor();
  await page.getByText('Europe/Berlin').waitFor();
  await page.getByText(/^next /).waitFor();
  page.errors.length = 0;
  await page.getByRole('button', { name: 'Run now' }).click();
  await page.getByText('last run succeeded').waitFor({ timeout: 60_000 });
  await page.locator('summary', { hasText: 'Runs' }).click();
  await page.locator('details li', { hasText: 'succeeded' }).getByRole('link').waitFor();
  await shot(page, 'schedules');
  await page.getByRole('button', { name: 'Pause' }).click();
  await page.getByText('paused').waitFor();
  await page.getByRole('button', { name: 'Resume' }).waitFor();
  assert.deepEqual(page.errors, []);
});
