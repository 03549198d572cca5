import { describe, expect, it } from 'vitest';
import { spans } from '../src/text/ansi';

describe('spans of coloured text', () => {
  it('have classes for the sixteen colours and decorations', () => {
    expect(spans('\u001b[1;31mbad\u001b[0m ok')).toEqual([
      { text: 'bad', className: 'ansi-bold ansi-red', color: '', background: '' },
      { text: ' ok', className: '', color: '', background: '' }
    ]);
    expect(spans('\u001b[94m\u001b[43mx')[0]?.className).toBe('ansi-bright-blue ansi-yellow-bg');
  });

  it('have values for the other colours', () => {
    expect(spans('\u001b[38;5;208mx')[0]).toMatchObject({ color: 'rgb(255, 135, 0)', className: 'ansi-custom' });
    expect(spans('\u001b[38;5;240mx')[0]).toMatchObject({ color: 'rgb(88, 88, 88)' });
    expect(spans('\u001b[48;2;1;2;3mx')[0]).toMatchObject({ background: 'rgb(1, 2, 3)', className: '' });
  });

  it('keep markup as text', () => {
    const text = '<img src=x onerror=alert(1)>\u001b[31m<b>';
    expect(
      spans(text)
        .map(span => span.text)
        .join('')
    ).toBe('<img src=x onerror=alert(1)><b>');
  });

  it('leave other sequences out', () => {
    expect(
      spans('\u001b]8;;javascript:alert(1)\u0007link\u001b]8;;\u0007\u001b[2J!')
        .map(span => span.text)
        .join('')
    ).toBe('link!');
  });
});
