/** The latest runs of skills and workflows. */

import { latestRuns } from '../api/runs';
import { href } from '../state/route';
import { ago } from '../ui/format';
import { useLoaded, useNow } from '../ui/hooks';
import { Empty, Loading, Pill, Problem } from '../ui/parts';

/** Milliseconds between two looks. */
const EVERY = 3_000;

export function RunsScreen() {
  const now = useNow(EVERY);
  const { value: runs, error, reload } = useLoaded(signal => latestRuns(signal), [now]);
  return (
    <main id="main" class="page">
      <div class="page-head">
        <h1>Runs</h1>
      </div>
      {error && <Problem error={error} onRetry={reload} />}
      {!runs && !error && <Loading />}
      {runs?.length === 0 && (
        <Empty title="Nothing has run yet">
          <p>
            <code>himalia skill run</code> and <code>himalia workflow run</code> start runs.
          </p>
        </Empty>
      )}
      {runs && runs.length > 0 && (
        <section class="table-box" aria-label="Runs">
          <table>
            <thead>
              <tr>
                <th scope="col">Skill or workflow</th>
                <th scope="col">Origin</th>
                <th scope="col">Status</th>
                <th scope="col">Started</th>
                <th scope="col">By</th>
                <th scope="col">Run</th>
              </tr>
            </thead>
            <tbody>
              {runs.map(run => (
                <tr key={run.id}>
                  <td>
                    {run.name} {run.version}
                  </td>
                  <td title={run.origin.id ?? undefined}>{run.origin.kind}</td>
                  <td>
                    <Pill word={run.status} title={run.error?.message} />
                  </td>
                  <td title={run.created}>{ago(run.created, now)}</td>
                  <td>{run.started_by}</td>
                  <td>
                    <a href={href({ screen: 'run', run: run.id, step: null })}>{run.id}</a>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
    </main>
  );
}
