/** Which screen is shown, and what stands around it. */

import { useLayoutEffect, useState } from 'preact/hooks';
import { signedOut } from './api/gateway';
import { signOut } from './api/sign-in';
import { CredentialsScreen, GrantScreen } from './screens/credentials';
import { RunScreen } from './screens/run';
import { RunsScreen } from './screens/runs';
import { SchedulesScreen } from './screens/schedules';
import { SessionScreen } from './screens/session';
import { SessionsScreen } from './screens/sessions';
import { credentialOf, SignIn } from './screens/sign-in';
import { href, route } from './state/route';
import { Help } from './ui/help';
import { onKeys } from './ui/keys';
import { Mark, ThemeButton } from './ui/parts';

export function App() {
  const [isHelp, setHelp] = useState(false);
  useLayoutEffect(
    () =>
      onKeys({
        '?': () => setHelp(true),
        'g s': () => {
          location.hash = href({ screen: 'sessions' });
        }
      }),
    []
  );
  const at = route.value;
  const needsSignIn = signedOut.value || credentialOf(location.hash) !== null;
  return (
    <div class="app">
      <button type="button" class="skip" onClick={skip}>
        Skip to the content
      </button>
      <header class="bar">
        <a class="brand" href={href({ screen: 'sessions' })}>
          <Mark />
          Himalia
        </a>
        <span class="bar-space" />
        <button
          type="button"
          class="icon-button"
          aria-label="Keyboard help"
          title="Keys (?)"
          onClick={() => setHelp(true)}
        >
          ?
        </button>
        <ThemeButton />
        {!needsSignIn && (
          <a class="button" href={href({ screen: 'schedules' })}>
            Schedules
          </a>
        )}
        {!needsSignIn && (
          <a class="button" href={href({ screen: 'runs' })}>
            Runs
          </a>
        )}
        {!needsSignIn && (
          <a class="button" href={href({ screen: 'credentials' })}>
            Credentials
          </a>
        )}
        {!needsSignIn && (
          <button type="button" class="button" onClick={() => void signOut().catch(() => undefined)}>
            Sign out
          </button>
        )}
      </header>
      {needsSignIn ? (
        <SignIn />
      ) : at.screen === 'sessions' ? (
        <SessionsScreen />
      ) : at.screen === 'schedules' ? (
        <SchedulesScreen />
      ) : at.screen === 'credentials' ? (
        <CredentialsScreen />
      ) : at.screen === 'grant' ? (
        <GrantScreen />
      ) : at.screen === 'runs' ? (
        <RunsScreen />
      ) : at.screen === 'run' ? (
        <RunScreen key={at.run} id={at.run} step={at.step} />
      ) : (
        <SessionScreen key={at.session} id={at.session} tab={at.tab} item={at.item} />
      )}
      {isHelp && <Help onClose={() => setHelp(false)} />}
    </div>
  );
}

function skip(): void {
  const main = document.getElementById('main');
  main?.setAttribute('tabindex', '-1');
  main?.focus();
}
