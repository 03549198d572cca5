//! The flow: from the start of a sign-in to the person.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use himalia_oauth::{form_encoded, shown};
use parking_lot::Mutex;
use reqwest::{Client, RequestBuilder, Url};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use subtle::ConstantTimeEq as _;
use tokio::sync::Semaphore;

use crate::claims::{self, ExpectedClaims};
use crate::fetch;
use crate::jws::UnverifiedToken;
use crate::keys::Keys;
use crate::metadata::Metadata;
use crate::settings::{SettingsError, address};
use crate::{Person, ProviderSettings, SignInError};

/// Time for a person to sign in at the provider.
pub const STATE_LIFETIME: Duration = Duration::from_mins(10);
/// Time that the provider's metadata is cached.
const METADATA_AGE: Duration = Duration::from_hours(1);
/// Time that the provider's keys are cached. A withdrawn key is valid no longer than that.
const KEYS_AGE: Duration = Duration::from_mins(5);
/// Sign-ins that wait for the provider at once.
const AT_ONCE: usize = 16;

/// A provider, with what it published last. Clones share that.
#[derive(Clone, Debug)]
pub struct Provider(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: ProviderSettings,
    http: Client,
    redirect_url: Url,
    metadata: Mutex<Option<(Instant, Metadata)>>,
    keys: Mutex<Option<(Instant, Keys)>>,
    turns: Semaphore,
}

/// A sign-in that has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartedSignIn {
    /// The provider's page.
    pub url: String,
    /// Cookie that the browser has to return.
    pub cookie: String,
}

/// Parameters of the provider's redirect.
#[derive(Clone, Debug, Default)]
pub struct Callback {
    /// Good once, for the id token.
    pub code: Option<String>,
    /// As it was sent there.
    pub state: Option<String>,
    /// Error of the authorization server, in place of `code`.
    pub error: Option<String>,
    /// The provider's words about the error.
    pub error_description: Option<String>,
    /// Issuer of the redirect (RFC 9207).
    pub issuer: Option<String>,
}

/// Contents of the cookie.
#[derive(Debug, Serialize, Deserialize)]
struct Flow {
    state: String,
    nonce: String,
    verifier: String,
    /// Seconds since 1970.
    started: u64,
}

/// Tokens in exchange for a code.
#[derive(Deserialize)]
struct Tokens {
    id_token: Option<String>,
    error: Option<String>,
    error_description: Option<String>,
}

impl Provider {
    /// Checks the settings. The provider is asked at the first sign-in only, so that a gateway starts without it.
    pub fn new(settings: ProviderSettings) -> Result<Self, SettingsError> {
        let issuer = address("issuer", &settings.issuer)?;
        let redirect_url = address("redirect_url", &settings.redirect_url)?;
        if settings.client_id.is_empty() {
            return Err(SettingsError::new("client_id", "is empty"));
        }
        if settings.algorithms.is_empty() {
            return Err(SettingsError::new("algorithms", "is empty"));
        }
        let http = fetch::client(&settings, issuer.scheme() == "http")?;
        Ok(Self(Arc::new(Inner {
            settings,
            http,
            redirect_url,
            metadata: Mutex::default(),
            keys: Mutex::default(),
            turns: Semaphore::new(AT_ONCE),
        })))
    }

    /// The address that the provider sends browsers back to.
    pub fn redirect_url(&self) -> &str {
        self.0.redirect_url.as_str()
    }

    pub async fn begin(&self, now: SystemTime) -> Result<StartedSignIn, SignInError> {
        let _turn = self.0.turns.try_acquire().map_err(|_| SignInError::Busy)?;
        let metadata = self.metadata().await?;
        let flow = Flow {
            state: random()?,
            nonce: random()?,
            verifier: random()?,
            started: seconds(now),
        };
        let challenge = himalia_oauth::challenge(&flow.verifier);
        let settings = &self.0.settings;
        let others = settings.scopes.iter().filter(|scope| *scope != "openid");
        let scopes: Vec<&str> = std::iter::once("openid")
            .chain(others.map(String::as_str))
            .collect();
        let mut url = metadata.authorization;
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &settings.client_id)
            .append_pair("redirect_uri", self.redirect_url())
            .append_pair("scope", &scopes.join(" "))
            .append_pair("state", &flow.state)
            .append_pair("nonce", &flow.nonce)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256");
        let plain = serde_json::to_vec(&flow).map_err(|_| SignInError::Random)?;
        let cookie = settings.cookie_key.seal(&plain).ok_or(SignInError::Random)?;
        Ok(StartedSignIn {
            url: url.into(),
            cookie,
        })
    }

    /// Ends a sign-in with the cookies that the browser has, of which one is that of [`Provider::begin`].
    pub async fn finish(
        &self,
        cookies: &[&str],
        callback: Callback,
        now: SystemTime,
    ) -> Result<Person, SignInError> {
        let flow = self.flow(cookies, &callback, now)?;
        if let Some(error) = callback.error {
            return Err(refused(&error, callback.error_description.as_deref()));
        }
        let code = callback.code.ok_or(SignInError::State("there is no code"))?;
        let _turn = self.0.turns.try_acquire().map_err(|_| SignInError::Busy)?;
        let metadata = self.metadata().await?;
        match callback.issuer {
            Some(issuer) if issuer != self.0.settings.issuer => {
                return Err(SignInError::State("another provider sent it (iss)"));
            }
            None if metadata.names_issuer => {
                return Err(SignInError::State("the provider's name (iss) is missing"));
            }
            _ => {}
        }
        let token = self.exchange(&metadata, &code, &flow.verifier).await?;
        self.check(&metadata, &token, &flow.nonce, seconds(now)).await
    }

    /// The sign-in of this browser that the callback belongs to.
    fn flow(&self, cookies: &[&str], callback: &Callback, now: SystemTime) -> Result<Flow, SignInError> {
        if cookies.is_empty() {
            return Err(SignInError::State("the browser has no cookie of a sign-in"));
        }
        let opened = cookies.iter().find_map(|text| {
            let plain = self.0.settings.cookie_key.open(text)?;
            serde_json::from_slice::<Flow>(&plain).ok()
        });
        let Some(flow) = opened else {
            return Err(SignInError::State(
                "the cookie was not made with the key of this gateway",
            ));
        };
        if seconds(now).saturating_sub(flow.started) > STATE_LIFETIME.as_secs() {
            return Err(SignInError::State("the sign-in began more than 10 minutes ago"));
        }
        let state = callback.state.as_deref().unwrap_or_default();
        let same: bool = state.as_bytes().ct_eq(flow.state.as_bytes()).into();
        if !same {
            return Err(SignInError::State(
                "it is not that of the sign-in of this browser",
            ));
        }
        Ok(flow)
    }

    /// The id token for a code.
    async fn exchange(&self, metadata: &Metadata, code: &str, verifier: &str) -> Result<String, SignInError> {
        const WHAT: &str = "token endpoint";
        let settings = &self.0.settings;
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", self.redirect_url()),
            ("code_verifier", verifier),
        ];
        let mut request: RequestBuilder = self.0.http.post(metadata.token.clone());
        match &settings.client_secret {
            Some(secret) if !metadata.secret_in_body => {
                request = request.basic_auth(form_encoded(&settings.client_id), Some(form_encoded(secret)));
            }
            secret => {
                form.push(("client_id", &settings.client_id));
                form.extend(secret.as_deref().map(|secret| ("client_secret", secret)));
            }
        }
        let (status, tokens) = fetch::json::<Tokens>(WHAT, request.form(&form)).await?;
        if let Some(error) = tokens.error {
            return Err(refused(&error, tokens.error_description.as_deref()));
        }
        match tokens.id_token {
            Some(token) if status.is_success() => Ok(token),
            _ => Err(SignInError::Answer {
                what: WHAT,
                reason: format!("status {}, and there is no id token", status.as_u16()),
            }),
        }
    }

    async fn check(
        &self,
        metadata: &Metadata,
        token: &str,
        nonce: &str,
        now: u64,
    ) -> Result<Person, SignInError> {
        let settings = &self.0.settings;
        let token = UnverifiedToken::read(token, &settings.algorithms)?;
        let kept = {
            let keys = self.0.keys.lock();
            let young = keys.as_ref().filter(|(at, _)| at.elapsed() < KEYS_AGE);
            young.map(|(_, keys)| keys.clone())
        };
        let claims = kept.and_then(|keys| {
            let keys = keys.candidates(token.key_id.as_deref(), token.algorithm);
            token.verify(keys).ok()
        });
        let claims = match claims {
            Some(claims) => Ok(claims),
            // A key that is not known may be new.
            None => self.verify_anew(metadata, &token).await,
        }?;
        let expected = ExpectedClaims {
            issuer: &settings.issuer,
            client_id: &settings.client_id,
            nonce,
            now,
        };
        let subject = claims::check(&claims, expected)?;
        Ok(Person::new(subject, claims))
    }

    /// Returns the payload of a token if one of the keys that the provider publishes now signed it.
    async fn verify_anew(
        &self,
        metadata: &Metadata,
        token: &UnverifiedToken<'_>,
    ) -> Result<Map<String, Value>, SignInError> {
        let keys = Keys::fetch(&self.0.http, &metadata.keys).await?;
        *self.0.keys.lock() = Some((Instant::now(), keys.clone()));
        let candidates = keys.candidates(token.key_id.as_deref(), token.algorithm);
        if candidates.is_empty() {
            let reason = format!("the provider publishes none for {} with this id", token.algorithm);
            return Err(SignInError::token("key", reason));
        }
        token.verify(candidates)
    }

    async fn metadata(&self) -> Result<Metadata, SignInError> {
        let kept = {
            let metadata = self.0.metadata.lock();
            let young = metadata.as_ref().filter(|(at, _)| at.elapsed() < METADATA_AGE);
            young.map(|(_, metadata)| metadata.clone())
        };
        if let Some(metadata) = kept {
            return Ok(metadata);
        }
        let metadata = Metadata::fetch(&self.0.http, &self.0.settings.issuer).await?;
        *self.0.metadata.lock() = Some((Instant::now(), metadata.clone()));
        Ok(metadata)
    }
}

fn refused(error: &str, description: Option<&str>) -> SignInError {
    SignInError::Refused {
        error: shown(error),
        description: shown(description.unwrap_or_default()),
    }
}

fn random() -> Result<String, SignInError> {
    himalia_oauth::random().map_err(|_| SignInError::Random)
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .map(|time| time.as_secs())
        .unwrap_or_default()
}
