//! The keywords of one part of a document.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::{Map, Number, Value};

use super::{Compiler, wrong};
use crate::schema::equal::canonical;
use crate::schema::node::{Choice, Items, Members, Rule, Types};
use crate::schema::steps::Steps;
use crate::schema::text;

type Words = Map<String, Value>;
type Rules = Vec<Rule>;

impl<'a> Compiler<'a> {
    /// All rules but references. Those that ask what others have seen are last.
    pub(super) fn rules(
        &mut self,
        resource: &'a Value,
        words: &'a Words,
        rules: &mut Rules,
    ) -> Result<(), String> {
        of_any(words, rules)?;
        of_numbers(words, rules)?;
        self.of_texts(words, rules)?;
        self.of_objects(resource, words, rules)?;
        self.of_lists(resource, words, rules)?;
        self.combinations(resource, words, rules)?;
        let properties = self.schema(words, "unevaluatedProperties", resource);
        let items = self.schema(words, "unevaluatedItems", resource);
        self.nodes.unevaluated |= properties.or(items).is_some();
        rules.extend(properties.map(Rule::UnevaluatedProperties));
        rules.extend(items.map(Rule::UnevaluatedItems));
        Ok(())
    }

    fn of_texts(&mut self, words: &'a Words, rules: &mut Rules) -> Result<(), String> {
        rules.extend(count(words, "minLength")?.map(Rule::MinLength));
        rules.extend(count(words, "maxLength")?.map(Rule::MaxLength));
        if let Some(value) = words.get("pattern") {
            let pattern = value.as_str().ok_or_else(|| wrong("pattern", value, "a text"))?;
            rules.push(Rule::Pattern(self.nodes.patterns.add(pattern)));
        }
        Ok(())
    }

    fn of_objects(&mut self, resource: &'a Value, words: &'a Words, rules: &mut Rules) -> Result<(), String> {
        if let Some(value) = words.get("required")
            // In draft 3 it was of the member.
            && !value.is_boolean()
        {
            rules.push(Rule::Required(names("required", value)?));
        }
        rules.extend(count(words, "minProperties")?.map(Rule::MinProperties));
        rules.extend(count(words, "maxProperties")?.map(Rule::MaxProperties));
        let like = self.schemas_by_name(words, "patternProperties", resource)?;
        let like = like
            .into_iter()
            .map(|(pattern, id)| (self.nodes.patterns.add(&pattern), id));
        let members = Members {
            like: like.collect(),
            named: self.schemas_by_name(words, "properties", resource)?,
            more: self.schema(words, "additionalProperties", resource),
            names_some: words.contains_key("properties"),
        };
        if members.names_some || !members.like.is_empty() || members.more.is_some() {
            rules.push(Rule::Members(members));
        }
        rules.extend(
            self.schema(words, "propertyNames", resource)
                .map(Rule::MemberNames),
        );
        self.dependent(resource, words, rules)
    }

    fn dependent(&mut self, resource: &'a Value, words: &'a Words, rules: &mut Rules) -> Result<(), String> {
        let mut required: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut schemas = self.schemas_by_name(words, "dependentSchemas", resource)?;
        for keyword in ["dependentRequired", "dependencies"] {
            let Some(value) = words.get(keyword) else { continue };
            let all = value
                .as_object()
                .ok_or_else(|| wrong(keyword, value, "an object"))?;
            for (name, one) in all {
                if one.is_array() {
                    required
                        .entry(name.clone())
                        .or_default()
                        .extend(names(keyword, one)?);
                } else if keyword == "dependencies" {
                    schemas.insert(name.clone(), self.part(one, resource));
                } else {
                    return Err(wrong(keyword, one, "a list of names"));
                }
            }
        }
        if !required.is_empty() {
            rules.push(Rule::DependentRequired(required));
        }
        if !schemas.is_empty() {
            rules.push(Rule::DependentSchemas(schemas));
        }
        Ok(())
    }

    fn of_lists(&mut self, resource: &'a Value, words: &'a Words, rules: &mut Rules) -> Result<(), String> {
        rules.extend(count(words, "minItems")?.map(Rule::MinItems));
        rules.extend(count(words, "maxItems")?.map(Rule::MaxItems));
        if flag(words, "uniqueItems")? {
            rules.push(Rule::UniqueItems);
        }
        let first = self.schemas(words, "prefixItems", resource)?;
        let items = match (first, words.get("items")) {
            // Before 2020-12 a list of schemas was what is `prefixItems` now.
            (None, Some(Value::Array(_))) => Items {
                first: self.schemas(words, "items", resource)?.unwrap_or_default(),
                rest: self.schema(words, "additionalItems", resource),
                rest_rule: "additionalItems",
            },
            (first, _) => Items {
                first: first.unwrap_or_default(),
                rest: self.schema(words, "items", resource),
                rest_rule: "items",
            },
        };
        if !items.first.is_empty() || items.rest.is_some() {
            rules.push(Rule::Items(items));
        }
        if let Some(item) = self.schema(words, "contains", resource) {
            rules.push(Rule::Contains {
                item,
                least: count(words, "minContains")?.unwrap_or(1),
                most: count(words, "maxContains")?,
            });
        }
        Ok(())
    }

    fn combinations(
        &mut self,
        resource: &'a Value,
        words: &'a Words,
        rules: &mut Rules,
    ) -> Result<(), String> {
        rules.extend(self.schemas(words, "allOf", resource)?.map(Rule::AllOf));
        rules.extend(self.schemas(words, "anyOf", resource)?.map(Rule::AnyOf));
        rules.extend(self.schemas(words, "oneOf", resource)?.map(Rule::OneOf));
        rules.extend(self.schema(words, "not", resource).map(Rule::Not));
        let then = self.schema(words, "then", resource);
        let otherwise = self.schema(words, "else", resource);
        let test = self.schema(words, "if", resource);
        rules.extend(test.map(|test| Rule::If {
            test,
            then,
            otherwise,
        }));
        Ok(())
    }
}

fn of_any(words: &Words, rules: &mut Rules) -> Result<(), String> {
    if let Some(value) = words.get("type") {
        let names: Option<Vec<&str>> = match value {
            Value::String(one) => Some(vec![one]),
            Value::Array(several) => several.iter().map(Value::as_str).collect(),
            _ => None,
        };
        let mut types = Types::default();
        for name in names.as_deref().unwrap_or(&[""]) {
            let bit = Types::of_name(name).ok_or_else(|| {
                wrong(
                    "type",
                    value,
                    &format!("one or several of {}", Types::NAMES.join(", ")),
                )
            })?;
            types.0 |= bit.0;
        }
        rules.push(Rule::Type(types));
    }
    if let Some(value) = words.get("enum") {
        let all = value.as_array().ok_or_else(|| wrong("enum", value, "a list"))?;
        rules.push(Rule::Enum(choice(all)));
    }
    if let Some(value) = words.get("const") {
        rules.push(Rule::Const(choice(std::slice::from_ref(value))));
    }
    Ok(())
}

fn of_numbers(words: &Words, rules: &mut Rules) -> Result<(), String> {
    let excluding = |keyword: &str| match words.get(keyword) {
        // Draft 4 has a flag beside the bound.
        Some(Value::Bool(flag)) => Ok((*flag, None)),
        _ => Ok::<_, String>((false, number(words, keyword)?)),
    };
    let (excluded, above) = excluding("exclusiveMinimum")?;
    let minimum = number(words, "minimum")?;
    rules.extend(minimum.map(|bound| Rule::Minimum { bound, excluded }));
    rules.extend(above.map(|bound| Rule::Minimum {
        bound,
        excluded: true,
    }));
    let (excluded, below) = excluding("exclusiveMaximum")?;
    let maximum = number(words, "maximum")?;
    rules.extend(maximum.map(|bound| Rule::Maximum { bound, excluded }));
    rules.extend(below.map(|bound| Rule::Maximum {
        bound,
        excluded: true,
    }));
    if let Some(of) = number(words, "multipleOf")? {
        if of.as_f64().is_none_or(|of| of <= 0.0) {
            return Err(wrong("multipleOf", &Value::Number(of), "a number above 0"));
        }
        rules.push(Rule::MultipleOf(of));
    }
    Ok(())
}

fn choice(all: &[Value]) -> Choice {
    let mut free = Steps::new(u64::MAX);
    let texts: HashSet<Vec<u8>> = all
        .iter()
        .filter_map(|one| canonical(one, &mut free).ok())
        .collect();
    Choice {
        texts,
        shown: text::either(all.iter()),
    }
}

fn names(keyword: &str, value: &Value) -> Result<Vec<String>, String> {
    let names = value
        .as_array()
        .and_then(|all| all.iter().map(|one| one.as_str().map(str::to_owned)).collect());
    names.ok_or_else(|| wrong(keyword, value, "a list of names"))
}

fn flag(words: &Words, keyword: &str) -> Result<bool, String> {
    match words.get(keyword) {
        None => Ok(false),
        Some(value) => value
            .as_bool()
            .ok_or_else(|| wrong(keyword, value, "true or false")),
    }
}

fn number(words: &Words, keyword: &str) -> Result<Option<Number>, String> {
    match words.get(keyword) {
        None => Ok(None),
        Some(Value::Number(number)) => Ok(Some(number.clone())),
        Some(value) => Err(wrong(keyword, value, "a number")),
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is a whole number that is not negative"
)]
fn count(words: &Words, keyword: &str) -> Result<Option<u64>, String> {
    let Some(value) = words.get(keyword) else {
        return Ok(None);
    };
    // `3.0` is one, too.
    let whole = value.as_u64().or_else(|| {
        value
            .as_f64()
            .filter(|one| *one >= 0.0 && one.fract() == 0.0)
            .map(|one| one as u64)
    });
    whole
        .map(Some)
        .ok_or_else(|| wrong(keyword, value, "a whole number that is not negative"))
}
