//! Access tokens that are made while the gateway runs.
//!
//! One task ([`Keeper`]) makes and revokes them: first in the store, then in what is published to those that authenticate
//! ([`IssuedTokens`]). It also takes away what has expired.
//!
//! A sign-in of a person, for whom an identity provider vouches, is a token too: the gateway makes it, a browser has it, and it is
//! listed, revoked and read again by other replicas like the others.

mod issued;
mod keeper;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use himalia_model::{AccessToken, Clock, EngineError, NewToken, Principal, Scope, from_micros};
use himalia_outcome::Sight;
use himalia_store::{Store, TokenRecord};
use sha2::{Digest as _, Sha256};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub use issued::IssuedTokens;
use keeper::{Keeper, Order};

/// What every token begins with, so that scanners for leaked secrets find it. The rest is lower-case, as some clients make all of a
/// WebSocket's address.
pub const TOKEN_PREFIX: &str = "himalia_";
/// Characters of the description of a token.
pub const MAX_DESCRIPTION_CHARS: usize = 256;
/// The longest time until a token expires: ten years.
pub const MAX_TOKEN_LIFETIME: Duration = Duration::from_hours(10 * 366 * 24);
/// Tokens of one owner.
pub const MAX_TOKENS_OF_OWNER: usize = 1000;
/// Tokens of all owners.
pub const MAX_TOKENS: usize = 10_000;

/// Sign-ins of one person at once; one more ends the oldest.
pub const MAX_SIGN_INS_OF_PERSON: usize = 10;
/// Sign-ins of all persons.
pub const MAX_SIGN_INS: usize = 10_000;

/// Who makes sign-ins. No principal has this name.
const PROVIDER: &str = "oidc";
/// The beginning of each [`issued_mark`].
const ISSUED: &str = "issued-";
/// Random bytes of a token, written as twice as many hexadecimal digits.
const RANDOM_BYTES: usize = 32;
/// Changes that wait for the one before.
const QUEUE: usize = 64;

#[derive(Debug)]
pub(crate) struct AccessTokens {
    orders: mpsc::Sender<Order>,
    issued: watch::Receiver<Arc<IssuedTokens>>,
    tenants: BTreeSet<String>,
    clock: Clock,
    is_shared: bool,
}

impl AccessTokens {
    /// Those in the store, and the task that keeps them until `stop`. Tokens of a tenant that is none of `tenants` do not count.
    pub(crate) async fn open(
        store: Arc<dyn Store>,
        tenants: BTreeSet<String>,
        clock: Clock,
        stop: CancellationToken,
    ) -> Result<Self, EngineError> {
        let (orders, queue) = mpsc::channel(QUEUE);
        let is_shared = store.is_shared();
        let (keeper, issued) = Keeper::open(store, &tenants, clock.clone()).await?;
        tokio::spawn(keeper.run(queue, stop));
        Ok(Self {
            orders,
            issued,
            tenants,
            clock,
            is_shared,
        })
    }

    /// What counts now, and is replaced at every change.
    pub(crate) fn issued(&self) -> watch::Receiver<Arc<IssuedTokens>> {
        self.issued.clone()
    }

    /// Makes a token: with its text, which is nowhere else.
    pub(crate) async fn create(
        &self,
        maker: &Principal,
        new: NewToken,
    ) -> Result<(AccessToken, String), EngineError> {
        let owner = self.owner(maker, new.tenant.as_deref())?;
        let holder = Principal::of_owner(&owner, &new.caller)?;
        if new.scope > maker.scope() {
            return Err(EngineError::Forbidden {
                action: "make a token of a wider scope",
            });
        }
        self.issue(holder, new, maker.name(), maker.expires_micros())
            .await
    }

    /// Signs a person in: the same as a token, with its text, of which a browser is the holder. Above [`MAX_SIGN_INS_OF_PERSON`], the
    /// oldest sign-in of this person ends.
    pub(crate) async fn sign_in(&self, new: NewToken) -> Result<(AccessToken, String), EngineError> {
        let owner = self.owner(&Principal::operator(), new.tenant.as_deref())?;
        let holder = Principal::of_owner(&owner, &new.caller)?;
        self.issue(holder, new, PROVIDER, None).await
    }

    /// Ends the sign-in whose text has this SHA-256. Any other token stays.
    pub(crate) async fn sign_out(&self, hash: &[u8; 32]) -> Result<(), EngineError> {
        let issued = Arc::clone(&self.issued.borrow());
        let found = issued.find(hash, self.clock.stored_micros());
        let sign_in = found.filter(|(id, _)| issued.record(*id).is_some_and(is_sign_in));
        match sign_in {
            Some((id, _)) => self.order(|answer| Order::Revoke { id, answer }).await,
            None => Ok(()),
        }
    }

    /// Waits until what other replicas had made before the call is known here.
    pub(crate) async fn read_again(&self) -> Result<(), EngineError> {
        if !self.is_shared {
            return Ok(());
        }
        let since = Instant::now();
        self.order(|answer| Order::ReadAgain { since, answer }).await
    }

    async fn issue(
        &self,
        holder: Principal,
        new: NewToken,
        maker: &str,
        until: Option<i64>,
    ) -> Result<(AccessToken, String), EngineError> {
        check(&new)?;
        let now = self.clock.stored_micros();
        let text = secret()?;
        let record = TokenRecord {
            id: Uuid::new_v4(),
            hash: hash(&text),
            owner: holder.owner().to_owned(),
            caller: new.caller,
            scope: new.scope.as_str().to_owned(),
            description: new.description,
            created_by: maker.to_owned(),
            created_micros: now,
            expires_micros: expiry(now, new.lifetime, until)?,
        };
        let holder = holder.with_scope(new.scope).until(record.expires_micros);
        let shown = shown(&record, new.scope);
        self.order(|answer| Order::Create {
            record: Box::new(record),
            holder,
            answer,
        })
        .await?;
        Ok((shown, text))
    }

    /// Those that the principal sees, oldest first.
    pub(crate) fn list(&self, principal: &Principal) -> Vec<AccessToken> {
        let now = self.clock.stored_micros();
        let issued = Arc::clone(&self.issued.borrow());
        issued
            .all(now)
            .filter(|(record, _)| principal.sees(&record.owner))
            .map(|(record, holder)| shown(record, holder.scope()))
            .collect()
    }

    /// The owner of a token that the principal sees. Any other one is not found.
    pub(crate) fn owner_of(&self, principal: &Principal, id: Uuid) -> Result<String, EngineError> {
        let issued = Arc::clone(&self.issued.borrow());
        let owner = issued.record(id).map(|record| record.owner.clone());
        owner
            .filter(|owner| principal.sees(owner))
            .ok_or_else(|| absent(id))
    }

    /// Revokes one; one that the principal does not see is not found.
    pub(crate) async fn revoke(&self, principal: &Principal, id: Uuid) -> Result<(), EngineError> {
        self.owner_of(principal, id)?;
        self.order(|answer| Order::Revoke { id, answer }).await
    }

    /// Whose a new token is: its maker's, or the operator chooses a tenant.
    pub(crate) fn owner(&self, maker: &Principal, tenant: Option<&str>) -> Result<String, EngineError> {
        match tenant {
            None => Ok(maker.owner().to_owned()),
            Some(tenant) if tenant == maker.owner() => Ok(tenant.to_owned()),
            // The same for a tenant that there is and for one that there is not.
            Some(_) if !maker.is_operator() => Err(EngineError::Forbidden {
                action: "make a token of another tenant",
            }),
            Some(tenant) if self.tenants.contains(tenant) => Ok(tenant.to_owned()),
            Some(_) => Err(EngineError::bad_request("tenant", "names no tenant in [tenants]")),
        }
    }

    async fn order(
        &self,
        order: impl FnOnce(oneshot::Sender<Result<(), EngineError>>) -> Order,
    ) -> Result<(), EngineError> {
        let (answer, answered) = oneshot::channel();
        let stopped = || EngineError::unavailable("the gateway is stopping".to_owned());
        self.orders.send(order(answer)).await.map_err(|_| stopped())?;
        answered.await.map_err(|_| stopped())?
    }
}

/// The name under which a token that was made at run time is stored with what it starts. It reveals nothing of the token.
pub fn issued_mark(id: Uuid) -> String {
    format!("{ISSUED}{}", id.simple())
}

/// The id of the token with this [`issued_mark`]; `None` for a token of the configuration.
pub fn issued_of_mark(mark: &str) -> Option<Uuid> {
    Uuid::try_parse(mark.strip_prefix(ISSUED)?).ok()
}

/// Whether a row is a sign-in of a person.
fn is_sign_in(record: &TokenRecord) -> bool {
    record.created_by == PROVIDER
}

/// Checks what the types do not say.
fn check(new: &NewToken) -> Result<(), EngineError> {
    let text = &new.description;
    let mut sight = Sight::default();
    if text.chars().count() > MAX_DESCRIPTION_CHARS || !text.chars().all(|c| sight.shows(c)) {
        let reason = format!(
            "has at most {MAX_DESCRIPTION_CHARS} characters, no control characters, and none that is not seen (such as U+200B)"
        );
        return Err(EngineError::bad_request("description", reason));
    }
    let most = MAX_TOKEN_LIFETIME;
    if new
        .lifetime
        .is_some_and(|time| time.as_secs() == 0 || time > most)
    {
        return Err(EngineError::bad_request(
            "expires_in_s",
            format!("is not between 1 and {}", most.as_secs()),
        ));
    }
    Ok(())
}

/// When a new token expires: not after that of its maker, which would else live on in it.
fn expiry(now: i64, lifetime: Option<Duration>, makers: Option<i64>) -> Result<Option<i64>, EngineError> {
    let asked = lifetime.map(|time| {
        let micros = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        now.saturating_add(micros)
    });
    match (asked, makers) {
        (Some(asked), Some(makers)) if asked > makers => Err(EngineError::bad_request(
            "expires_in_s",
            "is later than the token expires that makes it",
        )),
        (asked, makers) => Ok(asked.or(makers)),
    }
}

/// SHA-256 of the text of a token.
fn hash(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

fn secret() -> Result<String, EngineError> {
    let mut random = [0; RANDOM_BYTES];
    getrandom::fill(&mut random)
        .map_err(|error| EngineError::internal("no randomness for a token", error))?;
    Ok(format!("{TOKEN_PREFIX}{}", hex::encode(random)))
}

fn shown(record: &TokenRecord, scope: Scope) -> AccessToken {
    let date = |micros: i64| from_micros(u64::try_from(micros).unwrap_or(0));
    AccessToken {
        id: record.id,
        owner: record.owner.clone(),
        caller: record.caller.clone(),
        scope,
        description: record.description.clone(),
        created_by: record.created_by.clone(),
        created: date(record.created_micros),
        expires: record.expires_micros.map(date),
    }
}

fn absent(id: Uuid) -> EngineError {
    EngineError::NotFound {
        what: "Token",
        id: id.to_string(),
    }
}
