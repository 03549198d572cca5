/** Server-sent events out of a byte stream's text, without any waiting. */

export interface ServerEvent {
  event: string;
  data: string;
  id: string | null;
}

/** Characters of one event; a longer one is given up. Kernel messages have at most 256 MiB. */
const MAX_EVENT_CHARS = 300 << 20;

export class EventParser {
  private rest = '';

  /** The events that are complete now. */
  push(chunk: string): ServerEvent[] {
    const parts = (this.rest + chunk).split('\n\n');
    this.rest = parts.pop() ?? '';
    if (this.rest.length > MAX_EVENT_CHARS) throw new Error('an event is too large');
    return parts.map(read).filter(event => event !== null);
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
  return data.length > 0 ? { event, data: data.join('\n'), id } : null;
}
