//! Rules for objects.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{Fits, Path, Run, SeenMembers, length};
use crate::nearest::{OF_ARGUMENT, nearest};
use crate::schema::node::{Id, Members, Node, Rule};
use crate::schema::text::json;

impl<'r> Run<'r> {
    pub(super) fn of_object<'v>(
        &mut self,
        rule: &'r Rule,
        members: &'v Map<String, Value>,
        value: &'v Value,
        path: &Path<'_>,
        seen: Option<&mut SeenMembers<'v>>,
    ) -> Fits {
        match rule {
            Rule::Members(rule) => self.members(rule, members, path, seen),
            Rule::MemberNames(id) => self.member_names(*id, members, path),
            Rule::Required(names) => self.required(names.iter(), members, path, "required"),
            Rule::MinProperties(least) => {
                self.demand(length(members.len()) >= *least, path, "minProperties", || {
                    format!("{} has less than {least} members", json(value))
                })
            }
            Rule::MaxProperties(most) => {
                self.demand(length(members.len()) <= *most, path, "maxProperties", || {
                    format!("{} has more than {most} members", json(value))
                })
            }
            Rule::DependentRequired(all) => {
                let mut fits = true;
                for (name, names) in all {
                    self.steps.take_name(name)?;
                    if members.contains_key(name) {
                        fits &= self.required(names.iter(), members, path, "dependentRequired")?;
                    }
                }
                Ok(fits)
            }
            Rule::DependentSchemas(all) => self.dependent(all.iter(), members, value, path, seen),
            Rule::UnevaluatedProperties(id) => self.unevaluated_members(*id, members, path, seen),
            _ => Ok(true),
        }
    }

    fn members<'v>(
        &mut self,
        rule: &'r Members,
        members: &'v Map<String, Value>,
        path: &Path<'_>,
        mut seen: Option<&mut SeenMembers<'v>>,
    ) -> Fits {
        let mut fits = true;
        let nodes = self.nodes;
        for (name, value) in members {
            self.steps.take_name(name)?;
            let below = Path::Member(path, name);
            let named = rule.named.get(name);
            let mut is_known = named.is_some();
            if let Some(id) = named {
                fits &= self.check(*id, value, &below, self.fresh().as_mut())?;
            }
            for (pattern, id) in &rule.like {
                if self
                    .matching
                    .is_match(&nodes.patterns, *pattern, name, self.steps)?
                {
                    is_known = true;
                    fits &= self.check(*id, value, &below, self.fresh().as_mut())?;
                }
            }
            if let (false, Some(more)) = (is_known, rule.more) {
                is_known = true;
                fits &= match nodes.get(more) {
                    Some(Node::All(false)) => self.fail(path, "additionalProperties", || {
                        unexpected("Additional", name, rule)
                    })?,
                    _ => self.check(more, value, &below, self.fresh().as_mut())?,
                };
            }
            if let (true, Some(seen)) = (is_known, seen.as_deref_mut()) {
                self.steps.take(1)?;
                seen.member(name);
            }
            if !fits && self.is_enough() {
                break;
            }
        }
        Ok(fits)
    }

    fn member_names(&mut self, id: Id, members: &Map<String, Value>, path: &Path<'_>) -> Fits {
        let mut fits = true;
        for name in members.keys() {
            self.steps.take_name(name)?;
            let text = Value::from(name.as_str());
            let good = self.quietly(id, &text, path, self.fresh().as_mut())?;
            fits &= self.demand(good, path, "propertyNames", || {
                format!("{} is not allowed as a name", json(&text))
            })?;
            if !fits && self.is_enough() {
                break;
            }
        }
        Ok(fits)
    }

    fn required<'n>(
        &mut self,
        names: impl Iterator<Item = &'n String>,
        members: &Map<String, Value>,
        path: &Path<'_>,
        rule: &str,
    ) -> Fits {
        let mut fits = true;
        for name in names {
            self.steps.take_name(name)?;
            fits &= self.demand(members.contains_key(name), path, rule, || {
                format!("{} is a required property", json(&name.as_str().into()))
            })?;
            if !fits && self.is_enough() {
                break;
            }
        }
        Ok(fits)
    }

    fn dependent<'v, 'n>(
        &mut self,
        all: impl Iterator<Item = (&'n String, &'n Id)>,
        members: &'v Map<String, Value>,
        value: &'v Value,
        path: &Path<'_>,
        mut seen: Option<&mut SeenMembers<'v>>,
    ) -> Fits {
        let mut fits = true;
        for (name, id) in all {
            self.steps.take_name(name)?;
            if members.contains_key(name) {
                fits &= self.check(*id, value, path, seen.as_deref_mut())?;
            }
        }
        Ok(fits)
    }

    fn unevaluated_members<'v>(
        &mut self,
        id: Id,
        members: &'v Map<String, Value>,
        path: &Path<'_>,
        seen: Option<&mut SeenMembers<'v>>,
    ) -> Fits {
        let Some(seen) = seen else { return Ok(true) };
        let nodes = self.nodes;
        let mut fits = true;
        for (name, value) in members {
            self.steps.take_name(name)?;
            if seen.has_member(name) {
                continue;
            }
            fits &= match nodes.get(id) {
                Some(Node::All(false)) => self.fail(path, "unevaluatedProperties", || {
                    unexpected("Unevaluated", name, &Members::default())
                })?,
                _ => self.check(id, value, &Path::Member(path, name), self.fresh().as_mut())?,
            };
            if !fits && self.is_enough() {
                break;
            }
        }
        seen.all_members = true;
        Ok(fits)
    }

    /// Empty notes for a value below, if a rule needs them.
    pub(super) fn fresh<'v>(&self) -> Option<SeenMembers<'v>> {
        self.nodes.unevaluated.then(SeenMembers::default)
    }
}

fn unexpected(kind: &str, name: &str, known: &Members) -> String {
    let like: BTreeSet<&str> = nearest(name, known.named.keys().map(String::as_str), OF_ARGUMENT)
        .into_iter()
        .collect();
    let like: Vec<&str> = like.into_iter().collect();
    let like = match like.as_slice() {
        [] => String::new(),
        like => format!("; did you mean {}?", like.join(" or ")),
    };
    let name: String = name.chars().take(100).collect();
    format!("{kind} properties are not allowed ('{name}' was unexpected){like}")
}
