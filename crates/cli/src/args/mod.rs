//! The command lines of the commands, as clap reads them.

#![allow(
    clippy::doc_markdown,
    missing_docs,
    reason = "the doc comments are the texts of the help: plain, not Markdown, and none for options of several commands"
)]

pub mod approvals;
pub mod auth;
pub mod connect;
pub mod credentials;
pub mod exec;
pub mod gateway;
pub mod gc;
pub mod mcp;
pub mod prompts;
pub mod schedules;
pub mod sessions;
pub mod skills;
pub mod tokens;
pub mod usage;
pub mod webhooks;
pub mod workflows;
