// A plain WebSocket client in each framing: legacy text, legacy binary, v1.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { V1 } from '../lib/frames.js';
import { Gateway } from '../lib/gateway.js';
import { answers, AUTH, KernelSocket, streamText } from '../lib/kernel-socket.js';

/** Kernel code: a comm target that answers each buffer reversed, and the count of them. */
const REVERSER = `
def _reverser(comm, opened):
    def answer(message):
        comm.send({'count': len(message['buffers'])}, buffers=[bytes(b)[::-1] for b in message['buffers']])
    comm.on_msg(answer)
    answer(opened)
get_ipython().kernel.comm_manager.register_target('reverser', _reverser)
`;

let gateway;
let kernel;

before(async () => {
  gateway = await Gateway.start();
  kernel = (await gateway.startKernel()).id;
});
after(() => gateway?.stop());

const open = options => KernelSocket.open(gateway, kernel, options);

for (const [framing, options] of Object.entries({
  legacy: { auth: AUTH.token },
  v1: { protocols: [V1], auth: AUTH.query }
})) {
  describe(`${framing} framing`, () => {
    test('a cell: streams, display, result, reply, idle, in order on each channel', async () => {
      const socket = await open(options);
      assert.equal(socket.protocol, framing === 'v1' ? V1 : '');
      const messages = await socket.execute(
        'import sys\nprint("to out")\nprint("to err", file=sys.stderr)\nfrom IPython.display import HTML\ndisplay(HTML("<b>é€😀</b>"))\n6 * 7');
      const iopub = messages.filter(m => m.channel === 'iopub').map(m => m.header.msg_type);
      assert.equal(iopub[0], 'status');
      assert.equal(iopub[1], 'execute_input');
      assert.equal(iopub.at(-1), 'status');
      assert.equal(streamText(messages), 'to out\n');
      assert.equal(streamText(messages, 'stderr'), 'to err\n');
      const of = type => messages.find(m => m.header.msg_type === type);
      assert.equal(of('display_data').content.data['text/html'], '<b>é€😀</b>');
      assert.equal(of('execute_result').content.data['text/plain'], '42');
      assert.equal(of('execute_reply').channel, 'shell');
      assert.equal(of('execute_reply').content.status, 'ok');
      for (const message of messages) {
        assert.equal(message.frame, framing === 'v1' ? 'v1' : 'text');
        assert.deepEqual(message.buffers, []);
        if (framing === 'legacy') {
          assert.equal(message.msg_id, message.header.msg_id);
          assert.equal(message.msg_type, message.header.msg_type);
        }
      }
      await socket.close();
    });

    test('binary buffers in both directions, of awkward lengths', async () => {
      const socket = await open(options);
      await socket.execute(REVERSER);
      const comm_id = randomUUID();
      const large = Buffer.alloc(300_001, i => i);
      large.writeUInt32BE(0xdeadbeef, 0);
      const buffers = [Buffer.from([1, 2, 3]), Buffer.alloc(0), large];
      socket.send(socket.message('shell', 'comm_open', { comm_id, target_name: 'reverser', data: {} }), buffers);
      const answer = await socket.first(m => m.header.msg_type === 'comm_msg' && m.content.comm_id === comm_id);
      assert.equal(answer.frame, framing === 'v1' ? 'v1' : 'binary');
      assert.equal(answer.content.data.count, 3);
      assert.deepEqual(answer.buffers, buffers.map(b => Buffer.from(b).reverse()));
      await socket.close();
    });

    test('input(): the question comes on stdin, the answer reaches the cell', async () => {
      const socket = await open(options);
      const id = socket.send(socket.message('shell', 'execute_request', {
        code: 'print("hello " + input("name? "))', silent: false, allow_stdin: true
      }));
      const question = await socket.first(m => answers(m, id) && m.header.msg_type === 'input_request');
      assert.equal(question.channel, 'stdin');
      assert.equal(question.content.prompt, 'name? ');
      socket.send(socket.message('stdin', 'input_reply', { value: 'Elara', status: 'ok' }, { parent_header: question.header }));
      assert.equal(streamText(await socket.finished(id)), 'hello Elara\n');
      await socket.close();
    });

    test('control channel: kernel_info is answered while a cell runs; interrupt ends the cell', async () => {
      const socket = await open(options);
      const running = socket.send(socket.message('shell', 'execute_request', {
        code: 'import time\nprint("running", flush=True)\nwhile True: time.sleep(0.01)', silent: false
      }));
      await socket.first(m => answers(m, running) && m.header.msg_type === 'stream');
      const asked = socket.send(socket.message('control', 'kernel_info_request', {}));
      const info = await socket.first(m => answers(m, asked) && m.header.msg_type === 'kernel_info_reply');
      assert.equal(info.channel, 'control');
      assert.equal((await gateway.call('POST', `/api/kernels/${kernel}/interrupt`)).status, 204);
      const messages = await socket.finished(running);
      assert.equal(messages.find(m => m.header.msg_type === 'execute_reply').content.ename, 'KeyboardInterrupt');
      await socket.close();
    });

    test('a client that returns with its session_id misses nothing, in order', async () => {
      // Alone on a kernel of its own: jupyter_server too keeps output only for the last client to leave.
      const { id: own } = await gateway.startKernel();
      const session = randomUUID();
      const first = await KernelSocket.open(gateway, own, { ...options, session });
      const id = first.send(first.message('shell', 'execute_request', {
        code: 'import time\nfor i in range(40):\n    print(f"line {i}", flush=True)\n    time.sleep(0.03)', silent: false
      }));
      await first.first(m => answers(m, id) && m.header.msg_type === 'stream');
      await first.close();
      const second = await KernelSocket.open(gateway, own, { ...options, session });
      await second.finished(id);
      const lines = streamText([...first.messages, ...second.messages].filter(m => answers(m, id)));
      assert.equal(lines, Array.from({ length: 40 }, (_, i) => `line ${i}\n`).join(''));
      await second.close();
      assert.equal((await gateway.call('DELETE', `/api/kernels/${own}`)).status, 204);
    });
  });
}

describe('legacy framing', () => {
  test('a message without a channel goes to shell', async () => {
    const socket = await open({ auth: AUTH.bearer });
    const { channel, ...message } = socket.message('shell', 'kernel_info_request', {});
    socket.sendRaw(JSON.stringify(message));
    const reply = await socket.first(m => answers(m, message.header.msg_id) && m.header.msg_type === 'kernel_info_reply');
    assert.equal(reply.channel, channel);
    await socket.close();
  });

  test('a null parent_header and absent buffers are accepted', async () => {
    const socket = await open();
    const id = socket.send(socket.message('shell', 'kernel_info_request', {}, { parent_header: null, buffers: undefined }));
    await socket.finished(id);
    await socket.close();
  });
});

describe('two clients on one kernel', () => {
  test('both see all output in their own framing, replies reach only the asker', async () => {
    const [legacy, modern] = await Promise.all([open(), open({ protocols: [V1] })]);
    for (const [asker, other] of [[legacy, modern], [modern, legacy]]) {
      const id = asker.send(asker.message('shell', 'execute_request', { code: 'print("for both"); 1 / 0', silent: false }));
      await asker.finished(id);
      await other.first(m => answers(m, id) && m.content.execution_state === 'idle');
      const iopub = socket => socket.messages.filter(m => answers(m, id) && m.channel === 'iopub').map(m => m.header.msg_id);
      assert.deepEqual(iopub(other), iopub(asker));
      assert.equal(streamText(other.messages.filter(m => answers(m, id))), 'for both\n');
      // A round trip of its own shows that nothing for the other is still on the way.
      await other.execute('pass');
      assert.deepEqual(other.messages.filter(m => answers(m, id) && m.channel !== 'iopub'), []);
    }
    await Promise.all([legacy.close(), modern.close()]);
  });
});
