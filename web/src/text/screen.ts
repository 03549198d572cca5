/**
 * Text as a terminal leaves it: carriage returns and backspaces overwrite, colours stay with their characters.
 *
 * The same rules as `crates/outcome/src/screen.rs`, which drops the colours; `tests/vectors/terminal.json` holds both to
 * them. Characters are Unicode code points.
 */

/** Characters of a line that can still be overwritten. A longer line goes to the sink in pieces. */
export const LINE_CHARS = 64 << 10;
/** Characters of a control string after which it is taken for text that lost its end. */
const CONTROL_CHARS = 4096;
/** Characters of one SGR sequence, and of all that are in force; more are forgotten. */
const SGR_CHARS = 64;
const STYLE_CHARS = 256;

/** Takes finished text. Colours are SGR sequences within it; each piece stands on its own. */
export interface Sink {
  push(text: string): void;
  clear(): void;
}

export type StreamName = 'stdout' | 'stderr';

type Control =
  | { state: 'none' | 'escape' | 'escape-more' }
  | { state: 'sequence'; first: number; text: string }
  | { state: 'text' | 'text-escape'; length: number };

const NONE: Control = { state: 'none' };
const ESCAPE: Control = { state: 'escape' };
const ESCAPE_MORE: Control = { state: 'escape-more' };

const isControl = (code: number): boolean => code < 0x20 || (code >= 0x7f && code <= 0x9f);
// Whole lines without anything special are not looked at singly.
const SPECIAL = /[\x00-\x08\x0b-\x1f\x7f-\x9f]/;

class Line {
  chars: string[] = [];
  private styles: string[] = [];
  private cursor = 0;
  private control: Control = NONE;
  private style = '';

  get isFresh(): boolean {
    return this.chars.length === 0 && this.cursor === 0 && this.control === NONE && this.style === '';
  }

  put(char: string, sink: Sink): void {
    if (char === '\n') {
      this.control = NONE;
      this.flush(sink);
      sink.push('\n');
      return;
    }
    const control = this.control;
    const code = char.codePointAt(0) ?? 0;
    switch (control.state) {
      case 'none':
        this.putPlain(char, code, sink);
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
          if (char === 'K') this.erase(control.first);
          if (char === 'm') this.paint(control.text);
          this.control = NONE;
        } else {
          // It has lost its end.
          this.control = NONE;
          this.putPlain(char, code, sink);
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

  flush(sink: Sink): void {
    const text = this.text();
    if (text !== '') sink.push(text);
    this.chars = [];
    this.styles = [];
    this.cursor = 0;
  }

  /** What the line shows now, colours as SGR sequences. */
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

  private putPlain(char: string, code: number, sink: Sink): void {
    if (char === '\u001b') this.control = ESCAPE;
    else if (char === '\u009b') this.control = { state: 'sequence', first: 0, text: '' };
    else if (char === '\r') this.cursor = 0;
    else if (char === '\b') this.cursor = Math.max(0, this.cursor - 1);
    else if (char === '\t' || !isControl(code)) this.write(char, sink);
  }

  private write(char: string, sink: Sink): void {
    while (this.chars.length < this.cursor) {
      this.chars.push(' ');
      this.styles.push('');
    }
    this.chars[this.cursor] = char;
    this.styles[this.cursor] = this.style;
    this.cursor += 1;
    if (this.chars.length >= LINE_CHARS) this.flush(sink);
  }

  private erase(what: number): void {
    if (what === 0) {
      this.chars.length = Math.min(this.chars.length, this.cursor);
      this.styles.length = this.chars.length;
    } else if (what === 1) {
      this.chars.fill(' ', 0, this.cursor);
      this.styles.fill('', 0, this.cursor);
    } else {
      this.chars = [];
      this.styles = [];
    }
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

/** A terminal of endless length over a sink. Each of the two streams has a line that is still being written. */
export class Screen<S extends Sink> {
  readonly sink: S;
  private out = new Line();
  private err = new Line();

  constructor(sink: S) {
    this.sink = sink;
  }

  write(stream: StreamName, text: string): void {
    const line = stream === 'stderr' ? this.err : this.out;
    let rest = text;
    while (rest !== '') {
      if (line.isFresh) {
        const special = rest.search(SPECIAL);
        const plain = special < 0 ? rest : rest.slice(0, special);
        const end = plain.lastIndexOf('\n');
        if (end >= 0) {
          this.sink.push(rest.slice(0, end + 1));
          rest = rest.slice(end + 1);
          continue;
        }
      }
      const char = String.fromCodePoint(rest.codePointAt(0) ?? 0);
      rest = rest.slice(char.length);
      line.put(char, this.sink);
    }
  }

  /** Takes everything back. */
  clear(): void {
    this.sink.clear();
    this.out = new Line();
    this.err = new Line();
  }

  /** The lines that have not ended, as they would follow the sink's text. */
  unfinished(): string {
    const out = this.out.text();
    const err = this.err.text();
    return out !== '' && err !== '' ? `${out}\n${err}` : out + err;
  }
}

/** Text without its SGR sequences. */
export function withoutColours(text: string): string {
  return text.replace(/\u001b\[[0-9;:]*m/g, '');
}
