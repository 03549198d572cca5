/** A sink of bounded size: the beginning and the end of a text, and how much is missing between them. */

import type { Sink } from './screen';

/** What is shown of a text. */
export interface Shown {
  head: string;
  /** Characters between head and tail that are not kept. */
  omitted: number;
  tail: string;
}

export class Excerpt implements Sink {
  private head = '';
  private tail: string[] = [];
  private tailChars = 0;
  private omitted = 0;

  /** Keeps about `half` characters from the beginning and as many from the end. */
  constructor(private readonly half: number) {}

  push(text: string): void {
    let rest = text;
    if (this.tailChars === 0 && this.omitted === 0) {
      const room = this.half - this.head.length;
      if (rest.length <= room) {
        this.head += rest;
        return;
      }
      // A line that would be torn apart goes to the tail as a whole.
      const cut = lineEnd(rest, room, this.head === '' || this.head.endsWith('\n'));
      this.head += rest.slice(0, cut);
      rest = rest.slice(cut);
    }
    if (rest.length > this.half) {
      const cut = rest.length - this.half;
      this.omitted += cut + this.tailChars;
      this.tail = [rest.slice(cut)];
      this.tailChars = rest.length - cut;
      return;
    }
    this.tail.push(rest);
    this.tailChars += rest.length;
    while (this.tailChars > this.half && this.tail.length > 1) {
      const dropped = this.tail.shift()?.length ?? 0;
      this.tailChars -= dropped;
      this.omitted += dropped;
    }
  }

  clear(): void {
    this.head = '';
    this.tail = [];
    this.tailChars = 0;
    this.omitted = 0;
  }

  get chars(): number {
    return this.head.length + this.tailChars;
  }

  shown(): Shown {
    if (this.tail.length > 64) this.tail = [this.tail.join('')];
    return { head: this.head, omitted: this.omitted, tail: this.tail.join('') };
  }
}

/** Where to cut a text at `room` characters at most: behind a line, or else between two code points. */
function lineEnd(text: string, room: number, isFresh: boolean): number {
  const line = text.lastIndexOf('\n', room - 1);
  if (room > 0 && line >= 0) return line + 1;
  if (isFresh && text.indexOf('\n') >= 0) return 0;
  const isLow = (text.charCodeAt(room) & 0xfc00) === 0xdc00;
  return Math.max(0, isLow ? room - 1 : room);
}
