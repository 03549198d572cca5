/** Markdown and formulas. */

import { useLayoutEffect, useRef } from 'preact/hooks';

export function MarkdownText({ source }: { source: string }) {
  const element = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    let isOver = false;
    void import('./markdown').then(async ({ markdown }) => {
      if (isOver || !element.current) return;
      element.current.replaceChildren(markdown(source));
      const formulas = [...element.current.querySelectorAll('code.math')];
      if (formulas.length === 0) return;
      const { formula } = await import('./math');
      for (const node of formulas) formula(node, node.textContent ?? '', node.classList.contains('math-display'));
    });
    return () => {
      isOver = true;
    };
  }, [source]);
  return <div class="markdown" ref={element} />;
}

export function Formula({ source }: { source: string }) {
  const element = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    void import('./math').then(({ bare, formula }) => {
      if (!element.current) return;
      const { tex, display } = bare(source);
      formula(element.current, tex, display);
    });
  }, [source]);
  return (
    <div class="latex" ref={element}>
      {source}
    </div>
  );
}
