//! The tools. Each is one file: a [`ToolEntry`] with its description and what it does; this list names them.

mod entry;
mod execute;
pub(crate) mod files;
mod get_output;
mod inspect_variables;
mod interrupt;
mod picture;
mod session;
pub(crate) mod skill;
mod upstream;
mod versions;
mod workflow;

pub(crate) use entry::ToolEntry;
use rmcp::model::Tool;

/// All tools, in the order in which clients see them.
const TOOLS: &[ToolEntry] = &[
    execute::TOOL,
    files::TOOL,
    get_output::TOOL,
    inspect_variables::TOOL,
    interrupt::TOOL,
    session::TOOL,
];

/// The tools of those who have skills.
const SKILLS: &[ToolEntry] = &[skill::TOOL];
/// The tools of those who have workflows.
const WORKFLOWS: &[ToolEntry] = &[workflow::TOOL];
/// Tools of a gateway with tool servers.
const UPSTREAM: &[ToolEntry] = upstream::TOOLS;

/// Characters of a list, and of a text that is shown.
const TEXT_CHARS: usize = 16_000;

/// Features of the gateway that decide which tools exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AvailableFeatures {
    /// The caller's tenant has skills.
    pub(crate) skills: bool,
    pub(crate) workflows: bool,
    /// The gateway has servers of tools.
    pub(crate) upstream: bool,
}

/// A tool by its name; `upstream`: the gateway has servers of tools.
pub(crate) fn find(name: &str, upstream: bool) -> Option<&'static ToolEntry> {
    let there = AvailableFeatures {
        skills: true,
        workflows: true,
        upstream,
    };
    entries(there).find(|tool| tool.name == name)
}

/// The descriptions of the tools that a caller sees.
pub(crate) fn all(there: AvailableFeatures) -> Vec<Tool> {
    entries(there).map(ToolEntry::description).collect()
}

fn entries(there: AvailableFeatures) -> impl Iterator<Item = &'static ToolEntry> {
    let some = |wanted: bool, tools: &'static [ToolEntry]| if wanted { tools } else { &[] };
    TOOLS
        .iter()
        .chain(some(there.skills, SKILLS))
        .chain(some(there.workflows, WORKFLOWS))
        .chain(some(there.upstream, UPSTREAM))
}

/// The first characters of a text.
fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_descriptions_together_are_small() {
        for (skills, workflows, upstream, most) in [
            (false, false, false, 5000),
            (true, false, false, 5600),
            (true, true, false, 6200),
            (false, false, true, 7000),
        ] {
            let there = AvailableFeatures {
                skills,
                workflows,
                upstream,
            };
            let listed = serde_json::to_string(&all(there)).unwrap();
            let chars = listed.chars().count();
            assert!(chars <= most, "{chars} characters: {listed}");
        }
    }

    #[test]
    fn tools_of_upstream_servers_are_there_if_there_are_servers() {
        for name in ["list_api_servers", "tools_search", "get_tool_info", "call_tool"] {
            assert!(
                find(name, false).is_none() && find(name, true).is_some(),
                "{name}"
            );
        }
    }

    #[test]
    fn each_tool_is_told_in_full() {
        let there = AvailableFeatures {
            skills: true,
            workflows: true,
            upstream: true,
        };
        for tool in all(there) {
            assert!(
                tool.title.is_some() && tool.description.is_some(),
                "{}",
                tool.name
            );
            let hints = tool.annotations.unwrap();
            assert!(hints.read_only_hint.is_some() && hints.open_world_hint.is_some());
            assert_eq!(tool.input_schema["type"], "object", "{}", tool.name);
            // Some hosts translate schemas into a dialect with one type for each value.
            let properties = tool.input_schema["properties"].as_object().unwrap();
            for (name, schema) in properties {
                let of = schema.get("type");
                assert!(
                    of.is_none_or(serde_json::Value::is_string),
                    "{}: {name}",
                    tool.name
                );
            }
        }
    }
}
