//! Number of nodes that are applied to one value, by references and combinations, when they are written out.

use super::node::{Id, Node, Nodes};

/// Nodes at one place of a value.
const MAX_EXPANDED: u64 = 10_000;
/// References and combinations within each other.
const MAX_NESTED: usize = 64;

#[derive(Clone, Copy)]
enum Size {
    Unknown,
    /// On the way from the node that is measured.
    Open,
    Known {
        nodes: u64,
        nested: usize,
    },
}

/// Refuses a document with a node that applies too many others, or itself, to the same value.
pub(super) fn check(nodes: &Nodes) -> Result<(), String> {
    let mut known = vec![Size::Unknown; nodes.all.len()];
    for id in 0..nodes.all.len() {
        let (size, _) = measure(nodes, id, 0, &mut known)?;
        if size > MAX_EXPANDED {
            return Err(format!(
                "has {size} parts for one value when its references and combinations (allOf, anyOf, oneOf, not, if) are written out; at most {MAX_EXPANDED} are allowed"
            ));
        }
    }
    Ok(())
}

fn measure(nodes: &Nodes, id: Id, level: usize, known: &mut [Size]) -> Result<(u64, usize), String> {
    match known.get(id) {
        Some(Size::Known { nodes, nested }) if level + nested <= MAX_NESTED => return Ok((*nodes, *nested)),
        Some(Size::Open) => {
            return Err(
                "has a reference that leads back to itself without a member or an item between".to_owned(),
            );
        }
        Some(Size::Unknown) if level <= MAX_NESTED => {}
        _ => {
            return Err(format!(
                "has references and combinations (allOf, anyOf, oneOf, not, if) that are nested more than {MAX_NESTED} deep"
            ));
        }
    }
    set(known, id, Size::Open);
    let mut below = Vec::new();
    if let Some(Node::Words(rules)) = nodes.get(id) {
        for rule in rules {
            rule.in_place(|one| below.push(one));
        }
    }
    let (mut size, mut nested) = (1_u64, 0);
    for one in below {
        let (nodes_of_one, nested_of_one) = measure(nodes, one, level + 1, known)?;
        size = size.saturating_add(nodes_of_one);
        nested = nested.max(nested_of_one + 1);
    }
    set(known, id, Size::Known { nodes: size, nested });
    Ok((size, nested))
}

fn set(known: &mut [Size], id: Id, size: Size) {
    if let Some(place) = known.get_mut(id) {
        *place = size;
    }
}
