import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { LogRecord } from '../src/log/records';
import { FakeGateway, json, problem, session } from './gateway';
import { button, click, close, find, open, page, press, type, until } from './page';
import { LogWriter } from './records';

let gateway: FakeGateway;
let log: LogWriter;
let sent = 0;

/** What was written to the log since the last time goes to the viewer. */
function publish(): void {
  gateway.write(log.records.slice(sent) as LogRecord[]);
  sent = log.records.length;
}

beforeEach(() => {
  gateway = new FakeGateway();
  gateway.sessions = [session()];
  gateway.install();
  log = new LogWriter();
  sent = 0;
});
afterEach(close);

describe('a live session', () => {
  it('shows output as it comes, and the same to a page that is opened later', async () => {
    const id = log.begin('for x in y: print(x)', 1);
    log.stream(id, 'one\n');
    publish();
    await open('#/s/eda');
    await until(() => expect(find('.stream').textContent).toBe('one\n'));
    expect(find('.pill').textContent).toBe('busy');
    log.stream(id, 'two\n');
    publish();
    await until(() => expect(find('.stream').textContent).toBe('one\ntwo\n'));
    await close();
    log.stream(id, 'three\n');
    log.end(id, 1);
    publish();
    await open('#/s/eda');
    await until(() => expect(find('.stream').textContent).toBe('one\ntwo\nthree\n'));
    expect(find('.pill').textContent).toBe('idle');
  });

  it('says that a kernel does not answer and what to do, until it answers', async () => {
    log.life({ event: 'unresponsive', problem: 'heartbeat', advice: 'Interrupt it, or restart it.' });
    publish();
    await open('#/s/eda');
    await until(() =>
      expect(find('.problem').textContent).toBe('The kernel does not answer. Interrupt it, or restart it.')
    );
    log.life({ event: 'responsive' });
    publish();
    await until(() => expect(document.querySelector('.problem')).toBeNull());
  });

  it('has the files that a cell keeps, and a preview of pictures', async () => {
    const artifacts = [
      { name: 'deep/a.csv', media_type: 'text/csv', bytes: 3, artifact: `sha256:${'a'.repeat(64)}` },
      { name: 'p.png', media_type: 'image/png', bytes: 4, artifact: `sha256:${'b'.repeat(64)}` }
    ];
    gateway.instead.set('GET v1/executions/', () => json({ id: 'e', status: 'ok', artifacts }));
    gateway.instead.set('GET v1/artifacts/', () => new Response('1,2'));
    URL.createObjectURL = () => 'blob:made';
    URL.revokeObjectURL = () => undefined;
    const id = log.begin('write()', 1);
    log.kept(id, 'deep/a.csv', 'text/csv', 3);
    log.kept(id, 'p.png', 'image/png', 4);
    publish();
    await open('#/s/eda');
    // What is kept can be read when the result is there.
    await until(() => expect(find('.kept').textContent).toBe('deep/a.csv 3 Bp.png 4 B'));
    expect(document.querySelector('.kept button')).toBeNull();
    const files = [{ name: 'large.bin', bytes: 9, reason: 'too_large' }];
    log.end(id, 1, 'ok', { himalia: { artifacts: { files, more: 0, truncated: false } } });
    publish();
    await until(() => expect(find('.kept-preview').getAttribute('src')).toBe('blob:made'));
    expect(find('.kept .is-loss').textContent).toBe('not kept: large.bin: too large');
    await click(button('deep/a.csv'));
    await until(() => expect(gateway.called('GET', `v1/artifacts/${'a'.repeat(64)}`).length).toBe(1));
    expect(gateway.called('GET', `v1/artifacts/${'b'.repeat(64)}`).length).toBe(1);
  });

  it('tells what its sandbox uses', async () => {
    await open('#/s/eda');
    await until(() => expect(find('.usage').textContent).toBe('96.0 MiB of 2.0 GiB'));
    expect(gateway.called('GET', 'v1/sessions/eda/usage').length).toBe(1);
  });

  it('continues where it was when the gateway comes back', async () => {
    const id = log.begin('x', 1);
    log.stream(id, 'before\n');
    publish();
    await open('#/s/eda');
    await until(() => expect(find('.stream').textContent).toBe('before\n'));
    gateway.cut();
    log.stream(id, 'after\n');
    publish();
    await until(() => expect(find('.stream').textContent).toBe('before\nafter\n'));
    expect(gateway.called('GET', 'v1/sessions/eda/events').map(call => call.path.split('after=')[1])).toEqual([
      '0',
      '6'
    ]);
  });

  it('has a progress bar in one line', async () => {
    const id = log.begin('tqdm', 1);
    for (let tick = 0; tick <= 100; tick++) {
      log.stream(id, '\r', 'stderr');
      log.stream(id, `${tick}%|bar| ${tick}/100`, 'stderr');
    }
    publish();
    await open('#/s/eda');
    await until(() => expect(find('.stream').textContent).toBe('100%|bar| 100/100'));
  });

  it('says that there is none of this name', async () => {
    gateway.sessions = [];
    gateway.instead.set('GET v1/sessions/eda/events', () => problem(404, 'not_found', 'no'));
    await open('#/s/eda');
    await until(() => expect(page()).toContain('There is no such session'));
  });

  it('marks where the process was replaced', async () => {
    log.life({
      event: 'exited',
      incarnation: 1,
      cause: { kind: 'signal', signal: 9 },
      asked: false,
      detail: 'out of memory'
    });
    log.incarnation = 2;
    log.life({ event: 'started', incarnation: 2 });
    publish();
    await open('#/s/eda');
    await until(() => expect(page()).toContain('Process 1 ended: signal(9) (out of memory)'));
    expect(page()).toContain('Process 2 started. Its variables begin empty.');
  });
});

describe('what a person is asked', () => {
  const prompt = (more: object): object => ({
    id: 'prm_11111111222243338444555555555555_7',
    kind: 'approval',
    text: 'Delete order 7?',
    options: ['once', 'session', 'always', 'deny'],
    tool: 'orders.delete',
    arguments: { id: 7 },
    state: 'open',
    ...more
  });
  let open_prompts: object[] = [];
  const asks = (more: object = {}): void => {
    open_prompts = [prompt(more)];
    log.prompt({ event: 'asked' });
    publish();
  };
  beforeEach(() => {
    open_prompts = [];
    gateway.instead.set('GET v1/sessions/eda/prompts', () => json({ prompts: open_prompts }));
  });

  it('is shown with its arguments, and answered by one of its options', async () => {
    await open('#/s/eda');
    asks();
    await until(() => expect(find('.prompt').textContent).toContain('wants to call orders.delete'));
    expect(find('.prompt-arguments').textContent).toBe('{\n  "id": 7\n}');
    const labels = [...document.querySelectorAll('.prompt button')].map(one => one.textContent);
    expect(labels).toEqual(['Once', 'This session', 'Always', 'Deny']);
    gateway.instead.set('POST v1/prompts/', () => {
      open_prompts = [];
      log.prompt({ event: 'ended' });
      publish();
      return json(prompt({ state: 'answered' }));
    });
    await click(button('Deny'));
    await until(() => expect(document.querySelector('.prompt')).toBeNull());
    expect(gateway.called('POST', 'v1/prompts/').map(call => [call.path, call.body])).toEqual([
      ['v1/prompts/prm_11111111222243338444555555555555_7/answer', { value: 'deny' }]
    ]);
  });

  it('shows long arguments in full, folded, and hides no character of them', async () => {
    await open('#/s/eda');
    asks({ arguments: { text: 'x'.repeat(10_000), to: 'a\u202eb\u200b' } });
    await until(() => expect(find('.prompt details summary').textContent).toMatch(/^Arguments: \d+ characters/));
    expect(find<HTMLDetailsElement>('.prompt details').open).toBe(false);
    const text = find('.prompt-arguments').textContent;
    expect(text).toContain('x'.repeat(10_000));
    expect(text).toContain('a\\u202eb\\u200b');
  });

  it('lists what waits in all sessions and workflows, with the way to each', async () => {
    let waiting: object[] = [
      prompt({ session: gateway.sessions[0]?.id }),
      prompt({
        id: 'prs_11111111222243338444555555555555_sign',
        kind: 'step',
        text: 'Is it good?',
        tool: undefined,
        options: ['approve', 'reject'],
        run: 'run_1',
        step: 'sign'
      }),
      prompt({
        id: 'prm_2_2',
        kind: 'input',
        text: 'Word?',
        tool: undefined,
        options: [],
        arguments: undefined,
        password: true
      })
    ];
    gateway.instead.set('GET v1/prompts', () => json({ prompts: waiting }));
    gateway.instead.set('POST v1/prompts/', () => {
      waiting = waiting.slice(0, 2);
      return json(prompt({ state: 'answered' }));
    });
    await open('#/');
    await until(() => expect(document.querySelectorAll('.prompt').length).toBe(3));
    const ways = [...document.querySelectorAll('.prompt-who a')].map(one => one.getAttribute('href'));
    expect(ways).toEqual([`#/s/${gateway.sessions[0]?.id}`, '#/r/run_1/sign']);
    const field = find<HTMLInputElement>('.prompt input');
    expect(field.type).toBe('password');
    await type(field, 'hunter2');
    await click(button('Answer'));
    await until(() => expect(document.querySelectorAll('.prompt').length).toBe(2));
    expect(gateway.called('POST', 'v1/prompts/')[0]?.body).toEqual({ value: 'hunter2' });
  });

  it('has a field where there are no options, and says why an answer was refused', async () => {
    gateway.instead.set('POST v1/prompts/', () => problem(409, 'conflict', 'the prompt has ended'));
    await open('#/s/eda');
    asks({ kind: 'question', options: [], tool: undefined, arguments: undefined, text: 'Which month?' });
    await until(() => expect(find('.prompt').textContent).toContain('Which month?'));
    await type(find<HTMLInputElement>('.prompt input'), 'May');
    await click(button('Answer'));
    await until(() => expect(find('.prompt [role=alert]').textContent).toContain('the prompt has ended'));
  });
});

describe('what a user can do', () => {
  it('runs code, under a key that makes it harmless to send twice', async () => {
    await open('#/s/eda');
    const field = find<HTMLTextAreaElement>('textarea');
    await type(field, 'print(1)');
    await press('Enter', { ctrlKey: true }, field);
    await until(() => expect(field.value).toBe(''));
    const [call] = gateway.called('POST', 'v1/sessions/eda/executions');
    expect(call?.body).toMatchObject({ code: 'print(1)', background: true, allow_stdin: true });
    expect(call?.body?.idempotency_key).toMatch(/^viewer:/);
  });

  it('keeps the code when it was refused, and says why', async () => {
    gateway.instead.set('POST v1/sessions/eda/executions', () => problem(429, 'queue_full', '64 executions wait'));
    await open('#/s/eda');
    await type(find<HTMLTextAreaElement>('textarea'), 'print(1)');
    await click(button('Run'));
    await until(() => expect(find('.run-failure').textContent).toBe('64 executions wait'));
    expect(find<HTMLTextAreaElement>('textarea').value).toBe('print(1)');
  });

  it('answers what the code asks, a password without showing it', async () => {
    const id = log.begin('getpass()', 1);
    log.message(id, 'input_request', { prompt: 'Password: ', password: true }, {}, 'stdin');
    publish();
    await open('#/s/eda');
    await until(() => expect(find<HTMLInputElement>('.asking input').type).toBe('password'));
    await type(find<HTMLInputElement>('.asking input'), 'hunter2');
    await click(button('Answer'));
    const [call] = gateway.called('POST', 'v1/executions/');
    expect(call).toMatchObject({
      path: 'v1/executions/exe_11111111222243338444555555555555_1/input',
      body: { value: 'hunter2' }
    });
    log.request('a', 'input_reply', {}, { channel: 'stdin', session: 'himalia-execution' });
    publish();
    await until(() => expect(document.querySelector('.asking')).toBeNull());
  });

  it('interrupts with i i, and restarts after one question', async () => {
    log.begin('x', 1);
    publish();
    await open('#/s/eda');
    await until(() => expect(find('.pill').textContent).toBe('busy'));
    await press('i');
    expect(gateway.called('POST', 'v1/sessions/eda/interrupt')).toEqual([]);
    await press('i');
    await until(() => expect(gateway.called('POST', 'v1/sessions/eda/interrupt')).toHaveLength(1));
    // Only the kernel says what came of it.
    expect(find('.pill').textContent).toBe('busy');
    await until(() => expect(button('Restart').disabled).toBe(false));
    await click(button('Restart'));
    expect(gateway.called('POST', 'v1/sessions/eda/restart')).toEqual([]);
    await click(button('Restart'));
    await until(() => expect(gateway.called('POST', 'v1/sessions/eda/restart')).toHaveLength(1));
  });

  it('walks through the cells with j and k', async () => {
    for (let n = 1; n <= 3; n++) log.end(log.begin(`cell ${n}`, n), n);
    publish();
    await open('#/s/eda');
    await until(() => expect(document.querySelectorAll('.cell')).toHaveLength(3));
    const selected = () => document.querySelector('.cell.is-selected .code')?.textContent;
    await press('k');
    expect(selected()).toBe('cell 3');
    await press('k');
    expect(selected()).toBe('cell 2');
    await press('j');
    expect(selected()).toBe('cell 3');
    await press('f');
    await press('2');
    await until(() => expect(page()).toContain('No plots yet'));
  });
});

describe('many cells', () => {
  it('are not all in the document', async () => {
    for (let n = 1; n <= 2000; n++) log.end(log.begin(`cell ${n}`, n), n);
    publish();
    await open('#/s/eda');
    await until(() => expect(find('.tabs a').textContent).toBe('Cells2000'));
    expect(document.querySelectorAll('.cell').length).toBeLessThan(40);
    expect(document.querySelectorAll('*').length).toBeLessThan(3000);
  });
});

describe('plots', () => {
  it('collect in the gallery, and one is shown large', async () => {
    const id = log.begin('plt.plot()', 4);
    log.message(id, 'display_data', { data: { 'image/png': 'iVBORw0KGgo=\n', 'text/plain': '<Figure size 640x480>' } });
    log.message(id, 'display_data', { data: { 'application/vnd.plotly.v1+json': { data: [] }, 'text/html': '<b>' } });
    publish();
    await open('#/s/eda/plots');
    await until(() => expect(document.querySelectorAll('.gallery a')).toHaveLength(2));
    expect(find<HTMLImageElement>('.gallery img').getAttribute('src')).toBe('data:image/png;base64,iVBORw0KGgo=');
    location.hash = find<HTMLAnchorElement>('.gallery a').getAttribute('href') ?? '';
    await until(() => expect(find<HTMLImageElement>('.plate img').alt).toBe('<Figure size 640x480>'));
    expect(page()).toContain('1 of 2');
    await press('ArrowRight');
    await until(() => expect(page()).toContain('2 of 2'));
    await click(button('Go to cell [4]'));
    await until(() => expect(find('.cell.is-selected .cell-count').textContent).toBe('[4]'));
  });
});

describe('variables', () => {
  const row = {
    name: 'df',
    type: 'DataFrame',
    module: 'pandas',
    shape: [1_000_000, 2],
    dtype: null,
    bytes: 2048,
    length: null,
    preview: 'a, b'
  };

  it('are read again after a cell, with what it changed', async () => {
    gateway.variables = { variables: [row], next: null, total: 1, truncated: false, incarnation: 1 };
    log.end(log.begin('df = 1', 1), 1, 'ok', { himalia: { variables: { added: [], changed: ['df'], removed: [] } } });
    publish();
    await open('#/s/eda/variables');
    await until(() => expect(find('.variables .tag').textContent).toBe('changed'));
    expect(find('.variables tbody tr').textContent).toBe('dfchangedDataFrame1,000,000 × 22.0 KiBa, b');
    const before = gateway.called('GET', 'v1/sessions/eda/variables').length;
    log.end(log.begin('x', 2), 2);
    publish();
    await until(() => expect(gateway.called('GET', 'v1/sessions/eda/variables').length).toBeGreaterThan(before));
  });

  it('say so when the kernel cannot tell', async () => {
    gateway.instead.set('GET v1/sessions/eda/variables', () => problem(501, 'unsupported', 'no'));
    await open('#/s/eda/variables');
    await until(() => expect(page()).toContain('This kernel does not tell'));
  });

  it('of a frame are paged, sorted and filtered by the kernel', async () => {
    gateway.page = query => ({
      variable: row,
      kind: 'table',
      page: {
        total: 1_000_000,
        matched: 1_000_000,
        columns: [
          { name: 'a', dtype: 'int64' },
          { name: 'b', dtype: 'object' }
        ],
        columns_total: 2,
        rows: [[Number(query.get('offset')), null]],
        index: [Number(query.get('offset'))],
        cut: false
      },
      incarnation: 1
    });
    await open('#/s/eda/variables/df');
    await until(() => expect(page()).toContain('1–100 of 1,000,000 rows'));
    expect(find('.missing').textContent).toBe('missing');
    await click(button('Next page'));
    await until(() => expect(page()).toContain('101–200 of 1,000,000 rows'));
    await click(find('.data thead button'));
    await until(() => expect(find('.data [aria-sort]').getAttribute('aria-sort')).toBe('ascending'));
    await type(find<HTMLInputElement>('.filter input'), '7');
    await click(button('Apply'));
    const last = () =>
      new URLSearchParams(gateway.called('GET', 'v1/sessions/eda/variables/df').at(-1)?.path.split('?')[1]);
    await until(() => expect(last().get('filter')).toBe('{"column":"a","op":"contains","value":"7"}'));
    expect([last().get('offset'), last().get('sort')]).toEqual(['0', 'a']);
  });
});
