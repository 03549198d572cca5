import { describe, expect, it } from 'vitest';
import type { Cell, Output } from '../src/log/cell';
import { plots } from '../src/log/plots';
import { parseRecord } from '../src/log/records';
import { SessionLog } from '../src/log/session-log';
import { LogWriter } from './records';

function read(writer: LogWriter): SessionLog {
  const log = new SessionLog();
  for (const record of writer.records) log.apply(record);
  return log;
}

function cells(log: SessionLog): Cell[] {
  return log.entries.flatMap(entry => (entry.type === 'cell' ? [entry.cell] : []));
}

function shown(output: Output | undefined): string {
  if (output?.type === 'stream') {
    const { head, tail } = output.screen.sink.shown();
    return `${output.name}: ${head}${tail}${output.screen.unfinished()}`;
  }
  if (output?.type === 'display') return `display: ${output.data['text/plain']}`;
  return output ? `${output.type}` : 'none';
}

describe('a native execution', () => {
  it('gets the request that its record names', () => {
    const writer = new LogWriter();
    const first = writer.execution({ event: 'submitted', code: 'a', caller: 'operator', ahead: 0 });
    const second = writer.execution({ event: 'submitted', code: 'b', caller: 'operator', ahead: 1 });
    writer.execution({ event: 'sent', attempt: 1, replaced: null }).execution = first.seq;
    writer.request('m', 'execute_request', { code: 'b' }, { session: 'himalia-execution' }).execution = second.seq;
    writer.message('m', 'stream', { name: 'stdout', text: 'of b' });
    const log = new SessionLog();
    for (const record of writer.records) log.apply(record);
    expect(log.cell(`x${second.seq}`)?.outputs.length).toBe(1);
    expect(log.cell(`x${first.seq}`)?.outputs.length).toBe(0);
  });

  it('goes from its submission to its end', () => {
    const writer = new LogWriter();
    writer.life({ event: 'started', incarnation: 1 });
    const id = writer.begin('print(1)', 7, 'viewer:abc');
    writer.stream(id, '1\n');
    const log = read(writer);
    const [cell] = cells(log);
    expect(cell).toMatchObject({ status: 'running', count: 7, asker: 'viewer', who: 'operator', code: 'print(1)' });
    expect(log.state).toBe('busy');
    const more = new LogWriter();
    more.records.push(...writer.records);
    more.end(id, 7, 'ok', { himalia: { variables: { added: ['x'] } } });
    for (const record of more.records) log.apply(record);
    expect(cell).toMatchObject({ status: 'ok', variables: { added: ['x'] } });
    expect(cell?.outputs.map(shown)).toEqual(['stdout: 1\n']);
    expect(log.state).toBe('idle');
  });

  it('lists files that are kept, each name once, and says which are not', () => {
    const writer = new LogWriter();
    const id = writer.begin('write()', 1);
    writer.kept(id, 'a.csv', 'text/csv', 3);
    writer.kept(id, 'a.csv', 'text/csv', 5);
    writer.message(id, 'himalia_artifact', { name: 'without a buffer' });
    const files = [{ name: 'b.bin', bytes: 9, reason: 'too_large' }];
    writer.end(id, 1, 'ok', { himalia: { artifacts: { files, more: 2, truncated: true } } });
    const [cell] = cells(read(writer));
    expect(cell?.files.shown).toEqual([{ name: 'a.csv', mediaType: 'text/csv', bytes: 5 }]);
    expect(cell?.files.omitted).toEqual([
      'b.bin: too large',
      '2 more',
      'there may be others, which were not looked at'
    ]);
    expect(cell?.outputs).toEqual([]);
  });

  it('waits behind the one that runs', () => {
    const writer = new LogWriter();
    const first = writer.begin('a', 1);
    writer.execution({ event: 'submitted', code: 'b', caller: 'operator', ahead: 1 });
    expect(cells(read(writer)).map(cell => cell.status)).toEqual(['running', 'queued']);
    writer.end(first, 1);
    const second = writer.sent('b', 2);
    writer.stream(second, 'B');
    writer.end(second, 2, 'error');
    const log = read(writer);
    expect(cells(log).map(cell => cell.status)).toEqual(['ok', 'error']);
    expect(cells(log)[1]?.outputs.map(shown)).toEqual(['stdout: B', 'error']);
  });

  it('is the one that a record names, where it does', () => {
    const writer = new LogWriter();
    writer.begin('a', 1);
    const second = writer.execution({ event: 'submitted', code: 'b', caller: 'operator', ahead: 1 });
    writer.execution({ event: 'submitted', code: 'c', caller: 'operator', ahead: 2 });
    writer.execution({ event: 'ended', status: 'interrupted', ran: false }).execution = second.seq;
    expect(cells(read(writer)).map(cell => cell.status)).toEqual(['running', 'interrupted', 'queued']);
  });

  it('that is sent again begins anew', () => {
    const writer = new LogWriter();
    const first = writer.begin('a', 1);
    writer.stream(first, 'lost');
    writer.execution({ event: 'sent', attempt: 2, replaced: null });
    writer.request('again', 'execute_request', { code: 'a' }, { session: 'himalia-execution' });
    writer.stream('again', 'kept');
    expect(cells(read(writer))[0]?.outputs.map(shown)).toEqual(['stdout: kept']);
  });
});

describe('a cell of a Jupyter client', () => {
  it('is there with its user, and silent ones are not', () => {
    const writer = new LogWriter();
    writer.request('j1', 'execute_request', { code: 'x = 1', silent: false });
    writer.request('j2', 'execute_request', { code: 'hidden', silent: true });
    writer.message('j1', 'status', { execution_state: 'busy' });
    writer.message('j1', 'execute_reply', { status: 'ok', execution_count: 3 }, {}, 'shell');
    expect(cells(read(writer))).toMatchObject([
      { asker: 'jupyter', who: 'ada', status: 'ok', count: 3, execution: null }
    ]);
  });

  it('ends with the process that ran it', () => {
    const writer = new LogWriter();
    writer.request('j1', 'execute_request', { code: 'x' });
    writer.message('j1', 'status', { execution_state: 'busy' });
    writer.life({ event: 'exited', incarnation: 1, cause: { kind: 'signal', signal: 9 }, asked: false, detail: '' });
    writer.life({ event: 'dead', cause: 'oom', over: false });
    const log = read(writer);
    expect(cells(log)[0]?.status).toBe('kernel_died');
    expect([log.state, log.reason]).toEqual(['dead', 'oom']);
    expect(log.entries.filter(entry => entry.type === 'life')).toHaveLength(2);
  });
});

describe('outputs', () => {
  it('are one stream for each name between two displays', () => {
    const writer = new LogWriter();
    const id = writer.begin('a', 1);
    writer.stream(id, 'a');
    writer.stream(id, 'warning\n', 'stderr');
    writer.stream(id, 'b\n');
    writer.message(id, 'display_data', { data: { 'text/plain': 'fig' } });
    writer.stream(id, 'c');
    expect(cells(read(writer))[0]?.outputs.map(shown)).toEqual([
      'stdout: ab\n',
      'stderr: warning\n',
      'display: fig',
      'stdout: c'
    ]);
  });

  it('are cleared at once, or by the next one', () => {
    const writer = new LogWriter();
    const id = writer.begin('a', 1);
    writer.stream(id, 'one');
    writer.message(id, 'clear_output', { wait: true });
    expect(cells(read(writer))[0]?.outputs.map(shown)).toEqual(['stdout: one']);
    writer.stream(id, 'two');
    expect(cells(read(writer))[0]?.outputs.map(shown)).toEqual(['stdout: two']);
    writer.message(id, 'clear_output', { wait: false });
    expect(cells(read(writer))[0]?.outputs).toEqual([]);
  });

  it('are updated where they stand, in an earlier cell too', () => {
    const writer = new LogWriter();
    const first = writer.begin('a', 1);
    writer.message(first, 'display_data', { data: { 'text/plain': '0' }, transient: { display_id: 'd' } });
    writer.end(first, 1);
    const second = writer.begin('b', 2);
    writer.message(second, 'update_display_data', { data: { 'text/plain': '1' }, transient: { display_id: 'd' } });
    const log = read(writer);
    expect(cells(log).map(cell => cell.outputs.map(shown))).toEqual([['display: 1'], []]);
  });

  it('are bounded in number', () => {
    const writer = new LogWriter();
    const id = writer.begin('a', 1);
    for (let n = 0; n < 1000; n++) writer.message(id, 'display_data', { data: { 'text/plain': `${n}` } });
    const [cell] = cells(read(writer));
    expect([cell?.outputs.length, cell?.omitted]).toEqual([200, 800]);
    expect([shown(cell?.outputs[0]), shown(cell?.outputs[199])]).toEqual(['display: 0', 'display: 999']);
  });

  it('that are missing leave a mark', () => {
    const writer = new LogWriter();
    const id = writer.begin('a', 1);
    writer.gap({ messages: 3, bytes: 99 });
    writer.stream(id, 'x');
    const [cell] = cells(read(writer));
    expect(cell?.outputs[0]).toMatchObject({ type: 'note', text: '3 messages of the kernel were dropped (99 bytes).' });
  });
});

describe('input', () => {
  it('is asked for until it is answered', () => {
    const writer = new LogWriter();
    const id = writer.begin('input()', 1);
    writer.message(id, 'input_request', { prompt: 'Name? ', password: true }, {}, 'stdin');
    expect(read(writer).asking?.question).toEqual({ prompt: 'Name? ', password: true });
    writer.request('answer', 'input_reply', { value: 'x' }, { channel: 'stdin', session: 'himalia-execution' });
    expect(read(writer).asking).toBeNull();
  });
});

describe('the kernel', () => {
  it('is not busy because a viewer reads it', () => {
    const writer = new LogWriter();
    writer.message(null, 'status', { execution_state: 'idle' });
    writer.message('look', 'status', { execution_state: 'busy' }).parent_header = {
      msg_id: 'look',
      msg_type: 'complete_request'
    };
    expect(read(writer).state).toBe('idle');
  });
});

describe('the log', () => {
  const writer = new LogWriter();
  for (let n = 1; n <= 20; n++) {
    const id = writer.begin(`cell ${n}`, n);
    for (let tick = 0; tick < 5; tick++) writer.stream(id, `\r${tick}/5`, 'stderr');
    if (n % 3 === 0) writer.message(id, 'display_data', { data: { 'image/png': 'AAAA', 'text/plain': 'fig' } });
    writer.end(id, n, n % 7 === 0 ? 'error' : 'ok');
  }
  const state = (log: SessionLog) =>
    cells(log).map(cell => [cell.key, cell.status, cell.count, cell.outputs.map(shown)]);

  it('read twice changes nothing', () => {
    const log = read(writer);
    for (const record of writer.records.slice(-50)) log.apply(record);
    expect(state(log)).toEqual(state(read(writer)));
  });

  it('read up to a record, then on, is the same as read at once', () => {
    for (const cut of [1, 17, 60, 111]) {
      const log = new SessionLog();
      for (const record of writer.records.slice(0, cut)) log.apply(record);
      log.takeChanges();
      // A client that reconnects gets some records once more.
      for (const record of writer.records.slice(Math.max(0, cut - 5))) log.apply(record);
      expect(state(log)).toEqual(state(read(writer)));
    }
  });

  it('has its plots in the order of time', () => {
    expect(plots(read(writer).entries).map(plot => [plot.cell.count, plot.type])).toEqual(
      [3, 6, 9, 12, 15, 18].map(count => [count, 'image/png'])
    );
  });
});

describe('a connection to the network', () => {
  it('is a line, with what it carried or why it was refused', () => {
    const writer = new LogWriter();
    writer.network({ host: 'pypi.org', port: 443, outcome: 'ended', sent_bytes: 8, received_bytes: 90, omitted: 3 });
    writer.network({
      host: 'api.org',
      port: 443,
      outcome: 'ended',
      sent_bytes: 200,
      received_bytes: 5125,
      credential: 'stripe'
    });
    writer.network({ host: 'a.b', port: 80, outcome: 'refused', reason: 'egress_denied: a.b:80 is not on the list' });
    const lines = read(writer).entries.map(entry => entry.type === 'life' && entry.event.text);
    expect(lines).toEqual([
      'Network: pypi.org:443: 8 B sent, 90 B received, and 3 other connections',
      'Network: api.org:443, with the credential stripe: 200 B sent, 5.0 KiB received',
      'Network: egress_denied: a.b:80 is not on the list'
    ]);
  });
});

describe('a call of a tool', () => {
  function called(): { writer: LogWriter; execution: number; id: string } {
    const writer = new LogWriter();
    const id = writer.begin('await himalia.call("a.b")', 1, 'key');
    const execution = writer.records.find(record => record.kind === 'execution')?.seq ?? 0;
    return { writer, execution, id };
  }

  it('is a row of the cell that makes it', () => {
    const { writer, execution } = called();
    const begun = { state: 'begun', tool: 'a.b', caller: 'code', arguments: '{"x":1}', arguments_bytes: 7, line: 3 };
    writer.toolCall(execution, { ...begun, call: 1 });
    writer.toolCall(execution, { ...begun, call: 2 });
    writer.toolCall(execution, {
      state: 'ended',
      call: 1,
      tool: 'a.b',
      outcome: 'done',
      reply: '[1]',
      reply_bytes: 3,
      duration_ms: 12
    });
    writer.toolCall(execution, { ...begun, state: 'refused', reason: 'a.b changes something', omitted: 4 });
    const log = read(writer);
    const [cell] = cells(log);
    expect(cell?.calls).toMatchObject({ total: 7, failed: 5, omitted: 4 });
    expect(cell?.calls.shown.map(call => [call.number, call.state, call.reply, call.milliseconds, call.line])).toEqual([
      [1, 'done', '[1]', 12, 3],
      [2, 'running', '', null, 3],
      [null, 'refused', '', null, 3]
    ]);
    expect(cell?.chars).toBe(7 * 3 + 3);
    cell?.drop();
    expect([cell?.calls.shown.length, cell?.calls.total, cell?.chars]).toEqual([0, 7, 0]);
  });

  it('is one of the first or the last ones of many', () => {
    const { writer, execution } = called();
    for (let call = 1; call <= 1000; call++) {
      writer.toolCall(execution, { state: 'begun', tool: 'a.b', caller: 'code', arguments: '{}', call });
    }
    const [cell] = cells(read(writer));
    const numbers = cell?.calls.shown.map(call => call.number) ?? [];
    expect([numbers.length, numbers[0], numbers[99], numbers[100], numbers[199]]).toEqual([200, 1, 100, 901, 1000]);
    expect(cell?.calls).toMatchObject({ total: 1000, omitted: 800, chars: 400 });
  });

  it('belongs to the notebook cell that runs, or is a line', () => {
    const writer = new LogWriter();
    writer.request('m', 'execute_request', { code: 'x' });
    writer.message('m', 'status', { execution_state: 'busy' });
    writer.toolCall(undefined, { state: 'begun', tool: 'a.b', caller: 'code', arguments: '{}', call: 1 });
    writer.toolCall(undefined, { state: 'begun', tool: 'a.c', caller: 'model', arguments: '{}', call: 2 });
    writer.toolCall(undefined, { state: 'ended', tool: 'a.c', outcome: 'done', call: 2 });
    const log = read(writer);
    expect(cells(log)[0]?.calls.shown.map(call => call.tool)).toEqual(['a.b']);
    expect(log.entries.flatMap(entry => (entry.type === 'life' ? [entry.event.text] : []))).toEqual([
      'A client called a.c'
    ]);
  });
});

describe('a record', () => {
  it('is refused when it is none, and read with what is sound of it', () => {
    expect(parseRecord('nonsense')).toBeNull();
    expect(parseRecord({ seq: '1', event: 'message' })).toBeNull();
    expect(parseRecord({ seq: 1, event: 'later' })).toBeNull();
    expect(parseRecord({ seq: 1, event: 'message', content: [1], header: { msg_type: 3 } })).toEqual({
      seq: 1,
      at: '',
      kind: 'message',
      incarnation: 0,
      header: { msg_type: 3 }
    });
  });

  it('of any shape does no harm', () => {
    const log = new SessionLog();
    const odd = [null, 3, 'x', [], {}, { msg_type: [] }];
    let seq = 0;
    for (const kind of ['message', 'request', 'lifecycle', 'gap', 'execution', 'network', 'tool_call']) {
      for (const header of [...odd, { msg_type: 'display_data' }, { msg_type: 'execute_request', msg_id: 'a' }]) {
        for (const content of odd) {
          const record = parseRecord({
            seq: ++seq,
            at: 'x',
            event: kind,
            incarnation: 1,
            header,
            content,
            detail: content,
            parent_header: { msg_id: 'a' }
          });
          if (record) log.apply(record);
        }
      }
    }
    expect(log.seq).toBe(seq);
  });
});
