import { EventParser } from 'himalia';
import { describe, expect, it } from 'vitest';

const TEXT = ': keep-alive\n\nid: 7\nevent: message\ndata: {"a":1}\n\nevent: end\ndata: {"reason":"draining"}\n\n';
const EVENTS = [
  { event: 'message', data: '{"a":1}', id: '7' },
  { event: 'end', data: '{"reason":"draining"}', id: null }
];

describe('events', () => {
  it('are the same wherever the stream is cut', () => {
    for (let cut = 0; cut <= TEXT.length; cut++) {
      const parser = new EventParser();
      expect([...parser.push(TEXT.slice(0, cut)), ...parser.push(TEXT.slice(cut))]).toEqual(EVENTS);
    }
  });
});
