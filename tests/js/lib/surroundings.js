// Temporary directories, and an environment in which no test sees the user's own Jupyter set-up.

import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, isAbsolute, join } from 'node:path';

/** The Python interpreter of the test environment: the one that runs JupyterLab. */
export function testPython() {
  const python = process.env.TEST_PYTHON;
  if (!python || !isAbsolute(python)) {
    throw new Error('set TEST_PYTHON to the absolute path of a Python that has jupyterlab');
  }
  return python;
}

/** A fresh directory below the system's temporary directory (short: unix sockets may live below it). */
export class Scratch {
  constructor() {
    this.path = mkdtempSync(join(tmpdir(), 'hm-js-'));
  }

  /** A directory in it for this user alone, made if need be. */
  directory(name) {
    const path = join(this.path, name);
    mkdirSync(path, { recursive: true, mode: 0o700 });
    return path;
  }

  remove() {
    rmSync(this.path, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
  }
}

/** Environment variables for a child process, with every Jupyter directory below `scratch`. */
export function isolated(scratch, extra = {}) {
  const home = scratch.directory('home');
  return {
    PATH: `${dirname(testPython())}:${process.env.PATH}`,
    LANG: 'C.UTF-8',
    HOME: home,
    TMPDIR: scratch.directory('tmp'),
    JUPYTER_CONFIG_DIR: join(home, 'jupyter-config'),
    JUPYTER_DATA_DIR: join(home, 'jupyter-data'),
    JUPYTER_RUNTIME_DIR: join(home, 'jupyter-runtime'),
    JUPYTER_PLATFORM_DIRS: '1',
    IPYTHONDIR: join(home, 'ipython'),
    ...extra
  };
}
