// A log that a real kernel made, as the gateway streamed it.

import { readFileSync } from 'node:fs';
import { afterEach, describe, expect, it } from 'vitest';
import type { Cell } from '../src/log/cell';
import { parseRecord } from '../src/log/records';
import { SessionLog } from '../src/log/session-log';
import { withoutColours } from '../src/text/screen';
import { FakeGateway, session } from './gateway';
import { close, find, open, page, until } from './page';

const records = readFileSync('test/session.ndjson', 'utf8')
  .trim()
  .split('\n')
  .map(line => parseRecord(JSON.parse(line)))
  .filter(record => record !== null);

function cells(log: SessionLog): Cell[] {
  return log.entries.flatMap(entry => (entry.type === 'cell' ? [entry.cell] : []));
}

function streams(cell: Cell | undefined): string[] {
  return (cell?.outputs ?? []).flatMap(output => {
    if (output.type !== 'stream') return [];
    const { head, tail } = output.screen.sink.shown();
    return [`${output.name}: ${withoutColours(head + tail + output.screen.unfinished())}`];
  });
}

describe('a recorded log', () => {
  const log = new SessionLog();
  for (const record of records) log.apply(record);
  const all = cells(log);

  it('has every cell with its end', () => {
    expect(all.map(cell => [cell.count, cell.status, cell.asker, cell.incarnation])).toEqual([
      [1, 'ok', 'native', 1],
      [2, 'ok', 'native', 1],
      [3, 'ok', 'native', 1],
      [4, 'error', 'native', 1],
      [5, 'ok', 'native', 1],
      [1, 'ok', 'native', 2]
    ]);
    expect(log.state).toBe('idle');
    expect(all[0]?.variables).toMatchObject({ added: ['df', 'pd', 'sys'] });
  });

  it('has a progress bar as one line', () => {
    expect(streams(all[1])).toContain('stderr: 100%|██████████|');
  });

  it('has what was cleared and updated as it was last', () => {
    expect(streams(all[4])).toEqual([]);
    expect(all[4]?.outputs.map(output => output.type === 'display' && output.data['text/markdown'])).toEqual([
      '**after** $x^2$'
    ]);
  });

  it('says that the variables of the process before are gone', () => {
    const life = log.entries.flatMap(entry => (entry.type === 'life' ? [entry.event.text] : []));
    expect(life).toEqual(['Process 2 started. Its variables begin empty.']);
  });
});

describe('the viewer on a recorded log', () => {
  afterEach(close);

  it('shows its cells, and its plot in the gallery', async () => {
    const gateway = new FakeGateway();
    gateway.sessions = [session({ incarnation: 2 })];
    gateway.install();
    gateway.write(records);
    await open('#/s/eda');
    await until(() => expect(document.querySelectorAll('.cell')).toHaveLength(6));
    expect(page()).toContain('ZeroDivisionError');
    expect(find('iframe, .frame-waiting')).not.toBeNull();
    await until(() => expect(find('.markdown strong').textContent).toBe('after'));
    await until(() => expect(document.querySelector('.markdown math')).not.toBeNull());
    await open('#/s/eda/plots');
    await until(() => expect(document.querySelectorAll('.gallery img')).toHaveLength(1));
  });
});
