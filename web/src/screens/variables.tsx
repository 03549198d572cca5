/** The variables of a session, read by the kernel without running anything; a frame as a table, page by page. */

import { ApiError, type schema } from 'himalia';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { gateway } from '../api/gateway';
import { text } from '../log/records';
import type { SessionLog } from '../log/session-log';
import { href } from '../state/route';
import type { SessionView } from '../state/session-view';
import { bytes, count } from '../ui/format';
import { useLoaded } from '../ui/hooks';
import { onKeys } from '../ui/keys';
import { Empty, Loading, Problem } from '../ui/parts';
import { VariableView } from './variable';

export function Variables({ view, item }: { view: SessionView; item: string | null }) {
  // Each variable has its own page, order and filter.
  return item === null ? <List view={view} /> : <VariableView key={item} view={view} name={item} />;
}

/** What the last finished cell did to the variables; another one means that the list is to be read again. */
export function lastChange(log: SessionLog): { key: string; names: Map<string, 'new' | 'changed'> } {
  const names = new Map<string, 'new' | 'changed'>();
  for (let at = log.entries.length - 1; at >= 0; at--) {
    const entry = log.entries[at];
    if (entry?.type !== 'cell' || !entry.cell.isOver) continue;
    const variables = entry.cell.variables ?? {};
    for (const [member, word] of [
      ['added', 'new'],
      ['changed', 'changed']
    ] as const) {
      const list = variables[member];
      if (Array.isArray(list)) for (const name of list) names.set(text(name), word);
    }
    return { key: `${log.incarnation}-${entry.cell.key}`, names };
  }
  return { key: `${log.incarnation}`, names };
}

/** What code brings along rather than makes: left out until it is asked for. */
const TOOLS = ['module', 'function', 'type', 'builtin_function_or_method', 'ABCMeta'];

function List({ view }: { view: SessionView }) {
  view.revision.value;
  const change = lastChange(view.log);
  const { value, error, isLoading, reload } = useLoaded(
    signal => gateway.at(view.session).variables({ signal }),
    [view.session, change.key]
  );
  const [filter, setFilter] = useState('');
  const [isAll, setAll] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => onKeys({ '/': () => field.current?.focus() }), []);

  const wanted = filter.trim().toLowerCase();
  const known = value ?? [];
  const tools = known.filter(row => TOOLS.includes(row.type)).length;
  const rows = known.filter(
    row =>
      `${row.name} ${row.type}`.toLowerCase().includes(wanted) && (isAll || wanted !== '' || !TOOLS.includes(row.type))
  );
  const isUnsupported = error instanceof ApiError && error.code === 'unsupported';
  return (
    <div class="scroller">
      <div class="tools">
        <input
          ref={field}
          type="search"
          placeholder="Filter"
          aria-label="Filter variables"
          value={filter}
          onInput={event => setFilter(event.currentTarget.value)}
        />
        {value && <span class="muted">{value.length} variables</span>}
        {tools > 0 && (
          <label class="muted check">
            <input type="checkbox" checked={isAll} onChange={event => setAll(event.currentTarget.checked)} />
            modules, functions and classes ({tools})
          </label>
        )}
        <span class="bar-space" />
        {view.log.state === 'busy' && <span class="muted">read while a cell runs</span>}
        <button type="button" class="button" onClick={reload} disabled={isLoading}>
          {isLoading ? 'Reading…' : 'Refresh'}
        </button>
      </div>
      {isUnsupported ? (
        <Empty title="This kernel does not tell">
          <p>Variables are shown for kernels of the gateway's own Python kernelspec.</p>
        </Empty>
      ) : (
        error && <Problem error={error} onRetry={reload} />
      )}
      {!value && !error && <Loading />}
      {value && value.length === 0 && (
        <Empty title="No variables yet">
          <p>Names that code in this session defines appear here.</p>
        </Empty>
      )}
      {rows.length > 0 && (
        <div class="table-box">
          <table class="variables">
            <thead>
              <tr>
                <th scope="col">Name</th>
                <th scope="col">Type</th>
                <th scope="col">Shape</th>
                <th scope="col" class="is-number">
                  Size
                </th>
                <th scope="col">Preview</th>
              </tr>
            </thead>
            <tbody>
              {rows.map(row => (
                <Row key={row.name} row={row} view={view} change={change.names.get(row.name)} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {value && value.length > 0 && rows.length === 0 && <p class="note">No variable has “{filter}” in it.</p>}
    </div>
  );
}

function Row({
  row,
  view,
  change
}: {
  row: schema.VariableInfo;
  view: SessionView;
  change: 'new' | 'changed' | undefined;
}) {
  const to = href({ screen: 'session', session: view.session, tab: 'variables', item: row.name });
  return (
    <tr>
      <td>
        <a class="mono" href={to}>
          {row.name}
        </a>
        {change && <span class={`tag is-${change}`}>{change}</span>}
      </td>
      <td title={row.module ?? undefined}>{row.type}</td>
      <td class="mono">{shapeOf(row)}</td>
      <td class="is-number">{row.bytes === null ? '' : bytes(row.bytes)}</td>
      <td class="preview mono" title={row.preview ?? undefined}>
        {row.preview}
      </td>
    </tr>
  );
}

export function shapeOf(row: schema.VariableInfo): string {
  if (row.shape) return row.shape.map(count).join(' × ') || 'scalar';
  return row.length === null ? '' : count(row.length);
}
