/** Preformatted text that can be scrolled by keys if it is larger than its box, with a mark where lines continue to the right. */

import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';

export function ScrollPre({
  label,
  className,
  children
}: {
  label: string;
  className?: string;
  children: ComponentChildren;
}) {
  const element = useRef<HTMLPreElement>(null);
  const [isLarger, setLarger] = useState(false);
  const [hasMore, setMore] = useState(false);
  const measure = (): void => {
    const box = element.current;
    if (!box) return;
    setLarger(box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight);
    // Fractions of a pixel are no text.
    setMore(box.scrollWidth - box.clientWidth - box.scrollLeft > 2);
  };
  useLayoutEffect(measure);
  useLayoutEffect(() => {
    const observer = new ResizeObserver(measure);
    if (element.current) observer.observe(element.current);
    return () => observer.disconnect();
  }, []);
  // Only what scrolls is a stop of the Tab key, and only a stop needs a name.
  const stop = isLarger ? ({ tabIndex: 0, role: 'group', 'aria-label': label } as const) : {};
  return (
    <div class={hasMore ? 'scroll-pre has-more' : 'scroll-pre'}>
      <pre ref={element} class={className} onScroll={measure} {...stop}>
        {children}
      </pre>
    </div>
  );
}
