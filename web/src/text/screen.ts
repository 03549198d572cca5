/**
 * Text as a terminal leaves it: carriage returns and backspaces overwrite, the cursor goes up and down, colours stay with their
 * characters.
 *
 * The same rules as `crates/outcome/src/screen.rs`, which drops the colours; `tests/vectors/terminal.json` holds both to
 * them. Characters are Unicode code points.
 */

import { HELD_ROWS, Held, LINE_CHARS, Pen } from './rows';

export { HELD_ROWS, LINE_CHARS };

/** Takes finished text. Colours are SGR sequences within it; each piece stands on its own. */
export interface Sink {
  push(text: string): void;
  clear(): void;
}

export type StreamName = 'stdout' | 'stderr';

// Whole lines without anything special are not looked at singly.
const SPECIAL = /[\x00-\x08\x0b-\x1f\x7f-\x9f]/;

/** A terminal of endless length over a sink. Each of the two streams has a cursor. */
export class Screen<S extends Sink> {
  readonly sink: S;
  private held = new Held();
  private out = new Pen('stdout');
  private err = new Pen('stderr');

  constructor(sink: S) {
    this.sink = sink;
  }

  write(stream: StreamName, text: string): void {
    const pen = stream === 'stderr' ? this.err : this.out;
    let rest = text;
    while (rest !== '') {
      if (pen.isFresh) {
        const special = rest.search(SPECIAL);
        const plain = special < 0 ? rest : rest.slice(0, special);
        const end = plain.lastIndexOf('\n');
        if (end >= 0) {
          this.held.addLines(stream, rest.slice(0, end + 1), this.sink);
          rest = rest.slice(end + 1);
          continue;
        }
      }
      const char = String.fromCodePoint(rest.codePointAt(0) ?? 0);
      rest = rest.slice(char.length);
      pen.put(char, this.held, this.sink);
    }
  }

  /** Takes everything back. */
  clear(): void {
    this.sink.clear();
    this.held = new Held();
    this.out = new Pen('stdout');
    this.err = new Pen('stderr');
  }

  /** The lines that can still change, as they would follow the sink's text. */
  unfinished(): string {
    const out = this.out.text();
    const err = this.err.text();
    const isBetween = out !== '' && !out.endsWith('\n') && err !== '';
    return `${this.held.text()}${out}${isBetween ? '\n' : ''}${err}`;
  }
}

/** Text without its SGR sequences. */
export function withoutColours(text: string): string {
  return text.replace(/\u001b\[[0-9;:]*m/g, '');
}
