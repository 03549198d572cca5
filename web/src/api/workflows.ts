/** Runs of workflows. */

import type { schema } from 'himalia';
import { gateway } from './gateway';

/** Runs of a page of the list. */
const LISTED = 100;

/** The latest runs. */
export async function latestRuns(signal: AbortSignal): Promise<schema.ListedWorkflowRun[]> {
  const reply = await gateway.request('GET', `/v1/workflow-runs?limit=${LISTED}`, { signal });
  return ((await reply.json()) as schema.WorkflowRunPage).runs;
}

export async function runOf(id: string, signal: AbortSignal): Promise<schema.WorkflowRun> {
  const reply = await gateway.request('GET', path(id), { signal });
  return (await reply.json()) as schema.WorkflowRun;
}

/** A step with all its attempts, and the inputs and outputs of one item of its list. */
export async function stepOf(
  id: string,
  step: string,
  item: number,
  signal: AbortSignal
): Promise<schema.WorkflowRunStep> {
  const reply = await gateway.request('GET', `${path(id)}/steps/${encodeURIComponent(step)}?item=${item}`, { signal });
  return (await reply.json()) as schema.WorkflowRunStep;
}

export async function answer(id: string, step: string, value: string): Promise<void> {
  const body: schema.StepAnswer = { value };
  await gateway.request('POST', `${path(id)}/steps/${encodeURIComponent(step)}/answer`, { body });
}

export async function cancel(id: string): Promise<void> {
  await gateway.request('POST', `${path(id)}/cancel`, { body: {} });
}

function path(id: string): string {
  return `/v1/workflow-runs/${encodeURIComponent(id)}`;
}
