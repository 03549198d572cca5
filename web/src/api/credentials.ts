/** Credentials with tokens, and the grants of people. */

import type { schema } from 'himalia';
import { gateway } from './gateway';

/** Those of kind `oauth2`, no matter who has set them. */
export async function withTokens(signal: AbortSignal): Promise<schema.Credential[]> {
  const found: schema.Credential[] = [];
  let cursor: string | null = null;
  do {
    const query: string = cursor ? `?cursor=${encodeURIComponent(cursor)}` : '';
    const reply = await gateway.request('GET', `/v1/credentials${query}`, { signal });
    const page = (await reply.json()) as schema.CredentialPage;
    found.push(...page.credentials.filter(one => one.kind === 'oauth2'));
    cursor = page.next ?? null;
  } while (cursor);
  return found;
}

/** Begins a grant; the page where the person consents, which sends the browser back here. */
export async function begin({ name, owner }: schema.Credential): Promise<string> {
  const body: schema.NewGrant = {
    redirect_uri: new URL('viewer/grant', new URL('.', document.baseURI)).href,
    tenant: owner
  };
  const reply = await gateway.request('POST', `/v1/credentials/${encodeURIComponent(name)}/grant`, { body });
  return ((await reply.json()) as schema.Grant).url;
}

export async function finish(body: schema.GrantAnswer): Promise<schema.Credential> {
  const reply = await gateway.request('POST', '/v1/grants', { body });
  return (await reply.json()) as schema.Credential;
}

export async function end({ name, owner }: schema.Credential): Promise<void> {
  const tenant = encodeURIComponent(owner);
  await gateway.request('DELETE', `/v1/credentials/${encodeURIComponent(name)}/grant?tenant=${tenant}`);
}
