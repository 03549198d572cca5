/** The lines of a screen that can still change: one cursor for each stream, and what has ended lately. */

import type { Sink, StreamName } from './screen';

/** Characters of the lines of one stream that can still be overwritten. A longer line goes to the sink in pieces. */
export const LINE_CHARS = 64 << 10;
/** Lines that have ended and to which the cursor can go back, with at most `LINE_CHARS` characters. */
export const HELD_ROWS = 64;
/** Characters of a control string after which it is taken for text that lost its end. */
const CONTROL_CHARS = 4096;
/** Characters of one SGR sequence, and of all that are in force; more are forgotten. */
const SGR_CHARS = 64;
const STYLE_CHARS = 256;

type Control =
  | { state: 'none' | 'escape' | 'escape-more' }
  | { state: 'sequence'; first: number; text: string }
  | { state: 'text' | 'text-escape'; length: number };

const NONE: Control = { state: 'none' };
const ESCAPE: Control = { state: 'escape' };
const ESCAPE_MORE: Control = { state: 'escape-more' };

const isControl = (code: number): boolean => code < 0x20 || (code >= 0x7f && code <= 0x9f);

/** Characters, each with the SGR sequences that are in force for it. */
class Line {
  constructor(
    readonly chars: string[] = [],
    readonly styles: string[] = []
  ) {}

  static of(text: string): Line {
    return new Line(Array.from(text));
  }

  get length(): number {
    return this.chars.length;
  }

  put(at: number, char: string, style: string): void {
    while (this.chars.length < at) {
      this.chars.push(' ');
      this.styles[this.chars.length - 1] = '';
    }
    this.chars[at] = char;
    this.styles[at] = style;
  }

  /** `CSI n K`: 0 to the end of the line, 1 to its start, 2 all of it. */
  erase(what: number, column: number): void {
    if (what === 1) {
      this.chars.fill(' ', 0, column);
      this.styles.fill('', 0, column);
      return;
    }
    this.chars.length = what === 0 ? Math.min(this.chars.length, column) : 0;
    this.styles.length = Math.min(this.styles.length, this.chars.length);
  }

  /** What it shows now, colours as SGR sequences. */
  text(): string {
    let out = '';
    let style = '';
    for (let at = 0; at < this.chars.length; at++) {
      const next = this.styles[at] ?? '';
      if (next !== style) {
        out += `${style === '' ? '' : '\u001b[0m'}${next}`;
        style = next;
      }
      out += this.chars[at];
    }
    return style === '' ? out : `${out}\u001b[0m`;
  }
}

interface Row {
  stream: StreamName;
  /** With its line break. */
  text: string;
  chars: number;
  /** Of one with colours, or else made of the text when it is needed. */
  line: Line | null;
}

/** Lines of both streams that have ended, in the order of their ends. */
export class Held {
  private rows: Row[] = [];
  private chars = 0;

  /** Whole lines with their ends, without control characters. */
  addLines(stream: StreamName, lines: string, sink: Sink): void {
    // What comes before the last ones would go to the sink in any case.
    let start = lines.length - 1;
    for (let row = 0; row < HELD_ROWS && start >= 0; row++)
      start = start === 0 ? -1 : lines.lastIndexOf('\n', start - 1);
    if (start >= 0) {
      this.release(sink);
      sink.push(lines.slice(0, start + 1));
    }
    for (let at = start + 1; at < lines.length; ) {
      const end = lines.indexOf('\n', at) + 1;
      this.add(stream, lines.slice(at, end), null, sink);
      at = end;
    }
  }

  /** One line, with its break. The oldest ones go to the sink for it. */
  add(stream: StreamName, text: string, line: Line | null, sink: Sink): void {
    const chars = line ? line.length : codePoints(text) - 1;
    if (chars >= LINE_CHARS) {
      // Its pieces would have gone already, had it come in several messages.
      this.release(sink);
      sink.push(text);
      return;
    }
    this.chars += chars;
    this.rows.push({ stream, text, chars, line });
    while (this.rows.length > HELD_ROWS || this.chars > LINE_CHARS) {
      const row = this.rows.shift();
      if (!row) return;
      this.chars -= row.chars;
      sink.push(row.text);
    }
  }

  /** The latest line of a stream, which has not ended then. */
  take(stream: StreamName): Line | null {
    const at = this.rows.findLastIndex(row => row.stream === stream);
    const [row] = at < 0 ? [] : this.rows.splice(at, 1);
    if (!row) return null;
    this.chars -= row.chars;
    return row.line ?? Line.of(row.text.slice(0, -1));
  }

  /** All of them to the sink. */
  release(sink: Sink): void {
    const text = this.text();
    if (text !== '') sink.push(text);
    this.rows = [];
    this.chars = 0;
  }

  text(): string {
    return this.rows.map(row => row.text).join('');
  }
}

/** A stream's cursor, and the lines around it that have not ended. */
export class Pen {
  /** Those above the last one are there because the cursor went back to them. */
  private above: Line[] = [];
  /** The cursor's line. */
  private line = new Line();
  private below: Line[] = [];
  private column = 0;
  /** The first line's beginning is in the sink. */
  private isTorn = false;
  private control: Control = NONE;
  private style = '';

  constructor(private readonly stream: StreamName) {}

  /** Nothing was written since the last line's end. */
  get isFresh(): boolean {
    return (
      this.line.length === 0 &&
      this.column === 0 &&
      this.above.length === 0 &&
      this.below.length === 0 &&
      !this.isTorn &&
      this.control === NONE &&
      this.style === ''
    );
  }

  /** The lines that have not ended. */
  text(): string {
    if (this.above.length === 0 && this.below.length === 0) return this.line.text();
    return [...this.above, this.line, ...this.below].map(line => line.text()).join('\n');
  }

  put(char: string, held: Held, sink: Sink): void {
    if (char === '\n') {
      this.control = NONE;
      this.lineBreak(held, sink);
      return;
    }
    const control = this.control;
    const code = char.codePointAt(0) ?? 0;
    switch (control.state) {
      case 'none':
        this.putPlain(char, code, held, sink);
        return;
      case 'escape':
      case 'escape-more':
        if (char === '[') this.control = { state: 'sequence', first: 0, text: '' };
        else if (']PX^_'.includes(char)) this.control = { state: 'text', length: 0 };
        else if (char >= ' ' && char <= '/') this.control = ESCAPE_MORE;
        else this.control = NONE;
        return;
      case 'sequence':
        if (code >= 0x20 && code <= 0x3f) {
          const isDigit = char >= '0' && char <= '9';
          const first = isDigit ? Math.min(255, Math.min(255, control.first * 10) + Number(char)) : control.first;
          const text = control.text.length < SGR_CHARS ? control.text + char : control.text;
          this.control = { state: 'sequence', first, text };
        } else if (code >= 0x40 && code <= 0x7e) {
          this.control = NONE;
          this.obey(char, control.first, control.text, held);
        } else {
          // It has lost its end.
          this.control = NONE;
          this.putPlain(char, code, held, sink);
        }
        return;
      case 'text':
        if (char === '\u0007') this.control = NONE;
        else if (char === '\u001b') this.control = { state: 'text-escape', length: control.length + 1 };
        else this.control = longer(control.length);
        return;
      case 'text-escape':
        if (char === '\\' || char === '\u0007') this.control = NONE;
        else this.control = longer(control.length);
    }
  }

  private putPlain(char: string, code: number, held: Held, sink: Sink): void {
    if (char === '\u001b') this.control = ESCAPE;
    else if (char === '\u009b') this.control = { state: 'sequence', first: 0, text: '' };
    else if (char === '\r') this.column = 0;
    else if (char === '\b') this.column = Math.max(0, this.column - 1);
    else if (char === '\t' || !isControl(code)) this.write(char, held, sink);
  }

  private write(char: string, held: Held, sink: Sink): void {
    this.line.put(this.column, char, this.style);
    this.column += 1;
    let chars = this.line.length;
    for (const line of this.above) chars += line.length;
    for (const line of this.below) chars += line.length;
    if (chars >= LINE_CHARS) this.tear(held, sink);
  }

  /** What is written so far, down to the cursor's line, can be overwritten no more. */
  private tear(held: Held, sink: Sink): void {
    held.release(sink);
    sink.push([...this.above, this.line].map(line => line.text()).join('\n'));
    this.above = [];
    this.line = new Line();
    this.column = 0;
    this.isTorn = true;
  }

  /** Down to the next line's beginning. Below the last one there is nothing: then all lines have ended. */
  private lineBreak(held: Held, sink: Sink): void {
    this.column = 0;
    if (this.down()) return;
    for (const line of [...this.above, this.line]) {
      const text = `${line.text()}\n`;
      if (this.isTorn) {
        this.isTorn = false;
        held.release(sink);
        sink.push(text);
      } else held.add(this.stream, text, line, sink);
    }
    this.above = [];
    this.line = new Line();
  }

  /** What a control sequence asks for: `CSI n A` and `CSI n B` move up and down, `CSI n K` erases, `CSI … m` colours. */
  private obey(what: string, first: number, parameters: string, held: Held): void {
    const count = Math.max(1, first);
    if (what === 'A') for (let at = 0; at < count && this.up(held); at++);
    if (what === 'B') for (let at = 0; at < count && this.down(); at++);
    if (what === 'K') this.line.erase(first, this.column);
    if (what === 'm') this.paint(parameters);
  }

  /** To the line above; false if there is none. */
  private up(held: Held): boolean {
    const line = this.above.pop() ?? held.take(this.stream);
    if (!line) return false;
    this.below.unshift(this.line);
    this.line = line;
    return true;
  }

  /** To the line below; false if there is none. */
  private down(): boolean {
    const line = this.below.shift();
    if (!line) return false;
    this.above.push(this.line);
    this.line = line;
    return true;
  }

  private paint(parameters: string): void {
    if (!/^[0-9;:]*$/.test(parameters)) return;
    const resets = /^0*$/.test(parameters);
    const restarts = /^0*;/.test(parameters);
    const sequence = `\u001b[${parameters}m`;
    if (resets) this.style = '';
    else if (restarts || this.style.length + sequence.length > STYLE_CHARS) this.style = sequence;
    else if (!this.style.endsWith(sequence)) this.style += sequence;
  }
}

function longer(length: number): Control {
  return length < CONTROL_CHARS ? { state: 'text', length: length + 1 } : NONE;
}

function codePoints(text: string): number {
  let count = text.length;
  for (let at = 0; at < text.length; at++) if ((text.charCodeAt(at) & 0xfc00) === 0xdc00) count -= 1;
  return count;
}
