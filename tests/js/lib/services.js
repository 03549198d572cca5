// @jupyterlab/services in Node, set up as an application that talks to a remote gateway would do it.

import { KernelManager, KernelSpecManager, ServerConnection, SessionManager } from '@jupyterlab/services';
import { WebSocket } from 'ws';
import { within } from './until.js';

// The library tells each socket and each kernel state on the console.
console.debug = () => {};

/** Server settings; `sockets` collects every WebSocket that the library opens. */
export function settings(gateway, { url = gateway.url, sockets = [] } = {}) {
  class Recorded extends WebSocket {
    constructor(...args) {
      super(...args);
      sockets.push(this);
    }
  }
  return ServerConnection.makeSettings({
    baseUrl: `${url}/`,
    wsUrl: `${url.replace('http', 'ws')}/`,
    token: gateway.token,
    appendToken: true,
    WebSocket: Recorded
  });
}

/** The managers of one application. */
export class Application {
  constructor(gateway, options = {}) {
    this.sockets = [];
    this.settings = settings(gateway, { ...options, sockets: this.sockets });
    this.kernels = new KernelManager({ serverSettings: this.settings });
    this.specs = new KernelSpecManager({ serverSettings: this.settings });
    this.sessions = new SessionManager({ serverSettings: this.settings, kernelManager: this.kernels });
  }

  async ready() {
    await within('the managers', Promise.all([this.kernels.ready, this.specs.ready, this.sessions.ready]));
    return this;
  }

  dispose() {
    for (const manager of [this.sessions, this.specs, this.kernels]) manager.dispose();
  }
}

/** Executes code on a KernelConnection; returns its reply, its iopub messages and its joined stdout. */
export async function execute(kernel, code, options = {}) {
  const future = kernel.requestExecute({ code, ...options });
  const iopub = [];
  future.onIOPub = message => void iopub.push(message);
  const reply = await within(`the reply of ${JSON.stringify(code)}`, future.done);
  return { reply, iopub, stdout: stdout(iopub) };
}

export function stdout(iopub) {
  return iopub.filter(m => m.header.msg_type === 'stream' && m.content.name === 'stdout').map(m => m.content.text).join('');
}

/** The next value that `signal` emits for which `test` holds. */
export function emitted(what, signal, test = () => true) {
  let slot;
  const value = new Promise(resolve => {
    slot = (_, args) => test(args) && resolve(args);
    signal.connect(slot);
  });
  return within(what, value).finally(() => signal.disconnect(slot));
}
