//! Formats replies for people.

mod access;
mod sessions;
mod skills;
mod table;
mod triggers;
mod usage;

pub(super) use access::{approvals, created_token, credentials, granted, tokens};
pub(super) use sessions::{branches, collected, sessions};
pub(super) use skills::{run, runs, skills, workflows};
pub(super) use table::{Column, clean, cut, listed, printable, since, word};
pub(super) use triggers::{deliveries, new_webhook, schedule, schedule_runs, schedules, webhook, webhooks};
pub(super) use usage::usage;
