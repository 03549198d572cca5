// The live session on real kernels: nothing that a kernel prints is lost, and what runs can be steered.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { testPython } from '../lib/surroundings.js';
import { KernelSocket } from '../lib/kernel-socket.js';
import { NativeSession, waitFor } from '../lib/native-session.js';
import { until } from '../lib/until.js';
import { ViewerPage } from '../lib/viewer-page.js';
import { viewerSuite } from '../lib/viewer-suite.js';

const suite = viewerSuite();

/** Prints numbered lines, with a wait for a file between the first part and the second. */
const TWO_PARTS = `
for i in range(400): print(f'line {i:04d} of the first part ' + 'x' * 20)
${waitFor('go')}
for i in range(600): print(f'line {i:04d} of the second part ' + 'y' * 20)
${waitFor('end')}
print('the end')
`;

suite.test('1: the tab is closed while a cell runs and opened again: every byte is there, in order, once', async (viewer, gateway) => {
  const session = await NativeSession.start(gateway, 'closed-tab');
  await viewer.go('s/closed-tab');
  const id = await session.begin(TWO_PARTS);
  await viewer.cell(1).getByText('line 0399 of the first part').waitFor();
  await viewer.close();
  await session.write('go');
  await until('the second part is printed', async () => (await session.text(id)).includes('line 0599 of the second part'));

  const again = await ViewerPage.open(suite.browser, suite.site);
  try {
    await again.go('s/closed-tab');
    await again.cell(1).getByText('line 0599 of the second part').waitFor();
    await session.write('end');
    await again.ended(1);
    await again.cell(1).getByRole('button', { name: /^Show/ }).click();
    assert.equal(await again.text(1), await session.text(id));
    assert.deepEqual([again.left(), again.page.errors], [[], []]);
  } finally {
    await again.close();
  }
});

suite.test('2: the gateway is killed while a cell runs and starts again: the viewer continues by itself', async (viewer, gateway) => {
  const session = await NativeSession.start(gateway, 'killed');
  await viewer.go('s/killed');
  const id = await session.begin(TWO_PARTS);
  await viewer.cell(1).getByText('line 0399 of the first part').waitFor();
  await gateway.crash();
  await viewer.page.locator('.head .pill', { hasText: 'reconnecting' }).waitFor();
  await gateway.again();
  // Five seconds are wanted, of which four are the longest wait between two tries; a machine that is loaded may take more.
  await viewer.page.locator('.head .pill', { hasText: 'reconnecting' }).waitFor({ state: 'detached', timeout: 20_000 });
  await session.write('go');
  await session.write('end');
  await viewer.ended(1);
  await viewer.cell(1).getByRole('button', { name: /^Show/ }).click();
  assert.equal(await viewer.text(1), await session.text(id));
}, { isNoisy: true });

suite.test('3: tqdm is one line in the viewer, the text and the notebook; tqdm.notebook is a bar', async (viewer, gateway) => {
  const session = await NativeSession.start(gateway, 'progress');
  await viewer.go('s/progress');
  const plain = await session.run('from tqdm import tqdm\nimport sys\nfor _ in tqdm(range(1000), mininterval=0): pass');
  const torn = await session.run(`for part in ['  0%\\r', ' 50%', '\\r', '1', '00%']:\n    sys.stderr.write(part); sys.stderr.flush()`);
  await session.run('from tqdm.notebook import tqdm as bar\nfor _ in bar(range(40), desc="frames"): pass');
  await viewer.ended(3);
  const notebook = await session.notebook();
  for (const [at, { id }] of [[1, plain], [2, torn]]) {
    const shown = (await viewer.text(at)).trimEnd();
    assert.equal(shown.split('\n').length, 1, shown);
    assert.equal(shown, (await session.text(id)).trimEnd());
    assert.equal(shown, notebook.cells[at - 1].outputs.map(output => [output.text].flat().join('')).join('').trimEnd());
  }
  assert.match(await viewer.text(1), /^100%.*1000\/1000/);
  assert.equal(await viewer.text(2), '100%');
  const bar = viewer.cell(3).getByRole('progressbar');
  assert.deepEqual([await bar.getAttribute('aria-valuenow'), await bar.getAttribute('aria-valuemax')], ['40', '40']);
  await viewer.cell(3).getByText('40/40').waitFor();
});

suite.test('3: nested bars of tqdm are a line each while they run and at their end, however their messages are cut', async (viewer, gateway) => {
  const session = await NativeSession.start(gateway, 'nested');
  await viewer.go('s/nested');
  // Both stay: the inner one is begun anew for each round of the outer one. It stands still in the middle of a round.
  const running = await session.begin(`from tqdm import tqdm
import os, time
outer, inner = tqdm(range(3), desc='outer', mininterval=0, miniters=1), tqdm(total=20, desc='inner', mininterval=0, miniters=1)
for epoch in outer:
    inner.reset()
    for batch in range(20):
        inner.update()
        while epoch == 1 and batch == 9 and not os.path.exists('go'): time.sleep(0.01)
inner.disable = True`);
  await viewer.cell(1).getByText(/inner: {2}50%/).waitFor();
  const inTheMiddle = (await viewer.text(1)).trimEnd().split('\n');
  assert.match(inTheMiddle[0], /^outer: {2}33%.* 1\/3 /);
  assert.match(inTheMiddle[1], /^inner: {2}50%.* 10\/20 /);
  assert.equal(inTheMiddle.length, 2);
  await session.write('go');
  await session.over(running);
  // Inner bars that leave nothing behind.
  const left = await session.run(`for _ in tqdm(range(2), desc='outer', mininterval=0):
    for _ in tqdm(range(5), desc='inner', mininterval=0, leave=False): pass`);
  const torn = await session.run(`import sys
for part in ['\\router 0', '\\n', '\\rinner 0\\x1b', '[', 'A', '\\rout', 'er 1', '\\n\\rinner 9', '\\x1b[A\\n', '\\n']:
    sys.stderr.write(part); sys.stderr.flush()`);
  await viewer.ended(3);
  const notebook = await session.notebook();
  const ends = [[1, running, [/^outer: 100%.* 3\/3 /, /^inner: 100%.* 20\/20 /]],
    [2, left.id, [/^outer: 100%.* 2\/2 /]],
    [3, torn.id, [/^outer 1$/, /^inner 9$/]]];
  for (const [at, id, wanted] of ends) {
    const shown = (await viewer.text(at)).trimEnd();
    const lines = shown.split('\n');
    assert.equal(lines.length, wanted.length, shown);
    wanted.forEach((line, place) => assert.match(lines[place], line));
    assert.equal(shown, (await session.text(id)).trimEnd());
    assert.equal(shown, notebook.cells[at - 1].outputs.map(output => [output.text].flat().join('')).join('').trimEnd());
  }
});

suite.test('4: a print of 100 MB shows its beginning, its end and its size, and stays small', async (viewer, gateway, t) => {
  const session = await NativeSession.start(gateway, 'large');
  await viewer.go('s/large');
  const id = await session.begin("for i in range(1_000_000): print(f'{i:07d} ' + 'z' * 91)");
  // Meanwhile keys are answered: the longest wait of a frame after a key, of those that were pressed while it printed.
  await viewer.cell(1).getByText('0000000 ').waitFor();
  const waits = viewer.page.evaluate(() => new Promise(done => {
    const waits = [];
    addEventListener('keydown', event => requestAnimationFrame(now => waits.push(now - event.timeStamp)));
    addEventListener('stop-waiting', () => done(waits));
  }));
  const over = session.over(id).then(() => { overAt = true; });
  let overAt = false;
  while (!overAt) await viewer.page.keyboard.press('Shift');
  await over;
  await viewer.page.evaluate(() => dispatchEvent(new Event('stop-waiting')));
  const sorted = (await waits).sort((a, b) => a - b);
  t.diagnostic(`keys waited ${Math.round(sorted[sorted.length >> 1])} ms in the middle, ${Math.round(sorted.at(-1))} ms at most`);
  await viewer.ended(1);
  await viewer.cell(1).getByText('0999999 ').waitFor();
  await viewer.cell(1).getByText('0000000 ').waitFor();
  await viewer.cell(1).getByText(/[\d,]{8,} characters are not shown/).waitFor();
  const nodes = await viewer.page.evaluate(() => document.querySelectorAll('*').length);
  assert.ok(nodes < 3000, `${nodes} nodes`);
  const client = await viewer.page.context().newCDPSession(viewer.page);
  await client.send('HeapProfiler.collectGarbage');
  const { usedSize } = await client.send('Runtime.getHeapUsage');
  assert.ok(usedSize < 300 << 20, `${usedSize} bytes of heap`);
});

suite.test('4: the whole of a text of 100 MB can be downloaded', async (viewer, gateway) => {
  const session = await NativeSession.start(gateway, 'downloads');
  await session.run("for i in range(1_000_000): print(f'{i:07d} ' + 'z' * 91)");
  await viewer.go('s/downloads');
  await viewer.ended(1);
  const download = viewer.page.waitForEvent('download');
  await viewer.cell(1).getByRole('button', { name: 'Download the whole text' }).click();
  const text = readFileSync(await (await download).path(), 'latin1');
  assert.equal(text.length, 1_000_000 * 100);
  for (const line of [0, 499_999, 999_999]) {
    assert.equal(text.slice(line * 100, (line + 1) * 100), `${String(line).padStart(7, '0')} ${'z'.repeat(91)}\n`);
  }
});

suite.test('6: messages without end are drawn in batches, none is lost, and Interrupt ends them', async (viewer, gateway) => {
  const session = await NativeSession.start(gateway, 'endless');
  await viewer.go('s/endless');
  const id = await session.begin('import itertools, sys\nfor i in itertools.count():\n    sys.stdout.write(f"{i}\\n"); sys.stdout.flush()');
  await viewer.cell(1).getByText(/^\d{4,}$/m).first().waitFor();
  const began = performance.now();
  await viewer.page.getByRole('button', { name: 'Interrupt' }).click();
  await viewer.ended(1, 'interrupted');
  // A second is wanted; a machine that is loaded may take ten times as long.
  assert.ok(performance.now() - began < 10_000, `interrupted after ${Math.round(performance.now() - began)} ms`);
  const numbers = (await session.text(id)).split('KeyboardInterrupt')[0].trim().split('\n').filter(line => /^\d+$/.test(line));
  numbers.forEach((number, at) => assert.equal(Number(number), at));
  const last = numbers.at(-1);
  await viewer.cell(1).getByText(new RegExp(`^${last}$`, 'm')).waitFor();
});

suite.test('5: a long log opens at its end, and earlier cells come when one goes up to them', async (viewer, gateway) => {
  const session = await NativeSession.start(gateway, 'long-log');
  const socket = await KernelSocket.open(gateway, session.id, { protocols: ['v1.kernel.websocket.jupyter.org'] });
  for (let at = 1; at <= 260; at += 1) await socket.execute(`print("says", ${at})`);
  await socket.close();
  await viewer.go('s/long-log');
  await viewer.ended(260);
  await viewer.cell(260).getByText('says 260').waitFor();
  await viewer.page.locator('.tabs').getByText('260', { exact: true }).waitFor();
  const begins = () => viewer.paths.filter(path => path.includes('/events?after=')).map(path => Number(path.split('=')[1]));
  assert.equal(begins().length, 1);
  assert.ok(begins()[0] > 0, 'the log was read from its beginning');
  await viewer.page.getByLabel('Cells', { exact: true }).press('Home');
  await until('all of the log is read', () => begins().at(-1) === 0);
  await viewer.page.locator('.earlier').waitFor({ state: 'detached' });
  // The cells in view stayed in view when others came above them.
  await viewer.cell(61).waitFor();
  await viewer.page.getByLabel('Cells', { exact: true }).press('Home');
  await viewer.cell(1).getByText('says 1').waitFor();
  await session.run('print("still", "here")');
  await viewer.page.getByRole('button', { name: '↓ Follow' }).click();
  await viewer.cell(261).getByText('still here').waitFor();
});

suite.test('22: interrupt, restart and stop: one question before what cannot be undone, and the kernel\'s own answer', async (viewer, gateway) => {
  const session = await NativeSession.start(gateway, 'steered');
  await session.run('kept = 1');
  await viewer.go('s/steered');
  await viewer.run('import time\nprint("it runs")\nwhile True: time.sleep(0.01)');
  await viewer.cell(2).locator('.stream', { hasText: 'it runs' }).waitFor();
  await viewer.state('busy');
  await viewer.page.getByRole('button', { name: 'Interrupt' }).click();
  await viewer.ended(2, 'interrupted');
  await viewer.state('idle');

  await viewer.page.getByRole('button', { name: 'Restart' }).click();
  await viewer.page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
  assert.equal((await session.model()).incarnation, 1);
  await viewer.page.getByRole('button', { name: 'Restart' }).click();
  await viewer.page.getByRole('dialog').getByRole('button', { name: 'Restart' }).click();
  await viewer.page.getByText('Process 2 started').waitFor();
  await viewer.state('idle');
  await viewer.run('"kept" in globals()');
  await viewer.cell(1).getByText('False').waitFor();

  await viewer.page.getByRole('button', { name: 'Stop' }).click();
  await viewer.page.getByRole('dialog').getByRole('button', { name: 'Stop the session' }).click();
  await viewer.page.locator('.head .pill', { hasText: 'session ended' }).waitFor();
  assert.equal((await gateway.call('GET', session.path)).status, 404);
}, { isNoisy: true });

suite.test('23: input() and getpass() are answered here, a password is masked and shown nowhere', async (viewer, gateway) => {
  await NativeSession.start(gateway, 'asking');
  await viewer.go('s/asking');
  await viewer.run('name = input("Which moon? ")\nprint("hello", name)');
  const field = viewer.page.getByLabel(/Which moon\?/);
  await field.fill('Himalia');
  await field.press('Enter');
  await viewer.ended(1);
  await viewer.cell(1).getByText('hello Himalia').waitFor();
  await viewer.run('import getpass\nprint(len(getpass.getpass("Token: ")))');
  const secret = viewer.page.getByLabel(/Token:/);
  assert.equal(await secret.getAttribute('type'), 'password');
  await secret.fill('hunter2-of-the-viewer');
  await viewer.page.getByRole('button', { name: 'Answer' }).click();
  await viewer.ended(2);
  await viewer.cell(2).getByText('21', { exact: true }).waitFor();
  assert.ok(!(await viewer.page.content()).includes('hunter2'));
});

suite.test('26: the notebook that is downloaded is valid and has the outputs', async (viewer, gateway) => {
  const session = await NativeSession.start(gateway, 'exported');
  await session.run('print("printed")\n6 * 7');
  await session.run('1 / 0');
  await viewer.go('s/exported');
  const download = viewer.page.waitForEvent('download');
  await viewer.page.getByRole('link', { name: '.ipynb' }).click();
  const path = await (await download).path();
  const check = 'import nbformat, sys; nbformat.validate(nbformat.read(sys.argv[1], 4)); print("valid")';
  assert.equal(execFileSync(testPython(), ['-c', check, path], { encoding: 'utf8' }).trim(), 'valid');
  const { cells } = JSON.parse(readFileSync(path, 'utf8'));
  assert.deepEqual(cells.map(cell => cell.outputs.map(output => output.output_type)), [['stream', 'execute_result'], ['error']]);
});

suite.test('34: cells of a Jupyter client on the same kernel appear as a notebook\'s, ours as ours', async (viewer, gateway) => {
  const session = await NativeSession.start(gateway, 'shared');
  await viewer.go('s/shared');
  await viewer.state('idle');
  const socket = await KernelSocket.open(gateway, session.id, { protocols: ['v1.kernel.websocket.jupyter.org'] });
  await socket.execute('shared = 6 * 7\nprint(shared)');
  await viewer.run('shared + 1');
  await session.run('shared + 2');
  await viewer.ended(3);
  const who = count => viewer.cell(count).locator('.who').innerText();
  assert.deepEqual([await who(1), await who(2), await who(3)], ['notebook', 'viewer', 'operator']);
  await viewer.cell(1).getByText('42').waitFor();
  await viewer.cell(2).getByText('43').waitFor();
  const after = await socket.execute('print(shared)');
  assert.ok(after.some(message => message.content.text === '42\n'));
  await socket.close();
});

suite.test('34: a script in Bash looks like one', async (viewer, gateway) => {
  const session = await NativeSession.start(gateway, 'scripts');
  await session.run('for i in 1 2; do echo "round $i"; done', { language: 'bash' });
  await viewer.go('s/scripts');
  await viewer.ended(1);
  const cell = viewer.cell(1);
  await cell.getByText('round 2').waitFor();
  assert.equal(await cell.locator('.language').innerText(), 'bash');
  await cell.locator('.tok-keyword', { hasText: 'for' }).waitFor();
  assert.equal(await cell.locator('.code').innerText(), 'for i in 1 2; do echo "round $i"; done');
});
