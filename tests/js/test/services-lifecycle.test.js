// @jupyterlab/services from Node: interrupt, restart, broken connections, sessions.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { KernelAPI, SessionAPI } from '@jupyterlab/services';
import { Relay } from '../lib/relay.js';
import { Application, execute, stdout } from '../lib/services.js';
import { app, gateway, kernel } from '../lib/services-suite.js';
import { until, within } from '../lib/until.js';

test('interrupt ends a cell with KeyboardInterrupt, the variables stay', async () => {
  await execute(kernel, 'kept = "kept"');
  const future = kernel.requestExecute({ code: 'import time\nprint("running", flush=True)\nwhile True: time.sleep(0.01)' });
  await within('first output', new Promise(resolve => {
    future.onIOPub = message => message.header.msg_type === 'stream' && resolve();
  }));
  await kernel.interrupt();
  const reply = await within('the reply', future.done);
  assert.equal(reply.content.ename, 'KeyboardInterrupt');
  assert.equal((await execute(kernel, 'print(kept)')).stdout, 'kept\n');
});

test('restart: same id, no variables, execution count from one', async () => {
  const own = await app.kernels.startNew({ name: 'python3' });
  const before = await execute(own, 'import os; gone = 1; print(os.getpid())');
  await within('the restart', own.restart());
  const after = await execute(own, 'import os; print(os.getpid(), "gone" in globals())');
  assert.equal(after.reply.content.execution_count, 1);
  const [pid, seen] = after.stdout.trim().split(' ');
  assert.notEqual(pid, before.stdout.trim());
  assert.equal(seen, 'False');
  assert.equal(after.reply.parent_header.session, own.clientId);
  await own.shutdown();
  await until('the kernel is not listed', async () =>
    !(await KernelAPI.listRunning(app.settings)).some(model => model.id === own.id));
  assert.equal(own.isDisposed || own.status === 'dead', true);
});

test('a connection that breaks while a cell runs: the library reconnects and has every line once, and the reply', async () => {
  const relay = await Relay.to(gateway.url);
  const far = await new Application(gateway, { url: relay.url }).ready();
  const own = await far.kernels.startNew({ name: 'python3' });
  await within('the kernel', own.info);
  const future = own.requestExecute({
    code: 'import time\nfor i in range(40):\n    print(f"line {i}", flush=True)\n    time.sleep(0.03)'
  });
  const iopub = [];
  const started = new Promise(resolve => {
    future.onIOPub = message => {
      iopub.push(message);
      if (message.header.msg_type === 'stream') resolve();
    };
  });
  await within('the first line', started);
  await relay.sever();
  await until('the client noticed', () => own.connectionStatus !== 'connected');
  await until('the cell has ended without the client', async () =>
    (await KernelAPI.getKernelModel(own.id, app.settings)).execution_state === 'idle');
  assert.ok(!stdout(iopub).includes('line 39'));
  relay.restore();
  const reply = await within('the reply', future.done);
  assert.equal(reply.content.status, 'ok');
  assert.equal(stdout(iopub), Array.from({ length: 40 }, (_, i) => `line ${i}\n`).join(''));
  await until('the client is connected', () => own.connectionStatus === 'connected');
  await own.shutdown();
  far.dispose();
  relay.close();
});

test('reconnect() by the application keeps the kernel and its variables', async () => {
  await execute(kernel, 'across = 11');
  await within('the reconnect', kernel.reconnect());
  assert.equal((await execute(kernel, 'print(across)')).stdout, '11\n');
});

describe('sessions', () => {
  test('start, find, rename, change the kernel, shut down', async () => {
    const session = await app.sessions.startNew({
      path: 'a/notebook.ipynb', name: 'notebook.ipynb', type: 'notebook', kernel: { name: 'python3' }
    });
    assert.equal((await execute(session.kernel, 'print(1)')).stdout, '1\n');
    assert.equal((await app.sessions.findByPath('a/notebook.ipynb')).id, session.id);
    await session.setPath('a/renamed.ipynb');
    await session.setName('renamed.ipynb');
    const model = await SessionAPI.getSessionModel(session.id, app.settings);
    assert.equal(model.path, 'a/renamed.ipynb');
    assert.equal(model.name, 'renamed.ipynb');
    const first = session.kernel.id;
    await within('the new kernel', session.changeKernel({ name: 'python3' }));
    assert.notEqual(session.kernel.id, first);
    assert.equal((await execute(session.kernel, 'print(2)')).stdout, '2\n');
    const second = session.kernel.id;
    await session.shutdown();
    const running = (await KernelAPI.listRunning(app.settings)).map(m => m.id);
    assert.ok(!running.includes(first) && !running.includes(second), `${running}`);
    assert.ok(!(await SessionAPI.listRunning(app.settings)).some(m => m.path === 'a/renamed.ipynb'));
  });

  test('the same path again is the same session and kernel', async () => {
    const options = { path: 'same.ipynb', name: 'same.ipynb', type: 'notebook', kernel: { name: 'python3' } };
    const first = await app.sessions.startNew(options);
    const second = await app.sessions.startNew(options);
    assert.equal(second.id, first.id);
    assert.equal(second.kernel.id, first.kernel.id);
    await first.shutdown();
  });
});
