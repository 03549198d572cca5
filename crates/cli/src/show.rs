//! Formats replies for people.

mod sessions;
mod skills;
mod table;
mod triggers;
mod usage;

pub(super) use sessions::{branches, collected, sessions};
pub(super) use skills::{run, run_state, runs, skills, workflows};
pub(super) use table::{Column, clean, cut, listed, printable, since, word};
pub(super) use triggers::{deliveries, new_webhook, schedule, schedules, webhook, webhooks};
pub(super) use usage::usage;
