/** Formulas as MathML, which needs no fonts and no styles. Loaded when the first formula is shown. */

import katex from 'katex';

/** Puts a formula into an element; a wrong one stays as it was written. */
export function formula(element: Element, tex: string, display: boolean): void {
  const target = document.createElement('span');
  target.className = display ? 'formula formula-display' : 'formula';
  try {
    katex.render(tex, target, {
      output: 'mathml',
      displayMode: display,
      throwOnError: true,
      trust: false,
      maxExpand: 1000,
      maxSize: 20
    });
    element.replaceChildren(target);
    element.classList.add('is-drawn');
  } catch {
    element.classList.add('is-wrong');
  }
}

/** `$…$`, `$$…$$` or nothing around a formula. */
export function bare(tex: string): { tex: string; display: boolean } {
  const text = tex.trim();
  const display = /^\$\$([\s\S]*)\$\$$/.exec(text) ?? /^\\\[([\s\S]*)\\\]$/.exec(text);
  if (display) return { tex: display[1] ?? '', display: true };
  const inline = /^\$([\s\S]*)\$$/.exec(text);
  if (inline)
    return { tex: (inline[1] ?? '').replace(/^\\displaystyle\s*/, ''), display: /^\$\\displaystyle/.test(text) };
  return { tex: text, display: true };
}
