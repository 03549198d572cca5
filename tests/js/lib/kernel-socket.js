// A plain WebSocket client of one kernel, as a program without any Jupyter library would write it.

import { randomUUID } from 'node:crypto';
import { WebSocket } from 'ws';
import { decode, legacyBinary, legacyText, v1, V1 } from './frames.js';
import { PATIENCE } from './until.js';

/** How the client shows its token: in the query, or in an `Authorization` header of either scheme. */
export const AUTH = {
  query: token => ({ query: { token } }),
  token: token => ({ headers: { Authorization: `token ${token}` } }),
  bearer: token => ({ headers: { Authorization: `Bearer ${token}` } }),
  none: () => ({})
};

/** One open socket. Every message received is kept in `messages`, in order. */
export class KernelSocket {
  #ws;
  #waiting = new Set();
  messages = [];

  /**
   * Opens a socket and waits for the handshake; a refused one rejects with `error.status`.
   * @param {import('./gateway.js').Gateway} gateway
   * @param {string} kernel id
   * @param {{protocols?: string[], session?: string, auth?: Function, headers?: object}} options
   *   without `protocols` the socket speaks the legacy framings.
   */
  static async open(gateway, kernel, { protocols = [], session = randomUUID(), auth = AUTH.token, headers } = {}) {
    const shown = auth(gateway.token);
    const query = new URLSearchParams({ session_id: session, ...shown.query });
    const url = `${gateway.url.replace('http', 'ws')}/api/kernels/${kernel}/channels?${query}`;
    const ws = new WebSocket(url, protocols, { headers: { ...shown.headers, ...headers } });
    const socket = new KernelSocket(ws, session);
    await new Promise((resolve, reject) => {
      ws.once('open', resolve);
      ws.once('unexpected-response', (_, response) => {
        response.resume();
        ws.once('error', () => {}); // what terminate() says of a handshake that it cuts short
        ws.terminate();
        reject(Object.assign(new Error(`handshake refused: ${response.statusCode}`), { status: response.statusCode }));
      });
      ws.once('error', reject);
    });
    return socket;
  }

  constructor(ws, session) {
    this.#ws = ws;
    this.session = session;
    this.closed = new Promise(resolve => {
      ws.once('close', (code, reason) => {
        this.close_code = code;
        resolve({ code, reason: reason.toString() });
        this.#wake();
      });
    });
    ws.on('error', () => {}); // seen as a close
    ws.on('message', (data, isBinary) => {
      this.messages.push(decode(data, isBinary, ws.protocol === V1));
      this.#wake();
    });
  }

  /** The selected subprotocol, '' when none. */
  get protocol() {
    return this.#ws.protocol;
  }

  /** Makes a message of this client, to be given to `send`. */
  message(channel, type, content, fields = {}) {
    const header = {
      msg_id: randomUUID(), msg_type: type, session: this.session, username: 'test',
      date: new Date().toISOString(), version: '5.3'
    };
    return { channel, header, parent_header: {}, metadata: {}, content, ...fields };
  }

  /** Sends a message in the socket's framing; the legacy binary one only when there are buffers. */
  send(message, buffers = []) {
    if (this.protocol === V1) this.#ws.send(v1(message, buffers));
    else if (buffers.length) this.#ws.send(legacyBinary(message, buffers));
    else this.#ws.send(legacyText(message));
    return message.header.msg_id;
  }

  /** Sends bytes or text exactly as given. */
  sendRaw(data, options) {
    this.#ws.send(data, options);
  }

  /** Writes bytes below the WebSocket layer. */
  sendBytes(bytes) {
    this.#ws._socket.write(bytes);
  }

  /** Executes code and waits for its reply and its idle status; returns every message of that request. */
  async execute(code, content = {}) {
    const id = this.send(this.message('shell', 'execute_request', {
      code, silent: false, store_history: true, user_expressions: {}, allow_stdin: false, stop_on_error: true, ...content
    }));
    return this.finished(id);
  }

  /** Waits for the reply and the idle status of a request; returns every message of that request. */
  async finished(id) {
    await this.first(m => answers(m, id) && m.channel === 'shell');
    await this.first(m => answers(m, id) && m.content.execution_state === 'idle');
    return this.messages.filter(m => answers(m, id));
  }

  /** The first message, past or future, that `test` accepts. */
  async first(test, patience = PATIENCE) {
    return new Promise((resolve, reject) => {
      const look = () => {
        const found = this.messages.find(test);
        if (found) return done(resolve, found);
        if (this.close_code !== undefined) done(reject, new Error(`closed with ${this.close_code} before ${test}`));
      };
      const done = (settle, value) => {
        clearTimeout(timer);
        this.#waiting.delete(look);
        settle(value);
      };
      const timer = setTimeout(() => {
        const seen = this.messages.map(m => `${m.channel}/${m.header.msg_type}`).join(' ');
        done(reject, new Error(`no message for ${test}; seen: ${seen}`));
      }, patience);
      this.#waiting.add(look);
      look();
    });
  }

  /** Closes with code 1000 and waits for the other side. */
  async close() {
    this.#ws.close(1000);
    return this.closed;
  }

  #wake() {
    for (const look of [...this.#waiting]) look();
  }
}

/** Whether a message answers or belongs to the request with this id. */
export function answers(message, id) {
  return message.parent_header?.msg_id === id;
}

/** The text that `messages` wrote to a stream. */
export function streamText(messages, name = 'stdout') {
  return messages.filter(m => m.header.msg_type === 'stream' && m.content.name === name).map(m => m.content.text).join('');
}
