/** What an authorization server has sent with the browser, until the gateway has it. */

import type { schema } from 'himalia';

const FRAGMENT = '#/grant?';

let kept: schema.GrantAnswer | null = null;

/** Takes the answer out of the address: it must not stay in the history, nor in what the user copies. */
export function keepAnswer(): void {
  if (!location.hash.startsWith(FRAGMENT)) return;
  const query = new URLSearchParams(location.hash.slice(FRAGMENT.length));
  kept = { state: query.get('state') ?? '' };
  for (const name of ['code', 'error', 'error_description', 'iss'] as const) {
    const value = query.get(name);
    if (value !== null) kept[name] = value;
  }
  history.replaceState(null, '', `${location.pathname}${location.search}#/grant`);
}

/** The answer; null if there is none, or it was used. */
export function answer(): schema.GrantAnswer | null {
  return kept;
}

/** The gateway has decided about it. */
export function forgetAnswer(): void {
  kept = null;
}
