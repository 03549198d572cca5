/** What ran in a session, as it runs: cells of which only those in view are in the document. */

import type { schema } from 'himalia';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { Entry, SessionLog } from '../log/session-log';
import type { SessionView } from '../state/session-view';
import { clock } from '../ui/format';
import { useVirtualList } from '../ui/hooks';
import { onKeys } from '../ui/keys';
import { Empty, Loading } from '../ui/parts';
import { CellCard } from './cell';
import { Earlier } from './earlier';
import { RunBox } from './run-box';

/** Pixels from the end that still count as the end. */
const NEAR_END = 48;
/** Pixels from the beginning at which earlier cells are asked for. */
const NEAR_BEGINNING = 600;

const keyOf = (entry: Entry): string => (entry.type === 'cell' ? entry.cell.key : `life-${entry.event.seq}`);

export function Cells({
  view,
  session,
  target
}: {
  view: SessionView;
  session: schema.Session | null;
  target: string | null;
}) {
  const revision = view.revision.value;
  const { entries, omitted } = view.log;
  const scroller = useRef<HTMLElement>(null);
  const isFollowing = view.following.value;
  const connection = view.connection.value;
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set());

  const list = useVirtualList({
    count: entries.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => 140,
    getItemKey: at => {
      const entry = entries[at];
      return entry ? keyOf(entry) : at;
    },
    overscan: 4,
    paddingEnd: 16
  });
  // While the end is followed, its place is set below: an adjustment by the list would work against it.
  list.shouldAdjustScrollPositionOnItemSizeChange = isFollowing ? () => false : undefined;
  const total = list.getTotalSize();

  useLayoutEffect(() => {
    const element = scroller.current;
    if (element && view.following.peek()) element.scrollTop = element.scrollHeight;
  }, [revision, total, isFollowing]);

  // The place itself changes too: with the head above it, the box below it, the window.
  useLayoutEffect(() => {
    const element = scroller.current;
    if (!element) return;
    const observer = new ResizeObserver(() => {
      if (view.following.peek()) element.scrollTop = element.scrollHeight;
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, [view]);

  const show = (key: string): void => {
    const at = entries.findIndex(entry => keyOf(entry) === key);
    if (at < 0) return;
    view.selected.value = key;
    view.following.value = false;
    list.scrollToIndex(at, { align: 'auto' });
  };

  // Earlier cells come above those in view, which stay where they are.
  const anchor = useRef<{ log: SessionLog; key: string; below: number } | null>(null);
  const log = view.log;
  useLayoutEffect(() => {
    const element = scroller.current;
    if (!element) return;
    const was = anchor.current;
    if (was && was.log !== log && !view.following.peek()) {
      const at = entries.findIndex(entry => keyOf(entry) === was.key);
      const [top] = at < 0 ? [] : (list.getOffsetForIndex(at, 'start') ?? []);
      if (top !== undefined) element.scrollTop = top + was.below;
    }
    const first = list.getVirtualItems().find(item => item.end > element.scrollTop);
    const entry = first && entries[first.index];
    anchor.current = entry ? { log, key: keyOf(entry), below: element.scrollTop - first.start } : null;
  });
  const earlier = view.earlier.value;
  const readOn = (): void => {
    const element = scroller.current;
    if (earlier > 0 && element && element.scrollTop < NEAR_BEGINNING && !view.following.peek()) void view.older();
  };

  const isThere = target !== null && entries.some(entry => keyOf(entry) === target);
  useEffect(() => {
    if (target !== null && isThere) show(target);
    else if (target !== null) void view.older();
  }, [target, isThere, earlier]);

  useLayoutEffect(() => {
    const step = (by: number) => () => {
      const cells = view.log.entries.flatMap(entry => (entry.type === 'cell' ? [entry.cell.key] : []));
      const at = view.selected.value ? cells.indexOf(view.selected.value) : -1;
      const next = cells[at < 0 ? cells.length - 1 : Math.min(cells.length - 1, Math.max(0, at + by))];
      if (next) show(next);
    };
    return onKeys({
      j: step(1),
      k: step(-1),
      f: () => {
        view.following.value = !view.following.value;
      },
      Enter: () => toggle(view.selected.value)
    });
  });

  const toggle = (key: string | null): void => {
    if (!key) return;
    const next = new Set(opened);
    if (!next.delete(key)) next.add(key);
    setOpened(next);
  };

  // Only a move of the user's own ends following: output that grows moves the list too.
  const leave = (): void => {
    view.following.value = false;
  };
  const atEnd = (): boolean => {
    const element = scroller.current;
    return element !== null && element.scrollHeight - element.scrollTop - element.clientHeight < NEAR_END;
  };

  const isEmpty = entries.length === 0;
  return (
    <>
      <section
        ref={scroller}
        class="scroller"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keys
        tabIndex={0}
        aria-label="Cells"
        onScroll={readOn}
        onWheel={event => {
          if (event.deltaY < 0) leave();
        }}
        onTouchMove={() => {
          if (!atEnd()) leave();
        }}
        onKeyDown={event => {
          if (['PageUp', 'ArrowUp', 'Home'].includes(event.key)) leave();
          if (event.key === 'Home') {
            // The browser's own way there ends where cells turn out to be larger than was thought.
            event.preventDefault();
            list.scrollToIndex(0);
          }
          if (event.key === 'End') view.following.value = true;
        }}
      >
        {isEmpty && connection === 'connecting' && <Loading />}
        {isEmpty && connection !== 'connecting' && (
          <Empty title="Nothing has run here yet">
            <p>What an agent, a notebook or you run in this session appears here as it happens.</p>
          </Empty>
        )}
        <Earlier view={view} what="There are" />
        {omitted > earlier && (
          <p class="note">{omitted - earlier} earlier cells are not shown. The notebook has them.</p>
        )}
        <div class="cells" style={{ height: `${total}px` }}>
          {list.getVirtualItems().map(item => {
            const entry = entries[item.index];
            if (!entry) return null;
            return (
              <div
                key={item.key}
                ref={list.measureElement}
                data-index={item.index}
                class="place"
                style={{ transform: `translateY(${item.start}px)` }}
              >
                {entry.type === 'cell' ? (
                  <CellCard
                    view={view}
                    cell={entry.cell}
                    session={session?.id ?? view.session}
                    isOpen={opened.has(entry.cell.key)}
                    onToggle={() => toggle(entry.cell.key)}
                  />
                ) : (
                  <p class={`life ${entry.event.isLoss ? 'is-loss' : ''}`}>
                    <span>
                      {entry.event.text} <time>{clock(entry.event.at)}</time>
                    </span>
                  </p>
                )}
              </div>
            );
          })}
        </div>
      </section>
      <div class="foot">
        {!isFollowing && !isEmpty && (
          <button
            type="button"
            class="button follow"
            onClick={() => {
              view.following.value = true;
            }}
          >
            ↓ Follow
          </button>
        )}
        {connection !== 'ended' && session?.state !== 'ended' && <RunBox view={view} session={session} />}
      </div>
    </>
  );
}
