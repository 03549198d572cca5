// A server of MCP of the SDK from npm, streamable HTTP with sessions: a stock with one tool. It prints its address.

import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { z } from 'zod';

const sessions = new Map();

async function begun() {
  const server = new McpServer({ name: 'stock', version: '1.0.0' });
  server.registerTool(
    'count_items',
    {
      description: 'How many items of a kind there are.',
      inputSchema: { sku: z.string().regex(/^[A-Z]{2}-\d+$/), warehouse: z.enum(['north', 'south']).default('north') },
      outputSchema: { sku: z.string(), warehouse: z.string(), count: z.number().int() },
      annotations: { readOnlyHint: true },
    },
    ({ sku, warehouse }) => {
      const found = { sku, warehouse, count: Number(sku.slice(3)) * (warehouse === 'north' ? 2 : 3) };
      return { content: [{ type: 'text', text: JSON.stringify(found) }], structuredContent: found };
    },
  );
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: (id) => sessions.set(id, transport),
  });
  transport.onclose = () => sessions.delete(transport.sessionId);
  await server.connect(transport);
  return transport;
}

const server = createServer(async (request, response) => {
  const id = request.headers['mcp-session-id'];
  const transport = id ? sessions.get(id) : await begun();
  if (transport) {
    await transport.handleRequest(request, response);
  } else {
    // As the specification says: the client begins a new session.
    response.writeHead(404).end();
  }
});
server.listen(Number(process.argv[2] ?? 0), '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}/mcp`));
