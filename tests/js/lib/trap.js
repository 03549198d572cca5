// Servers that must not be called, which hear all that reaches them: TCP, UDP, and the names that the browser looks up.

import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { createServer as createHttpServer } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { certificate } from './certificate.js';
import { Scratch } from './surroundings.js';

/** The end of all names of the trap. Any other name is a browser's own business. */
const DOMAIN = '.trap.test';

/** An ear at one port: `heard` has what came to it, by TCP and by UDP. */
class Ear {
  heard = [];
  sockets = new Set();

  async open() {
    this.tcp = createServer(socket => {
      this.heard.push('tcp');
      this.sockets.add(socket);
      socket.on('error', () => {}).once('close', () => this.sockets.delete(socket));
      socket.on('data', data => {
        this.heard.push(`tcp: ${data.toString('latin1').split('\r\n')[0].slice(0, 80)}`);
        socket.end('HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: *\r\nContent-Length: 7\r\n\r\ntrapped');
      });
    });
    this.tcp.listen(0, '127.0.0.1');
    await once(this.tcp, 'listening');
    this.port = this.tcp.address().port;
    this.udp = createSocket('udp4');
    this.udp.on('message', data => this.heard.push(`udp: ${data.length} bytes`));
    this.udp.bind(this.port, '127.0.0.1');
    await once(this.udp, 'listening');
    this.url = `http://127.0.0.1:${this.port}`;
    return this;
  }

  async close() {
    for (const socket of this.sockets) socket.destroy();
    this.udp.close();
    this.tcp.close();
    await once(this.tcp, 'close');
  }
}

/** `names` are the names below the trap's domain that were looked up, without the domain. */
export class Trap {
  names = new Set();
  #ears = [];
  #servers = [];
  #scratch = new Scratch();
  #pages = new Map();

  static async start() {
    const trap = new Trap();
    const { key, cert, pin } = certificate(trap.#scratch);
    trap.#pin = pin;
    trap.#dns = await trap.#listen(createHttpsServer({ key, cert }, (request, response) => void trap.#answer(request, response)));
    trap.#site = await trap.#listen(createHttpServer((request, response) => {
      response.writeHead(200, { 'Content-Type': 'text/html' }).end(trap.#pages.get(request.url) ?? '');
    }));
    return trap;
  }

  #pin;
  #dns;
  #site;

  /** What a browser is started with so that it asks this trap for names. The names all lead to this machine. */
  get browser() {
    return {
      flags: [`--ignore-certificate-errors-spki-list=${this.#pin}`, '--use-fake-device-for-media-stream'],
      localState: { dns_over_https: { mode: 'secure', templates: `https://127.0.0.1:${this.#dns}/dns-query` } }
    };
  }

  async ear() {
    const ear = await new Ear().open();
    this.#ears.push(ear);
    return ear;
  }

  /** The address of a page with this content, without any policy. */
  page(content) {
    const path = `/${this.#pages.size}`;
    this.#pages.set(path, content);
    return `http://127.0.0.1:${this.#site}${path}`;
  }

  async #listen(server) {
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    this.#servers.push(server);
    return server.address().port;
  }

  /** One question by HTTPS (RFC 8484): an address for IPv4, nothing for all else. */
  async #answer(request, response) {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const asked = new URL(request.url, 'https://x').searchParams.get('dns');
    const question = asked === null ? Buffer.concat(chunks) : Buffer.from(asked, 'base64url');
    const labels = [];
    let at = 12;
    for (; question[at]; at += question[at] + 1) labels.push(question.toString('latin1', at + 1, at + 1 + question[at]));
    // Questions for service records have labels of their own before the name.
    const name = labels.filter(label => !label.startsWith('_')).join('.').toLowerCase();
    if (name.endsWith(DOMAIN)) this.names.add(name.slice(0, -DOMAIN.length));
    const isAddress = question.readUInt16BE(at + 1) === 1;
    const head = Buffer.from(question.subarray(0, at + 5));
    head.writeUInt16BE(0x8180, 2);
    head.writeUInt16BE(isAddress ? 1 : 0, 6);
    head.fill(0, 8, 12);
    const record = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1]);
    response.writeHead(200, { 'Content-Type': 'application/dns-message' }).end(isAddress ? Buffer.concat([head, record]) : head);
  }

  async stop() {
    await Promise.all(this.#ears.map(ear => ear.close()));
    for (const server of this.#servers) {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    }
    this.#scratch.remove();
  }
}

/**
 * Markup that tries every way out of a document: requests, connections ahead of them, names, WebRTC. The names that it has looked up
 * begin with `tag`; it writes `<b id="tried">` when all tries are made.
 */
export function ways(tag, ear) {
  const at = name => `http://${tag}-${name}${DOMAIN}:${ear.port}/${name}`;
  return `
    <link rel=dns-prefetch href="${at('hint')}"><link rel=preconnect href="${at('ahead')}"><link rel=prefetch href="${at('prefetch')}">
    <link rel=preload as=image href="${at('preload')}"><link rel=modulepreload href="${at('module')}"><link rel=stylesheet href="${at('css')}">
    <style>body { background: url(${at('style')}) }</style><p>text</p><a href="${at('anchor')}">link</a>
    <img src="${at('img')}"><video src="${at('video')}"></video><object data="${at('object')}"></object><iframe src="${at('iframe')}"></iframe>
    <script src="${at('script')}"></script>
    <script type=speculationrules>{"prefetch": [{"source": "list", "urls": ["${at('rules')}"], "eagerness": "immediate"}]}</script>
    <script>(async () => {
      const tried = async body => { try { await body(); } catch {} };
      await tried(() => navigator.sendBeacon('${at('beacon')}', 'x'));
      await tried(() => { new Image().src = '${at('image')}'; });
      await tried(() => { new EventSource('${at('events')}'); });
      await tried(() => { new WebSocket('${at('socket').replace('http', 'ws')}'); });
      await tried(() => { new WebTransport('${at('transport').replace('http', 'https')}'); });
      await tried(() => { import('${at('import')}').catch(() => {}); });
      await tried(() => { fetch('${at('fetch')}').catch(() => {}); });
      await tried(async () => {
        const peer = new (globalThis.RTCPeerConnection || globalThis.webkitRTCPeerConnection)({ iceServers: [{ urls: 'stun:127.0.0.1:${ear.port}' },
          { urls: 'turn:${tag}-turn${DOMAIN}:${ear.port}', username: '${tag}', credential: 'x' },
          { urls: 'turn:127.0.0.1:${ear.port}?transport=tcp', username: '${tag}', credential: 'x' }] });
        const gathered = new Promise(done => { peer.onicegatheringstatechange = () => peer.iceGatheringState === 'complete' && done(); });
        peer.createDataChannel('');
        await peer.setLocalDescription(await peer.createOffer());
        await Promise.race([gathered, new Promise(done => setTimeout(done, 2000))]);
      });
      const end = document.createElement('b'); end.id = 'tried'; end.textContent = 'tried'; document.body.append(end);
    })()</script>`;
}

/** Markup whose script makes links, which a browser may follow as soon as they are in the document. */
export const scriptedLinks = (tag, ear) => `<script>for (const rel of ['dns-prefetch', 'preconnect']) {
    const link = document.createElement('link'); link.rel = rel; link.href = 'http://${tag}-scripted-' + rel + '${DOMAIN}:${ear.port}/';
    document.head.append(link);
  }</script>`;

/** Markup with documents in it by every way to have one, each of which would run `inner`. */
export const documents = inner => `<script>
  const inner = ${JSON.stringify(inner).replaceAll('<', '\\u003c')};
  const frame = attributes => Object.assign(document.createElement('iframe'), attributes);
  const tries = {
    srcdoc: () => document.body.append(frame({ srcdoc: inner })),
    script: () => document.body.append(frame({ src: 'javascript:' + JSON.stringify(inner) })),
    blob: () => document.body.append(frame({ src: URL.createObjectURL(new Blob([inner], { type: 'text/html' })) })),
    data: () => document.body.append(frame({ src: 'data:text/html,' + encodeURIComponent(inner) })),
    prefixed: () => { const it = document.createElementNS('http://www.w3.org/1999/xhtml', 'x:iframe'); it.setAttribute('srcdoc', inner); document.body.append(it); },
    markup: () => document.body.insertAdjacentHTML('beforeend', '<iframe srcdoc="' + inner.replaceAll('"', '&quot;') + '"></iframe>'),
    shadow: () => { const host = document.createElement('div'); document.body.append(host); host.attachShadow({ mode: 'closed' }).append(frame({ srcdoc: inner })); },
    copied: () => {
      const host = document.createElement('div'); host.attachShadow({ mode: 'open', clonable: true }).append(frame({ srcdoc: inner }));
      document.body.append(host.cloneNode(true));
    },
    declared: () => { const host = document.createElement('div'); document.body.append(host);
      host.setHTMLUnsafe('<p><template shadowrootmode=open><iframe srcdoc="' + inner.replaceAll('"', '&quot;') + '"></iframe></template></p>'); },
    object: () => document.body.append(Object.assign(document.createElement('object'), { data: 'data:text/html,' + encodeURIComponent(inner) })),
    window: () => { const it = frame({}); document.body.append(it); const own = it.contentWindow.RTCPeerConnection; if (own) { window.reached = true; } }
  };
  for (const run of Object.values(tries)) try { run(); } catch {}
  const end = document.createElement('b'); end.id = 'nested'; end.textContent = window.reached ? 'reached' : 'kept'; document.body.append(end);
</script>`;
