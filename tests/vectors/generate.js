// Writes javascript.json: messages as JupyterLab frames them. See README.md.
'use strict';

const { serialize } = require('@jupyterlab/services/lib/kernel/serialize');
const V1 = 'v1.kernel.websocket.jupyter.org';

const header = (msg_type, number, more = {}) => ({
  date: '2026-01-02T03:04:05.678Z',
  msg_id: `8d2a-${number}`,
  msg_type,
  session: '5f0c-session',
  username: '',
  version: '5.2',
  ...more
});
const bytes = (...values) => new Uint8Array(values).buffer;

const messages = [
  {
    name: 'kernel_info_request',
    message: { channel: 'shell', header: header('kernel_info_request', 1), parent_header: {}, metadata: {}, content: {} }
  },
  {
    name: 'execute_request of a cell',
    message: {
      buffers: [],
      channel: 'shell',
      content: {
        silent: false,
        store_history: true,
        user_expressions: {},
        allow_stdin: true,
        stop_on_error: true,
        code: 'print("héllo 😀 \u2028")\n'
      },
      header: header('execute_request', 2, { subshell_id: null }),
      metadata: { deletedCells: [], recordTiming: true, cellId: 'c-1', trusted: true },
      parent_header: {}
    }
  },
  {
    name: 'null parent header',
    message: { channel: 'shell', header: header('comm_info_request', 3), parent_header: null, metadata: {}, content: {} },
    nullParent: true
  },
  {
    name: 'input_reply',
    message: {
      channel: 'stdin',
      header: header('input_reply', 4),
      parent_header: header('input_request', 3),
      metadata: {},
      content: { status: 'ok', value: '\ud800 and "quotes" \\ \u0000' }
    }
  },
  {
    name: 'debug_request',
    message: {
      channel: 'control',
      header: header('debug_request', 5),
      parent_header: {},
      metadata: {},
      content: { seq: 1, type: 'request', command: 'debugInfo' }
    }
  },
  {
    name: 'comm_msg with buffers',
    message: {
      channel: 'shell',
      header: header('comm_msg', 6),
      parent_header: {},
      metadata: {},
      content: { comm_id: 'c', data: { method: 'update', state: {}, buffer_paths: [['value'], ['x']] } },
      buffers: [bytes(0, 1, 254, 255), bytes(7)]
    }
  },
  {
    name: 'a view as buffer',
    message: {
      channel: 'shell',
      header: header('comm_msg', 7),
      parent_header: {},
      metadata: {},
      content: { comm_id: 'c', data: {} },
      buffers: [new DataView(bytes(1, 2, 3))]
    }
  },
  {
    name: 'one empty buffer',
    message: {
      channel: 'shell',
      header: header('comm_msg', 8),
      parent_header: {},
      metadata: {},
      content: {},
      buffers: [bytes()]
    }
  }
];

const hex = data => Buffer.from(data).toString('hex');
const view = buffer => (ArrayBuffer.isView(buffer) ? buffer.buffer : buffer);

const vectors = messages.map(({ name, message, nullParent }) => {
  const parts = [message.header, message.parent_header ?? {}, message.metadata, message.content];
  const buffers = (message.buffers ?? []).map(view);
  const v1 = serialize({ ...message }, V1);
  const legacy = serialize({ ...message }); // takes buffers out of its argument
  return {
    name,
    channel: message.channel,
    parts: parts.map(part => hex(JSON.stringify(part))),
    buffers: buffers.map(hex),
    v1: hex(v1),
    legacy_text: typeof legacy === 'string' ? legacy : null,
    legacy_binary: typeof legacy === 'string' ? null : hex(legacy),
    null_parent: nullParent ?? false
  };
});
process.stdout.write(JSON.stringify(vectors, null, 1) + '\n');
