import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { FakeGateway, json, problem, session } from './gateway';
import { button, click, close, find, open, page, press, type, until } from './page';

let gateway: FakeGateway;
beforeEach(() => {
  gateway = new FakeGateway();
  gateway.install();
});
afterEach(close);

const names = (): (string | null | undefined)[] =>
  [...document.querySelectorAll('.session strong')].map(one => one.textContent);

describe('the list of sessions', () => {
  it('shows states, branches below their parents, and why a dead one died', async () => {
    const parent = session({ last_activity: '2026-01-02T03:00:00Z' });
    gateway.sessions = [
      session({ id: 'b'.repeat(36), name: null, parent: parent.id, last_activity: '2026-01-02T05:00:00Z' }),
      session({
        id: 'c'.repeat(36),
        name: 'gone',
        state: 'dead',
        reason: 'oom',
        last_activity: '2026-01-02T04:00:00Z'
      }),
      parent
    ];
    await open('#/');
    await until(() => expect(names()).toEqual(['eda', 'bbbbbbbb', 'gone']));
    expect(page()).toContain('died: out of memory');
    expect(find('.session .fork').getAttribute('title')).toBe('a branch of eda');
  });

  it('shows memory from the list alone', async () => {
    gateway.sessions = [
      session({ memory_used_bytes: 96 << 20 }),
      session({ id: 'd'.repeat(36), name: 'other', memory_used_bytes: null })
    ];
    await open('#/');
    await until(() => expect(names()).toEqual(['eda', 'other']));
    expect(find('.session-facts').textContent).toContain('96.0 MiB');
    expect(document.querySelectorAll('.session-facts [title^="memory"]')).toHaveLength(1);
    expect(new Set(gateway.calls.map(call => call.path))).toEqual(new Set(['v1/sessions', 'v1/prompts']));
  });

  it('has what runs at its top', async () => {
    gateway.sessions = [
      session({ id: 'b'.repeat(36), name: 'idle', last_activity: '2026-01-02T05:00:00Z' }),
      session({ name: 'busy', state: 'busy', last_activity: '2026-01-02T03:00:00Z' })
    ];
    await open('#/');
    await until(() => expect(names()).toEqual(['busy', 'idle']));
  });

  it('is filtered by what is typed', async () => {
    gateway.sessions = [
      session(),
      session({ id: 'd'.repeat(36), name: 'other', owner: 'ada', labels: { team: 'blue' } })
    ];
    await open('#/');
    await until(() => expect(names()).toHaveLength(2));
    await type(find<HTMLInputElement>('input[type=search]'), 'blue');
    expect(names()).toEqual(['other']);
    await type(find<HTMLInputElement>('input[type=search]'), 'ada');
    expect(names()).toEqual(['other']);
    expect(find('.session').textContent).toContain('ada');
    await type(find<HTMLInputElement>('input[type=search]'), 'nothing');
    expect(page()).toContain('No session has “nothing” in it.');
  });

  it('says so when there is none, and when the gateway cannot be reached', async () => {
    await open('#/');
    await until(() => expect(page()).toContain('Nothing runs here yet'));
    gateway.instead.set('GET v1/sessions', () => Promise.reject(new TypeError('failed to fetch')));
    await open('#/');
    await until(() => expect(find('[role=alert]').textContent).toContain('The gateway cannot be reached.'));
    gateway.instead.clear();
    await click(button('Try again'));
    await until(() => expect(document.querySelector('[role=alert]')).toBeNull());
  });

  it('asks once before it ends one', async () => {
    gateway.sessions = [session()];
    await open('#/');
    await until(() => expect(names()).toEqual(['eda']));
    await click(button('End eda'));
    expect(gateway.called('DELETE', 'v1/')).toEqual([]);
    await click(button('End the session'));
    expect(gateway.called('DELETE', 'v1/')[0]?.path).toBe(`v1/sessions/${session().id}`);
  });

  it('opens a session that it has started', async () => {
    gateway.instead.set('POST v1/sessions', () => json(session({ name: null }), 201));
    await open('#/');
    await click(button('New session'));
    await until(() => expect(location.hash).toBe(`#/s/${session().id}`));
  });
});

describe('signing in', () => {
  it('is asked for when the gateway does not know the browser', async () => {
    gateway.instead.set('GET v1/sessions', () => problem(401, 'unauthenticated', 'no token'));
    await open('#/');
    await until(() => expect(page()).toContain("paste the gateway's token"));
    await type(find<HTMLInputElement>('input[type=password]'), ' secret ');
    gateway.instead.clear();
    await click(button('Sign in'));
    await until(() => expect(page()).toContain('Nothing runs here yet'));
    expect(gateway.called('POST', 'viewer/sign-in')[0]?.body).toEqual({ token: 'secret' });
    expect(page()).not.toContain('secret');
  });

  it('ends on request', async () => {
    await open('#/');
    await until(() => expect(page()).toContain('Nothing runs here yet'));
    await click(button('Sign out'));
    await until(() => expect(page()).toContain("paste the gateway's token"));
    expect(gateway.called('POST', 'viewer/sign-out').length).toBe(1);
    await type(find<HTMLInputElement>('input[type=password]'), 'secret');
    await click(button('Sign in'));
    await until(() => expect(page()).toContain('Nothing runs here yet'));
  });

  it('takes the token of a link out of the address at once, and reads none from a query', async () => {
    await open('#token=secret%2Bof-a-caller');
    await until(() =>
      expect(gateway.called('POST', 'viewer/sign-in')[0]?.body).toEqual({ token: 'secret+of-a-caller' })
    );
    expect(location.href).not.toContain('secret');
    await until(() => expect(page()).toContain('Nothing runs here yet'));
    await open('#/?token=secret');
    expect(gateway.called('POST', 'viewer/sign-in')).toHaveLength(1);
  });

  it('takes the code of a link out of the address at once', async () => {
    await open('#sign-in=one-use.code');
    await until(() => expect(gateway.called('POST', 'viewer/sign-in')[0]?.body).toEqual({ code: 'one-use.code' }));
    expect(location.href).not.toContain('one-use');
    await until(() => expect(page()).toContain('Nothing runs here yet'));
  });
});

describe('keys', () => {
  it('show their help, which Escape closes', async () => {
    await open('#/');
    await press('?');
    expect(find('dialog').getAttribute('aria-label')).toBe('Keys');
    await click(button('Close'));
    expect(document.querySelector('dialog')).toBeNull();
  });

  it('do nothing while something is typed', async () => {
    await open('#/');
    await press('?', {}, find('input[type=search]'));
    expect(document.querySelector('dialog')).toBeNull();
  });
});
