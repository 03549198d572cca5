/** Light or dark: the system's choice until the user has made one, which is kept. */

import { computed, effect, signal } from '@preact/signals';

export type Choice = 'system' | 'light' | 'dark';

const KEY = 'himalia-theme';
const dark = window.matchMedia('(prefers-color-scheme: dark)');
const systemIsDark = signal(dark.matches);

export const choice = signal<Choice>(stored());
export const theme = computed<'light' | 'dark'>(() =>
  choice.value === 'system' ? (systemIsDark.value ? 'dark' : 'light') : choice.value
);

export function watchTheme(): void {
  dark.addEventListener('change', event => {
    systemIsDark.value = event.matches;
  });
  effect(() => {
    document.documentElement.dataset.theme = theme.value;
  });
}

/** The next of the three. */
export function turnTheme(): void {
  const order: Choice[] = ['system', 'light', 'dark'];
  choice.value = order[(order.indexOf(choice.value) + 1) % order.length] ?? 'system';
  try {
    localStorage.setItem(KEY, choice.value);
  } catch {
    // A browser that keeps nothing: the choice lasts as long as the page.
  }
}

function stored(): Choice {
  try {
    const value = localStorage.getItem(KEY);
    return value === 'light' || value === 'dark' ? value : 'system';
  } catch {
    return 'system';
  }
}
