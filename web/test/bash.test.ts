import { describe, expect, it } from 'vitest';
import { bash } from '../src/output/bash';

const seen = (code: string): string =>
  bash(code)
    .map(({ text, className }) => (className ? `<${className.slice(4)}:${text}>` : text))
    .join('');

describe('bash in colours', () => {
  it('knows commands, words, texts, variables and comments', () => {
    expect(seen('# look\nfor f in *.csv; do\n  wc -l "$f" | sort > out#1 # count\ndone')).toBe(
      '<comment:# look>\n<keyword:for> f <keyword:in> *.csv; <keyword:do>\n  <call:wc> -l <string:"$f"> | <call:sort> > out#1 <comment:# count>\n<keyword:done>'
    );
    expect(seen('X=1 make \u0024{TARGET} $HOME')).toBe('X=1 <call:make> <meta:\u0024{TARGET}> <meta:$HOME>');
  });

  it('loses nothing, whatever the code is', () => {
    for (const code of [
      '',
      "'open",
      '"open',
      '${',
      '%%bash\nls',
      'a\\',
      '😀 # x',
      'x\n\n',
      '<<EOF\n$(a)\nEOF',
      '\u0000'
    ]) {
      expect(
        bash(code)
          .map(part => part.text)
          .join('')
      ).toBe(code);
    }
  });
});
