import { expect, test } from 'vitest';
import { escapeUnseen } from '../src/text/unseen';

test('characters that are not seen are escapes', () => {
  const unseen = [
    '\u200b',
    '\u200d',
    '\u202e',
    '\ufe0f',
    '\u00ad',
    '\u3164',
    '\u2800',
    '\ue000',
    '\u{e0041}',
    '\u001b',
    '\ufeff',
    '\ufdd0'
  ];
  const escapes = [
    '200b',
    '200d',
    '202e',
    'fe0f',
    '00ad',
    '3164',
    '2800',
    'e000',
    'db40\\udc41',
    '001b',
    'feff',
    'fdd0'
  ];
  expect(unseen.map(char => escapeUnseen(`a${char}b`))).toEqual(escapes.map(code => `a\\u${code}b`));
});

test('what is seen stays', () => {
  const text = '{\n  "ü": "漢字 \u0600\u0661 👍 e\u0301"\n}';
  expect(escapeUnseen(text)).toBe(text);
});
