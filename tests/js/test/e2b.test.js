// E2B's own JavaScript client, unmodified, on a gateway that serves it: only environment variables point it here.

import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { CommandExitError, FileNotFoundError, NotFoundError, Sandbox, SandboxError, TimeoutError } from '@e2b/code-interpreter';
import { Gateway } from '../lib/gateway.js';
import { until } from '../lib/until.js';

let gateway;

before(async () => {
  gateway = await Gateway.start({ config: 'e2b = true\n' });
  const args = ['env', 'e2b', '--json', '--url', `${gateway.url}/`];
  const printed = execFileSync(process.env.HIMALIA_BIN, args, { env: { ...process.env, HIMALIA_TOKEN: gateway.token } });
  Object.assign(process.env, JSON.parse(printed));
});
after(async () => {
  await gateway?.stop();
});

/** A sandbox for one test. */
async function inSandbox(work, options) {
  const sandbox = await Sandbox.create(options);
  try {
    await work(sandbox);
  } finally {
    await sandbox.kill();
  }
}

/** The first example of a client's own documentation as a program of its own: what it prints. The sandbox that it leaves is ended. */
async function firstExample(client, heading, line) {
  const readme = readFileSync(new URL(`../node_modules/${client}/README.md`, import.meta.url), 'utf8');
  const [, code] = new RegExp(`### 3\\. ${heading}[^]*?\`{3}ts\n([^]*?)\`{3}`).exec(readme);
  assert.ok(code.includes(line), code);
  const file = fileURLToPath(new URL('./e2b-example.tmp.mjs', import.meta.url));
  writeFileSync(file, code);
  try {
    const { stdout } = await promisify(execFile)(process.execPath, [file], { timeout: 120_000 });
    return stdout;
  } finally {
    rmSync(file);
    const [left] = await Sandbox.list().nextItems();
    assert.equal(await Sandbox.kill(left.sandboxId), true, 'the example leaves it');
  }
}

test('the first example of the code interpreter, word for word', async () => {
  const printed = await firstExample('@e2b/code-interpreter', 'Execute code', 'console.log(execution.text)  // outputs 2');
  assert.equal(printed, '2\n');
});

test('the first example of the client, word for word', async () => {
  const printed = await firstExample('e2b', 'Start a sandbox', 'console.log(result.stdout) // Hello from E2B!');
  assert.equal(printed, 'Hello from E2B!\n\n');
});

test('code, callbacks and contexts', () => inSandbox(async sandbox => {
  const lines = [];
  const execution = await sandbox.runCode("print('ä😀' * 20_000)\n1 / 0", {
    onStdout: message => lines.push(message.line),
    onError: error => lines.push(error.name)
  });
  assert.equal(lines.slice(0, -1).join(''), `${'ä😀'.repeat(20_000)}\n`);
  assert.equal(lines.at(-1), 'ZeroDivisionError');
  assert.equal(execution.error.value, 'division by zero');
  const context = await sandbox.createCodeContext({ language: 'python' });
  await sandbox.runCode('x = 1', { context });
  assert.equal((await sandbox.runCode('x', { context })).text, '1');
  assert.equal((await sandbox.runCode('x')).error.name, 'NameError');
  assert.equal((await sandbox.listCodeContexts()).length, 2);
  await sandbox.restartCodeContext(context);
  assert.equal((await sandbox.runCode('x', { context })).error.name, 'NameError');
  await sandbox.removeCodeContext(context);
  await assert.rejects(sandbox.runCode('x', { context }), NotFoundError);
  assert.equal((await sandbox.runCode('echo $((6 * 7))', { language: 'bash' })).logs.stdout.join(''), '42\n');
  await assert.rejects(sandbox.runCode('import time; time.sleep(100)', { timeoutMs: 1000 }), TimeoutError);
  assert.equal((await sandbox.runCode('1 + 1')).text, '2', 'what is left was interrupted');
}));

test('sandboxes are found, changed and ended', async () => {
  const sandbox = await Sandbox.create({ timeoutMs: 100_000, metadata: { job: 'a b&c' }, envs: { A: 'b' } });
  assert.equal((await sandbox.runCode("import os; os.environ['A']")).text, 'b');
  const found = await Sandbox.list({ query: { metadata: { job: 'a b&c' }, state: ['running'] } }).nextItems();
  assert.deepEqual(found.map(one => one.sandboxId), [sandbox.sandboxId]);
  const { endAt } = await sandbox.getInfo();
  await sandbox.setTimeout(1_000_000);
  assert.ok((await sandbox.getInfo()).endAt - endAt > 500_000);
  const other = await Sandbox.connect(sandbox.sandboxId);
  assert.equal((await other.runCode('6 * 7')).text, '42');
  await assert.rejects(sandbox.pause(), SandboxError);
  assert.equal(await sandbox.isRunning(), true);
  assert.equal(await sandbox.kill(), true);
  assert.equal(await sandbox.isRunning(), false);
  assert.equal(await Sandbox.kill(sandbox.sandboxId), false);
});

test('files', () => inSandbox(async sandbox => {
  await sandbox.files.write('a/b.txt', 'ä');
  assert.equal(await sandbox.files.read('a/b.txt'), 'ä');
  const bytes = new Uint8Array(100_000).map((_, at) => at % 251);
  await sandbox.files.write('bytes', bytes.buffer);
  assert.deepEqual(await sandbox.files.read('bytes', { format: 'bytes' }), bytes);
  await sandbox.files.write([{ path: 'c', data: '1' }, { path: 'd', data: new Blob(['2']) }]);
  assert.equal(await sandbox.files.makeDir('e'), true);
  await sandbox.files.rename('c', 'e/f');
  assert.deepEqual((await sandbox.files.list('e')).map(one => [one.name, one.type, one.size]), [['f', 'file', 1]]);
  assert.equal((await sandbox.files.getInfo('a')).type, 'dir');
  await sandbox.files.remove('e');
  assert.equal(await sandbox.files.exists('e'), false);
  await assert.rejects(sandbox.files.read('e/f'), FileNotFoundError);
  const events = [];
  const watched = await sandbox.files.watchDir('a', event => events.push([event.name, event.type]));
  await sandbox.files.write('a/new', 'x');
  await until('all events were heard', async () => events.length === 3);
  assert.deepEqual(events, [['new', 'create'], ['new', 'chmod'], ['new', 'write']]);
  await watched.stop();
  const url = await sandbox.downloadUrl('a/b.txt', { useSignatureExpiration: 60 });
  assert.equal(await (await fetch(url)).text(), 'ä');
  assert.equal((await fetch(url.replace('b.txt', 'c.txt'))).status, 401);
}));

test('commands and a terminal', () => inSandbox(async sandbox => {
  const lines = [];
  const done = await sandbox.commands.run('echo "$A"; pwd; echo oops >&2', {
    envs: { A: 'x y' }, cwd: '/', onStdout: text => lines.push(text), onStderr: text => lines.push(text)
  });
  assert.deepEqual([done.stdout, done.stderr, done.exitCode], ['x y\n/\n', 'oops\n', 0]);
  assert.equal(lines.join('').length, done.stdout.length + done.stderr.length);
  await assert.rejects(sandbox.commands.run('exit 3'), error => error instanceof CommandExitError && error.exitCode === 3);
  const cat = await sandbox.commands.run('cat', { background: true, stdin: true });
  assert.deepEqual((await sandbox.commands.list()).map(one => one.pid), [cat.pid]);
  await sandbox.commands.sendStdin(cat.pid, 'hello\n');
  await sandbox.commands.closeStdin(cat.pid);
  assert.equal((await cat.wait()).stdout, 'hello\n');
  const sleeper = await sandbox.commands.run('sleep 1000', { background: true });
  assert.equal(await sandbox.commands.kill(sleeper.pid), true);
  await assert.rejects(sleeper.wait());
  let seen = '';
  const terminal = await sandbox.pty.create({ cols: 100, rows: 30, onData: data => { seen += new TextDecoder().decode(data); } });
  await sandbox.pty.sendInput(terminal.pid, new TextEncoder().encode('stty size; exit\n'));
  await terminal.wait();
  assert.match(seen, /30 100/);
}));
