//! What a step gets, and what a run returns.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::definition::Given;
use crate::wire::{Root, Wire};

/// Where values of a run are found.
pub(crate) struct Values<'a, F> {
    pub inputs: &'a Value,
    /// The outputs of a step that has succeeded.
    pub outputs: F,
    pub item: Option<&'a Value>,
}

impl<'a, F: Fn(&str) -> Option<Cow<'a, Value>>> Values<'a, F> {
    /// What a wire carries; `None`: it is not there.
    pub(crate) fn wire(&self, wire: &Wire) -> Option<Value> {
        let root = match &wire.root {
            Root::Inputs => Cow::Borrowed(self.inputs),
            Root::Item => Cow::Borrowed(self.item?),
            Root::Step(id) => (self.outputs)(id)?,
        };
        let mut at: &Value = &root;
        for name in &wire.path {
            at = at.get(name)?;
        }
        Some(at.clone())
    }

    pub(crate) fn given(&self, given: &Given) -> Option<Value> {
        match given {
            Given::From(wire) => self.wire(wire),
            Given::Value(value) => Some(value.clone()),
        }
    }

    /// All that is there: what is not there is left out, and its schema says whether it may be.
    pub(crate) fn all(&self, given: &BTreeMap<String, Given>) -> Map<String, Value> {
        let value = |(name, given): (&String, &Given)| Some((name.clone(), self.given(given)?));
        given.iter().filter_map(value).collect()
    }
}
