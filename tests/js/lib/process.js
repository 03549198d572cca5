// Child processes that are started, watched for a line of output, and stopped by their own pid.

import { spawn } from 'node:child_process';
import { until, PATIENCE } from './until.js';

const KEPT_OUTPUT = 256 * 1024; // characters of output kept for error messages

/** A running child process. */
export class Process {
  #child;
  #output = '';
  #exited;

  /**
   * @param {string} command
   * @param {string[]} args
   * @param {{env: Record<string, string>, cwd?: string}} options the environment is exactly `env`.
   */
  constructor(command, args, { env, cwd }) {
    this.name = command;
    this.#child = spawn(command, args, { env, cwd, stdio: ['ignore', 'pipe', 'pipe'] });
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream.setEncoding('utf8');
      stream.on('data', text => {
        this.#output = (this.#output + text).slice(-KEPT_OUTPUT);
      });
    }
    this.#exited = new Promise(resolve => {
      this.#child.once('exit', (code, signal) => resolve({ code, signal }));
      this.#child.once('error', error => resolve({ error }));
    });
    const abandoned = () => this.#child.kill('SIGKILL'); // when the tests themselves are ended
    process.once('exit', abandoned);
    this.#exited.then(how => {
      this.end = how;
      process.off('exit', abandoned);
    });
  }

  get output() {
    return this.#output;
  }

  get pid() {
    return this.#child.pid;
  }

  /** Waits until the output matches, and returns the match. Fails at once when the process ends. */
  async line(pattern, patience = PATIENCE) {
    let match;
    await until(`${this.name} prints ${pattern}`, () => {
      match = this.#output.match(pattern);
      return match || this.end;
    }, patience).catch(error => {
      throw new Error(`${error.message}\n${this.#output}`);
    });
    if (match) return match;
    throw new Error(`${this.name} ended (${JSON.stringify(this.end)}):\n${this.#output}`);
  }

  /** SIGTERM, and SIGKILL when that is not obeyed within 15 s. Returns how the process ended. */
  async stop() {
    if (this.end) return this.end;
    const kill = setTimeout(() => this.#child.kill('SIGKILL'), 15_000);
    this.#child.kill('SIGTERM');
    const how = await this.#exited;
    clearTimeout(kill);
    return how;
  }

  /** SIGKILL, as a crash would be. */
  async crash() {
    this.#child.kill('SIGKILL');
    return this.#exited;
  }
}
