// @jupyterlab/services from Node: what goes over the control channel, the debugger and subshells.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { emitted, execute, stdout } from '../lib/services.js';
import { app, kernel } from '../lib/services-suite.js';
import { within } from '../lib/until.js';

test('debugger: initialize, attach, breakpoint, stopped, variables, continue', async () => {
  let seq = 0;
  const own = await app.kernels.startNew({ name: 'python3' });
  await within('the kernel', own.info);
  const debug = async (command, args) => {
    const future = own.requestDebug({ seq: ++seq, type: 'request', command, arguments: args });
    const answer = await within(`the reply of ${command}`, future.done);
    assert.equal(answer.content.success, true, JSON.stringify(answer.content));
    return answer.content.body;
  };
  const event = name => emitted(`the event ${name}`, own.iopubMessage,
    m => m.header.msg_type === 'debug_event' && m.content.event === name);

  const initialized = event('initialized');
  const abilities = await debug('initialize', {
    clientID: 'test', adapterID: '', pathFormat: 'path', linesStartAt1: true, columnsStartAt1: true,
    supportsVariableType: true, supportsVariablePaging: true, supportsRunInTerminalRequest: true, locale: 'en'
  });
  assert.ok(abilities.supportsConfigurationDoneRequest);
  await debug('attach', {});
  await initialized;
  const code = 'def inner(n):\n    m = n + 1\n    return m\nprint(inner(41))';
  const { sourcePath } = await debug('dumpCell', { code });
  const { breakpoints } = await debug('setBreakpoints', { breakpoints: [{ line: 3 }], source: { path: sourcePath }, sourceModified: false });
  assert.equal(breakpoints[0].verified, true);
  await debug('configurationDone');
  const stopped = event('stopped');
  const cell = own.requestExecute({ code });
  const iopub = [];
  cell.onIOPub = message => void iopub.push(message);
  const { content } = await stopped;
  const { stackFrames } = await debug('stackTrace', { threadId: content.body.threadId });
  assert.equal(stackFrames[0].name, 'inner');
  assert.equal(stackFrames[0].line, 3);
  const { scopes } = await debug('scopes', { frameId: stackFrames[0].id });
  const { variables } = await debug('variables', { variablesReference: scopes[0].variablesReference });
  assert.equal(variables.find(v => v.name === 'm').value, '42');
  const continued = event('continued');
  await debug('continue', { threadId: content.body.threadId });
  await continued;
  assert.equal((await within('the cell', cell.done)).content.status, 'ok');
  assert.equal(stdout(iopub), '42\n');
  await debug('disconnect', { restart: false, terminateDebuggee: false });
  await own.shutdown();
});

test('subshells: one answers while the main shell is busy', async () => {
  assert.equal(kernel.supportsSubshells, true);
  const created = await within('the subshell', kernel.requestCreateSubshell({}).done);
  const { subshell_id } = created.content;
  const listed = await within('the list', kernel.requestListSubshell({}).done);
  assert.ok(listed.content.subshell_id.includes(subshell_id));
  const busy = kernel.requestExecute({
    code: 'import time\nfree = False\nprint("busy", flush=True)\nwhile not free: time.sleep(0.01)',
  });
  const begun = new Promise((resolve) => {
    busy.onIOPub = (message) => message.header.msg_type === 'stream' && resolve();
  });
  await within('the main shell to be busy', begun);
  const side = kernel.clone();
  side.subshellId = subshell_id;
  await execute(side, 'free = True');
  assert.equal((await within('the main shell', busy.done)).content.status, 'ok');
  side.dispose();
  await within('its end', kernel.requestDeleteSubshell({ subshell_id }).done);
});
