//! Each command takes the shares of its owner that the list of commands names.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;

use himalia_engine::{COMMANDS, Cost};

/// Commands that take no turn, disk, stream, start or queue of a kernel, by the reason why one call is cheap.
const BOUNDED: &[(&str, &[&str])] = &[
    (
        "the operator's alone",
        &["budgets", "collect", "drain", "metrics", "pools"],
    ),
    (
        "a state of a bounded number of kernels in memory",
        &[
            "ended_sessions",
            "find_session",
            "kernel",
            "kernels",
            "session_info",
            "session_infos",
            "session_kernel",
            "session_kernels",
            "session_memory",
            "status",
        ],
    ),
    (
        "what the configuration or the kernelspecs of the host have",
        &[
            "kernelspec",
            "kernelspec_file",
            "kernelspecs",
            "provisioners",
            "templates",
            "tool_info",
            "tool_servers",
        ],
    ),
    (
        "a row by its id",
        &[
            "change_session",
            "redeliver",
            "revoke_tool_approval",
            "revoke_token",
            "session",
            "session_owner",
            "trigger",
        ],
    ),
    (
        "as many rows as an owner may have, or a page",
        &[
            "approve_always",
            "create_token",
            "credentials",
            "deliveries",
            "open_prompts",
            "other_replicas",
            "sessions",
            "skills",
            "tokens",
            "tool_approvals",
            "trigger_runs",
            "triggers",
            "usage",
            "workflow_runs",
            "workflows",
        ],
    ),
    (
        "the caller manages credentials, of which an owner has a bounded number of bounded size",
        &[
            "begin_grant",
            "delete_credential",
            "end_grant",
            "finish_grant",
            "set_credential",
        ],
    ),
    (
        "it deletes rows of its owner",
        &["delete_skill", "delete_trigger", "delete_workflow"],
    ),
];

#[test]
fn each_command_without_a_share_has_a_reason() {
    let cheap = |cost: &Cost| matches!(cost, Cost::Rows | Cost::Memory);
    let without: BTreeSet<&str> = COMMANDS
        .iter()
        .filter(|command| command.costs.iter().all(cheap))
        .map(|command| command.name)
        .collect();
    let listed: Vec<&str> = BOUNDED.iter().flat_map(|(_, names)| *names).copied().collect();
    assert_eq!(without, listed.iter().copied().collect());
    assert_eq!(listed.len(), without.len(), "each has one reason");
}
