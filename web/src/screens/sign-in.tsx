/** Who calls: a link that is good for one sign-in, the identity provider's page, or the gateway's token. */

import { ApiError } from 'himalia';
import { useEffect, useState } from 'preact/hooks';
import { gateway, said, signedOut } from '../api/gateway';
import { provider as askProvider, signIn } from '../api/sign-in';
import { Mark } from '../ui/parts';

/** Why a link does not sign in, and what does. */
const USED =
  'This link has been used, or is older than 15 minutes: it is good for one sign-in. Paste the token, or start the gateway anew for another link.';

/** What a link carries in its fragment, which no browser sends anywhere: a code that is good once, or a token. */
export function credentialOf(fragment: string): { token: string } | { code: string } | null {
  const [, kind, value] = /^#(sign-in|token)=([^&/]{1,4096})$/.exec(fragment) ?? [];
  if (!kind || !value) return null;
  try {
    return kind === 'token' ? { token: decodeURIComponent(value) } : { code: value };
  } catch {
    return null;
  }
}

export function SignIn() {
  const [token, setToken] = useState('');
  const [problem, setProblem] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(false);
  const [provider, setProvider] = useState<string | null>(null);

  const send = async (credential: { token: string } | { code: string }): Promise<void> => {
    setBusy(true);
    try {
      await signIn(credential);
      setProblem(null);
    } catch (error) {
      signedOut.value = true;
      const isUsed = 'code' in credential && error instanceof ApiError && error.status === 401;
      setProblem(isUsed ? USED : said(error));
    }
    setBusy(false);
  };

  useEffect(() => {
    const leaving = new AbortController();
    // Without an answer there is the token.
    askProvider(leaving.signal).then(setProvider, () => undefined);
    return () => leaving.abort();
  }, []);

  useEffect(() => {
    const credential = credentialOf(location.hash);
    if (!credential) return;
    // This page stays until the gateway has answered, whatever the address says.
    signedOut.value = true;
    // Away with it before anything else: it must not stay in the history, nor in what the user copies.
    history.replaceState(null, '', location.pathname + location.search);
    void send(credential);
  }, []);

  return (
    <main id="main" class="sign-in">
      <form
        class="card"
        onSubmit={event => {
          event.preventDefault();
          void send({ token: token.trim() });
          setToken('');
        }}
      >
        <Mark />
        <h1>Sign in</h1>
        {provider && (
          <a class="button is-main" href={gateway.address('/viewer/oidc')}>
            Sign in with {provider}
          </a>
        )}
        <p class="muted">
          Open the link that <code>himalia serve</code> printed, or paste the gateway's token.
        </p>
        <label>
          Token
          <input
            type="password"
            value={token}
            autocomplete="off"
            spellcheck={false}
            required
            onInput={event => setToken(event.currentTarget.value)}
          />
        </label>
        {problem && (
          <p class="is-bad" role="alert">
            {problem}
          </p>
        )}
        <button type="submit" class={provider ? 'button' : 'button is-main'} disabled={isBusy}>
          {isBusy ? 'Signing in…' : 'Sign in'}
        </button>
      </form>
    </main>
  );
}
