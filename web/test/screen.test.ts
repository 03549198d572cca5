import { describe, expect, it } from 'vitest';
import vectors from '../../tests/vectors/terminal.json';
import { Excerpt } from '../src/text/excerpt';
import { HELD_ROWS, LINE_CHARS, Screen, type Sink, type StreamName, withoutColours } from '../src/text/screen';

class Text implements Sink {
  text = '';
  push(text: string): void {
    this.text += text;
  }
  clear(): void {
    this.text = '';
  }
}

function shown(writes: [StreamName, string][]): string {
  const screen = new Screen(new Text());
  for (const [stream, text] of writes) screen.write(stream, text);
  return screen.sink.text + screen.unfinished();
}

/** Numbers below a bound that are the same in every run. */
function numbers(seed: number): (below: number) => number {
  let state = seed;
  return below => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

describe('a screen leaves what the gateway leaves', () => {
  for (const { name, writes, text } of vectors) {
    it(name, () => {
      expect(withoutColours(shown(writes as [StreamName, string][]))).toBe(text);
    });
    it(`${name}, one character at a time`, () => {
      const single = (writes as [StreamName, string][]).flatMap(([stream, chunk]) =>
        Array.from(chunk, char => [stream, char] as [StreamName, string])
      );
      expect(withoutColours(shown(single))).toBe(text);
    });
  }

  it('keeps a line that is longer than can be overwritten', () => {
    const long = 'x'.repeat(LINE_CHARS + 3);
    expect(shown([['stdout', long]])).toBe(long);
  });

  it('does not go back further than lines are held', () => {
    const up = (lines: number): string =>
      shown([['stdout', `first\n${'x\n'.repeat(lines)}\u001b[${HELD_ROWS}Anew`]]).slice(0, 5);
    expect([up(HELD_ROWS - 1), up(HELD_ROWS)]).toEqual(['newst', 'first']);
    const wide = `${'w'.repeat(LINE_CHARS / 2)}\n`;
    expect(shown([['stdout', `first\n${wide}\u001b[2Anew`]]).slice(0, 5)).toBe('newst');
    expect(shown([['stdout', `first\n${wide}${wide}\u001b[3Anew`]]).slice(0, 5)).toBe('first');
  });

  it('leaves the same wherever two streams are cut into messages', () => {
    const random = numbers(7);
    const pieces = [
      'a',
      'bb',
      'é',
      '😀',
      '\n',
      '\n',
      '\r',
      '\b',
      '\u001b[A',
      '\u001b[2A',
      '\u001b[B',
      '\u001b[K',
      '\u001b[1m',
      '\u001b[m'
    ];
    for (let turn = 0; turn < 2000; turn++) {
      const whole: [StreamName, string][] = Array.from({ length: random(6) }, () => [
        random(3) === 0 ? 'stderr' : 'stdout',
        Array.from({ length: random(14) }, () => pieces[random(pieces.length)] ?? '').join('')
      ]);
      const cut = whole.flatMap(([stream, text]) => {
        const at = random(text.length + 1);
        const isWithin = (text.charCodeAt(at) & 0xfc00) === 0xdc00;
        const parts = isWithin ? [text] : [text.slice(0, at), text.slice(at)];
        return parts.map(part => [stream, part] as [StreamName, string]);
      });
      const single = whole.flatMap(([stream, text]) =>
        Array.from(text, char => [stream, char] as [StreamName, string])
      );
      expect(shown(cut), JSON.stringify(whole)).toBe(shown(whole));
      expect(shown(single), JSON.stringify(whole)).toBe(shown(whole));
    }
  });

  it('gives up a control string that is too long', () => {
    expect(shown([['stdout', `\u001b]${'x'.repeat(4097)}tail`]])).toBe('tail');
  });
});

describe('colours', () => {
  it('stay with the characters that they were printed for', () => {
    expect(shown([['stdout', '\u001b[31mred\rR\u001b[0mx\n']])).toBe('\u001b[31mR\u001b[0mx\u001b[31md\u001b[0m\n');
  });

  it('continue in the next line', () => {
    expect(shown([['stdout', '\u001b[1m\u001b[32ma\nb\u001b[m\n']])).toBe(
      '\u001b[1m\u001b[32ma\u001b[0m\n\u001b[1m\u001b[32mb\u001b[0m\n'
    );
  });
});

describe('an excerpt', () => {
  it('has the beginning and the end of a long text', () => {
    const excerpt = new Excerpt(20);
    for (let line = 0; line < 100; line++) excerpt.push(`line ${line}\n`);
    const { head, omitted, tail } = excerpt.shown();
    expect(head).toBe('line 0\nline 1\n');
    expect(tail.endsWith('line 98\nline 99\n')).toBe(true);
    const total = Array.from({ length: 100 }, (_, line) => `line ${line}\n`.length).reduce((a, b) => a + b);
    expect(head.length + omitted + tail.length).toBe(total);
  });

  it('is whole when the text is short', () => {
    const excerpt = new Excerpt(20);
    excerpt.push('short');
    expect(excerpt.shown()).toEqual({ head: 'short', omitted: 0, tail: '' });
  });

  it('keeps no more than it may of one huge text', () => {
    const excerpt = new Excerpt(1000);
    excerpt.push('y'.repeat(5_000_000));
    expect(excerpt.chars).toBe(2000);
    expect(excerpt.shown().omitted).toBe(5_000_000 - 2000);
  });
});
