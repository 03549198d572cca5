//! Stored tokens of one credential. All of it is sealed.

use himalia_credentials::SecretText;
use himalia_model::credential::{OAuth, OAuthGrant, TokenInfo, TokenState};
use himalia_oauth::{Client, OAuthError, Server, Tokens};
use serde::{Deserialize, Serialize};

/// Earlier access tokens that responses are searched for: hosts may still know them.
const EARLIER: usize = 3;
/// Most bytes of the scopes that hosts ask for.
const SCOPE_BYTES: usize = 2048;
/// A token is replaced so long before it expires, at most; tokens that are good for a short time sooner.
const AHEAD_MICROS: i64 = 5 * 60 * 1_000_000;
/// A token that expires within so long is not sent any more, at least and at most. Servers count whole seconds.
const SPARE_MICROS: (i64, i64) = (1_000_000, 5_000_000);
/// A token that a host refuses is replaced if it is as old as this, or half of its life: a host cannot make the gateway ask for tokens
/// again and again.
const REFUSED_MICROS: i64 = 10 * 1_000_000;

/// Tokens, and what they were got with.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(in super::super) struct TokenRecord {
    /// The secret of the client, as it was set.
    pub(super) client_secret: Option<SecretText>,
    /// The refresh token, as it was set.
    pub(super) given_refresh: Option<SecretText>,
    /// The client, if the gateway has registered itself.
    pub(super) client: Option<Client>,
    /// The server that a person has granted it at.
    pub(super) server: Option<Server>,
    pub(super) access: Option<AccessToken>,
    pub(super) refresh: Option<SecretText>,
    /// Access tokens before that one, the latest first.
    pub(super) earlier: Vec<SecretText>,
    pub(super) scope: Option<String>,
    /// Scopes that a host has missed in the token.
    pub(super) missing_scope: Option<String>,
    pub(super) granted_by: Option<String>,
    pub(super) granted_micros: Option<i64>,
    /// A grant that has begun.
    pub(super) pending: Option<PendingGrant>,
    /// Replica that refreshes the tokens at present.
    pub(super) refreshing: Option<String>,
    /// Reason why there are no more tokens.
    pub(super) ended: Option<String>,
}

/// A token for requests.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AccessToken {
    pub(super) value: SecretText,
    pub(super) got_micros: i64,
    /// `None`: until a host refuses it.
    pub(super) expires_micros: Option<i64>,
}

/// A grant that has begun, until the browser is back.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct PendingGrant {
    /// A part of its state.
    pub(super) id: String,
    /// The principal that began it.
    pub(super) by: String,
    pub(super) begun_micros: i64,
    pub(super) verifier: SecretText,
    pub(super) redirect_uri: String,
    pub(super) server: Server,
    pub(super) client: Client,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// The token is good.
    No,
    /// It is good, and expires soon.
    Soon,
    /// There is none that can be used.
    Now,
    /// There is none, and none can be got: the reason.
    Never(String),
}

#[derive(Clone, Debug)]
pub(super) enum Reason {
    Expiry,
    /// A host has refused it.
    Refused(SecretText),
}

impl TokenRecord {
    /// As a credential is set.
    pub(in super::super) fn given(refresh: SecretText, client_secret: Option<SecretText>) -> Self {
        let refresh = Some(refresh).filter(|refresh| !refresh.expose().is_empty());
        Self {
            client_secret,
            given_refresh: refresh.clone(),
            refresh,
            ..Self::default()
        }
    }

    /// Need for another token before a request now.
    pub(super) fn need(&self, name: &str, oauth: &OAuth, now: i64) -> Need {
        let remaining = match &self.access {
            Some(access) => match access.expires_micros {
                None => return Need::No,
                Some(expires) => {
                    let (life, left) = (expires - access.got_micros, expires - now);
                    let spare = (life / 10).clamp(SPARE_MICROS.0, SPARE_MICROS.1);
                    let is_good = left > spare.min(life / 2);
                    if is_good && left > AHEAD_MICROS.min(life / 5) {
                        return Need::No;
                    }
                    is_good.then_some(())
                }
            },
            None => None,
        };
        match (self.why_none(name, oauth), remaining) {
            (Some(_), Some(())) => Need::No,
            (None, Some(())) => Need::Soon,
            (Some(reason), None) => Need::Never(reason),
            (None, None) => Need::Now,
        }
    }

    /// True if tokens are to be fetched for this reason.
    pub(super) fn is_due(&self, reason: &Reason, name: &str, oauth: &OAuth, now: i64) -> bool {
        match (reason, &self.access) {
            (Reason::Expiry, _) => matches!(self.need(name, oauth, now), Need::Soon | Need::Now),
            (Reason::Refused(refused), Some(access)) => {
                let expires = access.expires_micros.unwrap_or(i64::MAX);
                let life = expires.saturating_sub(access.got_micros);
                access.value == *refused && now - access.got_micros >= REFUSED_MICROS.min(life / 2)
            }
            (Reason::Refused(_), None) => false,
        }
    }

    /// Reason why no other token can be fetched.
    pub(super) fn why_none(&self, name: &str, oauth: &OAuth) -> Option<String> {
        let grant = oauth.grant();
        if let Some(words) = &self.ended {
            return Some(match grant {
                OAuthGrant::AuthorizationCode => format!(
                    "its grant has ended ({words}); a person grants it again in the viewer (Credentials) or with `himalia auth {name}`"
                ),
                OAuthGrant::RefreshToken => format!(
                    "its refresh token is not accepted any longer ({words}); set a new one with `himalia credential set {name}`"
                ),
                OAuthGrant::ClientCredentials => format!("the gateway gets no token ({words})"),
            });
        }
        if self.refresh.is_some() || grant == OAuthGrant::ClientCredentials {
            return None;
        }
        Some(if self.access.is_some() {
            format!(
                "its token has expired, and the authorization server gave none to refresh it with; a person grants it again in the viewer \
                 (Credentials) or with `himalia auth {name}`"
            )
        } else {
            format!(
                "it has no grant yet; a person grants it in the viewer (Credentials) or with `himalia auth {name}`"
            )
        })
    }

    pub(super) fn take(&mut self, tokens: Tokens, now: i64) {
        self.retire();
        let expires_micros = tokens.expires_in.map(|seconds| {
            let micros = i64::try_from(seconds)
                .unwrap_or(i64::MAX)
                .saturating_mul(1_000_000);
            now.saturating_add(micros)
        });
        self.access = Some(AccessToken {
            value: tokens.access,
            got_micros: now,
            expires_micros,
        });
        // Without another one, the refresh token stays.
        self.refresh = tokens.refresh.or(self.refresh.take());
        self.scope = tokens.scope.or(self.scope.take());
        (self.refreshing, self.ended) = (None, None);
    }

    /// Notes scopes that the token lacks; false if they are known, or too many.
    pub(super) fn note_missing(&mut self, scope: &str) -> bool {
        let all = union([self.missing_scope.as_deref(), Some(scope)]);
        let is_news = all.len() <= SCOPE_BYTES && self.missing_scope.as_deref().unwrap_or_default() != all;
        if is_news {
            self.missing_scope = Some(all);
        }
        is_news
    }

    /// The scopes that a grant asks for, if the credential has none of its own: those that the resource names, and after a refusal
    /// also those of the grant before and those that it lacked.
    pub(super) fn scope_to_ask(&self, named: Option<&str>) -> Option<String> {
        let Some(missing) = self.missing_scope.as_deref() else {
            return named.map(str::to_owned);
        };
        let before = self.server.as_ref().and_then(|server| server.scope.as_deref());
        Some(union([before, self.scope.as_deref(), named, Some(missing)]))
    }

    /// The access token is one of the earlier ones.
    pub(super) fn retire(&mut self) {
        if let Some(access) = self.access.take() {
            self.earlier.insert(0, access.value);
            self.earlier.truncate(EARLIER);
        }
    }

    /// The server gives no more tokens.
    pub(super) fn end(&mut self, error: &OAuthError) {
        self.refreshing = None;
        self.ended = Some(error.to_string());
    }

    /// The secrets that responses are searched for.
    pub(super) fn secrets(&self) -> Vec<SecretText> {
        let registered = self.client.as_ref().and_then(|client| client.secret.as_ref());
        let access = self.access.as_ref().map(|access| &access.value);
        let others = [
            self.client_secret.as_ref(),
            registered,
            self.refresh.as_ref(),
            access,
        ];
        let earlier = self.earlier.iter().rev().map(Some);
        earlier.chain(others).flatten().cloned().collect()
    }

    /// Reason why hosts refuse some requests although the token is good.
    fn problem(&self, name: &str) -> Option<String> {
        let missing = self.missing_scope.as_deref()?;
        Some(format!(
            "a host refused a request because the token lacks the scopes {missing:?}; a person grants them in the viewer (Credentials) or \
             with `himalia auth {name}`"
        ))
    }

    /// Public state of the tokens.
    pub(super) fn info(&self, name: &str, oauth: &OAuth, now: i64) -> TokenInfo {
        let (state, problem) = match self.need(name, oauth, now) {
            Need::Never(reason) if self.ended.is_none() && self.access.is_none() => {
                (TokenState::GrantNeeded, Some(reason))
            }
            Need::Never(reason) => (TokenState::Ended, Some(reason)),
            Need::No | Need::Soon | Need::Now => (TokenState::Ready, self.problem(name)),
        };
        TokenInfo {
            state,
            problem,
            granted_by: self.granted_by.clone(),
            granted_micros: self.granted_micros,
            expires_micros: self.access.as_ref().and_then(|access| access.expires_micros),
            scope: self.scope.clone(),
        }
    }
}

/// The scopes of all of these, each once, in their order.
fn union<const N: usize>(scopes: [Option<&str>; N]) -> String {
    let mut all: Vec<&str> = Vec::new();
    for scope in scopes.into_iter().flatten().flat_map(str::split_ascii_whitespace) {
        if !all.contains(&scope) {
            all.push(scope);
        }
    }
    all.join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn oauth(grant: &str) -> OAuth {
        let fields = json!({"grant": grant, "issuer": "https://id.test", "client_id": "c"});
        let fields: himalia_model::credential::OAuthFields = serde_json::from_value(fields).unwrap();
        OAuth::try_from(&fields).unwrap()
    }

    fn tokens(number: u32, expires_in: Option<u64>, refresh: bool) -> Tokens {
        Tokens {
            access: SecretText::new(format!("access-{number}")),
            refresh: refresh.then(|| SecretText::new(format!("refresh-{number}"))),
            expires_in,
            scope: None,
        }
    }

    #[test]
    fn a_token_is_replaced_before_it_expires() {
        let code = oauth("authorization_code");
        let mut record = TokenRecord::default();
        let at = |record: &TokenRecord, seconds: i64| record.need("api", &code, seconds * 1_000_000);
        assert!(matches!(at(&record, 0), Need::Never(reason) if reason.contains("himalia auth api")));
        record.take(tokens(1, Some(3600), true), 0);
        assert_eq!(at(&record, 3299), Need::No);
        assert_eq!(at(&record, 3301), Need::Soon);
        assert_eq!(at(&record, 3596), Need::Now);
        record.take(tokens(2, Some(10), true), 0);
        assert_eq!((at(&record, 7), at(&record, 9)), (Need::No, Need::Now));
        record.take(tokens(3, None, false), 0);
        assert_eq!(at(&record, 1 << 40), Need::No);
        assert_eq!(
            record.refresh,
            Some(SecretText::new("refresh-2".to_owned())),
            "it stays"
        );
    }

    #[test]
    fn without_a_refresh_token_a_grant_lasts_as_long_as_its_token() {
        let code = oauth("authorization_code");
        let mut record = TokenRecord::default();
        record.take(tokens(1, Some(100), false), 0);
        assert_eq!(record.need("api", &code, 85_000_000), Need::No);
        assert!(
            matches!(record.need("api", &code, 99_000_000), Need::Never(reason) if reason.contains("expired"))
        );
        let own = oauth("client_credentials");
        assert_eq!(record.need("api", &own, 99_000_000), Need::Now);
    }

    #[test]
    fn a_refused_token_is_replaced_once_in_a_while() {
        let own = oauth("client_credentials");
        let mut record = TokenRecord::default();
        record.take(tokens(1, None, false), 0);
        let refused = |number: u32| Reason::Refused(SecretText::new(format!("access-{number}")));
        assert!(!record.is_due(&refused(1), "api", &own, 9_000_000));
        assert!(record.is_due(&refused(1), "api", &own, 11_000_000));
        assert!(
            !record.is_due(&refused(0), "api", &own, 11_000_000),
            "there is another one already"
        );
    }

    #[test]
    fn a_refused_scope_is_asked_for_with_those_of_the_grant_before() {
        let code = oauth("authorization_code");
        let mut record = TokenRecord::default();
        assert_eq!(record.scope_to_ask(Some("basic")).as_deref(), Some("basic"));
        assert_eq!(record.scope_to_ask(None), None);
        record.take(
            Tokens {
                scope: Some("basic".to_owned()),
                ..tokens(1, None, false)
            },
            0,
        );
        assert!(record.note_missing("write basic") && !record.note_missing("basic write"));
        assert_eq!(
            record.scope_to_ask(Some("profile")).as_deref(),
            Some("basic profile write")
        );
        let info = record.info("api", &code, 0);
        assert_eq!(info.state, TokenState::Ready);
        assert!(info.problem.is_some_and(|text| text.contains("himalia auth api")));
        // A host cannot fill the row.
        assert!(!record.note_missing(&"x".repeat(SCOPE_BYTES)));
    }

    #[test]
    fn earlier_tokens_stay_known() {
        let mut record = TokenRecord::given(SecretText::new("refresh-0".to_owned()), None);
        for number in 1..=6 {
            record.take(tokens(number, Some(10), true), 0);
        }
        let secrets: Vec<String> = record
            .secrets()
            .iter()
            .map(|secret| secret.expose().to_owned())
            .collect();
        assert_eq!(
            secrets,
            ["access-3", "access-4", "access-5", "refresh-6", "access-6"]
        );
    }
}
