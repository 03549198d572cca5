// The tests of @jupyterlab/services once more, over https and wss of the gateway itself.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { certificate } from '../lib/certificate.js';
import { Scratch } from '../lib/surroundings.js';

test('services.test.js passes over TLS', async () => {
  const scratch = new Scratch();
  try {
    certificate(scratch);
    // Node reads the certificates that it trusts at its start.
    const env = { ...process.env, HIMALIA_TEST_TLS: scratch.path, NODE_EXTRA_CA_CERTS: join(scratch.path, 'cert.pem') };
    delete env.NODE_TEST_CONTEXT;
    const file = new URL('services.test.js', import.meta.url).pathname;
    const child = spawn(process.execPath, ['--test', '--test-force-exit', file], { env, stdio: ['ignore', 'pipe', 'inherit'] });
    let output = '';
    child.stdout.on('data', data => void (output += data));
    const code = await new Promise(resolve => child.on('close', resolve));
    assert.equal(code, 0, output);
    assert.match(output, /pass [1-9]/);
  } finally {
    scratch.remove();
  }
});
