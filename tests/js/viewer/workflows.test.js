// A run of a workflow in the viewer: its graph with states, the data of a step, the answer of a person, and the session of a step.

import assert from 'node:assert/strict';
import { violations } from '../lib/axe.js';
import { shot } from '../lib/browser.js';
import { until } from '../lib/until.js';
import { viewerSuite } from '../lib/viewer-suite.js';

const SKILL = {
  manifest: {
    name: 'double',
    version: '1.0.0',
    kind: 'code',
    description: 'Doubles.',
    inputs: { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] },
    outputs: { type: 'object', properties: { twice: { type: 'integer' } }, required: ['twice'] },
  },
  files: { 'main.py': { text: 'def main(n):\n    print("at work")\n    return {"twice": 2 * n}\n' } },
};
const WORKFLOW = {
  name: 'doubles',
  version: '1.0.0',
  description: 'Doubles numbers, and asks.',
  inputs: { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] },
  steps: [
    { id: 'first', skill: { name: 'double' }, inputs: { n: { from: 'inputs.n' } } },
    { id: 'each', skill: { name: 'double' }, map: { over: { value: [1, 2, 3] } }, inputs: { n: { from: 'item' } } },
    { id: 'sign', approval: { text: 'Is <b>this</b> good?' }, inputs: { first: { from: 'steps.first.outputs' } }, after: ['each'] },
    { id: 'last', skill: { name: 'double' }, inputs: { n: { from: 'steps.first.outputs.twice' } }, after: ['sign'] },
  ],
  outputs: { twice: { from: 'steps.last.outputs.twice' } },
};

const suite = viewerSuite(async gateway => {
  for (const [path, body] of [['/v1/skills', SKILL], ['/v1/workflows', { definition: WORKFLOW }]]) {
    const reply = await gateway.call('POST', path, body);
    assert.equal(reply.status, 201, await reply.text());
  }
});

async function start(gateway, n) {
  const reply = await gateway.call('POST', '/v1/workflows/doubles/runs', { inputs: { n } });
  assert.equal(reply.status, 202);
  return (await reply.json()).id;
}

suite.test('a person follows a run, answers its question, and finds the session of a step', async (viewer, gateway) => {
  const id = await start(gateway, 21);
  await viewer.go('runs');
  await viewer.page.getByRole('link', { name: id }).click();
  const step = (name, status) => viewer.page.getByRole('link', { name: `${name} ${status}`, exact: true });
  await step('sign', 'waiting').waitFor({ timeout: 60_000 });
  await step('first', 'succeeded').waitFor();
  await step('each', 'succeeded 3/3').waitFor();
  await step('last', 'pending').waitFor();
  // Each column is to the right of what it needs.
  const left = async (name, status) => (await step(name, status).boundingBox()).x;
  assert.ok(await left('first', 'succeeded') < await left('sign', 'waiting'));
  assert.ok(await left('sign', 'waiting') < await left('last', 'pending'));
  assert.equal(await viewer.page.locator('.graph-line').count(), 4);
  await step('sign', 'waiting').click();
  await viewer.page.getByText('Is <b>this</b> good?').waitFor();
  const inputs = viewer.page.locator('.step-data', { hasText: 'Inputs' });
  await inputs.getByText('first:').click();
  await inputs.getByText('42').waitFor();
  assert.deepEqual(await violations(viewer.page), []);
  await shot(viewer.page, 'workflow-waits');
  await viewer.page.getByRole('button', { name: 'approve' }).click();
  await step('last', 'succeeded').waitFor({ timeout: 60_000 });
  await viewer.page.getByText('approve, by').waitFor();
  await step('each', 'succeeded 3/3').click();
  await viewer.page.getByLabel('Item').fill('2');
  await viewer.page.locator('.step-data', { hasText: 'Outputs' }).getByText('6', { exact: true }).waitFor();
  await step('last', 'succeeded').click();
  await viewer.page.locator('.step-data', { hasText: 'Outputs' }).getByText('84').waitFor();
  await shot(viewer.page, 'workflow-done');
  assert.deepEqual(viewer.page.errors, []);
  await viewer.page.getByRole('region', { name: 'Attempts' }).getByRole('link').click();
  await viewer.page.locator('.cell').first().getByText('at work').waitFor();
  // The session has ended: the browser notes that its variables are gone.
}, { isNoisy: true });

suite.test('a rejection and a cancellation are shown', async (viewer, gateway) => {
  const id = await start(gateway, 1);
  await viewer.go(`r/${id}/sign`);
  await viewer.page.getByRole('button', { name: 'reject' }).click({ timeout: 60_000 });
  await viewer.page.getByText('sign: rejected:').waitFor();
  await viewer.page.getByRole('link', { name: 'last skipped' }).waitFor();
  const other = await start(gateway, 1);
  await viewer.go(`r/${other}`);
  await viewer.page.getByRole('button', { name: 'Cancel' }).click();
  await viewer.page.getByText('cancelled by').waitFor();
  await until('it has ended', async () => {
    const run = await (await gateway.call('GET', `/v1/runs/${other}`)).json();
    return run.status === 'cancelled';
  });
});
