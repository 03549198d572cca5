/** Schedules and their runs. */

import type { schema } from 'himalia';
import { gateway } from './gateway';

/** All that the viewer sees, each with its latest run. */
export async function schedules(signal: AbortSignal): Promise<schema.Schedule[]> {
  const found: schema.Schedule[] = [];
  let cursor: string | null = null;
  do {
    const query: string = cursor ? `?cursor=${encodeURIComponent(cursor)}` : '';
    const reply = await gateway.request('GET', `/v1/schedules${query}`, { signal });
    const page = (await reply.json()) as schema.SchedulePage;
    found.push(...page.schedules);
    cursor = page.next ?? null;
  } while (cursor);
  return found;
}

/** The latest runs of a schedule, the latest first. */
export async function runsOf(id: string, signal: AbortSignal): Promise<schema.ScheduleRun[]> {
  const reply = await gateway.request('GET', `/v1/schedules/${encodeURIComponent(id)}/runs?limit=20`, { signal });
  return ((await reply.json()) as schema.ScheduleRunPage).runs;
}

/** A run now, whenever the schedule is due. */
export async function runNow(id: string): Promise<void> {
  await gateway.request('POST', `/v1/schedules/${encodeURIComponent(id)}/runs`, { body: {} });
}

/** Whether it starts runs. */
export async function switchTo(id: string, enabled: boolean): Promise<void> {
  await gateway.request('PATCH', `/v1/schedules/${encodeURIComponent(id)}`, { body: { enabled } });
}
