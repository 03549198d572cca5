/** Code as it was sent, in the colours of Python or Bash. */

import { useEffect, useState } from 'preact/hooks';
import { ScrollPre } from '../ui/scroll-pre';

/** Lines that are shown of longer code. */
const LINES = 14;
/** Characters above which code stays without colours. */
const COLOUR_CHARS = 60_000;

type Paint = (code: string, language: string | null) => { text: string; className: string }[];
let paint: Paint | null = null;
let loading: Promise<void> | null = null;

function load(): Promise<void> {
  loading ??= import('./highlight').then(module => {
    paint = module.highlight;
  });
  return loading;
}

interface CodeProps {
  text: string;
  /** Null for the kernel's own. */
  language: string | null;
  isOpen: boolean;
  onToggle: () => void;
}

export function Code({ text, language, isOpen, onToggle }: CodeProps) {
  const [, setReady] = useState(paint !== null);
  useEffect(() => {
    if (!paint) void load().then(() => setReady(true));
  }, []);
  const code = text.replace(/\s+$/, '');
  const lines = code.split('\n');
  const isLong = lines.length > LINES + 3;
  const shown = isLong && !isOpen ? lines.slice(0, LINES).join('\n') : code;
  return (
    <div class={language === 'bash' ? 'code is-bash' : 'code'}>
      <ScrollPre label="Code">
        <code>
          {paint && shown.length <= COLOUR_CHARS
            ? paint(shown, language).map((part, at) =>
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
