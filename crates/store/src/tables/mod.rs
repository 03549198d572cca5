//! The tables that both databases have in the same way: records, statements and the part of [`Store`](crate::Store), one file for each
//! kind of thing.

pub(crate) mod callbacks;
pub(crate) mod credentials;
pub(crate) mod deliveries;
pub(crate) mod ended_sessions;
pub(crate) mod jupyter_sessions;
pub(crate) mod kernels;
pub(crate) mod owner_bytes;
pub(crate) mod prompt_answers;
pub(crate) mod skills;
pub(crate) mod step_prompts;
pub(crate) mod tokens;
pub(crate) mod tool_approvals;
pub(crate) mod trigger_runs;
pub(crate) mod triggers;
pub(crate) mod usage;
pub(crate) mod versions;
pub(crate) mod workflow_runs;
pub(crate) mod workflow_steps;
pub(crate) mod workflows;
