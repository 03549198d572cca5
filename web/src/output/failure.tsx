/** An exception: its name and text first, the traceback below. */

import { useState } from 'preact/hooks';
import type { ErrorOutput } from '../log/cell';
import { withoutColours } from '../text/screen';
import { ScrollPre } from '../ui/scroll-pre';
import { AnsiText } from './ansi-text';

/** Lines of a traceback that are drawn at once, half of them the last ones. */
const LINES = 80;

export function Failure({ output, hint }: { output: ErrorOutput; hint: string | null }) {
  const [isWhole, setWhole] = useState(false);
  const lines = output.traceback.flatMap(part => part.split('\n'));
  // IPython's rule above it, which is as wide as a terminal.
  if (/^-{20,}$/.test(withoutColours(lines[0] ?? ''))) lines.shift();
  const cut = isWhole ? 0 : Math.max(0, lines.length - LINES);
  const first = lines.slice(0, LINES / 2).join('\n');
  const last = lines.slice(LINES / 2 + cut).join('\n');
  return (
    <div class="failure">
      <p class="failure-name">
        <strong>{output.name || 'Error'}</strong>
        {output.value && <span>{withoutColours(output.value).slice(0, 500)}</span>}
      </p>
      {hint && <p class="failure-hint">Hint: {hint}</p>}
      {lines.length > 0 && (
        <ScrollPre label="Traceback">
          <AnsiText text={first} />
          {cut > 0 && (
            <>
              {'\n'}
              <button type="button" class="more" onClick={() => setWhole(true)}>
                Show {cut} more lines
              </button>
            </>
          )}
          {last && '\n'}
          <AnsiText text={last} />
        </ScrollPre>
      )}
    </div>
  );
}
