// The viewer in a document, driven as a user does.

import { render } from 'preact';
import { act } from 'preact/test-utils';
import { vi } from 'vitest';
import { signedOut } from '../src/api/gateway';
import { App } from '../src/app';
import { watchRoute } from '../src/state/route';

let stop: (() => void) | null = null;
let root: HTMLElement | null = null;

/** Opens the viewer at a fragment. */
export async function open(fragment: string): Promise<void> {
  await close();
  signedOut.value = false;
  location.hash = fragment;
  stop = watchRoute();
  root = document.createElement('div');
  root.id = 'app';
  document.body.append(root);
  const place = root;
  await act(() => render(<App />, place));
}

export async function close(): Promise<void> {
  stop?.();
  stop = null;
  const place = root;
  root = null;
  if (!place) return;
  await act(() => render(null, place));
  place.remove();
}

export const page = (): string => document.body.textContent ?? '';

/** Waits until something holds. */
export function until(check: () => void): Promise<void> {
  return vi.waitFor(
    async () => {
      await act(() => {});
      check();
    },
    { timeout: Number(process.env.TEST_PATIENCE_MS ?? 30_000), interval: 10 }
  );
}

export function find<E extends Element = HTMLElement>(selector: string): E {
  const element = document.querySelector<E>(selector);
  if (!element) throw new Error(`there is no ${selector}`);
  return element;
}

export function button(name: string): HTMLButtonElement {
  const all = [...document.querySelectorAll<HTMLButtonElement>('button')];
  const named = (element: Element): string => element.getAttribute('aria-label') ?? element.textContent?.trim() ?? '';
  const element = all.findLast(one => named(one) === name);
  if (!element) throw new Error(`there is no button “${name}”, but ${all.map(named).join(', ')}`);
  return element;
}

export async function click(element: HTMLElement): Promise<void> {
  await act(() => element.click());
}

export async function type(element: HTMLInputElement | HTMLTextAreaElement, text: string): Promise<void> {
  await act(() => {
    element.value = text;
    element.dispatchEvent(new InputEvent('input', { bubbles: true }));
  });
}

export async function press(
  key: string,
  more: KeyboardEventInit = {},
  target: EventTarget = document.body
): Promise<void> {
  await act(() => {
    target.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true, ...more }));
  });
}
