// Serves dist as the gateway does, for work on the viewer: with its headers, and with calls handed on to a running gateway.
//
//   HIMALIA_URL=http://127.0.0.1:8888 HIMALIA_TOKEN=… node scripts/serve.js [port]
//
// HIMALIA_WITHOUT names a header that is left out, as to a browser that does not know it.

import { createReadStream, existsSync, statSync } from 'node:fs';
import { createServer, request } from 'node:http';
import { extname, join, normalize } from 'node:path';
import { pipeline } from 'node:stream';
import { fileURLToPath } from 'node:url';

const dist = fileURLToPath(new URL('../dist', import.meta.url));
const gateway = new URL(process.env.HIMALIA_URL ?? 'http://127.0.0.1:8888');
const token = process.env.HIMALIA_TOKEN ?? '';
const port = Number(process.argv[2] ?? 5173);

const TYPES = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml'
};
const PAGE =
  "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; img-src 'self' blob: data:; connect-src 'self'; " +
  "frame-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'";
const frame = origin =>
  `sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval' ${origin}/frame/; style-src 'unsafe-inline'; ` +
  "img-src data: blob:; font-src data:; media-src data: blob:; connect-src 'none'; form-action 'none'; base-uri 'none'; frame-ancestors 'self'";

const server = createServer((incoming, outgoing) => {
  const path = new URL(incoming.url, 'http://x').pathname;
  if (path.startsWith('/v1/')) return hand(incoming, outgoing);
  if (path.startsWith('/viewer/')) return outgoing.writeHead(204).end();
  const file = join(dist, normalize(path === '/' ? '/index.html' : path));
  if (!file.startsWith(dist) || !existsSync(file) || !statSync(file).isFile()) return outgoing.writeHead(404).end();
  const isFrame = path === '/frame.html';
  const headers = {
    'Content-Type': TYPES[extname(file)] ?? 'application/octet-stream',
    'Content-Security-Policy': isFrame ? frame(`http://${incoming.headers.host}`) : PAGE,
    'X-Content-Type-Options': 'nosniff',
    'Referrer-Policy': 'no-referrer',
    'X-DNS-Prefetch-Control': 'off',
    ...(isFrame ? { 'Connection-Allowlist': '(response-origin); webrtc=block' } : {}),
    'Cross-Origin-Opener-Policy': 'same-origin'
  };
  const without = (process.env.HIMALIA_WITHOUT ?? '').toLowerCase();
  outgoing.writeHead(
    200,
    Object.fromEntries(Object.entries(headers).filter(([name]) => name.toLowerCase() !== without))
  );
  createReadStream(file).pipe(outgoing);
});
server.listen(port, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}/`));

function hand(incoming, outgoing) {
  const headers = { ...incoming.headers, host: gateway.host, authorization: `token ${token}` };
  delete headers.origin;
  const onward = request(new URL(incoming.url, gateway), { method: incoming.method, headers }, answer => {
    outgoing.writeHead(answer.statusCode, answer.headers);
    // When the gateway breaks off, so does this: a stream that only falls silent would be waited for.
    pipeline(answer, outgoing, () => {});
  });
  onward.on('error', () => outgoing.headersSent || outgoing.writeHead(502).end());
  outgoing.on('close', () => onward.destroy());
  incoming.pipe(onward);
}
