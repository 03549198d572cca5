// A gateway, a client of it by @jupyterlab/services, and a kernel, for all tests of the file that imports them.

import { after, before } from 'node:test';
import { Gateway } from './gateway.js';
import { Application } from './services.js';

export let gateway;
export let app;
export let kernel;

before(async () => {
  gateway = await Gateway.start();
  app = await new Application(gateway).ready();
  kernel = await app.kernels.startNew({ name: 'python3' });
});
after(async () => {
  kernel?.dispose();
  app?.dispose();
  await gateway?.stop();
});
