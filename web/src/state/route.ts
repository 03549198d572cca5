/** Where the user is: the fragment of the address, so that no path of the gateway is taken and any base URL works. */

import { signal } from '@preact/signals';
import { keepAnswer } from './grant';

const TABS = ['cells', 'plots', 'variables', 'files'] as const;
export type Tab = (typeof TABS)[number];

export type Route =
  | { screen: 'sessions' }
  | { screen: 'credentials' }
  | { screen: 'schedules' }
  | { screen: 'grant' }
  | { screen: 'runs' }
  | { screen: 'run'; run: string; step: string | null }
  | { screen: 'session'; session: string; tab: Tab; item: string | null };

export const route = signal<Route>({ screen: 'sessions' });

export function parseRoute(fragment: string): Route {
  const parts = fragment
    .replace(/^#?\/?/, '')
    .split('/')
    .filter(part => part !== '')
    .map(decode);
  const [first, session, tab, item] = parts;
  if (first === 'credentials' || first === 'schedules' || first === 'grant' || first === 'runs')
    return { screen: first };
  if (first === 'r' && session) return { screen: 'run', run: session, step: tab ?? null };
  if (first !== 's' || !session) return { screen: 'sessions' };
  return {
    screen: 'session',
    session,
    tab: TABS.find(known => known === tab) ?? 'cells',
    item: item ?? null
  };
}

export function href(to: Route): string {
  if (to.screen === 'sessions') return '#/';
  if (to.screen === 'run') return join(['r', to.run, to.step]);
  if (to.screen !== 'session') return `#/${to.screen}`;
  return join(['s', to.session, to.tab === 'cells' && !to.item ? null : to.tab, to.item]);
}

function join(parts: (string | null)[]): string {
  return `#/${parts
    .filter(part => part !== null)
    .map(encodeURIComponent)
    .join('/')}`;
}

export function go(to: Route): void {
  location.hash = href(to);
}

export function watchRoute(): () => void {
  const read = (): void => {
    keepAnswer();
    route.value = parseRoute(location.hash);
  };
  read();
  window.addEventListener('hashchange', read);
  return () => window.removeEventListener('hashchange', read);
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
