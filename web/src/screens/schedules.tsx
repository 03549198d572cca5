/** Schedules and webhooks: what starts runs, and what came of these. */

import type { schema } from 'himalia';
import { useState } from 'preact/hooks';
import { type Kind, runNow, runsOf, schedules, switchTo, webhooks } from '../api/schedules';
import { href } from '../state/route';
import { date } from '../ui/format';
import { useLoaded, useNow } from '../ui/hooks';
import { Empty, Loading, Pill, Problem } from '../ui/parts';

/** Milliseconds between two looks at the list. */
const LOOK = 5000;

export function SchedulesScreen() {
  const now = useNow(LOOK);
  const { value: all, error, reload } = useLoaded(schedules, [now]);
  const [failure, setFailure] = useState<Error | null>(null);

  const act = async (action: Promise<void>): Promise<void> => {
    try {
      await action;
      setFailure(null);
    } catch (problem) {
      setFailure(problem as Error);
    }
    reload();
  };
  return (
    <main id="main" class="page">
      <div class="page-head">
        <h1>Schedules</h1>
      </div>
      {failure && <Problem error={failure} />}
      {error && <Problem error={error} onRetry={reload} />}
      {!all && !error && <Loading />}
      {all?.length === 0 && (
        <Empty title="There are no schedules">
          <p>
            <code>himalia schedule add</code> makes one.
          </p>
        </Empty>
      )}
      {all && all.length > 0 && (
        <ul class="sessions">
          {all.map(one => (
            <Row
              key={one.id}
              schedule={one}
              now={now}
              onRun={() => void act(runNow(one.id))}
              onSwitch={() => void act(switchTo('schedules', one.id, !one.enabled))}
            />
          ))}
        </ul>
      )}
      <Webhooks now={now} />
    </main>
  );
}

/** Those that there are; a gateway without a key for secrets has none. */
function Webhooks({ now }: { now: number }) {
  const { value: all, error, reload } = useLoaded(webhooks, [now]);
  const [failure, setFailure] = useState<Error | null>(null);
  const act = async (one: schema.Webhook): Promise<void> => {
    try {
      await switchTo('webhooks', one.id, !one.enabled);
      setFailure(null);
    } catch (problem) {
      setFailure(problem as Error);
    }
    reload();
  };
  if (error) return <Problem error={error} onRetry={reload} />;
  if (!all?.length) return null;
  return (
    <section aria-label="Webhooks">
      <h2>Webhooks</h2>
      {failure && <Problem error={failure} />}
      <ul class="sessions">
        {all.map(one => (
          <li key={one.id} class="credential">
            <div>
              <p class="credential-head">
                <strong>{one.name}</strong>
                {!one.enabled && <Pill word="paused" />}
                {one.last_run && <Pill word={one.last_run.status}>last run {one.last_run.status}</Pill>}
              </p>
              <p class="session-facts">
                <span title="whose it is">{one.owner}</span>
                <span title="what it runs">{described(one.target)}</span>
                <span title="where messages are sent">
                  <code>{one.path}</code>
                </span>
              </p>
              <Earlier kind="webhooks" id={one.id} now={now} />
            </div>
            <div class="credential-actions">
              <button type="button" class="button" onClick={() => void act(one)}>
                {one.enabled ? 'Pause' : 'Resume'}
              </button>
            </div>
          </li>
        ))}
      </ul>
    </section>
  );
}

function described(target: schema.RunTarget): string {
  const what = target.workflow ? `workflow ${target.workflow}` : (target.skill ?? '');
  return `${what} ${target.version ?? ''}`.trim();
}

/** The runs of one, behind a summary. */
function Earlier({ kind, id, now }: { kind: Kind; id: string; now: number }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details open={isOpen} onToggle={event => setOpen(event.currentTarget.open)}>
      <summary>Runs</summary>
      {isOpen && <Runs kind={kind} id={id} now={now} />}
    </details>
  );
}

function Row({
  schedule,
  now,
  onRun,
  onSwitch
}: {
  schedule: schema.Schedule;
  now: number;
  onRun: () => void;
  onSwitch: () => void;
}) {
  const { name, owner, cron, time_zone, target, enabled, next, stopped, last_run } = schedule;
  return (
    <li class="credential">
      <div>
        <p class="credential-head">
          <strong>{name}</strong>
          {!enabled && <Pill word={stopped ? 'stopped' : 'paused'} />}
          {last_run && <Pill word={last_run.status}>last run {last_run.status}</Pill>}
        </p>
        <p class="session-facts">
          <span title="whose it is">{owner}</span>
          <span title="what it runs">{described(target)}</span>
          <span title="when it is due">
            <code>{cron}</code> {time_zone}
          </span>
          {next && <span title={next}>next {date(next)}</span>}
        </p>
        {stopped && <p class="is-bad">{stopped}</p>}
        <Earlier kind="schedules" id={schedule.id} now={now} />
      </div>
      <div class="credential-actions">
        <button type="button" class="button" onClick={onRun}>
          Run now
        </button>
        <button type="button" class="button" onClick={onSwitch}>
          {enabled ? 'Pause' : 'Resume'}
        </button>
      </div>
    </li>
  );
}

function Runs({ kind, id, now }: { kind: Kind; id: string; now: number }) {
  const { value: runs, error, reload } = useLoaded(signal => runsOf(kind, id, signal), [kind, id, now]);
  if (error) return <Problem error={error} onRetry={reload} />;
  if (!runs) return <Loading rows={2} />;
  if (runs.length === 0) return <p class="muted">It has not run.</p>;
  return (
    <ul class="schedule-runs">
      {runs.map(run => (
        <li key={run.id}>
          <Pill word={run.status} />
          <Due run={run} />
          {(run.missed_before ?? 0) > 0 && <span class="muted">{run.missed_before} missed before</span>}
          {run.error && <span class={run.status === 'failed' ? 'is-bad' : 'muted'}>{run.error.message}</span>}
        </li>
      ))}
    </ul>
  );
}

/** When a run was due, with the way to it. */
function Due({ run }: { run: schema.ListedRun }) {
  return <a href={href({ screen: 'run', run: run.id, step: null })}>{date(run.created)}</a>;
}
