/** Signing in and out: addresses of the viewer, which are not part of the API. */

import { gateway, signedOut } from './gateway';

/** The name of the identity provider that people sign in with; null if there is none. */
export async function provider(signal: AbortSignal): Promise<string | null> {
  const answer = await gateway.request('GET', '/viewer/sign-in', { signal });
  const { oidc } = (await answer.json()) as { oidc: { name: string } | null };
  return oidc?.name ?? null;
}

export async function signIn(credential: { token: string } | { code: string }): Promise<void> {
  await gateway.request('POST', '/viewer/sign-in', { body: credential });
  signedOut.value = false;
}

export async function signOut(): Promise<void> {
  await gateway.request('POST', '/viewer/sign-out');
  signedOut.value = true;
}
