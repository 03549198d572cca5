/** Sessions in the order of a list, branches below the session that they were forked from. */

import type { schema } from 'himalia';

/** Later than any time. */
const BUSY = '9999';

export interface Branch {
  session: schema.ListedSession;
  depth: number;
  parent: schema.ListedSession | null;
}

/** Those that were active last come first; a tree counts as active as its most active member. */
export function branches(sessions: schema.ListedSession[]): Branch[] {
  const byId = new Map(sessions.map(session => [session.id, session]));
  const children = new Map<string | null, schema.ListedSession[]>();
  for (const session of sessions) {
    const parent = session.parent !== null && byId.has(session.parent) ? session.parent : null;
    children.set(parent, [...(children.get(parent) ?? []), session]);
  }
  const latest = (session: schema.ListedSession, depth: number): string => {
    const below = depth > 100 ? [] : (children.get(session.id) ?? []);
    // What runs is active now.
    const own = session.state === 'busy' ? BUSY : session.last_activity;
    return below.reduce((best, child) => {
      const at = latest(child, depth + 1);
      return at > best ? at : best;
    }, own);
  };
  const out: Branch[] = [];
  const seen = new Set<string>();
  const walk = (parent: schema.ListedSession | null, depth: number): void => {
    const list = (children.get(parent?.id ?? null) ?? []).map(session => ({ session, at: latest(session, 0) }));
    list.sort((a, b) => b.at.localeCompare(a.at) || a.session.created.localeCompare(b.session.created));
    for (const { session } of list) {
      if (seen.has(session.id)) continue;
      seen.add(session.id);
      out.push({ session, depth, parent: session.parent ? (byId.get(session.parent) ?? null) : null });
      walk(session, depth + 1);
    }
  };
  walk(null, 0);
  return out;
}
