/** One session: its head with what can be done to it, and three views on its log. */

import { ApiError, type schema } from 'himalia';
import { useEffect, useLayoutEffect, useState } from 'preact/hooks';
import { gateway } from '../api/gateway';
import { plots } from '../log/plots';
import { href, route, type Tab } from '../state/route';
import { SessionView } from '../state/session-view';
import { Confirm } from '../ui/dialog';
import { ago, cause, date } from '../ui/format';
import { useLoaded, useNow, useSettled } from '../ui/hooks';
import { onKeys } from '../ui/keys';
import { Empty, Pill, Problem } from '../ui/parts';
import { Cells } from './cells';
import { Files } from './files';
import { Plots } from './plots';
import { Prompts } from './prompts';
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
  const facts = useLoaded(signal => gateway.at(id).refresh({ signal }), [id, view.log.incarnation, state === 'dead']);
  const session = facts.value;

  useLayoutEffect(() => {
    const to = (next: Tab) => () => {
      location.hash = href({ screen: 'session', session: id, tab: next, item: null });
    };
    return onKeys({ '1': to('cells'), '2': to('plots'), '3': to('variables'), '4': to('files') });
  }, [id]);

  useEffect(() => {
    document.title = `${session ? title(session) : id} · Himalia`;
    return () => {
      document.title = 'Himalia';
    };
  }, [session, id]);

  if (facts.error && !session && view.log.seq === 0) {
    const refusal = facts.error instanceof ApiError ? facts.error : null;
    const last = refusal?.problem.session;
    const isAbsent = refusal?.status === 404;
    return (
      <main id="main" class="page">
        {isAbsent ? (
          <Empty title="There is no such session" isPage>
            {last ? (
              <p>
                The last one of this name has ended.{' '}
                <a href={href({ screen: 'session', session: last, tab: 'cells', item: null })}>Its log is kept</a>.
              </p>
            ) : (
              <p>It ended too long ago, or never was.</p>
            )}
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
      <Prompts view={view} id={id} tab={tab} />
      <Tabs view={view} id={id} tab={tab} />
      {tab === 'cells' && <Cells view={view} session={session} target={item} />}
      {tab === 'plots' && <Plots view={view} item={item} />}
      {tab === 'variables' && <Variables view={view} item={item} />}
      {tab === 'files' && <Files session={id} item={item} />}
    </main>
  );
}

function Head({ view, session, id }: { view: SessionView; session: schema.Session | null; id: string }) {
  view.revision.value;
  const { log } = view;
  const [asked, ask] = useState<'restart' | 'end' | null>(null);
  const [pending, setPending] = useState<string | null>(null);
  const [failure, setFailure] = useState<Error | null>(null);
  const connection = view.connection.value;
  const state = log.state === 'unknown' ? (session?.state ?? 'unknown') : log.state;
  const isEnded = connection === 'ended' || session?.state === 'ended';
  const isDead = state === 'dead' && !isEnded;
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
  const interrupt = (): void => void act('interrupt', () => gateway.at(id).interrupt());
  useLayoutEffect(() => onKeys({ 'i i': interrupt }), [id]);

  const cpu = session?.limits.cpu_millis?.value;
  return (
    <div class="head">
      <div class="head-line">
        <a class="back" href={href({ screen: 'sessions' })} aria-label="All sessions">
          ←
        </a>
        <h1 class={session && !session.name ? 'mono' : ''}>{session ? title(session) : id}</h1>
        {!isEnded && <Pill word={state} title={log.reason ?? session?.reason ?? undefined} />}
        {(isEnded || connection !== 'live') && (
          <Pill word={isEnded ? 'ended' : connection} title={view.reason.value ?? undefined}>
            {isEnded ? 'session ended' : connection}
          </Pill>
        )}
        <Said state={isEnded ? 'session ended' : connection === 'live' ? state : connection} />
        <span class="bar-space" />
        <div class="actions">
          {!isEnded && (
            <>
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
            </>
          )}
          <a class="button" href={gateway.at(id).notebookUrl} download title="Download as a notebook">
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
            {isDead || isEnded ? null : <UsageStrip id={id} session={session} />}
            {cpu ? <span title="processors that it may use">{cpu / 1000} CPU</span> : null}
            {incarnation > 1 && <span title="kernel processes so far">process {incarnation}</span>}
            {!isEnded && <Kernels id={id} first={session.id} />}
            {session.parent && (
              <a href={href({ screen: 'session', session: session.parent, tab: 'cells', item: null })}>
                branch of {session.parent.slice(0, 8)}
              </a>
            )}
          </>
        )}
        {session?.ended && (
          <span title={session.ended}>
            ended {ago(session.ended, Date.now())}: {cause(session.reason ?? 'unknown')}
          </span>
        )}
        {session?.kept_until && (
          <span title={session.kept_until}>its log is kept until {date(session.kept_until)}</span>
        )}
        {isDead && <span class="is-bad">died: {cause(log.reason ?? session?.reason ?? 'unknown')}</span>}
        {isDead && session?.reason?.startsWith('sandbox_lost') && (
          <span>its sandbox is lost: the next execution starts a new one</span>
        )}
      </p>
      {view.log.unresponsive !== null && !isEnded && (
        <p class="problem" role="status">
          The kernel does not answer. {view.log.unresponsive}
        </p>
      )}
      {failure && <Problem error={failure} />}
      {asked === 'restart' && (
        <Confirm
          title="Restart the kernel?"
          action="Restart"
          onConfirm={() => void act('restart', () => gateway.at(id).restart())}
          onClose={() => ask(null)}
        >
          <p>Its variables are gone then. What was printed and plotted stays here.</p>
        </Confirm>
      )}
      {asked === 'end' && (
        <Confirm
          title="Stop this session?"
          action="Stop the session"
          onConfirm={() => void act('end', () => gateway.at(id).end())}
          onClose={() => ask(null)}
        >
          <p>
            Its kernel and sandbox end, and its variables and files go with them. Its log and its plots can be read here
            for a while, as long as the gateway keeps them.
          </p>
        </Confirm>
      )}
    </div>
  );
}

/** Milliseconds for which a state must stand before it is read out. */
const SAID_MS = 1000;
/** How often the kernels of a session are asked for, milliseconds. */
const KERNELS_MS = 5000;

/** The session's state for those who do not see it. A state that passes at once, as between two cells, is not said. */
function Said({ state }: { state: string }) {
  const said = useSettled(state, SAID_MS);
  return (
    <span class="unseen" role="status" aria-live="polite">
      {said}
    </span>
  );
}

/** The kernels beside the first one, in the same sandbox. */
function Kernels({ id, first }: { id: string; first: string }) {
  const now = useNow(KERNELS_MS);
  const { value } = useLoaded(signal => gateway.at(id).kernels({ signal }), [id, now]);
  return (
    <>
      {(value ?? [])
        .filter(kernel => kernel.id !== first)
        .map(kernel => (
          <span key={kernel.id} title={`another kernel in its sandbox, ${kernel.id}`}>
            + {kernel.id.slice(0, 8)} ({kernel.kernelspec}, {kernel.state})
          </span>
        ))}
    </>
  );
}

function Tabs({ view, id, tab }: { view: SessionView; id: string; tab: Tab }) {
  view.revision.value;
  const cells = view.log.entries.filter(entry => entry.type === 'cell').length + view.log.omitted;
  const counts: Record<Tab, number | null> = {
    cells,
    plots: plots(view.log.entries).length,
    variables: null,
    files: null
  };
  const names: Record<Tab, string> = { cells: 'Cells', plots: 'Plots', variables: 'Variables', files: 'Files' };
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
