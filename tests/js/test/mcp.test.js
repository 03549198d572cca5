// MCP with the official SDK for Node: over HTTP, and over `himalia mcp`.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { Gateway } from '../lib/gateway.js';

let gateway;

before(async () => {
  gateway = await Gateway.start();
});
after(async () => {
  await gateway?.stop();
});

const transports = {
  http: () => new StreamableHTTPClientTransport(new URL(`${gateway.url}/mcp`), {
    requestInit: { headers: { Authorization: `Bearer ${gateway.token}` } }
  }),
  stdio: () => new StdioClientTransport({
    command: process.env.HIMALIA_BIN,
    args: ['mcp', '--url', `${gateway.url}/`],
    env: { ...process.env, HIMALIA_TOKEN: gateway.token }
  })
};

for (const [name, transport] of Object.entries(transports)) {
  test(`an analysis in stages over ${name}`, { skip: process.env.HIMALIA_TEST_GATEWAY === 'jupyter_server' }, async () => {
    const client = new Client({ name: 'test', version: '1' });
    await client.connect(transport());
    try {
      const { tools } = await client.listTools();
      assert.deepEqual(tools.map(tool => tool.name).sort(), ['execute', 'files', 'get_output', 'inspect_variables', 'interrupt', 'session']);
      const call = (tool, args, options) => client.callTool({ name: tool, arguments: args }, undefined, options);
      const made = await call('session', { op: 'create', name });
      assert.ok(!made.isError, JSON.stringify(made));
      await call('execute', { session: name, code: 'x = 41' });
      const told = [];
      const code = 'import time\nfor n in range(3):\n    print("step", n, flush=True)\n    time.sleep(0.7)\nx + 1';
      const right = await call('execute', { session: name, code }, { onprogress: progress => told.push(progress.message) });
      assert.match(right.content[0].text, /step 2\n42\n/);
      assert.ok(told.length > 0 && told.every(message => message.startsWith('step ')), JSON.stringify(told));
      const wrong = await call('execute', { session: name, code: 'y = 1\nx / 0' });
      assert.ok(wrong.isError && wrong.content[0].text.includes('[failing line 2: x / 0]'), wrong.content[0].text);
      assert.equal(wrong.structuredContent, undefined);
      assert.equal(wrong._meta['himalia/result'].status, 'error');
      await call('session', { op: 'close', session: name });
    } finally {
      await client.close();
    }
  });
}
