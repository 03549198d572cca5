/** One cell: who ran what, how it went, what came of it. */

import { memo } from 'preact/compat';
import type { Asker, Cell, Output } from '../log/cell';
import { type JsonObject, text } from '../log/records';
import { Code } from '../output/code';
import { Display } from '../output/display';
import { Failure } from '../output/failure';
import { Stream } from '../output/stream';
import type { SessionView } from '../state/session-view';
import { clock, duration } from '../ui/format';
import { useNow } from '../ui/hooks';
import { Pill } from '../ui/parts';
import { KeptFileRows } from './kept-files';
import { CallRows } from './tool-calls';

/** How the code came, in words. */
const WAYS: Record<Asker, string> = { viewer: 'in a viewer', native: 'over the API', jupyter: 'by a Jupyter client' };

/** Who had the code run, as far as is known: a caller's name, or by what it came. */
function asker(cell: Cell): string {
  if (cell.asker === 'jupyter') return 'notebook';
  if (cell.asker === 'viewer') return cell.who && cell.who !== 'operator' ? `${cell.who} · viewer` : 'viewer';
  return cell.who || 'API';
}

interface CellProps {
  view: SessionView;
  cell: Cell;
  session: string;
  isOpen: boolean;
  onToggle: () => void;
}

export const CellCard = memo(function CellCard({ view, cell, session, isOpen, onToggle }: CellProps) {
  const revision = view.revisionOf(cell).value;
  const isSelected = view.selected.value === cell.key;
  const label = cell.count === null ? 'Cell' : `Cell ${cell.count}`;
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the keys j and k do the same
    <article
      class={`cell is-${cell.status} ${isSelected ? 'is-selected' : ''}`}
      aria-label={`${label}, ${cell.status.replaceAll('_', ' ')}`}
      aria-current={isSelected ? 'true' : undefined}
      onClick={() => {
        view.selected.value = cell.key;
      }}
    >
      <header class="cell-head">
        <span class="cell-count mono">[{cell.count ?? (cell.isOver ? ' ' : '*')}]</span>
        <span class={`who is-${cell.asker}`} title={`run ${WAYS[cell.asker]}${cell.who ? ` by ${cell.who}` : ''}`}>
          {asker(cell)}
        </span>
        {cell.language && <span class="language mono">{cell.language}</span>}
        {cell.status !== 'ok' && (
          <Pill word={cell.stopping ? 'interrupted' : cell.status}>{cell.stopping ? 'stopping' : undefined}</Pill>
        )}
        <span class="bar-space" />
        <Changes variables={cell.variables} />
        <Time cell={cell} revision={revision} />
      </header>
      <Code text={cell.code} language={cell.language} isOpen={isOpen} onToggle={onToggle} />
      <CallRows calls={cell.calls} revision={revision} />
      {(cell.outputs.length > 0 || cell.dropped) && (
        <div class="outputs">
          {cell.outputs.map((output, at) => (
            <div key={output.key} class="output">
              {cell.omitted > 0 && at === cell.outputs.length / 2 && (
                <p class="cut">{cell.omitted} outputs are not shown</p>
              )}
              <OutputView output={output} cell={cell} session={session} view={view} revision={revision} />
            </div>
          ))}
          {cell.dropped && (
            <p class="note">The outputs of this cell are too old to be kept here. The notebook has them.</p>
          )}
        </div>
      )}
      <KeptFileRows
        files={cell.files}
        session={session}
        execution={cell.execution}
        isOver={cell.isOver}
        revision={revision}
      />
    </article>
  );
});

interface OutputProps {
  output: Output;
  cell: Cell;
  session: string;
  view: SessionView;
  /** Another one whenever the cell, which is the same object, has changed: parts with state are only drawn for other props. */
  revision: number;
}

function OutputView({ output, cell, session, view, revision }: OutputProps) {
  switch (output.type) {
    case 'stream':
      return (
        <Stream
          output={output}
          session={session}
          execution={cell.execution}
          isLive={!cell.isOver}
          revision={revision}
        />
      );
    case 'display':
      return <Display output={output} models={view.log.widgets} />;
    case 'error':
      return <Failure output={output} hint={cell.hint} />;
    case 'note':
      return <p class="note is-loss">{output.text}</p>;
  }
}

function Time({ cell }: { cell: Cell; revision: number }) {
  const isRunning = cell.status === 'running' && cell.began !== null;
  const now = useNow(isRunning ? 500 : 0);
  if (!cell.began) return <time class="cell-time">{clock(cell.asked)}</time>;
  const end = cell.ended ? Date.parse(cell.ended) : now;
  return (
    <time class="cell-time" title={`began ${cell.began}`}>
      {duration(Math.max(0, end - Date.parse(cell.began)))}
    </time>
  );
}

/** Names that the code has made or changed. */
function Changes({ variables }: { variables: JsonObject | null }) {
  if (!variables) return null;
  const names = (member: string): string[] => {
    const list = variables[member];
    return Array.isArray(list) ? list.map(text) : [];
  };
  const all = [
    ...names('added').map(name => `+${name}`),
    ...names('changed').map(name => `~${name}`),
    ...names('removed').map(name => `−${name}`)
  ];
  if (all.length === 0) return null;
  return (
    <span class="changes mono" title={`variables: ${all.join(' ')}`}>
      {all.slice(0, 4).join(' ')}
      {all.length > 4 && ` …${all.length - 4}`}
    </span>
  );
}
