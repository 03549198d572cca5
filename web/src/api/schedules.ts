/** Schedules, webhooks, and their runs. */

import type { schema } from 'himalia';
import { gateway } from './gateway';
import { latestRuns } from './runs';

/** The path of those of one kind. */
export type Kind = 'schedules' | 'webhooks';

/** All schedules that the viewer sees, each with its latest run. */
export async function schedules(signal: AbortSignal): Promise<schema.Schedule[]> {
  return all('schedules', page => (page as schema.SchedulePage).schedules, signal);
}

/** All webhooks that the viewer sees, each with its latest run. */
export async function webhooks(signal: AbortSignal): Promise<schema.Webhook[]> {
  return all('webhooks', page => (page as schema.WebhookPage).webhooks, signal);
}

async function all<T>(kind: Kind, listed: (page: unknown) => T[], signal: AbortSignal): Promise<T[]> {
  const found: T[] = [];
  let cursor: string | null = null;
  do {
    const query: string = cursor ? `?cursor=${encodeURIComponent(cursor)}` : '';
    const reply = await gateway.request('GET', `/v1/${kind}${query}`, { signal });
    const page: unknown = await reply.json();
    found.push(...listed(page));
    cursor = (page as { next?: string | null }).next ?? null;
  } while (cursor);
  return found;
}

/** The latest runs of one, the latest first. */
export async function runsOf(kind: Kind, id: string, signal: AbortSignal): Promise<schema.ListedRun[]> {
  const filter = kind === 'schedules' ? 'schedule' : 'webhook';
  return latestRuns(signal, `${filter}=${encodeURIComponent(id)}&limit=20`);
}

/** A run now, whenever the schedule is due. */
export async function runNow(id: string): Promise<void> {
  await gateway.request('POST', `/v1/schedules/${encodeURIComponent(id)}/runs`, { body: {} });
}

/** Whether it starts runs. */
export async function switchTo(kind: Kind, id: string, enabled: boolean): Promise<void> {
  await gateway.request('PATCH', `/v1/${kind}/${encodeURIComponent(id)}`, { body: { enabled } });
}
