// JupyterLab in gateway mode: files and settings are its own server's, every kernel is the gateway's.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Process } from './process.js';
import { isolated, Scratch, testPython } from './surroundings.js';
import { until } from './until.js';

const TOKEN = 'lab';

/** A running JupyterLab whose contents are the given notebooks. */
export class Lab {
  #process;
  #scratch;
  #root;

  /**
   * @param {import('./gateway.js').Gateway} gateway
   * @param {Record<string, string[]>} notebooks file name → the sources of its code cells.
   */
  static async start(gateway, notebooks) {
    const lab = new Lab();
    const scratch = (lab.#scratch = new Scratch());
    const root = (lab.#root = scratch.directory('root'));
    for (const [name, cells] of Object.entries(notebooks)) writeFileSync(join(root, name), notebook(cells));
    const env = isolated(scratch, { JUPYTER_GATEWAY_AUTH_TOKEN: gateway.token });
    quiet(env.JUPYTER_CONFIG_DIR);
    lab.#process = new Process(testPython(), [
      '-m', 'jupyterlab', '--no-browser', '--allow-root', '--ip=127.0.0.1', '--port=0',
      `--IdentityProvider.token=${TOKEN}`, `--ServerApp.root_dir=${root}`,
      `--gateway-url=${gateway.url}/`,
      '--LabApp.news_url=', '--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate',
      '--LabApp.extension_manager=readonly', '--LabApp.terminals_enabled=False'
    ], { env });
    try {
      const [, url] = await lab.#process.line(/(http:\/\/127\.0\.0\.1:\d+)\/lab/);
      lab.url = url;
      await until('JupyterLab answers', async () => (await fetch(`${url}/api`)).ok);
    } catch (error) {
      await lab.stop();
      throw error;
    }
    return lab;
  }

  /** Puts a file beside the notebooks. */
  write(name, content) {
    writeFileSync(join(this.#root, name), content);
  }

  /** The address that opens one notebook in a fresh workspace. */
  address(name) {
    return `${this.url}/lab/workspaces/${name.replace(/\W/g, '-')}/tree/${name}?token=${TOKEN}`;
  }

  get output() {
    return this.#process.output;
  }

  async stop() {
    await this.#process?.stop();
    this.#scratch.remove();
  }
}

function notebook(sources) {
  return JSON.stringify({
    nbformat: 4,
    nbformat_minor: 5,
    metadata: {
      kernelspec: { name: 'python3', display_name: 'Python 3', language: 'python' },
      language_info: { name: 'python' }
    },
    cells: sources.map((source, i) => ({
      id: `cell-${i}`, cell_type: 'code', execution_count: null, metadata: {}, outputs: [], source
    }))
  });
}

/** Settings without news and extension manager, which ask other hosts. */
function quiet(config) {
  const labconfig = join(config, 'labconfig');
  mkdirSync(labconfig, { recursive: true });
  writeFileSync(join(labconfig, 'page_config.json'), JSON.stringify({
    disabledExtensions: {
      '@jupyterlab/apputils-extension:announcements': true,
      '@jupyterlab/extensionmanager-extension:plugin': true
    }
  }));
}
