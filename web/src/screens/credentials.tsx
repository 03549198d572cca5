/** Credentials whose tokens an authorization server gives: what they are for, and the grant of a person. */

import type { schema } from 'himalia';
import { useEffect, useState } from 'preact/hooks';
import { begin, end, finish, withTokens } from '../api/credentials';
import { signedOut } from '../api/gateway';
import { answer, forgetAnswer } from '../state/grant';
import { href } from '../state/route';
import { Confirm } from '../ui/dialog';
import { useLoaded } from '../ui/hooks';
import { Empty, Loading, Pill, Problem } from '../ui/parts';
import { ToolApprovals } from './approvals';

export function CredentialsScreen() {
  const { value: credentials, error, reload } = useLoaded(withTokens, []);
  const [failure, setFailure] = useState<Error | null>(null);
  const [ending, setEnding] = useState<schema.Credential | null>(null);

  const grant = async (credential: schema.Credential): Promise<void> => {
    try {
      location.assign(await begin(credential));
    } catch (problem) {
      setFailure(problem as Error);
    }
  };
  const endGrant = async (credential: schema.Credential): Promise<void> => {
    try {
      await end(credential);
      setFailure(null);
    } catch (problem) {
      setFailure(problem as Error);
    }
    reload();
  };
  return (
    <main id="main" class="page">
      <div class="page-head">
        <h1>Credentials</h1>
      </div>
      {failure && <Problem error={failure} />}
      {error && <Problem error={error} onRetry={reload} />}
      {!credentials && !error && <Loading />}
      {credentials?.length === 0 && (
        <Empty title="No credential needs a grant">
          <p>
            Credentials of kind <code>oauth2</code> are listed here. <code>himalia credential set</code> makes one.
          </p>
        </Empty>
      )}
      {credentials && credentials.length > 0 && (
        <ul class="sessions">
          {credentials.map(credential => (
            <Row
              key={`${credential.owner} ${credential.name}`}
              credential={credential}
              onGrant={() => void grant(credential)}
              onEnd={() => setEnding(credential)}
            />
          ))}
        </ul>
      )}
      <ToolApprovals />
      {ending && (
        <Confirm
          title={`End the grant of ${ending.name}?`}
          action="End the grant"
          onConfirm={() => void endGrant(ending)}
          onClose={() => setEnding(null)}
        >
          <p>
            Its tokens are forgotten, and revoked if the authorization server can. Sessions cannot use it any longer.
          </p>
        </Confirm>
      )}
    </main>
  );
}

function Row({
  credential,
  onGrant,
  onEnd
}: {
  credential: schema.Credential;
  onGrant: () => void;
  onEnd: () => void;
}) {
  const { name, owner, hosts, grant, issuer, resource, scope, tokens } = credential;
  const isPersons = grant === 'authorization_code';
  const state = tokens?.state ?? 'ended';
  const server = issuer ?? resource ?? credential.token_url;
  return (
    <li class="credential">
      <div>
        <p class="credential-head">
          <strong>{name}</strong>
          <Pill word={state} />
        </p>
        <p class="session-facts">
          <span title="whose it is">{owner}</span>
          <span title="hosts that get its tokens">to {hosts.join(', ')}</span>
          {server && <span title="where its tokens come from">from {server}</span>}
          <span title="scopes">{tokens?.scope ?? scope ?? 'the usual scopes'}</span>
          {tokens?.granted_by && <span title={tokens.granted ?? undefined}>granted by {tokens.granted_by}</span>}
        </p>
        {tokens?.problem && <p class={state === 'ended' ? 'is-bad' : 'muted'}>{tokens.problem}</p>}
      </div>
      {isPersons && (
        <div class="credential-actions">
          <button type="button" class={state === 'ready' ? 'button' : 'button is-main'} onClick={onGrant}>
            {tokens?.granted ? 'Grant again' : 'Grant'}
          </button>
          {tokens?.granted && (
            <button type="button" class="button" onClick={onEnd}>
              End
            </button>
          )}
        </div>
      )}
    </li>
  );
}

/** Where the browser is when it comes back from the authorization server. */
export function GrantScreen() {
  const [granted, setGranted] = useState<schema.Credential | Error | null>(null);
  useEffect(() => {
    const came = answer();
    if (!came) {
      setGranted(new Error('There is no answer of an authorization server here. Begin the grant again.'));
      return;
    }
    finish(came).then(
      credential => {
        forgetAnswer();
        setGranted(credential);
      },
      problem => {
        // Who signs in now can still finish it.
        if (!signedOut.value) forgetAnswer();
        setGranted(problem as Error);
      }
    );
  }, []);
  return (
    <main id="main" class="page">
      <div class="page-head">
        <h1>Grant</h1>
      </div>
      {!granted && <Loading rows={1} />}
      {granted instanceof Error && <Problem error={granted} />}
      {granted && !(granted instanceof Error) && (
        <p role="status">
          <strong>{granted.name}</strong> is granted: sessions whose template names it can use it now.
        </p>
      )}
      <p>
        <a href={href({ screen: 'credentials' })}>All credentials</a>
      </p>
    </main>
  );
}
