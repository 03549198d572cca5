//! Rules against a value.

mod combinations;
mod lists;
mod members;
mod seen;

use serde_json::Value;

use super::Violation;
use super::equal::canonical;
use super::node::{Choice, Id, Node, Nodes, Rule, Types};
use super::number::{is_multiple, is_whole, order};
use super::pattern::PatternStates;
use super::steps::{Steps, StepsSpent};
use super::text::{clip, json};
use seen::SeenMembers;

pub(super) const MAX_VIOLATIONS: usize = 8;
/// Nodes within each other that one check goes down.
const MAX_DEPTH: usize = 400;

/// Violations of a value, at most [`MAX_VIOLATIONS`].
pub(super) fn violations(nodes: &Nodes, at: Id, value: &Value, steps: &mut Steps) -> Vec<Violation> {
    let mut run = Run {
        nodes,
        steps,
        matching: PatternStates::default(),
        depth: 0,
        loud: true,
        found: Vec::new(),
    };
    let mut seen = nodes.unevaluated.then(SeenMembers::default);
    match run.check(at, value, &Path::Root, seen.as_mut()) {
        Ok(_) => run.found,
        Err(StepsSpent) => vec![Violation {
            path: String::new(),
            rule: "steps".to_owned(),
            text: "there is too much to check: the schema and the value together take more steps than a check may".to_owned(),
        }],
    }
}

/// Place in a value.
#[derive(Clone, Copy)]
enum Path<'p> {
    Root,
    Member(&'p Path<'p>, &'p str),
    Item(&'p Path<'p>, usize),
}

impl Path<'_> {
    fn pointer(&self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Member(of, name) => format!(
                "{}/{}",
                of.pointer(),
                clip(&name.replace('~', "~0").replace('/', "~1"))
            ),
            Self::Item(of, at) => format!("{}/{at}", of.pointer()),
        }
    }
}

/// True if a value fits. An error if the steps are used up.
type Fits = Result<bool, StepsSpent>;

/// One check.
struct Run<'r> {
    nodes: &'r Nodes,
    steps: &'r mut Steps,
    matching: PatternStates,
    depth: usize,
    /// Collects violations. If false, the first violation ends the check.
    loud: bool,
    found: Vec<Violation>,
}

impl<'r> Run<'r> {
    /// A node against a value.
    fn check<'v>(
        &mut self,
        id: Id,
        value: &'v Value,
        path: &Path<'_>,
        seen: Option<&mut SeenMembers<'v>>,
    ) -> Fits {
        self.steps.take(1)?;
        let nodes = self.nodes;
        let rules = match nodes.get(id) {
            Some(Node::All(true)) | None => return Ok(true),
            Some(Node::All(false)) => {
                return self.fail(path, "false", || format!("{} is not allowed here", json(value)));
            }
            Some(Node::Words(rules)) => rules,
        };
        if self.depth >= MAX_DEPTH {
            return Err(StepsSpent);
        }
        self.depth += 1;
        let asks = matches!(
            rules.last(),
            Some(Rule::UnevaluatedProperties(_) | Rule::UnevaluatedItems(_))
        );
        let fits = match (asks, seen) {
            // It asks what the rules of this node have seen, not those beside or above it.
            (true, seen) => {
                let mut own = SeenMembers::default();
                let fits = self.all_rules(rules, value, path, Some(&mut own));
                match (seen, fits) {
                    (Some(seen), Ok(fits)) => seen.add(own, self.steps).map(|()| fits),
                    (_, fits) => fits,
                }
            }
            (false, seen) => self.all_rules(rules, value, path, seen),
        };
        self.depth -= 1;
        fits
    }

    fn all_rules<'v>(
        &mut self,
        rules: &'r [Rule],
        value: &'v Value,
        path: &Path<'_>,
        mut seen: Option<&mut SeenMembers<'v>>,
    ) -> Fits {
        let mut fits = true;
        for rule in rules {
            self.steps.take(1)?;
            fits &= self.rule(rule, value, path, seen.as_deref_mut())?;
            if !fits && self.is_enough() {
                break;
            }
        }
        Ok(fits)
    }

    fn rule<'v>(
        &mut self,
        rule: &'r Rule,
        value: &'v Value,
        path: &Path<'_>,
        seen: Option<&mut SeenMembers<'v>>,
    ) -> Fits {
        match rule {
            Rule::Reference(one) => self.check(*one, value, path, seen),
            Rule::Type(types) => self.of_type(*types, value, path),
            Rule::Enum(choice) => self.one_of(choice, value, path, "enum"),
            Rule::Const(choice) => self.one_of(choice, value, path, "const"),
            Rule::MultipleOf(_) | Rule::Minimum { .. } | Rule::Maximum { .. } => {
                self.of_number(rule, value, path)
            }
            Rule::MinLength(_) | Rule::MaxLength(_) | Rule::Pattern(_) => match value {
                Value::String(text) => self.of_text(rule, text, value, path),
                _ => Ok(true),
            },
            Rule::AllOf(_) | Rule::AnyOf(_) | Rule::OneOf(_) | Rule::Not(_) | Rule::If { .. } => {
                self.combination(rule, value, path, seen)
            }
            _ => match value {
                Value::Object(members) => self.of_object(rule, members, value, path, seen),
                Value::Array(items) => self.of_list(rule, items, value, path, seen),
                _ => Ok(true),
            },
        }
    }

    fn of_type(&mut self, types: Types, value: &Value, path: &Path<'_>) -> Fits {
        let fits = match value {
            Value::Null => types.has("null"),
            Value::Bool(_) => types.has("boolean"),
            Value::Number(number) => types.has("number") || (types.has("integer") && is_whole(number)),
            Value::String(_) => types.has("string"),
            Value::Array(_) => types.has("array"),
            Value::Object(_) => types.has("object"),
        };
        self.demand(fits, path, "type", || {
            let names: Vec<String> = Types::NAMES
                .iter()
                .filter(|name| types.has(name))
                .map(|name| format!("{name:?}"))
                .collect();
            let kind = if names.len() == 1 { "type" } else { "types" };
            format!("{} is not of {kind} {}", json(value), names.join(", "))
        })
    }

    fn one_of(&mut self, choice: &Choice, value: &Value, path: &Path<'_>, rule: &str) -> Fits {
        let fits = choice.texts.contains(&canonical(value, self.steps)?);
        self.demand(fits, path, rule, || match rule {
            "const" => format!("{} was expected", choice.shown),
            _ => format!("{} is not one of {}", json(value), choice.shown),
        })
    }

    fn of_number(&mut self, rule: &Rule, value: &Value, path: &Path<'_>) -> Fits {
        let Value::Number(number) = value else {
            return Ok(true);
        };
        match rule {
            Rule::MultipleOf(of) => self.demand(is_multiple(number, of), path, "multipleOf", || {
                format!("{number} is not a multiple of {of}")
            }),
            Rule::Minimum {
                bound,
                excluded: false,
            } => self.demand(order(number, bound).is_ge(), path, "minimum", || {
                format!("{number} is less than the minimum of {bound}")
            }),
            Rule::Minimum { bound, .. } => {
                self.demand(order(number, bound).is_gt(), path, "exclusiveMinimum", || {
                    format!("{number} is less than or equal to the minimum of {bound}")
                })
            }
            Rule::Maximum {
                bound,
                excluded: false,
            } => self.demand(order(number, bound).is_le(), path, "maximum", || {
                format!("{number} is greater than the maximum of {bound}")
            }),
            Rule::Maximum { bound, .. } => {
                self.demand(order(number, bound).is_lt(), path, "exclusiveMaximum", || {
                    format!("{number} is greater than or equal to the maximum of {bound}")
                })
            }
            _ => Ok(true),
        }
    }

    fn of_text(&mut self, rule: &Rule, text: &str, value: &Value, path: &Path<'_>) -> Fits {
        // Bytes that are a step, where characters are counted.
        const COUNTED: usize = 64;
        match rule {
            Rule::Pattern(number) => {
                let patterns = &self.nodes.patterns;
                let fits = self.matching.is_match(patterns, *number, text, self.steps)?;
                self.demand(fits, path, "pattern", || {
                    format!("{} does not match {:?}", json(value), patterns.text(*number))
                })
            }
            Rule::MinLength(least) => {
                self.steps.take(text.len() / COUNTED)?;
                self.demand(length(text.chars().count()) >= *least, path, "minLength", || {
                    format!("{} is shorter than {least} characters", json(value))
                })
            }
            Rule::MaxLength(most) => {
                self.steps.take(text.len() / COUNTED)?;
                self.demand(length(text.chars().count()) <= *most, path, "maxLength", || {
                    format!("{} is longer than {most} characters", json(value))
                })
            }
            _ => Ok(true),
        }
    }

    /// True if the result is known.
    fn is_enough(&self) -> bool {
        !self.loud || self.found.len() >= MAX_VIOLATIONS
    }

    fn demand(&mut self, fits: bool, path: &Path<'_>, rule: &str, text: impl FnOnce() -> String) -> Fits {
        if fits {
            Ok(true)
        } else {
            self.fail(path, rule, text)
        }
    }

    #[allow(
        clippy::unnecessary_wraps,
        reason = "the result of a check that fails, as the others return it"
    )]
    fn fail(&mut self, path: &Path<'_>, rule: &str, text: impl FnOnce() -> String) -> Fits {
        if self.loud && self.found.len() < MAX_VIOLATIONS {
            self.found.push(Violation {
                path: path.pointer(),
                rule: rule.to_owned(),
                text: clip(&text()),
            });
        }
        Ok(false)
    }

    /// The same without collecting violations.
    fn quietly<'v>(
        &mut self,
        id: Id,
        value: &'v Value,
        path: &Path<'_>,
        seen: Option<&mut SeenMembers<'v>>,
    ) -> Fits {
        let loud = std::mem::replace(&mut self.loud, false);
        let fits = self.check(id, value, path, seen);
        self.loud = loud;
        fits
    }
}

fn length(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
