/** A run: the steps of a workflow as a graph, and the data of one of them; the end of a skill. */

import type { schema } from 'himalia';
import { useState } from 'preact/hooks';
import { answer, cancel, runOf, stepOf } from '../api/runs';
import type { Json } from '../log/records';
import { JsonTree } from '../output/json-tree';
import { go, href } from '../state/route';
import { ago, date } from '../ui/format';
import { useLoaded, useNow } from '../ui/hooks';
import { Loading, Pill, Problem } from '../ui/parts';
import { Graph } from './graph';

/** Milliseconds between two looks at a run that continues. */
const EVERY = 1_500;
/** Attempts that are listed. */
const ATTEMPTS = 200;

export function RunScreen({ id, step }: { id: string; step: string | null }) {
  const [hasEnded, setEnded] = useState(false);
  const now = useNow(hasEnded ? 0 : EVERY);
  const [failure, setFailure] = useState<Error | null>(null);
  const load = async (signal: AbortSignal): Promise<schema.Run> => {
    const run = await runOf(id, signal);
    setEnded(run.status !== 'running' && run.status !== 'queued');
    return run;
  };
  const { value: run, error, reload } = useLoaded(load, [id, now]);
  const act = (done: Promise<void>): void => {
    done
      .then(
        () => setFailure(null),
        problem => setFailure(problem as Error)
      )
      .then(reload);
  };
  return (
    <main id="main" class="page">
      <div class="page-head">
        <h1>{run ? `${run.name} ${run.version ?? ''}` : 'Run'}</h1>
        {run && <Pill word={run.status} />}
        <span class="bar-space" />
        {run?.status === 'running' && (
          <button type="button" class="button" onClick={() => act(cancel(id))}>
            Cancel
          </button>
        )}
        <a class="button" href={href({ screen: 'runs' })}>
          All runs
        </a>
      </div>
      {failure && <Problem error={failure} />}
      {error && <Problem error={error} onRetry={reload} />}
      {!run && !error && <Loading />}
      {run && (
        <>
          <p class="session-facts">
            <span>{run.id}</span>
            <span title={run.created}>started {ago(run.created, now)}</span>
            <span>by {run.started_by}</span>
            {run.cancelled_by && <span>cancelled by {run.cancelled_by}</span>}
            {run.session && (
              <a href={href({ screen: 'session', session: run.session, tab: 'cells', item: null })}>session</a>
            )}
          </p>
          {run.error && (
            <p class="is-bad">
              {run.error.step && `${run.error.step}: `}
              {run.error.code}: {run.error.message}
            </p>
          )}
          {run.steps.length > 0 && <Graph run={run} chosen={step} />}
          {run.steps.some(one => one.id === step) ? (
            <StepPanel
              key={step}
              run={run}
              step={step as string}
              turn={hasEnded ? 0 : now}
              onAnswer={value => act(answer(id, step as string, value))}
            />
          ) : (
            <section class="step-panel" aria-label="Data of the run">
              {run.inputs != null && <Data title="Inputs" value={run.inputs as Json} />}
              {run.outputs != null && <Data title="Outputs" value={run.outputs as Json} />}
            </section>
          )}
        </>
      )}
    </main>
  );
}

function StepPanel({
  run,
  step,
  turn,
  onAnswer
}: {
  run: schema.Run;
  step: string;
  turn: number;
  onAnswer: (value: string) => void;
}) {
  const [item, setItem] = useState(0);
  const { value, error, reload } = useLoaded(signal => stepOf(run.id, step, item, signal), [run.id, step, item, turn]);
  if (error && !value) return <Problem error={error} onRetry={reload} />;
  if (!value) return <Loading rows={2} />;
  const last = (value.items ?? 1) - 1;
  return (
    <section class="step-panel" aria-label={`Step ${step}`}>
      <div class="page-head">
        <h2>{step}</h2>
        <Pill word={value.status} />
        <span class="muted">{value.skill ? `${value.skill.name} ${value.skill.version ?? ''}` : 'a person'}</span>
        <span class="bar-space" />
        <button type="button" class="button" onClick={() => go({ screen: 'run', run: run.id, step: null })}>
          Close
        </button>
      </div>
      {value.approval && <p class="step-question">{value.approval.text}</p>}
      {value.approval && value.status === 'waiting' && (
        <p class="step-answers">
          {(value.approval.options ?? []).map(option => (
            <button type="button" class="button" key={option} onClick={() => onAnswer(option)}>
              {option}
            </button>
          ))}
        </p>
      )}
      {last > 0 && (
        <label class="step-item">
          Item{' '}
          <input
            type="number"
            min={0}
            max={last}
            value={item}
            onInput={event => {
              const wanted = Number(event.currentTarget.value);
              if (Number.isInteger(wanted) && wanted >= 0 && wanted <= last) setItem(wanted);
            }}
          />{' '}
          of {value.items}
        </label>
      )}
      {value.inputs != null && <Data title="Inputs" value={value.inputs as Json} />}
      {value.outputs != null && <Data title="Outputs" value={value.outputs as Json} />}
      {value.attempts.length > 0 && <Attempts attempts={value.attempts} isMap={value.items != null} />}
    </section>
  );
}

function Data({ title, value }: { title: string; value: Json }) {
  return (
    <div class="step-data">
      <h3>{title}</h3>
      <JsonTree value={value} />
    </div>
  );
}

function Attempts({ attempts, isMap }: { attempts: schema.WorkflowAttempt[]; isMap: boolean }) {
  return (
    <section class="table-box" aria-label="Attempts">
      <table>
        <thead>
          <tr>
            {isMap && <th scope="col">Item</th>}
            <th scope="col">Attempt</th>
            <th scope="col">Status</th>
            <th scope="col">Begun</th>
            <th scope="col">What came of it</th>
            <th scope="col">Session</th>
          </tr>
        </thead>
        <tbody>
          {attempts.slice(0, ATTEMPTS).map(one => (
            <tr key={`${one.item} ${one.attempt}`}>
              {isMap && <td>{one.item}</td>}
              <td>{one.attempt}</td>
              <td>
                <Pill word={one.status} />
              </td>
              <td>{one.begun ? date(one.begun) : ''}</td>
              <td>{came(one)}</td>
              <td>
                {one.session && (
                  <a href={href({ screen: 'session', session: one.session, tab: 'cells', item: null })}>
                    {one.session.slice(0, 8)}
                  </a>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {attempts.length > ATTEMPTS && <p class="muted">{attempts.length - ATTEMPTS} more</p>}
    </section>
  );
}

function came({ error, answer: given, answered_by }: schema.WorkflowAttempt): string {
  if (error) return `${error.code}: ${error.message}`;
  return given ? `${given}, by ${answered_by}` : '';
}
