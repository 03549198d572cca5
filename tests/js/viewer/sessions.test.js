// What there is beside the live kernel: sessions that have ended, more kernels in one, what a sandbox uses, and what is said aloud.

import assert from 'node:assert/strict';
import { NativeSession } from '../lib/native-session.js';
import { until } from '../lib/until.js';
import { viewerSuite } from '../lib/viewer-suite.js';

const suite = viewerSuite();

suite.test('a session that has ended is listed with its reason, and its log is read as before', async viewer => {
  const session = await NativeSession.start(suite.gateway, 'gone');
  await session.run('print("what it has said")');
  await session.end();
  await viewer.go();
  await viewer.page.getByText('Ended sessions').click();
  const row = viewer.page.locator('.ended .session', { hasText: 'gone' });
  await row.getByText('stopped', { exact: true }).waitFor();
  await row.getByRole('link').click();
  await viewer.ended(1);
  await viewer.cell(1).locator('.stream', { hasText: 'what it has said' }).waitFor();
  await viewer.page.getByText(/^ended .*: stopped$/).waitFor();
  await viewer.page.getByText(/its log is kept until/).waitFor();
  for (const name of ['Interrupt', 'Restart', 'Stop']) assert.equal(await viewer.page.getByRole('button', { name }).count(), 0, name);
  assert.equal(await viewer.page.getByLabel('Code to run').count(), 0);
  // By its name, too.
  await viewer.go('s/gone');
  await viewer.page.getByRole('link', { name: 'Its log is kept' }).click();
  await viewer.cell(1).locator('.stream', { hasText: 'what it has said' }).waitFor();
}, { isNoisy: true });

suite.test('the question before a stop says what stays, and it does', async viewer => {
  const session = await NativeSession.start(suite.gateway, 'stopped');
  await session.run('print("stays")');
  await viewer.go('s/stopped');
  await viewer.ended(1);
  await viewer.page.getByRole('button', { name: 'Stop' }).click();
  const dialog = viewer.page.getByRole('dialog');
  assert.match(await dialog.innerText(), /variables and files go.*log and its plots can be read/s);
  await dialog.getByRole('button', { name: 'Stop the session' }).click();
  await viewer.page.getByText('session ended').first().waitFor();
  await viewer.go(`s/${session.id}`);
  await viewer.cell(1).locator('.stream', { hasText: 'stays' }).waitFor();
}, { isNoisy: true });

suite.test('more kernels of a session stand in its head', async (viewer, gateway) => {
  const session = await NativeSession.start(gateway, 'several');
  await viewer.go('s/several');
  await viewer.state('idle');
  const answer = await gateway.call('POST', `${session.path}/kernels`, {});
  assert.equal(answer.status, 201);
  const { id } = await answer.json();
  await viewer.page.locator('.facts', { hasText: `+ ${id.slice(0, 8)} (python3, idle)` }).waitFor();
});

suite.test('the list has the memory that a session uses, not its limit', async (viewer, gateway) => {
  const session = await NativeSession.start(gateway, 'uses');
  await session.run('kept = b"x" * (200 << 20)');
  const used = async () => (await (await gateway.call('GET', `${session.path}/usage`)).json()).memory_bytes;
  await viewer.go();
  const row = viewer.page.locator('.session', { hasText: 'uses' });
  const shown = row.locator('.session-facts [title^="memory that it uses"]');
  await until('what is shown is what is used', async () => {
    const [, number, unit] = (await shown.innerText()).match(/^([\d.]+) (MiB|GiB)$/);
    const bytes = Number(number) * (unit === 'GiB' ? 2 ** 30 : 2 ** 20);
    return Math.abs(bytes - (await used())) < 32 << 20;
  });
  assert.ok((await used()) > 200 << 20);
});

suite.test('29: the state is said to those who do not see it, once it has stood for a while', async viewer => {
  const session = await NativeSession.start(suite.gateway, 'said');
  await viewer.go('s/said');
  const said = viewer.page.locator('.head [aria-live="polite"]');
  await until('idle is said', async () => (await said.textContent()) === 'idle');
  // Every text that is said from now on.
  await said.evaluate(element => {
    globalThis.texts = [];
    new MutationObserver(() => globalThis.texts.push(element.textContent)).observe(element, { childList: true, characterData: true, subtree: true });
  });
  for (let at = 0; at < 10; at += 1) await session.run('1');
  const id = await session.begin('while True: pass');
  await until('busy is said', async () => (await said.textContent()) === 'busy');
  assert.deepEqual(await viewer.page.evaluate(() => globalThis.texts), ['busy']);
  await suite.gateway.call('POST', `${session.path}/interrupt`);
  await session.over(id);
  await until('idle is said again', async () => (await said.textContent()) === 'idle');
});
