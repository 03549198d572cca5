/** Output that may run code: in a frame of an origin of its own, with no way to the network or to this page. */

import { useEffect, useRef, useState } from 'preact/hooks';
import { gateway } from '../api/gateway';
import { theme } from '../state/theme';
import { type RenderMessage, readFrameMessage } from './frame-protocol';

/** Frames that live at a time; each is a document with its scripts. */
const MAX_FRAMES = 20;
/** Height up to which a frame is shown as it is, pixels. */
const CLAMP = 560;

let living = 0;

interface FrameProps {
  kind: RenderMessage['kind'];
  data: unknown;
  title: string;
  /** Fills its place, without a clamp. */
  whole?: boolean;
}

export function Frame({ kind, data, title, whole = false }: FrameProps) {
  const place = useRef<HTMLDivElement>(null);
  const [isNear, setNear] = useState(false);

  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const observer = new IntersectionObserver(
      entries => {
        if (entries.some(entry => entry.isIntersecting)) setNear(true);
      },
      { rootMargin: '400px' }
    );
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  return (
    <div class="frame" ref={place}>
      {isNear ? <LiveFrame kind={kind} data={data} title={title} whole={whole} /> : <div class="frame-waiting" />}
    </div>
  );
}

function LiveFrame({ kind, data, title, whole }: Required<FrameProps>) {
  const [isAllowed, setAllowed] = useState(() => living < MAX_FRAMES);
  const [height, setHeight] = useState(whole ? 480 : 120);
  const [failure, setFailure] = useState<string | null>(null);
  const [isOpen, setOpen] = useState(whole);
  const element = useRef<HTMLIFrameElement>(null);
  const shade = theme.value;

  useEffect(() => {
    if (!isAllowed) return;
    living += 1;
    return () => {
      living -= 1;
    };
  }, [isAllowed]);

  useEffect(() => {
    const frame = element.current;
    if (!frame) return;
    let port: MessagePort | null = null;
    const send = (): void => {
      port?.close();
      const channel = new MessageChannel();
      port = channel.port1;
      port.onmessage = event => {
        const message = readFrameMessage(event.data);
        if (message?.type === 'resize') setHeight(message.height);
        if (message?.type === 'failed') setFailure(message.reason);
      };
      const render: RenderMessage = { type: 'render', kind, data, theme: shade };
      // The frame's origin is opaque, so it cannot be named; only this document can be in it.
      frame.contentWindow?.postMessage(render, '*', [channel.port2]);
    };
    frame.addEventListener('load', send);
    frame.src = gateway.address('/frame.html');
    return () => {
      frame.removeEventListener('load', send);
      port?.close();
    };
  }, [kind, data, shade, isAllowed]);

  if (!isAllowed) {
    return (
      <button type="button" class="frame-more" onClick={() => setAllowed(true)}>
        Show this output ({MAX_FRAMES} others are open)
      </button>
    );
  }
  const isClamped = !isOpen && height > CLAMP;
  return (
    <>
      {failure && <p class="note is-bad">This output could not be drawn: {failure}</p>}
      <iframe
        ref={element}
        title={title}
        sandbox="allow-scripts"
        referrerpolicy="no-referrer"
        style={{ height: `${isClamped ? CLAMP : Math.max(24, height)}px` }}
      />
      {height > CLAMP && !whole && (
        <button type="button" class="more" onClick={() => setOpen(!isOpen)}>
          {isOpen ? 'Show less' : 'Show all of it'}
        </button>
      )}
    </>
  );
}
