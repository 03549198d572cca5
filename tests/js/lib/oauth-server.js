// An authorization server (oidc-provider) and an API that takes its tokens, on one port of this machine.
//
// It prints its address. It has no consent of its own: people consent on the library's pages. Routes beside those of the library:
//   GET/POST /api          what the API got, for who has a token of it; else 401 with a challenge
//   GET/POST /open         the same for everyone
//   GET      /counts       how often tokens were given, by grant, and refused; requests that got no response; calls of the API
//   GET      /tokens       all tokens that were given
//   POST     /control      {"ttl": seconds, "reject": token, "revoke": true, "hold": whether requests for tokens get no response}

import { createServer } from 'node:http';
import Provider from 'oidc-provider';

const counts = {};
const refused = new Set();
const given = [];
let ttl = 3600;
// Whether requests for tokens are left without a response.
let hold = false;

const server = createServer().listen(Number(process.argv[2] ?? 0), '127.0.0.1', start);

function start() {
  const { port } = server.address();
  const origin = `http://127.0.0.1:${port}`;
  const resource = `${origin}/api`;
  const provider = new Provider(origin, {
    clients: [
      {
        client_id: 'machine',
        client_secret: 's3cret+of/machine',
        grant_types: ['client_credentials'],
        redirect_uris: [],
        response_types: []
      }
    ],
    scopes: ['read', 'write'],
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: true },
      registration: { enabled: true },
      revocation: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => resource,
        useGrantedResource: () => true,
        getResourceServerInfo: () => ({ scope: 'read write', audience: resource, accessTokenFormat: 'opaque', accessTokenTTL: ttl })
      }
    },
    issueRefreshToken: (_ctx, client) => client.grantTypeAllowed('refresh_token'),
    rotateRefreshToken: true,
    ttl: { AccessToken: () => ttl, ClientCredentials: () => ttl, Grant: 3600, Interaction: 600, RefreshToken: 3600, Session: 3600 },
    cookies: { keys: ['a key of a test'] }
  });
  const grants = new Set();
  provider.on('grant.success', ctx => {
    const { grant_type: grant } = ctx.oidc.params;
    counts[grant] = (counts[grant] ?? 0) + 1;
    given.push(...[ctx.body.access_token, ctx.body.refresh_token].filter(Boolean));
    if (ctx.oidc.entities.Grant) grants.add(ctx.oidc.entities.Grant.jti);
  });
  provider.on('grant.error', (_ctx, error) => {
    counts.refused = (counts.refused ?? 0) + 1;
    counts.last = error.message;
  });
  const oauth = provider.callback();

  const answer = (response, status, body, headers = {}) => {
    const text = JSON.stringify(body);
    response.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text), ...headers });
    response.end(text);
  };
  const read = async request => {
    const parts = [];
    for await (const part of request) parts.push(part);
    return Buffer.concat(parts).toString();
  };
  const isGood = async token => {
    if (!token || refused.has(token)) return false;
    const found = (await provider.AccessToken.find(token)) ?? (await provider.ClientCredentials.find(token));
    return Boolean(found && !found.isExpired && [found.aud].flat().includes(resource));
  };

  server.on('request', async (request, response) => {
    const path = request.url.split('?')[0];
    if (path === '/.well-known/oauth-protected-resource/api') {
      answer(response, 200, { resource, authorization_servers: [origin], scopes_supported: ['read', 'write'] });
    } else if (path === '/api' || path === '/open') {
      const body = await read(request);
      const token = /^Bearer (.*)$/.exec(request.headers.authorization ?? '')?.[1];
      counts.calls = (counts.calls ?? 0) + 1;
      if (path === '/api' && !(await isGood(token))) {
        const error = token ? 'error="invalid_token", ' : '';
        const challenge = `Bearer ${error}resource_metadata="${origin}/.well-known/oauth-protected-resource/api"`;
        return answer(response, 401, { error: 'no token' }, { 'www-authenticate': challenge });
      }
      counts.good = (counts.good ?? 0) + 1;
      answer(response, 200, { method: request.method, authorization: request.headers.authorization ?? null, body, token });
    } else if (path === '/counts') {
      answer(response, 200, counts);
    } else if (path === '/tokens') {
      answer(response, 200, given);
    } else if (path === '/control') {
      const wanted = JSON.parse(await read(request));
      ttl = wanted.ttl ?? ttl;
      if (wanted.reject) refused.add(wanted.reject);
      hold = wanted.hold ?? hold;
      if (wanted.revoke) {
        for (const id of grants) {
          await provider.RefreshToken.revokeByGrantId(id);
          await provider.AccessToken.revokeByGrantId(id);
        }
      }
      answer(response, 200, {});
    } else {
      if (path === '/token' && hold) {
        // The library never sees it, so that it uses up no refresh token.
        counts.held = (counts.held ?? 0) + 1;
        return;
      }
      oauth(request, response);
    }
  });
  console.log(origin);
}
