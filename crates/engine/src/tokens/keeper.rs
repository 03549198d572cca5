//! The task that changes tokens.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use himalia_model::{Clock, EngineError, Principal, Scope};
use himalia_session::not_stored;
use himalia_store::{Store, StoreError, TokenRecord};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::issued::IssuedTokens;
use super::{MAX_SIGN_INS, MAX_SIGN_INS_OF_PERSON, MAX_TOKENS, MAX_TOKENS_OF_OWNER, absent, is_sign_in};

/// How long the task sleeps at most while a token is to expire: the clock of its sleep does not count suspension of the machine.
const LOOK: Duration = Duration::from_secs(30);

/// How often the tokens of a shared store are read again: other replicas make and revoke some of them.
const REREAD: Duration = Duration::from_secs(1);

/// How often they are read on request, for a browser that signed in at another replica a moment ago: strangers can cause that.
const REREAD_PAUSE: Duration = Duration::from_millis(200);

/// A change, and where its caller waits.
#[derive(Debug)]
pub(super) enum Order {
    Create {
        record: Box<TokenRecord>,
        holder: Principal,
        answer: oneshot::Sender<Result<(), EngineError>>,
    },
    Revoke {
        id: Uuid,
        answer: oneshot::Sender<Result<(), EngineError>>,
    },
    /// Read what other replicas had done before this moment.
    ReadAgain {
        since: Instant,
        answer: oneshot::Sender<Result<(), EngineError>>,
    },
}

/// Owns the tokens.
#[derive(Debug)]
pub(super) struct Keeper {
    store: Arc<dyn Store>,
    tenants: BTreeSet<String>,
    clock: Clock,
    issued: watch::Sender<Arc<IssuedTokens>>,
    /// When the rows were read last.
    read: Instant,
}

impl Keeper {
    /// With what is in the store and counts.
    pub(super) async fn open(
        store: Arc<dyn Store>,
        tenants: &BTreeSet<String>,
        clock: Clock,
    ) -> Result<(Self, watch::Receiver<Arc<IssuedTokens>>), EngineError> {
        let read = Instant::now();
        let removed = store.delete_expired_tokens(clock.stored_micros()).await;
        removed.map_err(stored)?;
        let mut issued = IssuedTokens::default();
        for record in store.tokens().await.map_err(stored)? {
            if let Some(holder) = counts(&record, tenants) {
                issued.insert(record, holder);
            }
        }
        let (issued, published) = watch::channel(Arc::new(issued));
        let keeper = Self {
            store,
            tenants: tenants.clone(),
            clock,
            issued,
            read,
        };
        Ok((keeper, published))
    }

    /// Until `stop`.
    pub(super) async fn run(mut self, mut orders: mpsc::Receiver<Order>, stop: CancellationToken) {
        loop {
            let expiry = self.issued.borrow().next_expiry();
            tokio::select! {
                () = stop.cancelled() => return,
                order = orders.recv() => match order {
                    Some(order) => self.change(order).await,
                    None => return,
                },
                () = self.until(expiry) => self.expire().await,
                () = tokio::time::sleep(REREAD), if self.store.is_shared() => self.reread().await,
            }
        }
    }

    async fn change(&mut self, order: Order) {
        // Whether the caller still waits makes no difference.
        let _ = match order {
            Order::Create {
                record,
                holder,
                answer,
            } => answer.send(self.create(*record, holder).await),
            Order::Revoke { id, answer } => answer.send(self.revoke(id).await),
            Order::ReadAgain { since, answer } => {
                self.read_since(since).await;
                answer.send(Ok(()))
            }
        };
    }

    async fn create(&self, record: TokenRecord, holder: Principal) -> Result<(), EngineError> {
        if is_sign_in(&record) {
            self.make_room(&record).await?;
        } else {
            let issued = Arc::clone(&self.issued.borrow());
            let of_owner = |other: &TokenRecord| !is_sign_in(other) && other.owner == record.owner;
            let all = issued.count(|other| !is_sign_in(other));
            if all >= MAX_TOKENS || issued.count(of_owner) >= MAX_TOKENS_OF_OWNER {
                let reason = format!(
                    "there are {MAX_TOKENS_OF_OWNER} tokens of this tenant, or {MAX_TOKENS} in all: revoke one first"
                );
                return Err(EngineError::Conflict { reason });
            }
        }
        self.store.insert_token(record.clone()).await.map_err(stored)?;
        let person = is_sign_in(&record).then_some(&*record.description);
        let what = if person.is_some() {
            "a person signed in"
        } else {
            "a token is new"
        };
        tracing::info!(
            target: "himalia::audit",
            principal = record.created_by, id = %record.id, holder = holder.name(), scope = record.scope,
            person, "{what}"
        );
        self.publish(|issued| issued.insert(record, holder));
        Ok(())
    }

    /// Ends the oldest sign-ins of a person, so that there is room for this one.
    async fn make_room(&self, new: &TokenRecord) -> Result<(), EngineError> {
        let issued = Arc::clone(&self.issued.borrow());
        let same = |other: &TokenRecord| other.owner == new.owner && other.caller == new.caller;
        let own = issued.oldest(|other| is_sign_in(other) && same(other));
        let many = (own.len() + 1).saturating_sub(MAX_SIGN_INS_OF_PERSON);
        for id in own.into_iter().take(many) {
            match self.revoke(id).await {
                Ok(()) | Err(EngineError::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        if self.issued.borrow().count(is_sign_in) >= MAX_SIGN_INS {
            let reason = format!("{MAX_SIGN_INS} browsers are signed in");
            return Err(EngineError::Conflict { reason });
        }
        Ok(())
    }

    async fn revoke(&self, id: Uuid) -> Result<(), EngineError> {
        let known = self.store.delete_token(id).await.map_err(stored)?;
        self.publish(|issued| issued.remove(id));
        if known { Ok(()) } else { Err(absent(id)) }
    }

    /// Reads again, unless that was done since.
    async fn read_since(&mut self, since: Instant) {
        if self.read > since {
            return;
        }
        tokio::time::sleep(REREAD_PAUSE.saturating_sub(self.read.elapsed())).await;
        self.reread().await;
    }

    /// What other replicas have made and revoked.
    async fn reread(&mut self) {
        self.read = Instant::now();
        let records = match self.store.tokens().await {
            Ok(records) => records,
            Err(error) => {
                tracing::warn!(%error, "cannot read access tokens again");
                return;
            }
        };
        let known = Arc::clone(&self.issued.borrow());
        let there: BTreeSet<Uuid> = records.iter().map(|record| record.id).collect();
        let gone: Vec<Uuid> = known.ids().filter(|id| !there.contains(id)).collect();
        let new = records
            .into_iter()
            .filter(|record| known.record(record.id).is_none());
        let new: Vec<_> = new
            .filter(|record| {
                record.owner == Principal::operator().owner() || self.tenants.contains(&record.owner)
            })
            .filter_map(|record| counts(&record, &self.tenants).map(|holder| (record, holder)))
            .collect();
        if gone.is_empty() && new.is_empty() {
            return;
        }
        self.publish(|issued| {
            for id in gone {
                issued.remove(id);
            }
            for (record, holder) in new {
                issued.insert(record, holder);
            }
        });
    }

    /// What has expired does not count, whether or not it can be removed from the store now: a later start removes it.
    async fn expire(&self) {
        let now = self.clock.stored_micros();
        if self.issued.borrow().next_expiry().is_none_or(|next| now < next) {
            return;
        }
        let mut gone = Vec::new();
        self.publish(|issued| gone = issued.take_expired(now));
        for one in gone {
            tracing::info!(
                target: "himalia::audit",
                id = %one.0.id, holder = one.1.name(), "a token has expired"
            );
        }
        if let Err(error) = self.store.delete_expired_tokens(now).await {
            tracing::warn!(%error, "expired tokens stay in the store");
        }
    }

    /// Sleeps until a token is likely to have expired.
    async fn until(&self, expiry: Option<i64>) {
        let Some(expiry) = expiry else {
            return std::future::pending().await;
        };
        let left = expiry.saturating_sub(self.clock.stored_micros());
        let left = Duration::from_micros(u64::try_from(left).unwrap_or(0));
        tokio::time::sleep(left.min(LOOK)).await;
    }

    fn publish(&self, change: impl FnOnce(&mut IssuedTokens)) {
        let mut next = IssuedTokens::clone(&self.issued.borrow());
        change(&mut next);
        self.issued.send_replace(Arc::new(next));
    }
}

/// Whom a row stands for, if it counts here; otherwise it is said why not.
fn counts(record: &TokenRecord, tenants: &BTreeSet<String>) -> Option<Principal> {
    let (id, owner) = (record.id, &record.owner);
    if owner != Principal::operator().owner() && !tenants.contains(owner) {
        tracing::warn!(%id, owner, "a token does not count: its tenant is not in the configuration");
        return None;
    }
    match holder(record) {
        Ok(holder) => Some(holder),
        Err(error) => {
            tracing::error!(%id, owner, %error, "a token does not count");
            None
        }
    }
}

/// Whom a row stands for.
fn holder(record: &TokenRecord) -> Result<Principal, EngineError> {
    let scope: Scope = record.scope.parse()?;
    let holder = Principal::of_owner(&record.owner, &record.caller)?;
    Ok(holder.with_scope(scope).until(record.expires_micros))
}

fn stored(error: StoreError) -> EngineError {
    not_stored("reading or writing access tokens", error)
}
