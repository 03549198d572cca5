//! Servers and tools as text for a model, within a budget of characters.

use std::fmt::Write as _;

use serde_json::Value;

use crate::catalog::{Catalog, CatalogMatch};
use crate::tool::{Effect, ToolDefinition};

/// Least characters of a line, for a model to know what it is about.
const MIN_LINE: usize = 24;

/// One line for each server: its name, how many tools it has, and what it is for.
pub fn list_servers(catalog: &Catalog, budget: usize) -> String {
    let servers: Vec<_> = catalog.servers().collect();
    let lines = servers.iter().map(|(server, count)| {
        let tools = if *count == 1 { "tool" } else { "tools" };
        (
            format!("{} ({count} {tools})", server.name()),
            first_sentence(server.description()),
        )
    });
    within(&lines.collect::<Vec<_>>(), budget)
}

/// One line for each tool: its name, its parameters (`?`: optional), what it does.
pub fn list_found(found: &[CatalogMatch<'_>], budget: usize) -> String {
    let lines = found.iter().map(|found| {
        let definition = found.tool.definition();
        let head = format!("{}({})", found.id(), parameters(definition).join(", "));
        let reads = if definition.effect.read_only {
            " [reads only]"
        } else {
            ""
        };
        (
            head,
            format!("{}{reads}", first_sentence(&definition.description)),
        )
    });
    within(&lines.collect::<Vec<_>>(), budget)
}

/// All that a call needs: what the tool does, the schema of its arguments, an example, what it returns and what it changes.
pub fn describe(found: &CatalogMatch<'_>, budget: usize) -> String {
    let definition = found.tool.definition();
    let full = description(found, &definition.input_schema, definition.output_schema.as_ref());
    if full.chars().count() <= budget {
        return full;
    }
    let input = without_descriptions(&definition.input_schema);
    let output = definition.output_schema.as_ref().map(without_descriptions);
    cut(&description(found, &input, output.as_ref()), budget)
}

fn description(found: &CatalogMatch<'_>, input: &Value, output: Option<&Value>) -> String {
    let definition = found.tool.definition();
    let mut text = format!("{}: {}\n", found.id(), changes(definition.effect));
    if !definition.description.is_empty() {
        let _ = writeln!(text, "{}", definition.description.trim());
    }
    let _ = writeln!(text, "Arguments: {input}");
    let _ = writeln!(text, "Example: {}", found.tool.example());
    match output {
        Some(output) => {
            let _ = write!(text, "Returns: {output}");
        }
        None => text.push_str("Returns: the server does not describe it"),
    }
    text
}

fn changes(effect: Effect) -> &'static str {
    match effect {
        Effect { read_only: true, .. } => "only reads",
        Effect {
            destructive: true, ..
        } => "may delete or overwrite",
        Effect { idempotent: true, .. } => "writes; a repeated call changes nothing more",
        Effect { .. } => "writes",
    }
}

/// The names of the parameters, first those that are required.
fn parameters(definition: &ToolDefinition) -> Vec<String> {
    let schema = &definition.input_schema;
    let required = schema.get("required").and_then(Value::as_array);
    let required: Vec<_> = required.into_iter().flatten().filter_map(Value::as_str).collect();
    let all = schema.get("properties").and_then(Value::as_object);
    let optional = all
        .into_iter()
        .flat_map(|all| all.keys())
        .filter(|name| !required.contains(&name.as_str()));
    let names = required.iter().map(|name| (*name).to_owned());
    names.chain(optional.map(|name| format!("{name}?"))).collect()
}

fn first_sentence(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    let end = line.find(". ").map_or(line.len(), |at| at + 1);
    line.get(..end).unwrap_or(line).to_owned()
}

/// A schema without the descriptions of its parts.
fn without_descriptions(schema: &Value) -> Value {
    match schema {
        Value::Object(members) => {
            let kept = members.iter().filter(|(name, value)| {
                let is_text = matches!(name.as_str(), "description" | "title" | "examples");
                // A parameter may have one of these names; then its value is a schema.
                !is_text || value.is_object()
            });
            kept.map(|(name, value)| (name.clone(), without_descriptions(value)))
                .collect()
        }
        Value::Array(all) => all.iter().map(without_descriptions).collect(),
        other => other.clone(),
    }
}

/// Lines with a head and a text, all of them if possible: texts are shortened first, and lines are left out last.
fn within(lines: &[(String, String)], budget: usize) -> String {
    let whole = |(head, text): &(String, String)| {
        if text.is_empty() {
            head.clone()
        } else {
            format!("{head}: {text}")
        }
    };
    let all: Vec<String> = lines.iter().map(whole).collect();
    let characters: usize = all.iter().map(|line| line.chars().count() + 1).sum();
    if characters <= budget {
        return all.join("\n");
    }
    let share = (budget / lines.len().max(1)).saturating_sub(1).max(MIN_LINE);
    let mut made = String::new();
    let mut used = 0;
    for (number, line) in all.iter().enumerate() {
        let line = cut_line(line, share);
        let more = format!("… {} more", all.len().saturating_sub(number));
        let length = line.chars().count() + 1;
        if used + length + more.chars().count() > budget {
            made.push_str(&more);
            return made;
        }
        used += length;
        made.push_str(&line);
        made.push('\n');
    }
    made.pop();
    made
}

fn cut_line(line: &str, length: usize) -> String {
    match line.char_indices().nth(length.saturating_sub(1)) {
        Some((end, last)) if end + last.len_utf8() < line.len() => format!("{}…", &line[..end]),
        _ => line.to_owned(),
    }
}

/// The beginning of a text, with the number of characters that are left out.
fn cut(text: &str, budget: usize) -> String {
    let all = text.chars().count();
    if all <= budget {
        return text.to_owned();
    }
    let marker = format!("… {all} characters in all");
    let kept = budget.saturating_sub(marker.chars().count());
    text.chars()
        .take(kept)
        .chain(marker.chars())
        .take(budget)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::ServerTools;

    fn catalog(servers: usize, tools: usize, description: &str) -> Catalog {
        let server = |number: usize| {
            let definitions = (0..tools).map(|tool| ToolDefinition {
                name: format!("list_things_{tool}"),
                description: format!("Lists things of kind {tool}. And more."),
                input_schema: json!({"type": "object", "required": ["limit"], "properties": {
                    "limit": {"type": "integer", "description": description}, "after": {"type": "string"}}}),
                ..ToolDefinition::default()
            });
            Arc::new(ServerTools::new(format!("server{number}"), description, definitions).0)
        };
        Catalog::new((0..servers).map(server).collect(), |_| true)
    }

    #[test]
    fn a_line_says_what_a_call_needs() {
        let catalog = catalog(1, 2, "What it is for. More.");
        assert_eq!(list_servers(&catalog, 1000), "server0 (2 tools): What it is for.");
        let found = catalog.search(None, "", 1).unwrap();
        assert_eq!(
            list_found(&found, 1000),
            "server0.list_things_0(limit, after?): Lists things of kind 0."
        );
        let text = describe(&found[0], 2000);
        assert!(text.starts_with("server0.list_things_0: may delete or overwrite\nLists things of kind 0. And more.\nArguments: {"), "{text}");
        assert!(text.contains("Example: {\"limit\":1}"), "{text}");
    }

    #[test]
    fn descriptions_of_parts_go_before_the_schema_is_cut() {
        let long = "long ".repeat(500);
        let catalog = catalog(1, 1, &long);
        let found = catalog.search(None, "", 1).unwrap();
        let text = describe(&found[0], 500);
        assert!(
            text.contains("\"after\":{\"type\":\"string\"}") && text.ends_with("does not describe it"),
            "{text}"
        );
    }

    proptest! {
        #[test]
        fn no_text_is_longer_than_its_budget(servers in 0_usize..30, budget in 40_usize..600, description in ".{0,200}") {
            let catalog = catalog(servers, 3, &description);
            let found = catalog.search(None, "things", 50).unwrap();
            let mut texts = vec![list_servers(&catalog, budget), list_found(&found, budget)];
            texts.extend(found.first().map(|first| describe(first, budget)));
            for text in texts {
                prop_assert!(text.chars().count() <= budget, "{} of {budget}: {text}", text.chars().count());
            }
        }
    }
}
