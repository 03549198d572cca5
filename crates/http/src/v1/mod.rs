//! The native API.

mod answers;
pub(crate) mod artifacts;
pub(crate) mod code;
pub(crate) mod collect;
pub(crate) mod credentials;
pub(crate) mod deliveries;
pub(crate) mod description;
pub(crate) mod events;
pub(crate) mod executions;
mod file_bodies;
pub(crate) mod files;
pub(crate) mod fork;
pub(crate) mod history;
mod input;
pub(crate) mod kernels;
pub(crate) mod models;
pub(crate) mod pools;
pub(crate) mod prompt_webhooks;
pub(crate) mod prompts;
pub(crate) mod push;
mod record;
pub(crate) mod schedules;
mod session_json;
pub(crate) mod sessions;
pub(crate) mod skills;
mod sse;
pub(crate) mod templates;
pub(crate) mod tokens;
pub(crate) mod tool_approvals;
pub(crate) mod tools;
pub(crate) mod usage;
mod variable_json;
pub(crate) mod variables;
pub(crate) mod webhooks;
pub(crate) mod workflows;

pub(crate) use sse::end as events_end;
