/** All sessions: what state they are in, and why a dead one died. */

import type { schema } from 'himalia';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { gateway } from '../api/gateway';
import { go, href } from '../state/route';
import { Confirm } from '../ui/dialog';
import { ago, bytes, cause } from '../ui/format';
import { useLoaded, useNow } from '../ui/hooks';
import { onKeys } from '../ui/keys';
import { Empty, Loading, Pill, Problem } from '../ui/parts';
import { Waiting } from './prompts';
import { type Branch, branches } from './tree';

/** How often the list is asked for while it is looked at, milliseconds. */
const EVERY_MS = 4_000;

export function SessionsScreen() {
  const now = useNow(EVERY_MS);
  const { value: sessions, error, reload } = useLoaded(signal => gateway.sessions({}, { signal }), [now]);
  const [filter, setFilter] = useState('');
  const [starting, setStarting] = useState<'no' | 'yes' | Error>('no');
  const [ending, setEnding] = useState<schema.ListedSession | null>(null);
  const [failure, setFailure] = useState<Error | null>(null);
  const field = useRef<HTMLInputElement>(null);

  useLayoutEffect(() => onKeys({ '/': () => field.current?.focus() }), []);

  const start = async (): Promise<void> => {
    setStarting('yes');
    try {
      const { id } = await gateway.create();
      go({ screen: 'session', session: id, tab: 'cells', item: null });
      setStarting('no');
    } catch (problem) {
      setStarting(problem as Error);
    }
  };
  const end = async (session: schema.ListedSession): Promise<void> => {
    try {
      await gateway.at(session.id).end();
      setFailure(null);
    } catch (problem) {
      setFailure(problem as Error);
    }
    reload();
  };

  const wanted = filter.trim().toLowerCase();
  const rows = branches(sessions ?? []).filter(({ session }) => wanted === '' || words(session).includes(wanted));
  return (
    <main id="main" class="page">
      <div class="page-head">
        <h1>Sessions</h1>
        {sessions && sessions.length > 0 && <span class="count">{sessions.length}</span>}
        <span class="bar-space" />
        <input
          ref={field}
          type="search"
          placeholder="Filter"
          aria-label="Filter sessions"
          value={filter}
          onInput={event => setFilter(event.currentTarget.value)}
        />
        <button type="button" class="button is-main" disabled={starting === 'yes'} onClick={() => void start()}>
          {starting === 'yes' ? 'Starting…' : 'New session'}
        </button>
      </div>
      <Waiting turn={now} />
      {starting instanceof Error && <Problem error={starting} />}
      {failure && <Problem error={failure} />}
      {error && <Problem error={error} onRetry={reload} />}
      {!sessions && !error && <Loading />}
      {sessions?.length === 0 && (
        <Empty title="Nothing runs here yet">
          <p>
            A session is a live kernel with its sandbox. Agents start one with <code>PUT /v1/sessions/name</code>,
            notebooks by opening; or start one here.
          </p>
        </Empty>
      )}
      {sessions && sessions.length > 0 && rows.length === 0 && <p class="note">No session has “{filter}” in it.</p>}
      {rows.length > 0 && (
        <ul class="sessions">
          {rows.map(branch => (
            <Row key={branch.session.id} branch={branch} now={now} onEnd={() => setEnding(branch.session)} />
          ))}
        </ul>
      )}
      <Ended wanted={wanted} />
      {ending && (
        <Confirm
          title={`End ${title(ending)}?`}
          action="End the session"
          onConfirm={() => void end(ending)}
          onClose={() => setEnding(null)}
        >
          <p>
            Its kernel and sandbox end, and its variables and files go with them. Its log and its plots can be read here
            for a while, as long as the gateway keeps them.
          </p>
        </Confirm>
      )}
    </main>
  );
}

function Row({ branch, now, onEnd }: { branch: Branch; now: number; onEnd: () => void }) {
  const { session, depth, parent } = branch;
  return (
    <li class="session" style={{ '--depth': Math.min(depth, 6) }}>
      <a href={href({ screen: 'session', session: session.name ?? session.id, tab: 'cells', item: null })}>
        <span class="session-name">
          {depth > 0 && (
            <span class="fork" title={parent ? `a branch of ${title(parent)}` : 'a branch'}>
              ↳
            </span>
          )}
          <strong class={session.name ? '' : 'mono'}>{title(session)}</strong>
          {Object.entries(session.labels)
            .slice(0, 4)
            .map(([name, value]) => (
              <span key={name} class="tag">
                {value ? `${name}: ${value}` : name}
              </span>
            ))}
        </span>
        <span class="session-state">
          <Pill word={session.state} />
        </span>
        <span class="session-facts">
          <span>{session.kernelspec}</span>
          {session.template !== session.kernelspec && <span>{session.template}</span>}
          <span title="isolation of its sandbox">{session.isolation}</span>
          {session.state !== 'dead' && <Memory session={session} />}
          <span title="whose it is">{session.owner}</span>
          <span title="made through">{session.origin === 'v1' ? 'API' : 'Jupyter'}</span>
          {session.incarnation > 1 && <span title="kernel processes so far">process {session.incarnation}</span>}
          {session.connections > 0 && (
            <span>
              {session.connections} {session.connections === 1 ? 'client' : 'clients'}
            </span>
          )}
        </span>
        <time class="session-time" dateTime={session.last_activity} title={`last active ${session.last_activity}`}>
          {ago(session.last_activity, now)}
        </time>
        {session.reason && (
          <span class={`session-reason ${session.state === 'dead' ? 'is-bad' : ''}`}>
            {session.state === 'dead' ? `died: ${cause(session.reason)}` : cause(session.reason)}
          </span>
        )}
      </a>
      <button
        type="button"
        class="icon-button"
        aria-label={`End ${title(session)}`}
        title="End the session"
        onClick={onEnd}
      >
        ✕
      </button>
    </li>
  );
}

/** What its sandbox uses. */
function Memory({ session }: { session: schema.ListedSession }) {
  const used = session.memory_used_bytes;
  if (typeof used !== 'number') return null;
  const limit = session.limits.memory_bytes?.value;
  return (
    <span title={limit ? `memory that it uses, of ${bytes(limit)} at most` : 'memory that it uses'}>{bytes(used)}</span>
  );
}

/** How often the list of ended sessions is loaded, milliseconds. */
const ENDED_MS = 15_000;

/** Sessions that have ended and can still be read; asked for when they are wanted. */
function Ended({ wanted }: { wanted: string }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details class="ended" onToggle={event => setOpen(event.currentTarget.open)}>
      <summary>Ended sessions</summary>
      {isOpen && <EndedList wanted={wanted} />}
    </details>
  );
}

function EndedList({ wanted }: { wanted: string }) {
  const now = useNow(ENDED_MS);
  const { value, error, reload } = useLoaded(signal => gateway.sessions({ ended: true }, { signal }), [now]);
  if (error) return <Problem error={error} onRetry={reload} />;
  if (!value) return <Loading rows={2} />;
  const rows = value.filter(session => wanted === '' || words(session).includes(wanted));
  if (rows.length === 0) return <p class="note">No session that ended has a log here.</p>;
  return (
    <ul class="sessions">
      {rows.map(session => (
        <li key={session.id} class="session">
          <a href={href({ screen: 'session', session: session.id, tab: 'cells', item: null })}>
            <span class="session-name">
              <strong class={session.name ? '' : 'mono'}>{title(session)}</strong>
            </span>
            <span class="session-state">
              <Pill word="ended" />
            </span>
            <span class="session-facts">
              <span>{session.kernelspec}</span>
              <span title="whose it was">{session.owner}</span>
              <span title="why it ended">{cause(session.reason ?? 'unknown')}</span>
            </span>
            <time class="session-time" dateTime={session.ended ?? undefined} title={`ended ${session.ended}`}>
              {ago(session.ended ?? '', now)}
            </time>
          </a>
        </li>
      ))}
    </ul>
  );
}

export function title(session: Pick<schema.Session, 'name' | 'id'>): string {
  return session.name ?? session.id.slice(0, 8);
}

function words(session: schema.ListedSession): string {
  const { name, id, owner, kernelspec, template, state, reason, labels } = session;
  return [name, id, owner, kernelspec, template, state, reason, ...Object.entries(labels).flat()]
    .join(' ')
    .toLowerCase();
}
