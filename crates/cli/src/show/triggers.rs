//! Schedules, webhooks and deliveries.

use serde_json::Value;

use super::skills::runs;
use super::table::{Column, clean, listed, word};

pub(crate) fn schedules(schedules: &[Value]) -> String {
    listed(schedules, SCHEDULES, "no schedules")
}

/// A schedule, with its runs if they are there.
pub(crate) fn schedule(schedule: &Value) -> String {
    let mut text = schedules(std::slice::from_ref(schedule));
    if let Some(reason) = schedule["stopped"].as_str() {
        text = format!("{text}stopped: {}\n", clean(reason));
    }
    if let Some(secret) = schedule["callback_secret"].as_str() {
        text = format!("{text}results are signed with {} (shown once)\n", clean(secret));
    }
    if let Some(all) = schedule["runs"].as_array() {
        text = format!("{text}\n{}", runs(all));
    }
    text
}

pub(crate) fn webhooks(webhooks: &[Value]) -> String {
    listed(webhooks, WEBHOOKS, "no webhooks")
}

/// A webhook, with its runs and deliveries if they are there.
pub(crate) fn webhook(webhook: &Value) -> String {
    let mut text = webhooks(std::slice::from_ref(webhook));
    if let Some(all) = webhook["runs"].as_array() {
        text = format!("{text}\n{}", runs(all));
    }
    if let Some(all) = webhook["deliveries"].as_array() {
        text = format!("{text}\n{}", deliveries(all));
    }
    text
}

/// A new webhook, with its secrets.
pub(crate) fn new_webhook(made: &Value) -> String {
    let mut text = webhook(made);
    for (member, what) in [
        ("secret", "senders sign with"),
        ("callback_secret", "results are signed with"),
    ] {
        if let Some(secret) = made[member].as_str() {
            text = format!("{text}{what} {} (shown once)\n", clean(secret));
        }
    }
    text
}

pub(crate) fn deliveries(deliveries: &[Value]) -> String {
    listed(deliveries, DELIVERIES, "no deliveries")
}

/// Skill or workflow that a schedule or webhook starts.
fn target(trigger: &Value) -> String {
    let target = &trigger["target"];
    match &target["workflow"] {
        Value::Null => word(target, "skill"),
        _ => format!("workflow {}", word(target, "workflow")),
    }
}

const SCHEDULES: &[Column] = &[
    ("NAME", |schedule| word(schedule, "name")),
    ("CRON", |schedule| word(schedule, "cron")),
    ("ZONE", |schedule| word(schedule, "time_zone")),
    ("RUNS", target),
    ("NEXT", |schedule| {
        match (&schedule["stopped"], &schedule["enabled"]) {
            (Value::String(_), _) => "stopped".to_owned(),
            (_, Value::Bool(false)) => "paused".to_owned(),
            _ => word(schedule, "next"),
        }
    }),
    ("LAST RUN", |schedule| word(&schedule["last_run"], "created")),
    ("RESULT", |schedule| word(&schedule["last_run"], "status")),
];

const WEBHOOKS: &[Column] = &[
    ("NAME", |webhook| word(webhook, "name")),
    ("PATH", |webhook| word(webhook, "path")),
    ("RUNS", target),
    ("STATE", |webhook| match webhook["enabled"] {
        Value::Bool(false) => "paused".to_owned(),
        _ => "ready".to_owned(),
    }),
    ("LAST RUN", |webhook| word(&webhook["last_run"], "created")),
    ("RESULT", |webhook| word(&webhook["last_run"], "status")),
];

const DELIVERIES: &[Column] = &[
    ("DELIVERY", |delivery| word(delivery, "id")),
    ("STATE", |delivery| word(delivery, "state")),
    ("ATTEMPTS", |delivery| {
        let attempts = delivery["attempts"].as_array();
        attempts.map_or(0, Vec::len).to_string()
    }),
    ("LAST ANSWER", |delivery| {
        let last = delivery["attempts"].as_array().and_then(|all| all.last());
        let last = last.unwrap_or(&Value::Null);
        match &last["status"] {
            Value::Number(status) => status.to_string(),
            _ => word(last, "error"),
        }
    }),
    ("NEXT ATTEMPT", |delivery| word(delivery, "next_attempt")),
];
