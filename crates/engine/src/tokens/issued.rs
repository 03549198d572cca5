//! The tokens that count at one moment.

use std::collections::HashMap;
use std::sync::Arc;

use himalia_model::Principal;
use himalia_store::TokenRecord;
use uuid::Uuid;

/// All tokens, as they were at one moment. A change makes a new value.
#[derive(Clone, Debug, Default)]
pub struct IssuedTokens {
    by_id: HashMap<Uuid, Arc<(TokenRecord, Principal)>>,
    /// Looked up by a hash that the presented text has: no comparison tells how much of a text was right.
    by_hash: HashMap<[u8; 32], Uuid>,
}

impl IssuedTokens {
    /// Whom the token with this SHA-256 stands for, and its id, unless it has expired. `now`: microseconds since 1970.
    pub fn find(&self, hash: &[u8; 32], now: i64) -> Option<(Uuid, &Principal)> {
        let id = *self.by_hash.get(hash)?;
        Some((id, self.holder(id, now)?))
    }

    /// Whom the token of this id stands for, unless it has expired.
    pub fn holder(&self, id: Uuid, now: i64) -> Option<&Principal> {
        let (_, holder) = &**self.by_id.get(&id)?;
        is_good(holder, now).then_some(holder)
    }

    /// The ids of those that have not expired and whose holders are such ones, in no order.
    pub fn ids_of(&self, now: i64, which: impl Fn(&Principal) -> bool) -> Vec<Uuid> {
        let good = self
            .by_id
            .iter()
            .filter(|(_, one)| is_good(&one.1, now) && which(&one.1));
        good.map(|(id, _)| *id).collect()
    }

    /// What the store has of those that have not expired, oldest first.
    pub(super) fn all(&self, now: i64) -> impl Iterator<Item = &(TokenRecord, Principal)> {
        let mut all: Vec<_> = self
            .by_id
            .values()
            .map(|one| &**one)
            .filter(|(_, holder)| is_good(holder, now))
            .collect();
        all.sort_by_key(|(record, _)| (record.created_micros, record.id));
        all.into_iter()
    }

    /// Of all of them.
    pub(super) fn ids(&self) -> impl Iterator<Item = Uuid> {
        self.by_id.keys().copied()
    }

    pub(super) fn record(&self, id: Uuid) -> Option<&TokenRecord> {
        self.by_id.get(&id).map(|one| &one.0)
    }

    /// How many there are of which this is true.
    pub(super) fn count(&self, which: impl Fn(&TokenRecord) -> bool) -> usize {
        self.by_id.values().filter(|one| which(&one.0)).count()
    }

    /// The ids of those of which this is true, oldest first.
    pub(super) fn oldest(&self, which: impl Fn(&TokenRecord) -> bool) -> Vec<Uuid> {
        let records = self.by_id.values().map(|one| &one.0);
        let mut found: Vec<_> = records.filter(|record| which(record)).collect();
        found.sort_by_key(|record| (record.created_micros, record.id));
        found.into_iter().map(|record| record.id).collect()
    }

    pub(super) fn insert(&mut self, record: TokenRecord, holder: Principal) {
        self.by_hash.insert(record.hash, record.id);
        self.by_id.insert(record.id, Arc::new((record, holder)));
    }

    pub(super) fn remove(&mut self, id: Uuid) {
        if let Some(one) = self.by_id.remove(&id) {
            self.by_hash.remove(&one.0.hash);
        }
    }

    /// Takes out those that have expired, and gives them back.
    pub(super) fn take_expired(&mut self, now: i64) -> Vec<Arc<(TokenRecord, Principal)>> {
        let gone = self.by_id.values().filter(|one| !is_good(&one.1, now));
        let gone: Vec<_> = gone.cloned().collect();
        for one in &gone {
            self.remove(one.0.id);
        }
        gone
    }

    /// When the next one expires.
    pub(super) fn next_expiry(&self) -> Option<i64> {
        self.by_id.values().filter_map(|one| one.0.expires_micros).min()
    }
}

fn is_good(holder: &Principal, now: i64) -> bool {
    holder.expires_micros().is_none_or(|expires| now < expires)
}
