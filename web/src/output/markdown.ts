/** Markdown of kernels as elements that do nothing: no scripts, no styles, no addresses that are loaded. */

import DOMPurify from 'dompurify';
import { Marked, type TokenizerAndRendererExtension, type Tokens } from 'marked';

interface Math extends Tokens.Generic {
  text: string;
  display: boolean;
}

const escapeHtml = (text: string): string => text.replace(/[&<>"']/g, char => `&#${char.charCodeAt(0)};`);

function math(name: string, level: 'block' | 'inline', rule: RegExp, display: boolean): TokenizerAndRendererExtension {
  // A paragraph ends where a block may start, so that must be the beginning of a line.
  const begin = level === 'block' ? /(?<=^|\n)\$\$/ : /\$/;
  return {
    name,
    level,
    start: source => {
      const at = source.search(begin);
      return at < 0 ? undefined : at;
    },
    tokenizer(source) {
      const match = rule.exec(source);
      return match ? ({ type: name, raw: match[0], text: match[1] ?? '', display } as Math) : undefined;
    },
    renderer: token => `<code class="math${display ? ' math-display' : ''}">${escapeHtml((token as Math).text)}</code>`
  };
}

const marked = new Marked({
  gfm: true,
  extensions: [
    math('mathBlock', 'block', /^\$\$([\s\S]{1,10000}?)\$\$(?:\n|$)/, true),
    math('mathDisplay', 'inline', /^\$\$([\s\S]{1,10000}?)\$\$/, true),
    math('mathInline', 'inline', /^\$(?![\s$])([^$\n]{1,2000}?)(?<!\s)\$(?!\d)/, false)
  ]
});

// A link says where it goes and opens beside the viewer; pictures only from within the text itself.
const purify = DOMPurify(window);
purify.addHook('afterSanitizeAttributes', node => {
  if (node.tagName === 'A') {
    node.setAttribute('target', '_blank');
    node.setAttribute('rel', 'noopener noreferrer nofollow');
  }
  if (node.tagName === 'IMG' && !/^data:image\/(png|jpeg|gif|webp);/.test(node.getAttribute('src') ?? ''))
    node.remove();
});

const ALLOWED = {
  ALLOWED_TAGS: [
    ...[
      'a',
      'b',
      'blockquote',
      'br',
      'code',
      'dd',
      'del',
      'details',
      'dl',
      'dt',
      'em',
      'h1',
      'h2',
      'h3',
      'h4',
      'h5',
      'h6',
      'hr',
      'i'
    ],
    ...[
      'img',
      'kbd',
      'li',
      'ol',
      'p',
      'pre',
      's',
      'strong',
      'sub',
      'summary',
      'sup',
      'table',
      'tbody',
      'td',
      'th',
      'thead',
      'tr',
      'ul'
    ]
  ],
  ALLOWED_ATTR: ['href', 'title', 'alt', 'src', 'align', 'start', 'class', 'open'],
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|#|data:image\/(?:png|jpeg|gif|webp);)/i,
  ALLOW_DATA_ATTR: false,
  RETURN_DOM_FRAGMENT: true
} as const;

export function markdown(source: string): DocumentFragment {
  return sanitize(marked.parse(source, { async: false }));
}

export function sanitize(html: string): DocumentFragment {
  const fragment = purify.sanitize(html, ALLOWED as never) as unknown as DocumentFragment;
  for (const node of fragment.querySelectorAll('[class]')) {
    // Classes of the viewer's own would let an output look like a part of it.
    const kept = ['math', 'math-display'].filter(name => node.classList.contains(name));
    if (kept.length > 0) node.className = kept.join(' ');
    else node.removeAttribute('class');
  }
  return fragment;
}
