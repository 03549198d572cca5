//! New tokens for a credential. The store decides which replica asks for them: a refresh token is good once at many servers.

use std::time::{Duration, Instant};

use himalia_model::EngineError;
use himalia_model::credential::{OAuth, OAuthGrant};
use himalia_oauth::{Client, OAuthError, Server, Tokens, discover};
use tokio::time::{sleep, timeout};

use super::kept::StoredTokens;
use super::record::Reason;
use super::{Key, TokenKeeper};

/// Longest time for an authorization server to be found and to answer.
const ASK_TIME: Duration = Duration::from_secs(30);
/// A claim that stays the same for so long is that of a replica that has gone.
const CLAIM_TIME: Duration = Duration::from_secs(45);
/// Interval of checks of another replica's claim.
const LOOK: Duration = Duration::from_millis(200);
/// Time for which a write of new tokens is retried while the store does not answer.
const WRITE_TIME: Duration = Duration::from_mins(2);
const WRITE_PAUSE: Duration = Duration::from_secs(1);

impl TokenKeeper {
    /// Gets new tokens, if they are needed still.
    pub(super) async fn refresh(&self, key: &Key, reason: &Reason) -> Result<(), String> {
        let shown = |error: EngineError| error.to_string();
        let mut seen: Option<(String, Instant)> = None;
        loop {
            let kept = self.read(key).await.map_err(shown)?;
            let mut kept = kept.ok_or_else(|| "it does not exist any more".to_owned())?;
            let Some(oauth) = kept.oauth().cloned() else {
                return Ok(());
            };
            if !kept.record.is_due(reason, &key.name, &oauth, self.now()) {
                return Ok(());
            }
            if let Some(why) = kept.record.why_none(&key.name, &oauth) {
                return Err(why);
            }
            if let Some(claim) = kept.record.refreshing.clone()
                && !self.is_gone(&claim, &mut seen)
            {
                sleep(LOOK).await;
                continue;
            }
            let claim = format!("{} {}", self.process, uuid::Uuid::new_v4());
            kept.record.refreshing = Some(claim);
            if self.write(&mut kept).await.map_err(shown)? {
                let asked = timeout(ASK_TIME, self.ask(&oauth, &kept)).await;
                let asked = asked.unwrap_or_else(|_| {
                    Err(OAuthError::Unreachable {
                        what: "authorization server",
                        reason: format!("no answer within {} s", ASK_TIME.as_secs()),
                    })
                });
                return self.settle(key, &kept, asked).await;
            }
        }
    }

    /// True if a claim belongs to a process that has gone.
    fn is_gone(&self, claim: &str, seen: &mut Option<(String, Instant)>) -> bool {
        // Of a process before this one, if there is no other.
        if !self.is_shared && !claim.starts_with(&self.process) {
            return true;
        }
        match seen {
            Some((same, since)) if same == claim => since.elapsed() >= CLAIM_TIME,
            _ => {
                *seen = Some((claim.to_owned(), Instant::now()));
                false
            }
        }
    }

    /// Asks the authorization server.
    async fn ask(&self, oauth: &OAuth, kept: &StoredTokens) -> Result<Tokens, OAuthError> {
        let record = &kept.record;
        let transport = self.transport(kept);
        let server = match &record.server {
            Some(server) => server.clone(),
            None => discover(transport, oauth).await?,
        };
        // The client of the grant, if the gateway has registered itself for it.
        let client = record.client.clone().unwrap_or_else(|| {
            let id = oauth.client_id().unwrap_or_default();
            own_client(id, record.client_secret.clone(), &server)
        });
        let mut grant = match (&record.refresh, oauth.grant()) {
            (Some(refresh), OAuthGrant::RefreshToken | OAuthGrant::AuthorizationCode) => {
                vec![
                    ("grant_type", "refresh_token"),
                    ("refresh_token", refresh.expose()),
                ]
            }
            _ => vec![("grant_type", "client_credentials")],
        };
        if oauth.grant() == OAuthGrant::ClientCredentials {
            grant.extend(oauth.scope().map(|scope| ("scope", scope)));
        }
        client.tokens(transport, &server, &grant).await
    }

    /// Writes what the server gave, before it is used.
    async fn settle(
        &self,
        key: &Key,
        asked_with: &StoredTokens,
        asked: Result<Tokens, OAuthError>,
    ) -> Result<(), String> {
        let outcome = match &asked {
            Ok(_) => "got",
            Err(OAuthError::Refused { .. }) => "refused",
            Err(_) => "failed",
        };
        self.metrics.ended(outcome);
        if let Err(error) = &asked {
            tracing::warn!(owner = key.owner, name = key.name, %error, "no token for a credential");
        } else {
            // Responses under way may repeat it as soon as the first request has it.
            self.known(key).add(asked.iter().flat_map(|tokens| {
                [Some(tokens.access.clone()), tokens.refresh.clone()]
                    .into_iter()
                    .flatten()
            }));
        }
        let began = Instant::now();
        loop {
            match self.put_down(key, asked_with, &asked).await {
                Ok(true) => break,
                Ok(false) => {}
                Err(error) if began.elapsed() < WRITE_TIME => {
                    tracing::error!(owner = key.owner, name = key.name, %error, "cannot write tokens yet");
                    sleep(WRITE_PAUSE).await;
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        asked.map(drop).map_err(|error| error.to_string())
    }

    /// One attempt; whether it is done.
    async fn put_down(
        &self,
        key: &Key,
        asked_with: &StoredTokens,
        asked: &Result<Tokens, OAuthError>,
    ) -> Result<bool, EngineError> {
        let Some(mut kept) = self.read(key).await? else {
            return Ok(true);
        };
        let is_own = kept
            .oauth()
            .is_some_and(|oauth| oauth.grant() == OAuthGrant::ClientCredentials);
        let record = &mut kept.record;
        // It was set or granted anew, or another replica has tokens since.
        let before = &asked_with.record;
        if record.refresh != before.refresh || record.granted_micros != before.granted_micros {
            return Ok(true);
        }
        match asked {
            Ok(tokens) => record.take(tokens.clone(), self.now()),
            Err(_) if record.refreshing != before.refreshing => return Ok(true),
            // Its own id and secret can be tried again.
            Err(error) if error.is_final() && !is_own => record.end(error),
            Err(_) => record.refreshing = None,
        }
        self.write(&mut kept).await
    }
}

/// The client of a definition.
pub(super) fn own_client(
    id: &str,
    secret: Option<himalia_credentials::SecretText>,
    server: &Server,
) -> Client {
    Client {
        id: id.to_owned(),
        secret,
        secret_in_body: server.secret_in_body,
    }
}
