//! Tools that a session may use, and those that need a person's approval.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Patterns of a list.
pub const MAX_TOOL_PATTERNS: usize = 256;
/// Characters of a pattern.
const MAX_PATTERN: usize = 200;
/// Calls of one execution, unless the template says otherwise, and the most that it may say.
const CALLS_PER_EXECUTION: u32 = 1000;
pub(crate) const MAX_CALLS_PER_EXECUTION: u32 = 1_000_000;
/// The same of a session.
const CALLS: u64 = 100_000;
pub(crate) const MAX_CALLS: u64 = 1_000_000_000;

/// A server, or some of its tools: `orders`, `orders.list_*`, `*`. `*` stands for any characters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ToolPattern {
    server: String,
    tool: String,
}

impl ToolPattern {
    /// Returns true if the pattern matches the tool.
    pub fn matches(&self, server: &str, tool: &str) -> bool {
        glob(&self.server, server) && glob(&self.tool, tool)
    }

    /// Returns true if this pattern matches every tool that the other one matches.
    pub fn covers(&self, other: &Self) -> bool {
        // A star of the other one is matched by a star alone.
        glob(&self.server, &other.server) && glob(&self.tool, &other.tool)
    }

    /// Intersection of two patterns, if one contains the other in server and in tool. `None` for all other pairs.
    fn common(&self, other: &Self) -> Option<Self> {
        let narrower = |one: &String, other: &String| match () {
            () if glob(one, other) => Some(other.clone()),
            () if glob(other, one) => Some(one.clone()),
            () => None,
        };
        Some(Self {
            server: narrower(&self.server, &other.server)?,
            tool: narrower(&self.tool, &other.tool)?,
        })
    }

    /// Returns true if the pattern can match a tool of this server.
    pub fn is_of(&self, server: &str) -> bool {
        glob(&self.server, server)
    }

    /// The server, if it is a certain one.
    pub fn server(&self) -> Option<&str> {
        (self.server != "*").then_some(&self.server)
    }
}

impl FromStr for ToolPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shown: String = text
            .chars()
            .take(MAX_PATTERN)
            .flat_map(char::escape_debug)
            .collect();
        let wrong = |reason: &str| Err(format!("{shown:?} {reason}"));
        if text.chars().count() > MAX_PATTERN {
            return wrong("is too long");
        }
        let (server, tool) = text.split_once('.').unwrap_or((text, "*"));
        let plain = |byte: u8| byte == b'_' || byte.is_ascii_lowercase() || byte.is_ascii_digit();
        if server != "*" && (server.is_empty() || !server.bytes().all(plain)) {
            return wrong("is neither SERVER nor SERVER.TOOL, where TOOL may have *");
        }
        if tool.is_empty() || tool.chars().any(|one| one.is_control() || one.is_whitespace()) {
            return wrong("names no tool after its dot");
        }
        Ok(Self {
            server: server.to_owned(),
            tool: tool.to_owned(),
        })
    }
}

impl TryFrom<String> for ToolPattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<ToolPattern> for String {
    fn from(pattern: ToolPattern) -> Self {
        pattern.to_string()
    }
}

impl fmt::Display for ToolPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tool.as_str() {
            "*" => f.write_str(&self.server),
            tool => write!(f, "{}.{tool}", self.server),
        }
    }
}

/// Returns true if the pattern matches the whole text.
pub(crate) fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at, mut read) = (0, 0);
    // Where the latest star is, and what it stands for so far.
    let mut star: Option<(usize, usize)> = None;
    while read < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, read));
                at += 1;
            }
            Some(byte) if *byte == text[read] => (at, read) = (at + 1, read + 1),
            _ => match &mut star {
                Some((place, taken)) => {
                    *taken += 1;
                    (at, read) = (*place + 1, *taken);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// Intersection of two lists. If two patterns overlap but neither contains the other, as `a*` and `*b`, the result has nothing for them.
pub fn common_tools(one: &[ToolPattern], other: &[ToolPattern]) -> Vec<ToolPattern> {
    let mut both = Vec::new();
    for pattern in one {
        for common in other.iter().filter_map(|other| pattern.common(other)) {
            if both.len() < MAX_TOOL_PATTERNS && !both.contains(&common) {
                both.push(common);
            }
        }
    }
    both
}

/// Bounds of a session's tool calls. Calls that the policy refuses are counted too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolCallLimits {
    /// While one request runs in its kernel.
    pub per_execution: u32,
    /// As long as it lives.
    pub per_session: u64,
}

impl Default for ToolCallLimits {
    fn default() -> Self {
        Self {
            per_execution: CALLS_PER_EXECUTION,
            per_session: CALLS,
        }
    }
}

impl ToolCallLimits {
    /// From what is written in the configuration; `None`: the default.
    ///
    /// # Errors
    /// What is wrong, beginning with the name of the member.
    pub fn new(per_execution: Option<u32>, per_session: Option<u64>) -> Result<Self, String> {
        let usual = Self::default();
        let made = Self {
            per_execution: per_execution.unwrap_or(usual.per_execution),
            per_session: per_session.unwrap_or(usual.per_session),
        };
        if !(1..=MAX_CALLS_PER_EXECUTION).contains(&made.per_execution) {
            return Err(format!(
                "tool_calls_per_execution: is not 1 to {MAX_CALLS_PER_EXECUTION}"
            ));
        }
        if !(1..=MAX_CALLS).contains(&made.per_session) {
            return Err(format!("tool_calls: is not 1 to {MAX_CALLS}"));
        }
        Ok(made)
    }
}

/// Tools that a session may use, and limits of their use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolPolicy {
    /// The tools that it may use.
    pub tools: Vec<ToolPattern>,
    /// Tools that may be called although they change something.
    pub write: Vec<ToolPattern>,
    /// True if a person is asked to approve other calls that change something. Otherwise they are refused.
    pub approval: bool,
    /// Bounds of the calls.
    pub limits: ToolCallLimits,
}

impl Default for ToolPolicy {
    fn default() -> Self {
        Self {
            tools: Vec::new(),
            write: Vec::new(),
            approval: true,
            limits: ToolCallLimits::default(),
        }
    }
}

impl ToolPolicy {
    /// Returns true if no tool is allowed.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Returns true if the tool may be used.
    pub fn permits(&self, server: &str, tool: &str) -> bool {
        self.tools.iter().any(|pattern| pattern.matches(server, tool))
    }

    /// Returns true if the tool may be called although it changes something.
    pub fn permits_write(&self, server: &str, tool: &str) -> bool {
        self.write.iter().any(|pattern| pattern.matches(server, tool))
    }

    /// The same for a session that may do nothing that another one may not. The numbers of calls stay.
    #[must_use]
    pub fn within(&self, other: &Self) -> Self {
        Self {
            tools: common_tools(&self.tools, &other.tools),
            write: common_tools(&self.write, &other.write),
            approval: self.approval && other.approval,
            limits: self.limits,
        }
    }

    /// One of these patterns that is not a part of this policy.
    pub fn exceeded_by<'a>(&self, patterns: &'a [ToolPattern]) -> Option<&'a ToolPattern> {
        let covered = |one: &ToolPattern| self.tools.iter().any(|has| has.covers(one));
        patterns.iter().find(|one| !covered(one))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> ToolPattern {
        text.parse().unwrap()
    }

    #[test]
    fn a_pattern_is_a_server_or_some_of_its_tools() {
        for (text, server, tool, matches) in [
            ("orders", "orders", "list", true),
            ("orders", "orders2", "list", false),
            ("orders.list_*", "orders", "list_all", true),
            ("orders.list_*", "orders", "get", false),
            ("orders.*.read", "orders", "files.read", true),
            ("orders.a*b*c", "orders", "aXbYbZc", true),
            ("orders.a*b*c", "orders", "aXbYbZ", false),
            ("*", "any", "thing", true),
            ("*.get_*", "any", "get_it", true),
        ] {
            assert_eq!(
                pattern(text).matches(server, tool),
                matches,
                "{text} {server}.{tool}"
            );
        }
        for bad in ["", ".", "a.", "A", "a b", "a.b c", "or*", &"a".repeat(201)] {
            assert!(bad.parse::<ToolPattern>().is_err(), "{bad}");
        }
        for text in ["orders", "orders.list_*", "*", "*.get_*"] {
            assert_eq!(pattern(text).to_string(), text);
        }
    }

    #[test]
    fn a_list_is_narrowed_and_never_widened() {
        let policy = ToolPolicy {
            tools: vec![pattern("orders.list_*"), pattern("stripe")],
            ..ToolPolicy::default()
        };
        for inside in [
            "orders.list_*",
            "orders.list_a",
            "orders.list_*_b",
            "stripe",
            "stripe.x*",
        ] {
            assert_eq!(policy.exceeded_by(&[pattern(inside)]), None, "{inside}");
        }
        for outside in ["orders", "orders.li*", "orders.get", "*", "*.list_*", "other"] {
            let wider = [pattern(outside)];
            assert_eq!(policy.exceeded_by(&wider), wider.first(), "{outside}");
        }
    }

    #[test]
    fn two_policies_have_no_more_in_common_than_each_has() {
        let list = |texts: &[&str]| texts.iter().map(|text| pattern(text)).collect::<Vec<_>>();
        let common = |one: &[&str], other: &[&str]| {
            let both = common_tools(&list(one), &list(other));
            both.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(common(&["orders"], &["orders.list_*"]), ["orders.list_*"]);
        assert_eq!(common(&["*.get_*"], &["orders"]), ["orders.get_*"]);
        assert_eq!(common(&["orders", "stripe"], &["*"]), ["orders", "stripe"]);
        assert_eq!(common(&["orders.a*"], &["orders.*b"]), [""; 0]);
        assert_eq!(common(&["orders"], &["stripe"]), [""; 0]);
        assert_eq!(common(&["orders"], &[]), [""; 0]);
        let policy = |tools: &[&str], write: &[&str], approval| ToolPolicy {
            tools: list(tools),
            write: list(write),
            approval,
            ..ToolPolicy::default()
        };
        let (wide, narrow) = (policy(&["*"], &["*"], true), policy(&["orders"], &[], false));
        assert_eq!(wide.within(&narrow), narrow);
        assert_eq!(narrow.within(&wide), narrow);
    }

    #[test]
    fn limits_name_their_member() {
        assert_eq!(ToolCallLimits::new(None, None), Ok(ToolCallLimits::default()));
        assert!(
            ToolCallLimits::new(Some(0), None)
                .unwrap_err()
                .starts_with("tool_calls_per_execution: ")
        );
        assert!(
            ToolCallLimits::new(None, Some(0))
                .unwrap_err()
                .starts_with("tool_calls: ")
        );
    }
}
