/** Server-sent events out of a byte stream's text, without any waiting. */

export interface ServerEvent {
  event: string;
  /** Empty for a position without an event. */
  data: string;
  id: string | null;
}

/** Characters of one event; a longer one is refused. Kernel messages have at most 256 MiB. */
const MAX_EVENT_CHARS = 300 << 20;

/** The gateway separates events with an empty line and ends lines with a line feed. */
export class EventParser {
  private rest: string[] = [];
  private length = 0;

  /** The events that are complete now. */
  push(chunk: string): ServerEvent[] {
    // The end of an event may be cut between its two characters.
    const last = this.rest.at(-1);
    if (!chunk.includes('\n\n') && !(last?.endsWith('\n') && chunk.startsWith('\n'))) {
      this.keep(chunk);
      return [];
    }
    const parts = (this.rest.join('') + chunk).split('\n\n');
    this.rest = [];
    this.length = 0;
    this.keep(parts.pop() ?? '');
    return parts.map(read).filter(event => event !== null);
  }

  private keep(text: string): void {
    this.length += text.length;
    if (this.length > MAX_EVENT_CHARS) throw new Error('an event is too large');
    if (text !== '') this.rest.push(text);
  }
}

function read(block: string): ServerEvent | null {
  let event = 'message';
  let id: string | null = null;
  const data: string[] = [];
  for (const line of block.split('\n')) {
    const colon = line.indexOf(':');
    if (colon === 0) continue;
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1);
    if (name === 'event') event = value;
    else if (name === 'data') data.push(value);
    else if (name === 'id') id = value;
  }
  return data.length > 0 || id !== null ? { event, data: data.join('\n'), id } : null;
}
