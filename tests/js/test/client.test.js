// The package `himalia` (clients/javascript), as it is published, against a gateway.

import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { inspect } from 'node:util';
import * as client from '../../../clients/javascript/dist/index.js';
import { connect } from '../../../clients/javascript/dist/node.js';
import { Gateway as TestGateway } from '../lib/gateway.js';
import { waitFor } from '../lib/native-session.js';
import { until } from '../lib/until.js';

const { ApiError, AuthenticationError, BadRequest, CodeError, ConfigurationError, ConnectionFailed, Gateway, NotFound } = client;

let server;
let gateway;

before(async () => {
  server = await TestGateway.start();
  gateway = new Gateway({ url: server.url, token: server.token, caller: 'tests' });
});
after(async () => {
  await server?.stop();
});

/** A session for one test. */
async function inSession(work) {
  const session = await gateway.create();
  try {
    await work(session);
  } finally {
    await session.end();
  }
}

const collected = async events => {
  const list = [];
  for await (const event of events) list.push(event);
  return list;
};

test('code, variables, files and the list of executions', () => inSession(async session => {
  await session.files.write('data/in.txt', 'three\nfour\n');
  const result = await session.execute("lines = open('data/in.txt').read().split(); print(*lines); len(lines)", {}, { check: true });
  assert.equal(result.text, 'three four\n');
  assert.equal(client.resultText(result), '2');
  assert.equal(result.client, 'tests');
  const [variable] = (await session.variables()).filter(one => one.name === 'lines');
  assert.equal(variable.length, 2);
  const part = await session.variable('lines', { limit: 1, offset: 1 });
  assert.equal(part.kind, 'items');
  assert.deepEqual((await session.files.list('data')).map(entry => entry.path), ['data/in.txt']);
  assert.equal(await session.files.text('data/in.txt'), 'three\nfour\n');
  assert.equal(await (await session.files.read('data/in.txt', { bytes: 5 })).text(), 'three');
  await session.files.delete('data', { recursive: true });
  await assert.rejects(session.files.text('data/in.txt'), error => error instanceof NotFound && error.code === 'file_not_found');
  await session.files.write('a b/#%.txt', new Blob(['odd']));
  assert.equal(await session.files.text('a b/#%.txt'), 'odd');
  for (let at = 0; at < 3; at++) await session.execute(`${at}`);
  const pages = await collected(session.executions({ limit: 1, order: 'desc' }));
  assert.deepEqual(pages.map(one => one.title).slice(0, 3), ['2', '1', '0']);
  assert.equal((await collected(session.history({ limit: 2, order: 'asc' }))).length, pages.length);
  const [kernel] = await session.kernels();
  assert.equal(kernel.id, session.id);
  assert.ok((await gateway.sessions()).some(one => one.id === session.id));
  assert.ok((await gateway.templates()).length > 0);
}));

test('errors have types, and code that fails is a result', () => inSession(async session => {
  const failed = await session.execute('1/0');
  assert.equal(failed.status, 'error');
  await assert.rejects(session.execute('1/0', {}, { check: true }), error => error instanceof CodeError && error.exception === 'ZeroDivisionError');
  await assert.rejects(session.execute('1', { timeout_s: -1 }), error => error instanceof BadRequest && error.field === 'timeout_s');
  await assert.rejects(gateway.attach('unknown'), error => error instanceof NotFound && error.requestId !== null);
  const seen = [];
  const stranger = new Gateway({ url: server.url, token: 'wrong-token', onRefusal: error => seen.push(error.code) });
  await assert.rejects(stranger.sessions(), AuthenticationError);
  assert.deepEqual(seen, ['unauthenticated']);
}));

const STUBBORN = 'import time\nfor _ in range(300):\n  try: time.sleep(1)\n  except BaseException: pass';

test('code that ignores interrupts is not waited for, and a restart ends it', () => inSession(async session => {
  const result = await session.execute(STUBBORN, { timeout_s: 1 });
  assert.deepEqual([result.status, result.stuck.execution], ['running', result.id]);
  const behind = await session.execute('1', { timeout_s: 1 });
  assert.deepEqual([behind.status, behind.behind, behind.stuck.execution], ['queued', result.id, result.id]);
  await session.restart();
  assert.equal(client.resultText(await session.execute('1 + 1')), '2');
  for (const on_timeout of ['restart', 'kill']) {
    const ended = await session.execute(STUBBORN, { timeout_s: 1, on_timeout });
    assert.deepEqual([ended.status, ended.death.cause], ['kernel_died', 'execution_timeout']);
    assert.equal(client.resultText(await session.execute('1 + 1')), '2');
  }
}));

test('a stream, images and questions', () => inSession(async session => {
  const names = (await collected(session.stream("print('a'); 1 + 1"))).map(event => event.event);
  assert.deepEqual(names.filter(name => name !== 'queued'), ['started', 'stdout', 'result', 'done']);
  const asked = await session.execute("name = input('who? '); name.upper()", {}, { onInput: question => `${question.prompt.length} ada` });
  assert.equal(client.resultText(asked), "'5 ADA'");
  const plot = await session.execute('import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()', {}, { check: true });
  const image = plot.outputs.map(output => output.data['image/png']).find(found => found);
  assert.equal((await gateway.artifact(image.artifact)).size, image.bytes);
  assert.equal(Buffer.from(image.base64, 'base64').length, image.bytes);
}));

test('branches have the variables of their parent', () => inSession(async session => {
  await session.execute('x = 41');
  const [{ session: one }, { session: two }] = await session.forks(2);
  await one.execute('x += 1');
  assert.equal(client.resultText(await one.execute('x')), '42');
  assert.equal(client.resultText(await two.execute('x')), '41');
  await Promise.all([one.end(), two.end()]);
  await one.end();
}));

test('a stream continues after the gateway was killed, and nothing runs twice', () => inSession(async session => {
  const code = `print('first', flush=True)\n${waitFor('go')}print('second')`;
  const seen = [];
  for await (const event of session.stream(code)) {
    seen.push(event);
    if (event.event === 'stdout' && event.text === 'first\n') {
      await server.crash();
      await server.again();
      await session.files.write('go', '');
    }
  }
  const text = seen.filter(event => event.event === 'stdout').map(event => event.text).join('');
  assert.equal(text, 'first\nsecond\n');
  const numbers = seen.map(event => event.seq);
  assert.deepEqual(numbers, [...new Set(numbers)].sort((a, b) => a - b));
  assert.equal((await collected(session.executions())).length, 1);
}));

test('the events of all executions of a session, over a restart of the gateway', () => inSession(async session => {
  const states = [];
  const seen = [];
  const abort = new AbortController();
  const live = new Promise(resolve => {
    const options = { signal: abort.signal, onConnection: state => (states.push(state), state === 'live' && resolve()) };
    (async () => {
      for await (const event of session.events(options)) seen.push(event);
    })().catch(() => undefined);
  });
  await live;
  // The first connection ends before it has seen an event: its position is known all the same.
  await server.crash();
  await server.again();
  const first = await session.execute("print('one')");
  const second = await session.execute('1/0');
  await until('both have ended', async () => seen.filter(event => event.event === 'done').length === 2);
  abort.abort();
  const words = id => seen.filter(event => event.execution_id === id).map(event => event.event);
  assert.deepEqual(words(first.id), ['queued', 'started', 'stdout', 'done']);
  assert.deepEqual(words(second.id), ['queued', 'started', 'exception', 'done']);
  assert.deepEqual(seen.map(event => event.seq), [...new Set(seen.map(event => event.seq))].sort((a, b) => a - b));
  const middle = seen.find(event => event.event === 'stdout').seq;
  const rest = [];
  for await (const event of session.events({ after: middle })) {
    rest.push(event);
    if (event.execution_id === second.id && event.event === 'done') break;
  }
  assert.deepEqual(rest, seen.filter(event => event.seq > middle));
  assert.equal(rest[0].result.text, 'one\n', 'a result is whole, though its execution began before');
}));

test('the log of a session, until it ends', () => inSession(async session => {
  const records = [];
  const states = [];
  const reading = (async () => {
    for await (const batch of session.log({ onConnection: state => states.push(state) })) records.push(...batch);
  })();
  await session.execute('1');
  await session.end();
  await reading;
  assert.equal(states[0], 'live');
  assert.ok(records.some(record => record.event === 'execution' && record.execution_id));
  assert.deepEqual(records.map(record => record.seq), records.map((_, at) => at + 1));
}));

test('a signal ends a call, and a stream', () => inSession(async session => {
  const abort = new AbortController();
  const reason = new Error('enough');
  const stream = session.stream(waitFor('never'), {}, { signal: abort.signal });
  await assert.rejects((async () => {
    for await (const event of stream) if (event.event === 'started') abort.abort(reason);
  })(), reason);
  await session.interrupt();
  await assert.rejects(session.execute('1', {}, { signal: AbortSignal.abort(reason) }), reason);
}));

test('the environment names the gateway, and a data directory too', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'himalia-client-'));
  const kept = { ...process.env };
  try {
    for (const name of ['HIMALIA_URL', 'HIMALIA_TOKEN', 'HIMALIA_TOKEN_FILE']) delete process.env[name];
    await assert.rejects(connect({ dataDir: directory }), ConfigurationError);
    await writeFile(join(directory, 'token'), `${server.token}\n`);
    await writeFile(join(directory, 'gateway.json'), JSON.stringify({ url: `${server.url}/`, token_file: join(directory, 'token') }));
    assert.ok(await (await connect({ dataDir: directory })).templates());
    await assert.rejects(connect({ url: server.url }), ConfigurationError);
    Object.assign(process.env, { HIMALIA_URL: server.url, HIMALIA_TOKEN_FILE: join(directory, 'token') });
    assert.ok(await (await connect()).templates());
  } finally {
    for (const name of ['HIMALIA_URL', 'HIMALIA_TOKEN_FILE']) {
      if (kept[name] === undefined) delete process.env[name];
      else process.env[name] = kept[name];
    }
    await rm(directory, { recursive: true });
  }
});

test('no error and no object shows the token', async () => {
  const token = 'a-secret-token';
  // It closes each connection, and then refuses with an answer that is no problem document.
  let requests = 0;
  const broken = createServer((request, response) => {
    requests += 1;
    if (requests <= 2) request.socket.destroy();
    else response.writeHead(502).end('<h1>bad gateway</h1>');
  });
  await new Promise(resolve => broken.listen(0, '127.0.0.1', resolve));
  try {
    const url = `http://127.0.0.1:${broken.address().port}`;
    const stranger = new Gateway({ url, token, attempts: 2 });
    const failures = [];
    for (const call of [() => stranger.sessions(), () => stranger.at('x').interrupt()]) await call().catch(error => failures.push(error));
    assert.ok(failures[0] instanceof ConnectionFailed && failures[1] instanceof ApiError, String(failures));
    assert.equal(failures[1].status, 502);
    assert.equal(requests, 3, 'a GET is repeated, a POST that was answered is not');
    for (const thing of [stranger, stranger.at('x'), ...failures]) {
      const shown = inspect(thing, { depth: 10, showHidden: true }) + JSON.stringify(thing) + String(thing) + thing?.stack;
      assert.ok(!shown.includes(token), shown);
    }
    assert.throws(() => new Gateway({ url: `http://user:${token}@127.0.0.1`, token }), error => error instanceof ConfigurationError && !error.message.includes(token));
  } finally {
    broken.close();
  }
});
