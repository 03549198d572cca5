/** One session: its head with what can be done to it, and three views on its log. */

import { useEffect, useLayoutEffect, useState } from 'preact/hooks';
import { api } from '../api/client';
import type { Session } from '../api/types';
import { plots } from '../log/plots';
import { href, route, type Tab } from '../state/route';
import { SessionView } from '../state/session-view';
import { Confirm } from '../ui/dialog';
import { cause } from '../ui/format';
import { useLoaded } from '../ui/hooks';
import { onKeys } from '../ui/keys';
import { Empty, Pill, Problem } from '../ui/parts';
import { Cells } from './cells';
import { Plots } from './plots';
import { title } from './sessions';
import { UsageStrip } from './usage';
import { Variables } from './variables';

interface SessionScreenProps {
  id: string;
  tab: Tab;
  item: string | null;
}

export function SessionScreen({ id, tab, item }: SessionScreenProps) {
  const [view] = useState(() => new SessionView(id));
  useEffect(() => {
    void view.open();
    return () => view.close();
  }, [view]);
  // The facts of a session change with its process; its state comes from the log.
  const state = view.revision.value >= 0 ? view.log.state : 'unknown';
  const facts = useLoaded(signal => api.session(id, signal), [id, view.log.incarnation, state === 'dead']);
  const session = facts.value;

  useLayoutEffect(() => {
    const to = (next: Tab) => () => {
      location.hash = href({ screen: 'session', session: id, tab: next, item: null });
    };
    return onKeys({ '1': to('cells'), '2': to('plots'), '3': to('variables') });
  }, [id]);

  useEffect(() => {
    document.title = `${session ? title(session) : id} · Himalia`;
    return () => {
      document.title = 'Himalia';
    };
  }, [session, id]);

  if (facts.error && !session && view.log.seq === 0) {
    const isAbsent = 'status' in facts.error && facts.error.status === 404;
    return (
      <main id="main" class="page">
        {isAbsent ? (
          <Empty title="There is no such session" isPage>
            <p>It has ended, or never was.</p>
            <a class="button" href={href({ screen: 'sessions' })}>
              All sessions
            </a>
          </Empty>
        ) : (
          <Problem error={facts.error} onRetry={facts.reload} />
        )}
      </main>
    );
  }
  return (
    <main id="main" class="session-page">
      <Head view={view} session={session} id={id} />
      <Tabs view={view} id={id} tab={tab} />
      {tab === 'cells' && <Cells view={view} session={session} target={item} />}
      {tab === 'plots' && <Plots view={view} item={item} />}
      {tab === 'variables' && <Variables view={view} item={item} />}
    </main>
  );
}

function Head({ view, session, id }: { view: SessionView; session: Session | null; id: string }) {
  view.revision.value;
  const { log } = view;
  const [asked, ask] = useState<'restart' | 'end' | null>(null);
  const [pending, setPending] = useState<string | null>(null);
  const [failure, setFailure] = useState<Error | null>(null);
  const connection = view.connection.value;
  const state = log.state === 'unknown' ? (session?.state ?? 'unknown') : log.state;
  const isDead = state === 'dead';
  const incarnation = Math.max(log.incarnation, session?.incarnation ?? 0);

  const act = async (what: string, call: () => Promise<unknown>): Promise<void> => {
    setPending(what);
    try {
      await call();
      setFailure(null);
    } catch (error) {
      setFailure(error as Error);
    }
    setPending(null);
  };
  const interrupt = (): void => void act('interrupt', () => api.interrupt(id));
  useLayoutEffect(() => onKeys({ 'i i': interrupt }), [id]);

  const cpu = session?.limits.cpu_millis?.value;
  return (
    <div class="head">
      <div class="head-line">
        <a class="back" href={href({ screen: 'sessions' })} aria-label="All sessions">
          ←
        </a>
        <h1 class={session && !session.name ? 'mono' : ''}>{session ? title(session) : id}</h1>
        <Pill word={state} title={log.reason ?? session?.reason ?? undefined} />
        {connection !== 'live' && (
          <Pill word={connection} title={view.reason.value ?? undefined}>
            {connection === 'ended' ? 'session ended' : connection}
          </Pill>
        )}
        <span class="bar-space" />
        <div class="actions">
          <button
            type="button"
            class="button"
            title="Interrupt (i i)"
            disabled={pending !== null || isDead}
            onClick={interrupt}
          >
            {pending === 'interrupt' ? 'Interrupting…' : 'Interrupt'}
          </button>
          <button type="button" class="button" disabled={pending !== null} onClick={() => ask('restart')}>
            {pending === 'restart' ? 'Restarting…' : 'Restart'}
          </button>
          <button type="button" class="button is-quiet-bad" disabled={pending !== null} onClick={() => ask('end')}>
            {pending === 'end' ? 'Stopping…' : 'Stop'}
          </button>
          <a class="button" href={api.notebookUrl(id)} download title="Download as a notebook">
            .ipynb
          </a>
        </div>
      </div>
      <p class="facts">
        {session && (
          <>
            <span>{session.kernelspec}</span>
            <span title="isolation of its sandbox">{session.isolation}</span>
            <span title="whose it is">{session.owner}</span>
            {isDead || connection === 'ended' ? null : <UsageStrip id={id} session={session} />}
            {cpu ? <span title="processors that it may use">{cpu / 1000} CPU</span> : null}
            {incarnation > 1 && <span title="kernel processes so far">process {incarnation}</span>}
            {session.parent && (
              <a href={href({ screen: 'session', session: session.parent, tab: 'cells', item: null })}>
                branch of {session.parent.slice(0, 8)}
              </a>
            )}
          </>
        )}
        {isDead && <span class="is-bad">died: {cause(log.reason ?? session?.reason ?? 'unknown')}</span>}
      </p>
      {failure && <Problem error={failure} />}
      {asked === 'restart' && (
        <Confirm
          title="Restart the kernel?"
          action="Restart"
          onConfirm={() => void act('restart', () => api.restart(id))}
          onClose={() => ask(null)}
        >
          <p>Its variables are gone then. What was printed and plotted stays here.</p>
        </Confirm>
      )}
      {asked === 'end' && (
        <Confirm
          title="Stop this session?"
          action="Stop the session"
          onConfirm={() => void act('end', () => api.end(id))}
          onClose={() => ask(null)}
        >
          <p>
            Its kernel and sandbox end, and its variables, log and plots go with them. Download the notebook first to
            keep them.
          </p>
        </Confirm>
      )}
    </div>
  );
}

function Tabs({ view, id, tab }: { view: SessionView; id: string; tab: Tab }) {
  view.revision.value;
  const cells = view.log.entries.filter(entry => entry.type === 'cell').length + view.log.omitted;
  const counts: Record<Tab, number | null> = {
    cells,
    plots: plots(view.log.entries).length,
    variables: null
  };
  const names: Record<Tab, string> = { cells: 'Cells', plots: 'Plots', variables: 'Variables' };
  const here = route.value;
  return (
    <nav class="tabs" aria-label="Views of this session">
      {(Object.keys(names) as Tab[]).map(name => (
        <a
          key={name}
          href={href({ screen: 'session', session: id, tab: name, item: null })}
          aria-current={here.screen === 'session' && tab === name ? 'page' : undefined}
        >
          {names[name]}
          {counts[name] ? <span class="count">{counts[name]}</span> : null}
        </a>
      ))}
    </nav>
  );
}
