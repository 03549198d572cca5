/** Text with terminal colours. */

import { spans } from '../text/ansi';

export function AnsiText({ text }: { text: string }) {
  return (
    <>
      {spans(text).map((span, at) =>
        span.className || span.color || span.background ? (
          <span
            key={at}
            class={span.className}
            style={{
              ...(span.color ? { '--ansi': span.color, color: span.background ? span.color : undefined } : {}),
              ...(span.background ? { backgroundColor: span.background } : {})
            }}
          >
            {span.text}
          </span>
        ) : (
          span.text
        )
      )}
    </>
  );
}
