//! The tools. Each is one file: a [`ToolEntry`] with its description and what it does; this list names them.

mod entry;
mod execute;
pub(crate) mod files;
mod get_output;
mod inspect_variables;
mod interrupt;
mod session;
mod skill;
mod upstream;

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
/// Those of a gateway with servers of tools.
const UPSTREAM: &[ToolEntry] = upstream::TOOLS;

/// A tool by its name; `upstream`: the gateway has servers of tools.
pub(crate) fn find(name: &str, upstream: bool) -> Option<&'static ToolEntry> {
    entries(true, upstream).find(|tool| tool.name == name)
}

/// The descriptions of the tools that a caller sees.
pub(crate) fn all(has_skills: bool, upstream: bool) -> Vec<Tool> {
    entries(has_skills, upstream)
        .map(ToolEntry::description)
        .collect()
}

fn entries(has_skills: bool, upstream: bool) -> impl Iterator<Item = &'static ToolEntry> {
    let skills = if has_skills { SKILLS } else { &[] };
    let upstream = if upstream { UPSTREAM } else { &[] };
    TOOLS.iter().chain(skills).chain(upstream)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four characters a token are what English and JSON come to, roughly; tokenisers differ.
    #[test]
    fn all_descriptions_together_are_small() {
        for (has_skills, upstream, most) in [(false, false, 1500), (true, false, 1650), (false, true, 2000)] {
            let listed = serde_json::to_string(&all(has_skills, upstream)).unwrap();
            let tokens = listed.chars().count() / 4;
            assert!(tokens < most, "{tokens} tokens: {listed}");
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
        for tool in all(true, true) {
            assert!(
                tool.title.is_some() && tool.description.is_some(),
                "{}",
                tool.name
            );
            let hints = tool.annotations.unwrap();
            assert!(hints.read_only_hint.is_some() && hints.open_world_hint.is_some());
            assert_eq!(tool.input_schema["type"], "object", "{}", tool.name);
            assert_eq!(tool.input_schema["additionalProperties"], false, "{}", tool.name);
        }
    }
}
