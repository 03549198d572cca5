/** Keys that act wherever nothing is being typed. A name is a key, or two in a row: `i i`. */

/** Time between the two keys of a pair, milliseconds. */
const PAIR_MS = 800;

export function onKeys(actions: Record<string, () => void>): () => void {
  let last = '';
  let at = 0;
  const press = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || isTyping(event.target)) return;
    if (document.querySelector('dialog[open]')) return;
    const now = performance.now();
    const pair = now - at < PAIR_MS ? `${last} ${event.key}` : '';
    const action = actions[pair] ?? actions[event.key];
    last = actions[pair] ? '' : event.key;
    at = now;
    if (!action) return;
    event.preventDefault();
    action();
  };
  window.addEventListener('keydown', press);
  return () => window.removeEventListener('keydown', press);
}

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName))
  );
}
