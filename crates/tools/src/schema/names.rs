//! Names of arguments that a schema does not know. A schema that says nothing of other names allows them, but its author has hardly thought
//! of any: such a name is a misspelt one, whose value the tool would ignore.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Violation;
use super::node::{Id, Node, Nodes, Rule};
use super::run::MAX_VIOLATIONS;
use crate::nearest::{OF_ARGUMENT, nearest};

/// Names that are listed if none is like the wrong one.
const TOLD: usize = 10;
/// Names that are known, of which more are not gone through.
const MAX_NAMES: usize = 2000;

/// Violations by members of arguments that are not known.
pub(super) fn unknown(nodes: &Nodes, arguments: &Value) -> Vec<Violation> {
    let (Some(given), Some(names)) = (arguments.as_object(), known(nodes)) else {
        return Vec::new();
    };
    let wrong = given.keys().filter(|name| !names.contains(name.as_str()));
    wrong
        .take(MAX_VIOLATIONS)
        .map(|name| violation(name, &names))
        .collect()
}

fn violation(name: &str, names: &BTreeSet<&str>) -> Violation {
    let like = nearest(name, names.iter().copied(), OF_ARGUMENT);
    let shown: String = name.chars().take(100).collect();
    let there = match (like.as_slice(), names.len()) {
        ([], 0) => "the tool takes no arguments".to_owned(),
        ([], _) => {
            let told: Vec<&str> = names.iter().copied().take(TOLD).collect();
            let more = if names.len() > TOLD { ", …" } else { "" };
            format!("the arguments are {}{more}", told.join(", "))
        }
        (like, _) => format!("did you mean {}?", like.join(" or ")),
    };
    Violation {
        path: format!("/{}", shown.replace('~', "~0").replace('/', "~1")),
        rule: "additionalProperties".to_owned(),
        text: super::text::clip(&format!("there is no argument {shown:?}; {there}")),
    }
}

/// All names that the schema knows. `None`: it names none, or says itself which others there may be.
fn known(nodes: &Nodes) -> Option<BTreeSet<&str>> {
    let (mut names, mut names_some) = (BTreeSet::new(), false);
    let mut looked_at = BTreeSet::from([nodes.root]);
    let mut open = vec![nodes.root];
    while let Some(id) = open.pop() {
        let Some(Node::Words(rules)) = nodes.get(id) else {
            continue;
        };
        for rule in rules {
            match rule {
                Rule::Members(members) => {
                    if members.more.is_some() || !members.like.is_empty() {
                        return None;
                    }
                    names_some |= members.names_some;
                    names.extend(members.named.keys().map(String::as_str));
                }
                Rule::UnevaluatedProperties(_) | Rule::MemberNames(_) => return None,
                Rule::Required(all) => names.extend(all.iter().map(String::as_str)),
                Rule::DependentRequired(all) => {
                    names.extend(
                        all.iter()
                            .flat_map(|(name, others)| others.iter().chain([name]))
                            .map(String::as_str),
                    );
                }
                Rule::DependentSchemas(all) => names.extend(all.keys().map(String::as_str)),
                _ => {}
            }
            // What is in `not` is of no use to it.
            let mut next = |id: Id| {
                if looked_at.insert(id) {
                    open.push(id);
                }
            };
            if !matches!(rule, Rule::Not(_)) {
                rule.in_place(&mut next);
            }
        }
        if names.len() > MAX_NAMES {
            return None;
        }
    }
    names_some.then_some(names)
}
