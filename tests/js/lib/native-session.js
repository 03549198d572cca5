// A session of the native API, and code that runs in it.

import { until } from './until.js';

/** One session with a name. */
export class NativeSession {
  constructor(gateway, name, model) {
    this.gateway = gateway;
    this.name = name;
    this.id = model.id;
    this.path = `/v1/sessions/${name}`;
  }

  /** Starts it with these members of the request. */
  static async start(gateway, name, members = {}) {
    return new NativeSession(gateway, name, await json(await gateway.call('PUT', `/v1/sessions/${name}`, members)));
  }

  /** What the gateway says of it. */
  async model() {
    return json(await this.gateway.call('GET', this.path));
  }

  /** Runs code and returns its result when it has ended. */
  async run(code, members = {}) {
    return json(await this.gateway.call('POST', `${this.path}/executions`, { code, ...members }));
  }

  /** Submits code and returns its id. */
  async begin(code, members = {}) {
    return (await this.run(code, { background: true, ...members })).id;
  }

  /** What came of an execution so far. */
  async result(id) {
    return json(await this.gateway.call('GET', `/v1/executions/${id}`));
  }

  /** Waits for the end of an execution. */
  async over(id) {
    return until(`${id} is over`, async () => {
      const result = await this.result(id);
      return !['queued', 'running'].includes(result.status) && result;
    });
  }

  /** The whole text of an execution as the gateway's log has it. */
  async text(id) {
    let text = '';
    for (let cursor = 0; cursor !== null;) {
      const page = await json(await this.gateway.call('GET', `/v1/executions/${id}/output?cursor=${cursor}&limit=1048576`));
      text += page.text;
      // While it runs, there may be more after the last page.
      cursor = page.text === '' ? null : page.next;
    }
    return text;
  }

  /** Writes a file into the work directory, for code that waits for it. */
  async write(path, content = '') {
    const response = await fetch(`${this.gateway.url}${this.path}/files/${path}`, {
      method: 'PUT', headers: { Authorization: `token ${this.gateway.token}` }, body: content
    });
    if (!response.ok) throw new Error(`PUT ${path}: ${response.status} ${await response.text()}`);
  }

  async notebook() {
    return json(await this.gateway.call('GET', `${this.path}/notebook.ipynb`));
  }

  async end() {
    await this.gateway.call('DELETE', this.path);
  }
}

/** Kernel code that waits until a file is there. */
export const waitFor = file => `import os, time\nwhile not os.path.exists('${file}'): time.sleep(0.01)\n`;

async function json(response) {
  const text = await response.text();
  if (!response.ok) throw new Error(`${response.url}: ${response.status} ${text}`);
  return JSON.parse(text);
}
