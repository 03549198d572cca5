// Lists and histories that are longer than a page.

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { before, latest, START } from '../src/api/beginning';
import { FakeGateway, json, session } from './gateway';
import { button, click, close, open, until } from './page';

let gateway: FakeGateway;
const signal = new AbortController().signal;

beforeEach(() => {
  gateway = new FakeGateway();
  gateway.sessions = [session()];
  gateway.install();
});
afterEach(close);

/** A history of cells with the numbers 10, 20, 30 …, as the gateway pages it: the newest first. */
function history(cells: number, status = 'ok'): void {
  gateway.instead.set('GET v1/sessions/eda/history', call => {
    const query = new URL(call.path, 'http://x').searchParams;
    expect(query.get('order')).toBe('desc');
    const end = Number(query.get('cursor') ?? cells);
    const offset = Math.max(0, end - Number(query.get('limit')));
    const page = Array.from({ length: end - offset }, (_, at) => ({ seq: (end - at) * 10, status }));
    return json({ history: page, offset, total: cells, omitted: 0, next: offset > 0 ? String(offset) : null });
  });
}

describe('the beginning of a log', () => {
  it('is all of a short one', async () => {
    history(200);
    expect(await latest('eda', 200, signal)).toEqual(START);
  });

  it('is before the latest cells of a long one, and further back page by page', async () => {
    history(5000);
    const first = await latest('eda', 200, signal);
    expect(first).toEqual({ after: 48_009, cells: 4800, cursor: '4800' });
    const second = await before('eda', first, 2500, signal);
    expect(second).toEqual({ after: 23_009, cells: 2300, cursor: '2300' });
    expect(gateway.calls.map(call => /limit=(\d+)/.exec(call.path)?.[1])).toEqual(['200', '1000', '1000', '500']);
    expect(await before('eda', second, 2300, signal)).toEqual(START);
  });

  it('leaves nothing out if the first cell waits still', async () => {
    history(5000, 'queued');
    expect(await latest('eda', 200, signal)).toEqual(START);
  });
});

describe('files', () => {
  it('are shown page by page', async () => {
    gateway.fileNames = ['a', 'b', 'c', 'd', 'e'];
    await open('#/s/eda/files');
    const rows = (): string[] =>
      [...document.querySelectorAll('.variables tbody tr td:first-child')].map(cell => cell.textContent ?? '');
    await until(() => expect(rows()).toEqual(['a', 'b']));
    await click(button('Show more than these 2'));
    await until(() => expect(rows()).toEqual(['a', 'b', 'c', 'd']));
    await click(button('Show more than these 4'));
    await until(() => expect(rows()).toEqual(['a', 'b', 'c', 'd', 'e']));
    expect(document.querySelector('.files > .more')).toBeNull();
  });
});
