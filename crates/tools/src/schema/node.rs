//! A compiled schema: nodes, which name each other by number.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::Number;

use super::pattern::Patterns;

/// A node.
pub(super) type Id = usize;

/// All nodes of a document.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    pub(super) all: Vec<Node>,
    pub(super) root: Id,
    pub(super) patterns: Patterns,
    /// True if a rule depends on the members and items that other rules have seen.
    pub(super) unevaluated: bool,
    /// Bytes of the document.
    pub(super) bytes: usize,
}

impl Nodes {
    pub(super) fn get(&self, id: Id) -> Option<&Node> {
        self.all.get(id)
    }

    /// Bytes, about: names and values are kept, in nodes and lists.
    pub(super) fn weight(&self) -> usize {
        self.bytes * 4 + self.all.len() * size_of::<Node>() + self.patterns.weight()
    }
}

/// A part of a document that is a schema.
#[derive(Debug)]
pub(super) enum Node {
    /// `true`, `false`.
    All(bool),
    /// An object of keywords.
    Words(Vec<Rule>),
}

/// `enum` and `const`.
#[derive(Debug)]
pub(super) struct Choice {
    /// The values as [`canonical`](super::equal::canonical) texts.
    pub(super) texts: HashSet<Vec<u8>>,
    /// Text for violations.
    pub(super) shown: String,
}

/// `properties` and what is beside it.
#[derive(Debug, Default)]
pub(super) struct Members {
    pub(super) named: BTreeMap<String, Id>,
    /// Numbers of patterns.
    pub(super) like: Vec<(usize, Id)>,
    /// `additionalProperties`.
    pub(super) more: Option<Id>,
    /// True if there are `properties`, also empty ones.
    pub(super) names_some: bool,
}

/// `prefixItems` and `items`, or `items` and `additionalItems`.
#[derive(Debug, Default)]
pub(super) struct Items {
    pub(super) first: Vec<Id>,
    pub(super) rest: Option<Id>,
    /// The keyword of `rest`.
    pub(super) rest_rule: &'static str,
}

/// Types of values, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Types(pub(super) u8);

impl Types {
    pub(super) const NAMES: [&'static str; 7] = [
        "array", "boolean", "integer", "null", "number", "object", "string",
    ];

    pub(super) fn of_name(name: &str) -> Option<Self> {
        let at = Self::NAMES.iter().position(|one| *one == name)?;
        Some(Self(1 << at))
    }

    pub(super) fn has(self, name: &str) -> bool {
        Self::of_name(name).is_some_and(|bit| self.0 & bit.0 != 0)
    }
}

/// One demand on a value.
#[derive(Debug)]
pub(super) enum Rule {
    Reference(Id),
    Type(Types),
    Enum(Choice),
    Const(Choice),
    AllOf(Vec<Id>),
    AnyOf(Vec<Id>),
    OneOf(Vec<Id>),
    Not(Id),
    If {
        test: Id,
        then: Option<Id>,
        otherwise: Option<Id>,
    },
    Members(Members),
    MemberNames(Id),
    Required(Vec<String>),
    MinProperties(u64),
    MaxProperties(u64),
    DependentRequired(BTreeMap<String, BTreeSet<String>>),
    DependentSchemas(BTreeMap<String, Id>),
    Items(Items),
    Contains {
        item: Id,
        least: u64,
        most: Option<u64>,
    },
    MinItems(u64),
    MaxItems(u64),
    UniqueItems,
    MinLength(u64),
    MaxLength(u64),
    Pattern(usize),
    Minimum {
        bound: Number,
        excluded: bool,
    },
    Maximum {
        bound: Number,
        excluded: bool,
    },
    MultipleOf(Number),
    UnevaluatedProperties(Id),
    UnevaluatedItems(Id),
}

impl Rule {
    /// Nodes that the rule applies to the same value.
    pub(super) fn in_place(&self, mut each: impl FnMut(Id)) {
        match self {
            Self::Reference(one) | Self::Not(one) => each(*one),
            Self::AllOf(all) | Self::AnyOf(all) | Self::OneOf(all) => all.iter().copied().for_each(each),
            Self::If {
                test,
                then,
                otherwise,
            } => {
                each(*test);
                then.iter().chain(otherwise).copied().for_each(each);
            }
            Self::DependentSchemas(all) => all.values().copied().for_each(each),
            _ => {}
        }
    }
}
