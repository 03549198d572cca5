//! Decides if a call may be made, for all callers.

use himalia_model::{ToolCaller, ToolPolicy};
use himalia_tools::CatalogMatch;

/// Decision about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// It is made.
    Allow,
    /// It is made once a person has approved it.
    Ask,
    /// It is not made.
    Deny {
        /// Reason, in a line.
        reason: String,
        hint: String,
    },
}

/// Decides about a call of a tool that the session may use.
pub(super) fn decide(
    policy: &ToolPolicy,
    found: &CatalogMatch<'_>,
    callers: &[ToolCaller],
    caller: ToolCaller,
) -> Decision {
    let id = found.id();
    if !callers.contains(&caller) {
        let hint = match caller {
            ToolCaller::Model => "Call it from code in the session: await himalia.call(…).",
            ToolCaller::Code => "It is for clients of the gateway, not for code in a session.",
        };
        return Decision::Deny {
            reason: format!("{id} may not be called by {caller} (allowed_callers)"),
            hint: hint.to_owned(),
        };
    }
    if !found.tool.definition().effect.read_only && !policy.permits_write(id.server, id.tool) {
        if policy.approval {
            return Decision::Ask;
        }
        return Decision::Deny {
            reason: format!(
                "{id} changes something, and this session may call only tools that read (tools_write)"
            ),
            hint: "Do not try it again: ask the operator for it, or leave it out.".to_owned(),
        };
    }
    Decision::Allow
}
