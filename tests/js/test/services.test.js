// @jupyterlab/services from Node, straight at the gateway, over the v1 subprotocol: code, its output, comms.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { KernelAPI } from '@jupyterlab/services';
import { V1 } from '../lib/frames.js';
import { Application, execute, stdout } from '../lib/services.js';
import { app, gateway, kernel } from '../lib/services-suite.js';
import { until, within } from '../lib/until.js';

test('kernelspecs: a default, and all that the library demands of a spec', () => {
  const { default: name, kernelspecs } = app.specs.specs;
  assert.ok(kernelspecs[name]);
  const python = kernelspecs.python3;
  assert.equal(python.name, 'python3');
  assert.equal(python.language, 'python');
  assert.ok(python.display_name);
  assert.ok(Array.isArray(python.argv));
});

test('the kernel connects over v1 and says who it is', async () => {
  const info = await within('kernel_info', kernel.info);
  assert.equal(info.language_info.name, 'python');
  assert.equal(app.sockets.at(-1).protocol, V1);
  await until('the kernel is idle', () => kernel.status === 'idle');
  assert.equal((await KernelAPI.getKernelModel(kernel.id, app.settings)).execution_state, 'idle');
});

describe('execute', () => {
  test('streams, display, update, result', async () => {
    const { reply, iopub, stdout: out } = await execute(kernel, [
      'import sys', 'print("out")', 'print("err", file=sys.stderr)', 'h = display({"text/plain": "one"}, raw=True, display_id=True)',
      'h.update({"text/plain": "two"}, raw=True)', '6 * 7'].join('\n'));
    assert.equal(reply.content.status, 'ok');
    assert.equal(out, 'out\n');
    const types = iopub.map(m => m.header.msg_type);
    for (const type of ['execute_input', 'stream', 'display_data', 'update_display_data', 'execute_result', 'status']) {
      assert.ok(types.includes(type), `${type} in ${types}`);
    }
    assert.equal(iopub.find(m => m.header.msg_type === 'execute_result').content.data['text/plain'], '42');
  });

  test('an error, and the abort of what was queued behind it', async () => {
    const failing = kernel.requestExecute({ code: 'import time; time.sleep(0.3); {}["absent"]', stop_on_error: true });
    const queued = kernel.requestExecute({ code: 'never = 1' });
    const [first, second] = await within('both replies', Promise.all([failing.done, queued.done]));
    assert.equal(first.content.status, 'error');
    assert.equal(first.content.ename, 'KeyError');
    assert.equal(second.content.status, 'aborted');
    const { reply } = await execute(kernel, 'assert "never" not in globals()');
    assert.equal(reply.content.status, 'ok');
  });

  test('input() is answered by input_reply', async () => {
    const future = kernel.requestExecute({ code: 'print(input("moon? "), end="")', allow_stdin: true });
    const iopub = [];
    future.onIOPub = message => void iopub.push(message);
    future.onStdin = message => {
      assert.equal(message.content.prompt, 'moon? ');
      kernel.sendInputReply({ value: 'Himalia', status: 'ok' }, message.header);
    };
    await within('the reply', future.done);
    assert.equal(stdout(iopub), 'Himalia');
  });

  test('complete, inspect, is_complete, history, comm_info', async () => {
    await execute(kernel, 'apogee = 12_000');
    const complete = await kernel.requestComplete({ code: 'apog', cursor_pos: 4 });
    assert.ok(complete.content.matches.includes('apogee'));
    const inspect = await kernel.requestInspect({ code: 'apogee', cursor_pos: 3, detail_level: 0 });
    assert.equal(inspect.content.found, true);
    assert.equal((await kernel.requestIsComplete({ code: 'for x in y:' })).content.status, 'incomplete');
    const history = await kernel.requestHistory({ hist_access_type: 'tail', n: 1, output: false, raw: true });
    assert.equal(history.content.history.length, 1);
    assert.equal((await kernel.requestCommInfo({})).content.status, 'ok');
  });
});

describe('comms', () => {
  test('opened by the client, with binary buffers in both directions', async () => {
    await execute(kernel, [
      'def _reverser(comm, opened):',
      '    def answer(message):',
      '        comm.send({"count": len(message["buffers"])}, buffers=[bytes(b)[::-1] for b in message["buffers"]])',
      '    comm.on_msg(answer)',
      '    answer(opened)',
      'get_ipython().kernel.comm_manager.register_target("reverser", _reverser)'].join('\n'));
    const comm = kernel.createComm('reverser');
    const answers = [];
    comm.onMsg = message => void answers.push(message);
    comm.open({ hello: 1 }, {}, [Uint8Array.of(1, 2, 3).buffer, new Uint8Array(0).buffer]);
    comm.send({ again: 1 }, {}, [new Uint8Array(Float64Array.of(1.5, -2).buffer)]);
    await until('two answers came', () => answers.length === 2);
    assert.deepEqual(answers.map(m => m.content.data.count), [2, 1]);
    assert.deepEqual(answers[0].buffers.map(bytes), [[3, 2, 1], []]);
    assert.deepEqual(bytes(answers[1].buffers[0]), bytes(Float64Array.of(1.5, -2).buffer).reverse());
    comm.close();
    comm.dispose();
  });

  test('opened by the kernel, with a buffer, and closed by it', async () => {
    const opened = new Promise(resolve => kernel.registerCommTarget('from-kernel', (comm, message) => {
      resolve({ comm, message, closed: new Promise(done => (comm.onClose = done)) });
    }));
    await execute(kernel, [
      'from ipykernel.comm import Comm',
      'comm = Comm(target_name="from-kernel", data={"k": 1}, buffers=[bytes(range(256)) * 1000])',
      'received = []',
      'comm.on_msg(received.append)'].join('\n'));
    const { comm, message, closed } = await within('comm_open', opened);
    assert.deepEqual(message.content.data, { k: 1 });
    assert.equal(message.buffers[0].byteLength, 256_000);
    assert.deepEqual(bytes(message.buffers[0]).slice(254, 258), [254, 255, 0, 1]);
    comm.send({ x: 2 }, {}, [Uint8Array.of(9, 8, 7).buffer]);
    // The library may send comm messages to a subshell, so the cell asks rather than assumes an order.
    const { stdout: seen } = await execute(kernel, [
      'import time', 'deadline = time.monotonic() + 30',
      'while not received and time.monotonic() < deadline:',
      '    await __import__("asyncio").sleep(0.01)',
      'print(received[0]["content"]["data"], bytes(received[0]["buffers"][0]))', 'comm.close()'].join('\n'));
    assert.equal(seen, "{'x': 2} b'\\t\\x08\\x07'\n");
    await within('comm_close', closed);
  });
});

describe('two clients on one kernel', () => {
  test('both see all output; replies and input requests reach only the asker', async () => {
    const other = new Application(gateway);
    await other.ready();
    const second = other.kernels.connectTo({ model: kernel.model });
    await within('the second client', second.info);
    const heard = [];
    second.anyMessage.connect((_, { msg, direction }) => void (direction === 'recv' && heard.push(msg)));
    const future = kernel.requestExecute({ code: 'print("for both"); print(input())', allow_stdin: true });
    const own = [];
    future.onIOPub = message => void own.push(message);
    future.onStdin = message => kernel.sendInputReply({ value: 'answered', status: 'ok' }, message.header);
    const reply = await within('the reply', future.done);
    const of = list => list.filter(m => m.parent_header.msg_id === reply.parent_header.msg_id);
    await until('the other client saw idle', () => of(heard).some(m => m.content.execution_state === 'idle'));
    await execute(second, 'pass');
    assert.deepEqual(of(heard).map(m => m.header.msg_id), own.map(m => m.header.msg_id));
    assert.deepEqual(of(heard).filter(m => m.channel !== 'iopub'), []);
    assert.equal(stdout(of(heard)), 'for both\nanswered\n');
    second.dispose();
    other.dispose();
  });
});

function bytes(buffer) {
  return ArrayBuffer.isView(buffer) ? [...new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength)] : [...new Uint8Array(buffer)];
}
