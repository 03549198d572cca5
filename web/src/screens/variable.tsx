/** One variable. Sorting, filtering and paging are the kernel's; the browser holds one page. */

import { ApiError, type schema } from 'himalia';
import { useEffect, useState } from 'preact/hooks';
import { gateway } from '../api/gateway';
import { href } from '../state/route';
import type { SessionView } from '../state/session-view';
import { bytes, count } from '../ui/format';
import { useLoaded } from '../ui/hooks';
import { Loading, Problem } from '../ui/parts';
import { lastChange, shapeOf } from './variables';

/** Rows of a page; characters of a text, as many as the gateway gives at once. */
const ROWS = 100;
const TEXT = 1_000;

const OPERATORS: [string, string][] = [
  ['contains', 'contains'],
  ['==', 'is'],
  ['!=', 'is not'],
  ['<', '<'],
  ['<=', '≤'],
  ['>', '>'],
  ['>=', '≥'],
  ['is_null', 'is missing'],
  ['not_null', 'is not missing']
];

type Query = NonNullable<schema.Operations['get_variable']['input']['query']>;

interface Sort {
  by: string;
  descending: boolean;
}

interface Condition {
  column: string;
  op: string;
  value: string;
}

export function VariableView({ view, name }: { view: SessionView; name: string }) {
  view.revision.value;
  const change = lastChange(view.log).key;
  const [offset, setOffset] = useState(0);
  const [sort, setSort] = useState<Sort | null>(null);
  const [condition, setCondition] = useState<Condition | null>(null);
  const [isText, setText] = useState(false);
  const parameters = query(offset, isText ? TEXT : ROWS, sort, condition);
  const { value, error, isLoading, reload } = useLoaded(
    signal => gateway.at(view.session).variable(name, parameters, { signal }),
    [view.session, name, change, JSON.stringify(parameters)]
  );
  useEffect(() => {
    setText(value?.kind === 'text');
  }, [value?.kind]);

  const page = value?.page;
  const total = page?.matched ?? page?.total ?? value?.variable.length ?? rowsOf(page).length;
  const size = isText ? TEXT : ROWS;
  return (
    <div class="scroller">
      <div class="tools">
        <a class="button" href={href({ screen: 'session', session: view.session, tab: 'variables', item: null })}>
          All variables
        </a>
        <h2 class="mono">{name}</h2>
        {value && (
          <span class="muted">
            {value.variable.type}
            {shapeOf(value.variable) && ` · ${shapeOf(value.variable)}`}
            {value.variable.bytes !== null && ` · ${bytes(value.variable.bytes)}`}
          </span>
        )}
        <span class="bar-space" />
        <button type="button" class="button" onClick={reload} disabled={isLoading}>
          {isLoading ? 'Reading…' : 'Refresh'}
        </button>
      </div>
      {value?.kind === 'table' && (
        <Filter
          columns={columnsOf(page)}
          condition={condition}
          onChange={next => {
            setCondition(next);
            setOffset(0);
          }}
        />
      )}
      {error && <Problem error={said(error)} onRetry={reload} />}
      {!value && !error && <Loading rows={8} />}
      {value && (
        <div class={isLoading ? 'is-stale' : ''} aria-busy={isLoading}>
          <Content
            value={value}
            sort={sort}
            offset={offset}
            isFiltered={condition !== null}
            onSort={by => {
              setSort(next(sort, by));
              setOffset(0);
            }}
          />
          {page && total > size && (
            <Pager offset={offset} size={size} total={total} onMove={setOffset} unit={isText ? 'characters' : 'rows'} />
          )}
        </div>
      )}
    </div>
  );
}

/** Ascending, descending, as it is. */
export function next(sort: Sort | null, by: string): Sort | null {
  if (sort?.by !== by) return { by, descending: false };
  return sort.descending ? null : { by, descending: true };
}

export function query(offset: number, limit: number, sort: Sort | null, condition: Condition | null): Query {
  const out: Query = { offset, limit };
  if (sort) {
    out.sort = sort.by;
    if (sort.descending) out.descending = true;
  }
  if (condition) {
    const { column, op, value } = condition;
    const isUnary = op === 'is_null' || op === 'not_null';
    out.filter = [JSON.stringify(isUnary ? { column, op } : { column, op, value: scalar(value, op) })];
  }
  return out;
}

/** A number where the text is one: `contains` looks for text in any case. */
function scalar(value: string, op: string): string | number | boolean {
  if (op === 'contains') return value;
  if (value === 'true' || value === 'True') return true;
  if (value === 'false' || value === 'False') return false;
  return value.trim() !== '' && Number.isFinite(Number(value)) ? Number(value) : value;
}

function said(error: Error): Error {
  if (error instanceof ApiError && error.status === 404) return new Error('There is no such variable any more.');
  return error;
}

interface ContentProps {
  value: schema.VariablePart;
  sort: Sort | null;
  offset: number;
  isFiltered: boolean;
  onSort: (by: string) => void;
}

function Content({ value, sort, offset, isFiltered, onSort }: ContentProps) {
  const page = value.page;
  if (value.kind === 'text') return <pre class="plain text-page">{page?.text ?? ''}</pre>;
  if (value.kind === 'object' || !page) return <pre class="plain text-page">{value.variable.preview}</pre>;
  const columns = columnsOf(page);
  const rows = rowsOf(page);
  const width = Math.max(columns.length, ...rows.slice(0, 1).map(row => row.length));
  const isTable = value.kind === 'table';
  const missing = (page.columns_total ?? width) - width;
  return (
    <>
      <div class="table-box">
        <table class="data">
          <thead>
            <tr>
              <th scope="col" class="index">
                #
              </th>
              {Array.from({ length: width }, (_, at) => {
                const column = columns[at];
                const direction =
                  sort && column && sort.by === column.name
                    ? sort.descending
                      ? 'descending'
                      : 'ascending'
                    : undefined;
                return (
                  <th
                    key={at}
                    scope="col"
                    aria-sort={direction}
                    class={column && isNumeric(column.dtype) ? 'is-number' : undefined}
                  >
                    {isTable && column ? (
                      <button type="button" onClick={() => onSort(column.name)} title={`Sort by ${column.name}`}>
                        <span>{column.name}</span>
                        <span class="sort" aria-hidden="true">
                          {direction === 'ascending' ? '▲' : direction === 'descending' ? '▼' : '↕'}
                        </span>
                        <span class="dtype">{column.dtype}</span>
                      </button>
                    ) : (
                      (column?.name ?? (value.kind === 'items' ? (width === 2 && at === 0 ? 'key' : 'value') : at))
                    )}
                  </th>
                );
              })}
            </tr>
          </thead>
          <tbody>
            {rows.map((row, at) => (
              <tr key={at}>
                <th scope="row" class="index mono">
                  {cell(page.index?.[at] ?? offset + at)}
                </th>
                {row.map((item, column) => (
                  <td key={column} class={kindOf(item)}>
                    {item === null ? <span class="missing">missing</span> : cell(item, columns[column]?.dtype)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {rows.length === 0 && <p class="note">{isFiltered ? 'No row meets the filter.' : 'There is nothing in it.'}</p>}
      {missing > 0 && <p class="note">{count(missing)} more columns are not shown.</p>}
      {page.cut && <p class="note">The page was cut: its rows are too large to be sent together.</p>}
    </>
  );
}

interface FilterProps {
  columns: { name: string; dtype: string }[];
  condition: Condition | null;
  onChange: (condition: Condition | null) => void;
}

function Filter({ columns, condition, onChange }: FilterProps) {
  const [draft, setDraft] = useState<Condition>(condition ?? { column: '', op: 'contains', value: '' });
  const column = draft.column || (columns[0]?.name ?? '');
  const isUnary = draft.op === 'is_null' || draft.op === 'not_null';
  return (
    <form
      class="tools filter"
      onSubmit={event => {
        event.preventDefault();
        onChange({ ...draft, column });
      }}
    >
      <label class="muted" for="filter-column">
        Rows where
      </label>
      <select
        id="filter-column"
        value={column}
        onChange={event => setDraft({ ...draft, column: event.currentTarget.value })}
      >
        {columns.map(({ name }) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </select>
      <select
        aria-label="Condition"
        value={draft.op}
        onChange={event => setDraft({ ...draft, op: event.currentTarget.value })}
      >
        {OPERATORS.map(([op, word]) => (
          <option key={op} value={op}>
            {word}
          </option>
        ))}
      </select>
      {!isUnary && (
        <input
          aria-label="Value"
          value={draft.value}
          onInput={event => setDraft({ ...draft, value: event.currentTarget.value })}
        />
      )}
      <button type="submit" class="button">
        Apply
      </button>
      {condition && (
        <button type="button" class="button" onClick={() => onChange(null)}>
          Clear
        </button>
      )}
    </form>
  );
}

interface PagerProps {
  offset: number;
  size: number;
  total: number;
  onMove: (offset: number) => void;
  unit: string;
}

function Pager({ offset, size, total, onMove, unit }: PagerProps) {
  const last = Math.floor((total - 1) / size) * size;
  return (
    <div class="pager">
      <button type="button" class="button" disabled={offset === 0} onClick={() => onMove(0)} aria-label="First page">
        «
      </button>
      <button
        type="button"
        class="button"
        disabled={offset === 0}
        onClick={() => onMove(Math.max(0, offset - size))}
        aria-label="Previous page"
      >
        ‹
      </button>
      <span aria-live="polite">
        {count(offset + 1)}–{count(Math.min(total, offset + size))} of {count(total)} {unit}
      </span>
      <button
        type="button"
        class="button"
        disabled={offset + size >= total}
        onClick={() => onMove(offset + size)}
        aria-label="Next page"
      >
        ›
      </button>
      <button
        type="button"
        class="button"
        disabled={offset + size >= total}
        onClick={() => onMove(last)}
        aria-label="Last page"
      >
        »
      </button>
    </div>
  );
}

function columnsOf(page: schema.VariableRows | null | undefined): { name: string; dtype: string }[] {
  return (page?.columns ?? []).map(column =>
    typeof column === 'string' ? { name: column, dtype: '' } : { name: String(column.name), dtype: column.dtype ?? '' }
  );
}

function rowsOf(page: schema.VariableRows | null | undefined): unknown[][] {
  return (page?.rows ?? []).map(row => (Array.isArray(row) ? row : [row]));
}

function cell(item: unknown, dtype = ''): string {
  // Days are written as their midnight.
  if (typeof item === 'string') return dtype.startsWith('datetime') ? item.replace(/T00:00:00$/, '') : item;
  if (typeof item === 'number') return Number.isInteger(item) ? String(item) : String(Number(item.toPrecision(10)));
  if (Array.isArray(item)) return item.map(part => cell(part)).join(', ');
  return typeof item === 'boolean' ? String(item) : JSON.stringify(item);
}

function isNumeric(dtype: string): boolean {
  return /^(u?int|float|complex|decimal)/i.test(dtype);
}

function kindOf(item: unknown): string {
  return typeof item === 'number' ? 'is-number' : typeof item === 'string' ? '' : 'is-other';
}
