// The gateway under test: Himalia, or jupyter_server as the reference that shows the tests themselves to be right.

import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { dirname, isAbsolute, join } from 'node:path';
import { Process } from './process.js';
import { isolated, Scratch, testPython } from './surroundings.js';
import { until } from './until.js';

/** A running gateway: `url` has no trailing slash, `reference` tells whether it is jupyter_server. */
export class Gateway {
  #process;
  #scratch;
  #options;

  constructor(process, scratch, url, token, reference, options) {
    this.#process = process;
    this.#scratch = scratch;
    this.#options = options;
    this.url = url;
    this.token = token;
    this.reference = reference;
  }

  /**
   * Starts one. `HIMALIA_TEST_GATEWAY=jupyter_server` chooses the reference.
   * @param {{allowOrigin?: string, baseUrl?: string, port?: number, config?: string}} options `baseUrl` is a path with slashes around it;
   *   `url` has none of it. `config` is the text of a configuration file.
   */
  static async start(options = {}) {
    const scratch = new Scratch();
    const token = randomBytes(16).toString('hex');
    const reference = process.env.HIMALIA_TEST_GATEWAY === 'jupyter_server';
    let child;
    try {
      child = reference ? jupyterServer(scratch, token, options) : himalia(scratch, token, options);
      const [, url] = await child.line(/(https?:\/\/127\.0\.0\.1:\d+)/);
      const gateway = new Gateway(child, scratch, url, token, reference, options);
      const path = reference ? '/api' : '/healthz';
      await until(`${url}${path} returns 200`, async () => {
        if (child.end) return true;
        return (await fetch(url + path)).status === 200;
      });
      if (child.end) throw new Error(`the gateway ended at its start:\n${child.output}`);
      return gateway;
    } catch (error) {
      await child?.stop();
      scratch.remove();
      throw error;
    }
  }

  get output() {
    return this.#process.output;
  }

  /** One REST call with the gateway's token; `body` is sent as JSON. */
  async call(method, path, body) {
    return fetch(this.url + path, {
      method,
      headers: { Authorization: `token ${this.token}` },
      body: body === undefined ? undefined : JSON.stringify(body)
    });
  }

  /** Starts a kernel and returns its model. */
  async startKernel() {
    const response = await this.call('POST', '/api/kernels', { name: 'python3' });
    const text = await response.text();
    if (response.status !== 201) throw new Error(`POST /api/kernels: ${response.status} ${text}`);
    return JSON.parse(text);
  }

  /** Himalia only: kill -9. Its kernels continue. */
  async crash() {
    await this.#process.crash();
  }

  /** After a crash: a new gateway at the same address, with the same data. */
  async again() {
    this.#process = himalia(this.#scratch, this.token, { ...this.#options, port: new URL(this.url).port });
    await this.#process.line(/(https?:\/\/127\.0\.0\.1:\d+)/);
    await until('the new gateway answers', async () => (await fetch(`${this.url}/healthz`)).ok);
  }

  /** Stops every kernel, then the gateway, and removes its files. */
  async stop() {
    try {
      if (!this.#process.end) {
        const kernels = await (await this.call('GET', '/api/kernels')).json();
        await Promise.all(kernels.map(kernel => this.call('DELETE', `/api/kernels/${kernel.id}`)));
      }
    } finally {
      await this.#process.stop();
      this.#scratch.remove();
    }
  }
}

function himalia(scratch, token, { allowOrigin, baseUrl, port = 0, config }) {
  const binary = process.env.HIMALIA_BIN;
  if (!binary || !isAbsolute(binary)) throw new Error('set HIMALIA_BIN to the absolute path of the himalia binary');
  // The kernels' Python environment is the user's, built once; everything else is the test's own.
  const environment = execFileSync(binary, ['env', 'path'], { encoding: 'utf8' }).trim();
  const args = ['serve', '--listen', `127.0.0.1:${port}`, '--token', token, '--env-dir', dirname(environment),
    '--data-dir', scratch.directory('data'), '--run-dir', scratch.directory('run'),
    '--only-these-kernelspecs', '--on-sigterm', 'stop', '--orphan-ttl', '1m'];
  if (allowOrigin) args.push('--allow-origin', allowOrigin);
  if (baseUrl) args.push('--base-url', baseUrl);
  if (config) {
    const file = join(scratch.directory('config'), 'himalia.toml');
    writeFileSync(file, config);
    args.push('--config', file);
  }
  // Set by services-tls.test.js, with a certificate that this process trusts.
  const tls = process.env.HIMALIA_TEST_TLS;
  if (tls) args.push('--tls-cert', join(tls, 'cert.pem'), '--tls-key', join(tls, 'key.pem'));
  return new Process(binary, args, { env: isolated(scratch) });
}

function jupyterServer(scratch, token, { allowOrigin }) {
  const args = ['-m', 'jupyter_server', '--no-browser', '--allow-root', '--ip=127.0.0.1', '--port=0',
    `--IdentityProvider.token=${token}`, `--ServerApp.root_dir=${scratch.directory('root')}`];
  if (allowOrigin) args.push(`--ServerApp.allow_origin=${allowOrigin}`);
  return new Process(testPython(), args, { env: isolated(scratch) });
}
