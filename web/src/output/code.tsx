/** Code as it was sent, in colours where it is Python. */

import { useEffect, useState } from 'preact/hooks';
import { ScrollPre } from '../ui/scroll-pre';

/** Lines that are shown of longer code. */
const LINES = 14;
/** Characters above which code stays without colours. */
const COLOUR_CHARS = 60_000;

type Paint = (code: string) => { text: string; className: string }[];
let paint: Paint | null = null;
let loading: Promise<void> | null = null;

function load(): Promise<void> {
  loading ??= import('./highlight').then(module => {
    paint = module.highlight;
  });
  return loading;
}

export function Code({ text, isOpen, onToggle }: { text: string; isOpen: boolean; onToggle: () => void }) {
  const [, setReady] = useState(paint !== null);
  useEffect(() => {
    if (!paint) void load().then(() => setReady(true));
  }, []);
  const code = text.replace(/\s+$/, '');
  const lines = code.split('\n');
  const isLong = lines.length > LINES + 3;
  const shown = isLong && !isOpen ? lines.slice(0, LINES).join('\n') : code;
  return (
    <div class="code">
      <ScrollPre label="Code">
        <code>
          {paint && shown.length <= COLOUR_CHARS
            ? paint(shown).map((part, at) =>
                part.className ? (
                  <span key={at} class={part.className}>
                    {part.text}
                  </span>
                ) : (
                  part.text
                )
              )
            : shown}
        </code>
      </ScrollPre>
      {isLong && (
        <button type="button" class="more" onClick={onToggle}>
          {isOpen ? 'Show less' : `Show all ${lines.length} lines`}
        </button>
      )}
    </div>
  );
}
