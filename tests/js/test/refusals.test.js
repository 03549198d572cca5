// What the gateway refuses on a WebSocket, how it says so, and that no other client notices.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { legacyBinary, legacyText, pack32, pack64, v1, V1 } from '../lib/frames.js';
import { Gateway } from '../lib/gateway.js';
import { answers, AUTH, KernelSocket, streamText } from '../lib/kernel-socket.js';
import { within } from '../lib/until.js';

// jupyter_server gives no codes and takes most of this; the rest of the suite runs against it too.
const ours = { skip: process.env.HIMALIA_TEST_GATEWAY === 'jupyter_server' && 'not promised by jupyter_server' };

let gateway;
let kernel;

before(async () => {
  gateway = await Gateway.start();
  kernel = (await gateway.startKernel()).id;
});
after(() => gateway?.stop());

const open = options => KernelSocket.open(gateway, kernel, options);

describe('handshake', () => {
  const refused = (options, id = kernel) =>
    KernelSocket.open(gateway, id, options).then(() => 'opened', error => error.status);

  test('without a token, and with a wrong one: 401', async () => {
    const expected = gateway.reference ? 403 : 401;
    assert.equal(await refused({ auth: AUTH.none }), expected);
    assert.equal(await refused({ auth: () => AUTH.query('wrong') }), expected);
    assert.equal(await refused({ auth: () => AUTH.bearer('wrong') }), expected);
  });

  test('a wrong token in the query is not made good by a right one in the header', async () => {
    const auth = token => ({ ...AUTH.query('wrong'), ...AUTH.bearer(token) });
    assert.equal(await refused({ auth }), gateway.reference ? 403 : 401);
  });

  test('of a kernel that does not exist: 404 before the upgrade', async () => {
    assert.equal(await refused({}, randomUUID()), 404);
  });

  test('from a foreign origin: 403', ours, async () => {
    assert.equal(await refused({ headers: { Origin: 'http://elsewhere.example' } }), 403);
    assert.equal(await refused({ headers: { Origin: 'null' } }), 403);
  });

  test('v1 is selected wherever it stands in the offer, nothing when it is not offered', async () => {
    const modern = await open({ protocols: ['something.else', V1] });
    assert.equal(modern.protocol, V1);
    const legacy = await open();
    assert.equal(legacy.protocol, '');
    await Promise.all([modern.close(), legacy.close()]);
  });
});

/** name → [close code, what is sent]. The bytes are made from a message that is right but for one thing. */
const BAD = {
  v1: {
    'a text message': [1003, () => ['{}', { binary: false }]],
    'nothing': [1007, () => [Buffer.alloc(0)]],
    'half an offset count': [1007, () => [Buffer.alloc(4)]],
    'a count without its table': [1007, good => [good.subarray(0, 24)]],
    'too few parts': [1007, () => [pack64([Buffer.from('shell'), Buffer.from('{}')])]],
    'more buffers than allowed': [1009, () => [v1(message(), Array(257).fill(Buffer.alloc(1)))]],
    'a count near 2^64': [1009, good => [edited(good, b => b.writeBigUInt64LE(2n ** 64n - 1n, 0))]],
    'an offset outside the frame': [1007, good => [edited(good, b => b.writeBigUInt64LE(1n << 40n, 24))]],
    'offsets that go back': [1007, good => [edited(good, b => b.writeBigUInt64LE(60n, 32))]],
    'an end before the end': [1007, good => [Buffer.concat([good, Buffer.from('more')])]],
    'a frame cut short': [1007, good => [good.subarray(0, good.length - 1)]],
    'a header that is not JSON': [1007, () => [raw('{"msg_id":')]],
    'a header that is not an object': [1007, () => [raw('[]')]],
    'a header without msg_id': [1007, () => [raw('{"msg_type":"kernel_info_request","session":"s"}')]],
    'a header over 16 KiB': [1009, () => [raw(JSON.stringify({ ...message().header, username: 'u'.repeat(17_000) }))]]
  },
  legacy: {
    'not JSON': [1007, () => ['{"header"']],
    'JSON that is not an object': [1007, () => ['[1, 2]']],
    'no header': [1007, () => [JSON.stringify({ ...message(), header: undefined })]],
    'a header that is not an object': [1007, () => [JSON.stringify({ ...message(), header: 'x' })]],
    'a content that is not an object': [1007, () => [JSON.stringify({ ...message(), content: 3 })]],
    'a text that is not UTF-8': [1007, () => [Buffer.from([0x7b, 0xff, 0xfe, 0x7d]), { binary: false }]],
    'binary: nothing': [1007, () => [Buffer.alloc(0)]],
    'binary: no parts at all': [1007, () => [pack32([])]],
    'binary: a count without its table': [1007, () => [Buffer.from([0, 0, 0, 9, 0, 0, 0, 40])]],
    'binary: an offset outside the frame': [1007, () => [edited(binary(), b => b.writeUInt32BE(0x7fffffff, 8))]],
    'binary: offsets that go back': [1007, () => [edited(binary(), b => b.writeUInt32BE(5, 8))]],
    'binary: more buffers than allowed': [1009, () => [legacyBinary(message(), Array(257).fill(Buffer.alloc(1)))]],
    'binary: a message that is not JSON': [1007, () => [pack32([Buffer.from('nonsense'), Buffer.from('b')])]]
  }
};

for (const [framing, cases] of Object.entries(BAD)) {
  const options = framing === 'v1' ? { protocols: [V1] } : {};
  describe(`bad ${framing} messages`, ours, () => {
    for (const [name, [code, make]] of Object.entries(cases)) {
      test(`${name}: ${code}`, async () => {
        const socket = await open(options);
        socket.sendRaw(...make(v1(message())));
        const closed = await within('the close', socket.closed);
        assert.equal(closed.code, code, closed.reason);
        assert.ok(closed.reason.length > 3, 'a reason is given');
        assert.ok(!/\/|panicked|\.rs/.test(closed.reason), closed.reason);
      });
    }
  });
}

describe('other closes', ours, () => {
  test('a frame that announces a terabyte: 1009, before it comes', async () => {
    const socket = await open({ protocols: [V1] });
    const header = Buffer.alloc(14);
    header.writeUInt16BE(0x82ff, 0);
    header.writeBigUInt64BE(1n << 40n, 2);
    socket.sendBytes(header);
    assert.equal((await within('the close', socket.closed)).code, 1009);
  });

  test('an unknown channel, and iopub: the message is dropped, the connection continues', async () => {
    const socket = await open();
    for (const channel of ['nowhere', 'iopub']) socket.sendRaw(legacyText({ ...message(), channel }));
    assert.equal(streamText(await socket.execute('print("still here")')), 'still here\n');
    await socket.close();
  });

  test('a second connection with the same session_id takes over, the first is closed with 4001', async () => {
    const first = await open();
    const id = first.send(first.message('shell', 'execute_request', {
      code: 'import time\nfor i in range(20):\n    print(f"line {i}", flush=True)\n    time.sleep(0.02)', silent: false
    }));
    await first.first(m => answers(m, id) && m.header.msg_type === 'stream');
    const second = await open({ session: first.session });
    assert.equal((await within('the close', first.closed)).code, 4001);
    await second.finished(id);
    // The gateway did not see the first one end, so what it was just sending may come to both: same message, same id.
    const got = new Map([...first.messages, ...second.messages].map(m => [m.header.msg_id, m]));
    const lines = streamText([...got.values()].filter(m => answers(m, id)));
    assert.equal(lines, Array.from({ length: 20 }, (_, i) => `line ${i}\n`).join(''));
    await second.close();
  });

  test('two connections with one session_id while the kernel starts: the later one stays', async () => {
    // JupyterLab in gateway mode does this for each notebook: the browser refuses its first handshake and tries again.
    await Promise.all(Array.from({ length: 4 }, async () => {
      const { id } = await gateway.startKernel();
      const session = randomUUID();
      const earlier = KernelSocket.open(gateway, id, { session }).then(socket => within('the close', socket.closed), error => error);
      for (let i = 0; i < 3; i++) await gateway.call('GET', `/api/kernels/${id}`); // the gateway has the first handshake by now
      const later = await KernelSocket.open(gateway, id, { session });
      assert.equal((await earlier).code ?? (await earlier).status, 4001);
      assert.equal(streamText(await later.execute('print("here")')), 'here\n');
      await later.close();
      assert.equal((await gateway.call('DELETE', `/api/kernels/${id}`)).status, 204);
    }));
  });

  test('a kernel that is shut down: status dead, then 1000', async () => {
    const { id } = await gateway.startKernel();
    const socket = await KernelSocket.open(gateway, id, { protocols: [V1] });
    await socket.execute('pass');
    assert.equal((await gateway.call('DELETE', `/api/kernels/${id}`)).status, 204);
    assert.equal((await within('the close', socket.closed)).code, 1000);
    assert.equal(socket.messages.filter(m => m.header.msg_type === 'status').at(-1).content.execution_state, 'dead');
  });
});

test('after all that the kernel and an innocent client are as they were', async () => {
  const socket = await open({ protocols: [V1] });
  assert.equal(streamText(await socket.execute('print("well")')), 'well\n');
  await socket.close();
});

function message() {
  return {
    channel: 'shell',
    header: { msg_id: randomUUID(), msg_type: 'kernel_info_request', session: 's', username: 'u', date: '2026-01-01T00:00:00.000000Z', version: '5.3' },
    parent_header: {}, metadata: {}, content: {}
  };
}

/** A v1 frame whose header part is this text. */
function raw(header) {
  return pack64(['shell', header, '{}', '{}', '{}'].map(part => Buffer.from(part)));
}

function binary() {
  return legacyBinary(message(), [Buffer.from('abc')]);
}

function edited(frame, edit) {
  const copy = Buffer.from(frame);
  edit(copy);
  return copy;
}
