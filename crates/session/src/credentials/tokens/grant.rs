//! The grant of a person: begun, finished when the browser is back, and ended.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use himalia_credentials::{SealedValue, SecretText};
use himalia_model::credential::{CredentialInfo, OAuth, OAuthGrant, is_confidential};
use himalia_model::{EngineError, HttpUrl};
use himalia_oauth::{Answer, AuthorizationRequest, Client, OAuthError, Server};
use himalia_oauth::{authorization_url, challenge, check_answer, discover, random, register};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::kept::StoredTokens;
use super::record::PendingGrant;
use super::refresh::own_client;
use super::{Key, TokenKeeper};

/// Time for a person at the authorization server.
const GRANT_MICROS: i64 = 10 * 60 * 1_000_000;
/// Longest time for the authorization server to be found, or to answer.
const ASK_TIME: Duration = Duration::from_secs(45);
/// Number of attempts of a write that competes with other writes.
const ATTEMPTS: usize = 8;
/// Most bytes of what comes back with a browser.
const ANSWER_BYTES: usize = 8 * 1024;
/// Purpose of sealed states.
const STATE: &str = "state of a grant";

/// A grant that has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartedGrant {
    /// The page where the person consents.
    pub url: String,
    /// Until when it can be finished, microseconds since 1970.
    pub expires_micros: i64,
}

/// Parameters of the redirect from the authorization server.
#[derive(Clone, Debug, Default)]
pub struct GrantAnswer {
    /// As it was sent with the browser.
    pub state: String,
    /// For tokens.
    pub code: Option<String>,
    /// Error of the authorization server, in place of `code`.
    pub error: Option<String>,
    /// The server's words about the error.
    pub error_description: Option<String>,
    /// The authorization server (`iss`).
    pub issuer: Option<String>,
}

/// Contents of a state, which is sealed, so that the address bar reveals nothing.
#[derive(Serialize, Deserialize)]
struct State {
    owner: String,
    name: String,
    id: String,
}

impl TokenKeeper {
    /// Begins a grant. The browser comes back to `redirect_uri`.
    ///
    /// # Errors
    /// [`EngineError::NotFound`]; [`EngineError::BadRequest`] on `redirect_uri`; [`EngineError::Conflict`] if a person has nothing to grant
    /// there, or the authorization server cannot be used; [`EngineError::Unavailable`] if it is not reached.
    pub(in crate::credentials) async fn begin_grant(
        &self,
        key: &Key,
        by: &str,
        redirect_uri: &str,
    ) -> Result<StartedGrant, EngineError> {
        check_redirect(redirect_uri).map_err(|reason| EngineError::bad_request("redirect_uri", reason))?;
        let kept = self.grantable(key).await?;
        let (server, client, scope) = in_time(self.client_for(&kept, redirect_uri)).await?;
        let no_random = |error| EngineError::internal("no random bytes", error);
        let (id, verifier) = (random().map_err(no_random)?, random().map_err(no_random)?);
        let state = self.seal_state(&State {
            owner: key.owner.clone(),
            name: key.name.clone(),
            id: id.clone(),
        })?;
        let asked = AuthorizationRequest {
            client_id: &client.id,
            redirect_uri,
            state: &state,
            challenge: &challenge(&verifier),
            scope: scope.as_deref(),
        };
        let url = authorization_url(&server, &asked).map_err(|error| failed(&error))?;
        let begun_micros = self.now();
        let pending = PendingGrant {
            id,
            by: by.to_owned(),
            begun_micros,
            verifier: SecretText::new(verifier),
            redirect_uri: redirect_uri.to_owned(),
            server,
            client,
        };
        for _ in 0..ATTEMPTS {
            let mut kept = self.grantable(key).await?;
            // The latest one that was begun is the one that can be finished.
            kept.record.pending = Some(pending.clone());
            if self.write(&mut kept).await? {
                return Ok(StartedGrant {
                    url,
                    expires_micros: begun_micros + GRANT_MICROS,
                });
            }
        }
        Err(changing(key))
    }

    /// Credential that a state belongs to, for the caller that may finish the grant.
    pub(in crate::credentials) fn key_of_state(&self, state: &str) -> Result<Key, EngineError> {
        let State { owner, name, .. } = self.open_state(state)?;
        Ok(Key { owner, name })
    }

    /// Finishes a grant with what came back with the browser. It can be tried once.
    ///
    /// # Errors
    /// [`EngineError::BadRequest`] on `state`; [`EngineError::Conflict`] if the person or the server has refused;
    /// [`EngineError::Unavailable`] if the server is not reached.
    pub(in crate::credentials) async fn finish_grant(
        self: &Arc<Self>,
        by: &str,
        answer: GrantAnswer,
    ) -> Result<CredentialInfo, EngineError> {
        let State { owner, name, id } = self.open_state(&answer.state)?;
        let key = Key { owner, name };
        let pending = self.take_pending(&key, &id, by).await?;
        let answer = Answer {
            code: answer.code,
            error: answer.error,
            error_description: answer.error_description,
            issuer: answer.issuer,
        };
        let code = check_answer(&pending.server, answer).map_err(|error| failed(&error))?;
        // What the server gives is written, whether the caller waits for it or not.
        let (keeper, by) = (Arc::clone(self), by.to_owned());
        let finished = tokio::spawn(async move { keeper.exchange(&key, pending, &code, &by).await });
        finished
            .await
            .unwrap_or_else(|error| Err(EngineError::internal("a grant", error)))
    }

    async fn exchange(
        &self,
        key: &Key,
        pending: PendingGrant,
        code: &str,
        by: &str,
    ) -> Result<CredentialInfo, EngineError> {
        let grant = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", pending.redirect_uri.as_str()),
            ("code_verifier", pending.verifier.expose()),
        ];
        let transport = self.transport(&self.grantable(key).await?);
        let got = in_time(pending.client.tokens(transport, &pending.server, &grant)).await;
        self.metrics.ended(match &got {
            Ok(_) => "got",
            Err(EngineError::Unavailable { .. }) => "failed",
            Err(_) => "refused",
        });
        let tokens = got?;
        for _ in 0..ATTEMPTS {
            let mut kept = self.grantable(key).await?;
            let now = self.now();
            let own = kept.oauth().and_then(OAuth::client_id);
            let registered = own != Some(pending.client.id.as_str());
            let record = &mut kept.record;
            // Those of the grant before are not refreshed any more.
            (record.refresh, record.scope, record.missing_scope) = (None, None, None);
            record.take(tokens.clone(), now);
            record.client = registered.then(|| pending.client.clone());
            record.server = Some(pending.server.clone());
            record.granted_by = Some(by.to_owned());
            record.granted_micros = Some(now);
            if self.write(&mut kept).await? {
                tracing::info!(owner = key.owner, name = key.name, by, "a credential was granted");
                self.known(key).add(kept.record.secrets());
                self.flights.forget(key);
                return Ok(kept.info(now));
            }
        }
        Err(changing(key))
    }

    /// Ends the grant of a credential: its tokens are forgotten, and the server is asked to revoke them.
    ///
    /// # Errors
    /// [`EngineError::NotFound`]; [`EngineError::Conflict`] if a person has nothing to grant there.
    pub(in crate::credentials) async fn end_grant(&self, key: &Key) -> Result<(), EngineError> {
        for _ in 0..ATTEMPTS {
            let mut kept = self.grantable(key).await?;
            let before = kept.record.clone();
            kept.record.retire();
            let record = &mut kept.record;
            (record.refresh, record.pending, record.ended) = (None, None, None);
            (record.granted_by, record.granted_micros) = (None, None);
            (record.scope, record.missing_scope) = (None, None);
            if !self.write(&mut kept).await? {
                continue;
            }
            let token = match (&before.refresh, &before.access) {
                (Some(refresh), _) => Some((refresh, "refresh_token")),
                (None, Some(access)) => Some((&access.value, "access_token")),
                (None, None) => None,
            };
            if let (Some(server), Some(token)) = (&before.server, token) {
                let client = before.client.clone().unwrap_or_else(|| {
                    let id = kept.oauth().and_then(OAuth::client_id);
                    own_client(id.unwrap_or_default(), before.client_secret.clone(), server)
                });
                let revoked = in_time(client.revoke(self.transport(&kept), server, token)).await;
                if let Err(error) = revoked {
                    tracing::warn!(owner = key.owner, name = key.name, %error, "the authorization server has not revoked a grant");
                }
            }
            return Ok(());
        }
        Err(changing(key))
    }

    /// A credential that a person grants.
    async fn grantable(&self, key: &Key) -> Result<StoredTokens, EngineError> {
        let kept = self.read(key).await?;
        let is_code = |kept: &StoredTokens| {
            kept.oauth()
                .is_some_and(|oauth| oauth.grant() == OAuthGrant::AuthorizationCode)
        };
        kept.filter(is_code).ok_or_else(|| nothing_to_grant(key))
    }

    /// The server, the gateway as its client, and the scopes to ask for.
    async fn client_for(
        &self,
        kept: &StoredTokens,
        redirect_uri: &str,
    ) -> Result<(Server, Client, Option<String>), OAuthError> {
        let transport = self.transport(kept);
        let Some(oauth) = kept.oauth() else {
            return Err(OAuthError::refused("invalid_request", None));
        };
        let server = discover(transport, oauth).await?;
        let own = oauth.scope().map(str::to_owned);
        let scope = own.or_else(|| kept.record.scope_to_ask(server.scope.as_deref()));
        let client = match oauth.client_id() {
            Some(id) if knows(&server, id) => own_client(id, kept.record.client_secret.clone(), &server),
            // A server knows a client by its address. Another address, or another server, is another client.
            _ => register(transport, &server, redirect_uri, scope.as_deref()).await?,
        };
        Ok((server, client, scope))
    }

    /// Takes a grant that has begun: it is used with that.
    async fn take_pending(&self, key: &Key, id: &str, by: &str) -> Result<PendingGrant, EngineError> {
        let bad = |reason: &str| EngineError::bad_request("state", reason);
        for _ in 0..ATTEMPTS {
            let mut kept = self.grantable(key).await?;
            let pending = kept.record.pending.clone().filter(|pending| pending.id == id);
            let pending = pending.ok_or_else(|| {
                bad("this grant was used already, or another one was begun since; begin again")
            })?;
            if pending.by != by {
                return Err(bad("another caller has begun this grant; begin it yourself"));
            }
            if self.now() - pending.begun_micros > GRANT_MICROS {
                return Err(bad("this grant began more than 10 minutes ago; begin again"));
            }
            kept.record.pending = None;
            if self.write(&mut kept).await? {
                return Ok(pending);
            }
        }
        Err(changing(key))
    }

    fn seal_state(&self, state: &State) -> Result<String, EngineError> {
        let plain = serde_json::to_vec(state);
        let plain = plain.map_err(|error| EngineError::internal("cannot write a state", error))?;
        let sealed = self.keys()?.seal(&[STATE], &plain);
        let SealedValue { key_id, bytes } =
            sealed.map_err(|error| EngineError::internal("cannot seal a state", error))?;
        Ok(format!("{key_id}.{}", URL_SAFE_NO_PAD.encode(bytes)))
    }

    fn open_state(&self, state: &str) -> Result<State, EngineError> {
        let keys = self.keys()?;
        let opened = || {
            let (key_id, bytes) = state.split_once('.').filter(|_| state.len() <= ANSWER_BYTES)?;
            let sealed = SealedValue {
                key_id: key_id.to_owned(),
                bytes: URL_SAFE_NO_PAD.decode(bytes).ok()?,
            };
            serde_json::from_slice(&keys.open(&[STATE], &sealed).ok()?).ok()
        };
        opened().ok_or_else(|| EngineError::bad_request("state", "was not made by this gateway"))
    }
}

/// True if a server can know a client by this id. One that is the address of the client's metadata is for servers that read it: others
/// register clients.
fn knows(server: &Server, id: &str) -> bool {
    !id.starts_with("https://") || server.takes_client_documents || server.registration.is_none()
}

/// Checks a redirect URI: an address that no other program reads.
fn check_redirect(text: &str) -> Result<(), String> {
    let url = HttpUrl::parse(text)?;
    if !is_confidential(&url) {
        return Err(format!(
            "{text:?} is not https://; http:// is for addresses of this machine, such as http://127.0.0.1:8080"
        ));
    }
    if text.contains('?') || text.len() > ANSWER_BYTES {
        return Err("has a query, or is too long".to_owned());
    }
    Ok(())
}

async fn in_time<T>(asked: impl Future<Output = Result<T, OAuthError>>) -> Result<T, EngineError> {
    match timeout(ASK_TIME, asked).await {
        Ok(asked) => asked.map_err(|error| failed(&error)),
        Err(_) => Err(EngineError::Timeout {
            what: "the authorization server",
            seconds: ASK_TIME.as_secs(),
        }),
    }
}

fn failed(error: &OAuthError) -> EngineError {
    match error {
        OAuthError::Unreachable { .. } => EngineError::unavailable(error.to_string()),
        OAuthError::Answer { .. } | OAuthError::Refused { .. } => EngineError::Conflict {
            reason: error.to_string(),
        },
    }
}

fn nothing_to_grant(key: &Key) -> EngineError {
    EngineError::Conflict {
        reason: format!(
            "the credential {} is not of kind oauth2 with grant authorization_code: there is nothing to grant",
            key.name
        ),
    }
}

fn changing(key: &Key) -> EngineError {
    EngineError::unavailable(format!("the credential {} is being changed; try again", key.name))
}
