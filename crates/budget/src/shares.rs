//! Parts of something that there is only so much of.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use himalia_model::{EngineError, Principal};
use parking_lot::Mutex;

/// Shares of one resource: limits and usage of each tenant.
#[derive(Debug)]
pub(super) struct Shares {
    what: &'static str,
    words: &'static str,
    /// Limit for all together; limit for all but the operator.
    all: u64,
    tenants: u64,
    /// Limit for a tenant that is not in `own`.
    tenant: u64,
    own: BTreeMap<String, u64>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    all: u64,
    tenants: u64,
    /// As many as there are tenants, and the operator.
    owners: BTreeMap<String, Owner>,
}

#[derive(Debug, Default)]
struct Owner {
    now: u64,
    peak: u64,
    refused: u64,
    /// Callers that hold a part.
    callers: BTreeMap<String, u64>,
}

/// A part, until this is dropped.
#[derive(Debug)]
pub struct HeldShare {
    shares: Arc<Shares>,
    owner: String,
    caller: String,
    amount: u64,
}

/// Pieces of one principal.
#[derive(Clone, Debug)]
pub struct Places {
    shares: Arc<Shares>,
    principal: Principal,
}

impl Places {
    pub(super) fn new(shares: &Arc<Shares>, principal: &Principal) -> Self {
        let (shares, principal) = (Arc::clone(shares), principal.clone());
        Self { shares, principal }
    }

    /// One more.
    pub fn take(&self) -> Result<HeldShare, EngineError> {
        self.shares.take(&self.principal, 1)
    }
}

impl Shares {
    /// `reserve` of `all` is the operator's alone. The last argument is a tenant's share, and those of single tenants.
    pub(super) fn new(
        what: &'static str,
        words: &'static str,
        all: u64,
        reserve: u64,
        (tenant, own): (u64, BTreeMap<String, u64>),
    ) -> Arc<Self> {
        Arc::new(Self {
            what,
            words,
            all,
            tenants: all.saturating_sub(reserve),
            tenant,
            own,
            state: Mutex::default(),
        })
    }

    /// So much for this principal; of what is more than it can ever have, all that it can.
    pub(super) fn take(
        self: &Arc<Self>,
        principal: &Principal,
        amount: u64,
    ) -> Result<HeldShare, EngineError> {
        let is_operator = principal.is_operator();
        let own = if is_operator {
            self.all
        } else {
            let own = self.own.get(principal.owner()).copied();
            own.unwrap_or(self.tenant).min(self.tenants)
        };
        // One caller leaves a part to the others of its tenant.
        let of_caller = if is_operator { own } else { own - own / 4 };
        let amount = amount.min(of_caller);
        let (owner, caller) = (principal.owner().to_owned(), principal.name().to_owned());
        let mut state = self.state.lock();
        let (all, tenants) = (state.all + amount, state.tenants + amount);
        let known = state.owners.entry(owner.clone()).or_default();
        let now = known.now + amount;
        let callers = known.callers.get(&caller).copied().unwrap_or(0) + amount;
        let fits_all = all <= self.all && (is_operator || tenants <= self.tenants);
        if !fits_all || now > own || callers > of_caller {
            known.refused += 1;
            let reason = match (fits_all, now > own) {
                (false, _) => format!("the gateway has no {} left for now", self.words),
                (true, true) => format!(
                    "the limit of {own} {} of the tenant {owner} is reached",
                    self.words
                ),
                (true, false) => format!("the limit of {of_caller} {} of {caller} is reached", self.words),
            };
            return Err(EngineError::OverBudget {
                what: self.what,
                reason,
                gateways: !fits_all,
                retry_after: 1,
            });
        }
        (known.now, known.peak) = (now, known.peak.max(now));
        known.callers.insert(caller.clone(), callers);
        state.all = all;
        if !is_operator {
            state.tenants = tenants;
        }
        drop(state);
        Ok(HeldShare {
            shares: Arc::clone(self),
            owner,
            caller,
            amount,
        })
    }

    /// Owner, now, the most so far, refusals.
    pub(super) fn uses(&self) -> Vec<(String, u64, u64, u64)> {
        let state = self.state.lock();
        let owners = state.owners.iter();
        owners
            .map(|(name, it)| (name.clone(), it.now, it.peak, it.refused))
            .collect()
    }

    /// Amounts that the callers of an owner hold.
    pub(super) fn callers(&self, owner: &str) -> BTreeMap<String, u64> {
        let state = self.state.lock();
        state
            .owners
            .get(owner)
            .map_or_else(BTreeMap::new, |owner| owner.callers.clone())
    }

    fn give_back(&self, owner: &str, caller: &str, amount: u64) {
        let mut state = self.state.lock();
        state.all = state.all.saturating_sub(amount);
        if owner != Principal::operator().owner() {
            state.tenants = state.tenants.saturating_sub(amount);
        }
        let Some(known) = state.owners.get_mut(owner) else {
            return;
        };
        known.now = known.now.saturating_sub(amount);
        if let Some(held) = known.callers.get_mut(caller) {
            *held = held.saturating_sub(amount);
            if *held == 0 {
                known.callers.remove(caller);
            }
        }
    }
}

impl HeldShare {
    /// Gives back what is more than `amount`.
    pub fn shrink(&mut self, amount: u64) {
        if let Some(more) = self.amount.checked_sub(amount) {
            self.shares.give_back(&self.owner, &self.caller, more);
            self.amount = amount;
        }
    }

    /// An answer, which is held until the last part of it is dropped.
    pub fn keep(mut self, answer: Vec<u8>) -> Bytes {
        self.shrink(answer.len() as u64);
        Bytes::from_owner(SharedBytes(answer, self))
    }

    /// Owner: a tenant, or `operator`.
    pub fn owner(&self) -> &str {
        &self.owner
    }
}

struct SharedBytes(Vec<u8>, #[allow(dead_code, reason = "held, not read")] HeldShare);

impl AsRef<[u8]> for SharedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for HeldShare {
    fn drop(&mut self) {
        self.shares.give_back(&self.owner, &self.caller, self.amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(tenant: &str, caller: &str) -> Principal {
        Principal::of_tenant(tenant, caller).unwrap()
    }

    fn shares() -> Arc<Shares> {
        let own = [("small".to_owned(), 4)].into();
        Shares::new("x", "pieces", 100, 20, (40, own))
    }

    fn refused(shares: &Arc<Shares>, principal: &Principal, amount: u64) -> String {
        let error = shares.take(principal, amount).unwrap_err();
        assert_eq!((error.code(), error.retryable()), ("over_budget", true));
        error.to_string()
    }

    #[test]
    fn a_caller_leaves_a_part_to_its_tenant_and_a_tenant_to_others() {
        let shares = shares();
        let (ada, bob, eve) = (of("acme", "ada"), of("acme", "bob"), of("evil", "eve"));
        let first = shares.take(&ada, 30).unwrap();
        assert_eq!(
            refused(&shares, &ada, 1),
            "the limit of 30 pieces of acme/ada is reached"
        );
        let second = shares.take(&bob, 10).unwrap();
        assert_eq!(
            refused(&shares, &bob, 1),
            "the limit of 40 pieces of the tenant acme is reached"
        );
        let third = shares.take(&eve, 30).unwrap();
        drop((first, second, third));
        assert_eq!(shares.state.lock().all, 0);
        assert!(
            shares
                .state
                .lock()
                .owners
                .values()
                .all(|owner| owner.callers.is_empty())
        );
    }

    #[test]
    fn the_operator_has_a_part_that_no_tenant_gets() {
        let shares = shares();
        let tenants: Vec<_> = ["a", "b", "c"].map(|name| of(name, "x")).into();
        let mut held = Vec::new();
        held.push(shares.take(&tenants[0], 30).unwrap());
        held.push(shares.take(&tenants[1], 30).unwrap());
        held.push(shares.take(&tenants[2], 20).unwrap());
        assert_eq!(
            refused(&shares, &tenants[2], 1),
            "the gateway has no pieces left for now"
        );
        held.push(shares.take(&Principal::operator(), 20).unwrap());
        assert!(shares.take(&Principal::operator(), 1).is_err());
        held.remove(0);
        assert!(shares.take(&tenants[2], 1).is_ok());
    }

    #[test]
    fn one_that_is_larger_than_any_share_takes_it_all() {
        let shares = shares();
        let ada = of("small", "ada");
        let mut held = shares.take(&ada, 1000).unwrap();
        assert!(shares.take(&ada, 1).is_err());
        held.shrink(1);
        let more = shares.take(&ada, 2).unwrap();
        assert_eq!(shares.uses(), [("small".to_owned(), 3, 3, 1)]);
        drop((held, more));
        assert_eq!(shares.uses(), [("small".to_owned(), 0, 3, 1)]);
    }
}
