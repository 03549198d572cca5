/** Code in colours: Python from lezer's parser, which never refuses a text, and Bash. Loaded with the first code that is shown. */

import { highlightCode, tagHighlighter, tags } from '@lezer/highlight';
import { parser } from '@lezer/python';
import { bash } from './bash';

const highlighter = tagHighlighter([
  {
    tag: [tags.keyword, tags.operatorKeyword, tags.controlKeyword, tags.definitionKeyword, tags.moduleKeyword],
    class: 'tok-keyword'
  },
  { tag: [tags.string, tags.special(tags.string)], class: 'tok-string' },
  { tag: [tags.number, tags.bool, tags.null], class: 'tok-number' },
  { tag: tags.comment, class: 'tok-comment' },
  {
    tag: [
      tags.function(tags.variableName),
      tags.function(tags.propertyName),
      tags.function(tags.definition(tags.variableName))
    ],
    class: 'tok-call'
  },
  { tag: [tags.definition(tags.variableName), tags.className, tags.definition(tags.className)], class: 'tok-name' },
  { tag: tags.meta, class: 'tok-meta' }
]);

export function highlight(code: string, language: string | null): { text: string; className: string }[] {
  if (language === 'bash') return bash(code);
  const parts: { text: string; className: string }[] = [];
  const put = (text: string, className: string): void => {
    parts.push({ text, className });
  };
  highlightCode(code, parser.parse(code), highlighter, put, () => put('\n', ''));
  return parts;
}
