//! Rules for lists.

use std::collections::HashSet;

use serde_json::Value;

use super::{Fits, Path, Run, SeenMembers, length};
use crate::schema::equal::canonical;
use crate::schema::node::{Id, Items, Node, Rule};
use crate::schema::text::json;

impl<'r> Run<'r> {
    pub(super) fn of_list<'v>(
        &mut self,
        rule: &'r Rule,
        items: &'v [Value],
        value: &'v Value,
        path: &Path<'_>,
        seen: Option<&mut SeenMembers<'v>>,
    ) -> Fits {
        match rule {
            Rule::Items(rule) => self.items(rule, items, path, seen),
            Rule::Contains { item, least, most } => {
                self.contains(*item, (*least, *most), items, value, path, seen)
            }
            Rule::MinItems(least) => self.demand(length(items.len()) >= *least, path, "minItems", || {
                format!("{} has less than {least} items", json(value))
            }),
            Rule::MaxItems(most) => self.demand(length(items.len()) <= *most, path, "maxItems", || {
                format!("{} has more than {most} items", json(value))
            }),
            Rule::UniqueItems => {
                let mut texts = HashSet::new();
                let mut fits = true;
                for item in items {
                    self.steps.take(1)?;
                    fits &= texts.insert(canonical(item, self.steps)?);
                    if !fits {
                        break;
                    }
                }
                self.demand(fits, path, "uniqueItems", || {
                    format!("{} has non-unique elements", json(value))
                })
            }
            Rule::UnevaluatedItems(id) => self.unevaluated_items(*id, items, path, seen),
            _ => Ok(true),
        }
    }

    fn items<'v>(
        &mut self,
        rule: &'r Items,
        items: &'v [Value],
        path: &Path<'_>,
        seen: Option<&mut SeenMembers<'v>>,
    ) -> Fits {
        let mut fits = true;
        let nodes = self.nodes;
        for (at, item) in items.iter().enumerate() {
            let Some(id) = rule.first.get(at).copied().or(rule.rest) else {
                break;
            };
            let below = Path::Item(path, at);
            fits &= match nodes.get(id) {
                Some(Node::All(false)) => {
                    let most = rule.first.len();
                    self.fail(path, rule.rest_rule, || {
                        format!("only {most} items are allowed, and there are {}", items.len())
                    })?
                }
                _ => self.check(id, item, &below, self.fresh().as_mut())?,
            };
            if !fits && self.is_enough() {
                break;
            }
        }
        if let Some(seen) = seen {
            seen.first_items = seen.first_items.max(rule.first.len());
            seen.all_items |= rule.rest.is_some();
        }
        Ok(fits)
    }

    fn contains<'v>(
        &mut self,
        id: Id,
        (least, most): (u64, Option<u64>),
        items: &'v [Value],
        value: &'v Value,
        path: &Path<'_>,
        mut seen: Option<&mut SeenMembers<'v>>,
    ) -> Fits {
        let mut fitting = 0_u64;
        for (at, item) in items.iter().enumerate() {
            if self.quietly(id, item, path, self.fresh().as_mut())? {
                fitting += 1;
                if let Some(seen) = seen.as_deref_mut() {
                    self.steps.take(1)?;
                    seen.items.insert(at);
                }
            }
        }
        let enough = self.demand(fitting >= least, path, "contains", || {
            format!(
                "{fitting} items of {} are as 'contains' describes, at least {least} are expected",
                json(value)
            )
        })?;
        let few = most.is_none_or(|most| fitting <= most);
        let few = self.demand(few, path, "maxContains", || {
            format!(
                "{fitting} items of {} are as 'contains' describes: too many",
                json(value)
            )
        })?;
        Ok(enough && few)
    }

    fn unevaluated_items<'v>(
        &mut self,
        id: Id,
        items: &'v [Value],
        path: &Path<'_>,
        seen: Option<&mut SeenMembers<'v>>,
    ) -> Fits {
        let Some(seen) = seen else { return Ok(true) };
        let mut fits = true;
        for (at, item) in items.iter().enumerate() {
            self.steps.take(1)?;
            if seen.has_item(at) {
                continue;
            }
            let below = Path::Item(path, at);
            fits &= match self.nodes.get(id) {
                Some(Node::All(false)) => self.fail(path, "unevaluatedItems", || {
                    format!("the item {at} is not allowed")
                })?,
                _ => self.check(id, item, &below, self.fresh().as_mut())?,
            };
            if !fits && self.is_enough() {
                break;
            }
        }
        seen.all_items = true;
        Ok(fits)
    }
}
