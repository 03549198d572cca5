/** Runs of skills and workflows. */

import type { schema } from 'himalia';
import { gateway } from './gateway';

/** Runs of a page of the list. */
const LISTED = 100;

/** The latest runs, or those of a query. */
export async function latestRuns(signal: AbortSignal, query = `limit=${LISTED}`): Promise<schema.ListedRun[]> {
  const reply = await gateway.request('GET', `/v1/runs?${query}`, { signal });
  return ((await reply.json()) as schema.RunPage).runs;
}

export async function runOf(id: string, signal: AbortSignal): Promise<schema.Run> {
  const reply = await gateway.request('GET', path(id), { signal });
  return (await reply.json()) as schema.Run;
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
  return `/v1/runs/${encodeURIComponent(id)}`;
}
