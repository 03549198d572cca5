/** Schedules: when they are due, and what came of their runs. */

import type { schema } from 'himalia';
import { useState } from 'preact/hooks';
import { runNow, runsOf, schedules, switchTo } from '../api/schedules';
import { href } from '../state/route';
import { date } from '../ui/format';
import { useLoaded, useNow } from '../ui/hooks';
import { Empty, Loading, Pill, Problem } from '../ui/parts';

/** Milliseconds between two looks at the list. */
const LOOK = 5000;
/** Characters of outputs in a row. */
const OUTPUT_CHARS = 200;

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
              onSwitch={() => void act(switchTo(one.id, !one.enabled))}
            />
          ))}
        </ul>
      )}
    </main>
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
  const [isOpen, setOpen] = useState(false);
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
          <span title="what it runs">
            {target.skill} {target.version ?? ''}
          </span>
          <span title="when it is due">
            <code>{cron}</code> {time_zone}
          </span>
          {next && <span title={next}>next {date(next)}</span>}
        </p>
        {stopped && <p class="is-bad">{stopped}</p>}
        <details open={isOpen} onToggle={event => setOpen(event.currentTarget.open)}>
          <summary>Runs</summary>
          {isOpen && <Runs id={schedule.id} now={now} />}
        </details>
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

function Runs({ id, now }: { id: string; now: number }) {
  const { value: runs, error, reload } = useLoaded(signal => runsOf(id, signal), [id, now]);
  if (error) return <Problem error={error} onRetry={reload} />;
  if (!runs) return <Loading rows={2} />;
  if (runs.length === 0) return <p class="muted">It has not run.</p>;
  return (
    <ul class="schedule-runs">
      {runs.map(run => (
        <li key={run.id}>
          <Pill word={run.status} />
          {run.execution ? (
            <a href={href({ screen: 'session', session: run.id, tab: 'cells', item: null })}>{date(run.due)}</a>
          ) : (
            <span>{date(run.due)}</span>
          )}
          {run.missed_before > 0 && <span class="muted">{run.missed_before} missed before</span>}
          {run.reason && <span class={run.status === 'failed' ? 'is-bad' : 'muted'}>{run.reason}</span>}
          {run.outputs != null && <code>{JSON.stringify(run.outputs).slice(0, OUTPUT_CHARS)}</code>}
        </li>
      ))}
    </ul>
  );
}
