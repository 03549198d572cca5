//! The tools. Each is one file: a [`ToolEntry`] with its description and what it does; this list names them.

mod entry;
mod execute;
pub(crate) mod files;
mod get_output;
mod inspect_variables;
mod interrupt;
mod session;
mod skill;

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

/// A tool by its name.
pub(crate) fn find(name: &str) -> Option<&'static ToolEntry> {
    TOOLS.iter().chain(SKILLS).find(|tool| tool.name == name)
}

/// The descriptions of the tools that a caller sees.
pub(crate) fn all(has_skills: bool) -> Vec<Tool> {
    let skills = if has_skills { SKILLS } else { &[] };
    TOOLS.iter().chain(skills).map(ToolEntry::description).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four characters a token are what English and JSON come to, roughly; tokenisers differ.
    #[test]
    fn all_descriptions_together_are_small() {
        for (has_skills, most) in [(false, 1500), (true, 1650)] {
            let listed = serde_json::to_string(&all(has_skills)).unwrap();
            let tokens = listed.chars().count() / 4;
            assert!(tokens < most, "{tokens} tokens: {listed}");
        }
    }

    #[test]
    fn names_of_later_tools_are_free() {
        for reserved in ["list_api_servers", "tools_search", "get_tool_info"] {
            assert!(find(reserved).is_none(), "{reserved}");
        }
    }

    #[test]
    fn each_tool_is_told_in_full() {
        for tool in all(true) {
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
