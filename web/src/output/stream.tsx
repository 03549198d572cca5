/** What a cell printed: the beginning and the end of it when it is long. */

import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { executionId, gateway, said } from '../api/gateway';
import type { StreamOutput } from '../log/cell';
import { count } from '../ui/format';
import { save } from '../ui/save';
import { ScrollPre } from '../ui/scroll-pre';
import { AnsiText } from './ansi-text';

/** Characters that are drawn at once: of the beginning, of the end. More is drawn on demand. */
const FIRST = 6_000;
const LAST = 14_000;

interface StreamProps {
  output: StreamOutput;
  session: string;
  execution: number | null;
  /** More of it may come: its end stays in view unless the user has moved away from it. */
  isLive: boolean;
  /** Another one whenever the output, which is the same object, has grown. */
  revision: number;
}

export function Stream({ output, session, execution, isLive }: StreamProps) {
  const [isWhole, setWhole] = useState(false);
  const { head, omitted, tail } = output.screen.sink.shown();
  const end = tail + output.screen.unfinished();
  const chars = head.length + end.length;
  const isShort = omitted === 0 && (isWhole || chars <= FIRST + LAST);
  const box = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  useLayoutEffect(() => {
    const text = box.current?.querySelector('pre:last-of-type');
    if (text && isLive && isAtEnd.current) text.scrollTop = text.scrollHeight;
  });
  return (
    <div
      ref={box}
      onScrollCapture={event => {
        const text = event.target as Element;
        isAtEnd.current = text.scrollHeight - text.scrollTop - text.clientHeight < 8;
      }}
      class={`stream is-${output.name}`}
    >
      {isShort ? (
        <ScrollPre label="Printed text">
          <AnsiText text={head + end} />
        </ScrollPre>
      ) : (
        <Long head={head} omitted={omitted} end={end} isWhole={isWhole} />
      )}
      {(omitted > 0 || chars > FIRST + LAST) && (
        <p class="stream-more">
          {!isWhole && (
            <button type="button" class="more" onClick={() => setWhole(true)}>
              Show {omitted > 0 ? 'what is kept here' : 'all'} ({count(chars)} characters)
            </button>
          )}
          {execution !== null && <Download session={session} id={executionId(session, execution)} />}
        </p>
      )}
    </div>
  );
}

function Long({ head, omitted, end, isWhole }: { head: string; omitted: number; end: string; isWhole: boolean }) {
  const all = head + end;
  const first = isWhole ? head : all.slice(0, lineBefore(all, FIRST));
  const last = isWhole ? end : all.slice(lineAfter(all, all.length - LAST));
  const missing = omitted + all.length - first.length - last.length;
  return (
    <>
      <ScrollPre label="Printed text">
        <AnsiText text={first} />
      </ScrollPre>
      <p class="cut">
        <span>{count(missing)} characters are not shown</span>
      </p>
      <ScrollPre label="Printed text">
        <AnsiText text={last} />
      </ScrollPre>
    </>
  );
}

function Download({ session, id }: { session: string; id: string }) {
  const [state, setState] = useState<'ready' | 'busy' | string>('ready');
  const run = async (): Promise<void> => {
    setState('busy');
    try {
      save(await gateway.at(session).output(id), `${id}.txt`);
      setState('ready');
    } catch (error) {
      setState(said(error));
    }
  };
  return (
    <>
      <button type="button" class="more" disabled={state === 'busy'} onClick={() => void run()}>
        {state === 'busy' ? 'Downloading…' : 'Download the whole text'}
      </button>
      {state !== 'ready' && state !== 'busy' && <span class="is-bad">{state}</span>}
    </>
  );
}

function lineBefore(text: string, at: number): number {
  const line = text.lastIndexOf('\n', at);
  return line > at / 2 ? line + 1 : at;
}

function lineAfter(text: string, at: number): number {
  const line = text.indexOf('\n', at);
  return line >= 0 && line - at < 2000 ? line + 1 : at;
}
