// What an application of another origin does with @jupyterlab/services, straight at the gateway.
// Bundled for the browser by lib/page-server.js; the test calls these functions in the page.

import { KernelManager, ServerConnection } from '@jupyterlab/services';

let kernels;
let kernel;

/** Connects to the gateway and starts a kernel; tells the framing that its socket speaks. */
export async function start(url, token) {
  let socket;
  class Recorded extends WebSocket {
    constructor(...args) {
      super(...args);
      socket = this;
    }
  }
  const serverSettings = ServerConnection.makeSettings({
    baseUrl: `${url}/`, wsUrl: `${url.replace('http', 'ws')}/`, token, appendToken: true, WebSocket: Recorded
  });
  kernels = new KernelManager({ serverSettings });
  await kernels.ready;
  kernel = await kernels.startNew({ name: 'python3' });
  const info = await kernel.info;
  return { language: info.language_info.name, protocol: socket.protocol };
}

/** Executes code and returns its reply's status and what it printed. */
export async function execute(code) {
  const future = kernel.requestExecute({ code });
  let text = '';
  future.onIOPub = message => {
    if (message.header.msg_type === 'stream') text += message.content.text;
    if (message.header.msg_type === 'error') text += `${message.content.ename}: ${message.content.evalue}`;
  };
  const reply = await future.done;
  return { status: reply.content.status, text };
}

/**
 * Runs code that makes an `ipywidgets.Image`, and shows it as `<img id="widget">` from the binary buffer
 * of its `comm_open`. Later updates from the kernel are shown too.
 */
export async function showImageWidget(code) {
  const opened = new Promise(resolve => {
    kernel.registerCommTarget('jupyter.widget', (comm, message) => {
      const { state, buffer_paths } = message.content.data;
      if (state._model_name !== 'ImageModel') return;
      show(message.buffers[at(buffer_paths)]);
      comm.onMsg = update => {
        const data = update.content.data;
        if (data.method === 'update' && at(data.buffer_paths ?? []) >= 0) show(update.buffers[at(data.buffer_paths)]);
      };
      resolve({ comm, format: state.format, paths: buffer_paths });
    });
  });
  const ran = execute(code);
  const { comm, format, paths } = await opened;
  globalThis.widget = comm;
  return { ...(await ran), format, paths };
}

/** Draws a picture here and sends it to the kernel's widget as a binary buffer; returns its length and SHA-256. */
export async function sendPicture(width, height) {
  const canvas = new OffscreenCanvas(width, height);
  const context = canvas.getContext('2d');
  context.fillStyle = 'teal';
  context.fillRect(0, 0, width, height);
  const picture = await (await canvas.convertToBlob({ type: 'image/png' })).arrayBuffer();
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', picture));
  globalThis.widget.send({ method: 'update', state: {}, buffer_paths: [['value']] }, {}, [picture]);
  return { bytes: picture.byteLength, sha256: [...digest].map(b => b.toString(16).padStart(2, '0')).join('') };
}

/** Shuts the kernel down. */
export async function stop() {
  await kernel.shutdown();
  kernels.dispose();
}

function at(paths) {
  return paths.findIndex(path => path.length === 1 && path[0] === 'value');
}

function show(bytes) {
  const img = document.getElementById('widget') ?? document.body.appendChild(Object.assign(new Image(), { id: 'widget' }));
  img.src = URL.createObjectURL(new Blob([bytes], { type: 'image/png' }));
}
