// Forwards MCP between standard input and output and a gateway's `/mcp`, on every system that has Node 18 or newer. The gateway keeps no
// state of a connection, so each message is one request. HIMALIA_URL and HIMALIA_TOKEN name the gateway.
'use strict';
const readline = require('node:readline');

// A gateway that restarts is waited for. Only a connection that was refused is tried again: nothing was sent on it.
const WAIT_MS = 15_000;
const MESSAGE_BYTES = 32 << 20;

function configuration() {
  const { HIMALIA_URL: url, HIMALIA_TOKEN: token } = process.env;
  if (!url || !token) throw new Error('set HIMALIA_URL to the address of the gateway, and HIMALIA_TOKEN to a token of it');
  return { address: new URL('mcp', url.endsWith('/') ? url : `${url}/`), token };
}

let agreed = { version: undefined, host: undefined };

function headersOf(message, token) {
  const params = message.params ?? {};
  const version = params._meta?.['io.modelcontextprotocol/protocolVersion'] ?? (message.method === 'initialize' ? undefined : agreed.version);
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
  const add = (name, value) => {
    if (typeof value === 'string' && /^[\x20-\x7e]+$/.test(value)) headers[name] = value;
  };
  add('mcp-protocol-version', version);
  add('mcp-method', message.method);
  add('mcp-name', params.name ?? params.uri);
  add('x-himalia-caller', agreed.host);
  return headers;
}

function learn(message, answer) {
  if (message.method !== 'initialize' || !answer.result) return;
  const { name = '', version = '' } = message.params?.clientInfo ?? {};
  agreed = { version: answer.result.protocolVersion, host: `${name} ${version}`.trim().slice(0, 64) };
}

const reply = (answer) => process.stdout.write(`${JSON.stringify(answer)}\n`);

async function post(address, init) {
  const until = Date.now() + WAIT_MS;
  for (;;) {
    try {
      return await fetch(address, init);
    } catch (error) {
      const refused = ['ECONNREFUSED', 'UND_ERR_CONNECT_TIMEOUT'].includes(error.cause?.code);
      if (!refused || Date.now() > until) throw new Error(`${address.origin}: ${error.cause?.message ?? error.message}`);
      await new Promise((resolve) => setTimeout(resolve, 300));
    }
  }
}

// Messages of an answer: one of JSON, or the events of a stream.
async function* messages(response) {
  if (!(response.headers.get('content-type') ?? '').startsWith('text/event-stream')) {
    const text = await response.text();
    if (text) yield JSON.parse(text);
    return;
  }
  let [rest, data] = ['', ''];
  for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop();
    if (rest.length + data.length > MESSAGE_BYTES) throw new Error(`a message has more than ${MESSAGE_BYTES} bytes`);
    for (const line of lines.map((line) => line.replace(/\r$/, ''))) {
      if (line.startsWith('data:')) data += line.slice(5).trimStart();
      else if (line === '' && data !== '') {
        yield JSON.parse(data);
        data = '';
      }
    }
  }
}

async function forward({ address, token }, message) {
  const asked = message.id !== undefined && message.method !== undefined;
  try {
    const response = await post(address, { method: 'POST', headers: headersOf(message, token), body: JSON.stringify(message) });
    let answered = false;
    for await (const answer of messages(response)) {
      if (answer.jsonrpc !== '2.0') throw new Error(`the gateway returned ${response.status}: ${answer.detail ?? answer.title ?? 'no message of MCP'}`);
      answered ||= answer.id === message.id;
      learn(message, answer);
      reply(answer);
    }
    if (asked && !answered) throw new Error(`the gateway returned ${response.status} without an answer`);
  } catch (error) {
    if (asked) reply({ jsonrpc: '2.0', id: message.id, error: { code: -32000, message: error.message } });
    else process.stderr.write(`himalia: ${error.message}\n`);
  }
}

function main() {
  const gateway = configuration();
  const input = readline.createInterface({ input: process.stdin });
  const running = new Set();
  // `initialize` has its answer before the next message is sent, since that names the revision.
  let before = Promise.resolve();
  input.on('line', (line) => {
    if (line.trim() === '') return;
    let message;
    try {
      message = JSON.parse(line);
    } catch {
      reply({ jsonrpc: '2.0', id: null, error: { code: -32700, message: 'the line is not JSON' } });
      return;
    }
    const done = before.then(() => forward(gateway, message));
    if (message.method === 'initialize') before = done;
    running.add(done);
    done.finally(() => running.delete(done));
  });
  input.on('close', () => Promise.all(running).then(() => process.exit(0)));
}

try {
  main();
} catch (error) {
  process.stderr.write(`himalia: ${error.message}\n`);
  process.exit(2);
}
