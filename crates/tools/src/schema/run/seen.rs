//! Notes the members and items of a value that rules have looked at, for `unevaluatedProperties` and `unevaluatedItems`.

use std::collections::BTreeSet;

use crate::schema::steps::{Steps, StepsSpent};

/// Notes of one value.
#[derive(Default)]
pub(super) struct SeenMembers<'v> {
    pub(super) all_members: bool,
    pub(super) members: BTreeSet<&'v str>,
    pub(super) all_items: bool,
    /// Items up to this one, and some more.
    pub(super) first_items: usize,
    pub(super) items: BTreeSet<usize>,
}

impl<'v> SeenMembers<'v> {
    pub(super) fn member(&mut self, name: &'v str) {
        self.members.insert(name);
    }

    pub(super) fn has_member(&self, name: &str) -> bool {
        self.all_members || self.members.contains(name)
    }

    pub(super) fn has_item(&self, at: usize) -> bool {
        self.all_items || at < self.first_items || self.items.contains(&at)
    }

    /// Takes over what another rule has looked at.
    pub(super) fn add(&mut self, other: Self, steps: &mut Steps) -> Result<(), StepsSpent> {
        steps.take(other.members.len() + other.items.len())?;
        self.all_members |= other.all_members;
        self.all_items |= other.all_items;
        self.first_items = self.first_items.max(other.first_items);
        self.members.extend(other.members);
        self.items.extend(other.items);
        Ok(())
    }
}
