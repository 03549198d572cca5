//! Sessions, their branches, and what a collection removed.

use std::fmt::Write as _;

use serde_json::Value;

use super::table::{Column, clean, listed, since, size, table, word};

/// A table of sessions; `wide` has all columns.
pub(crate) fn sessions(sessions: &[Value], wide: bool) -> String {
    listed(sessions, if wide { WIDE } else { NARROW }, "no sessions")
}

/// A table of the branches that were made.
pub(crate) fn branches(body: &Value) -> String {
    let branches = || body["branches"].as_array().into_iter().flatten();
    let sessions: Vec<Value> = branches().map(|branch| branch["session"].clone()).collect();
    let mut text = table(&sessions, WIDE);
    for hazard in branches().flat_map(|branch| branch["hazards"].as_array().into_iter().flatten()) {
        let part = |name: &str| clean(hazard[name].as_str().unwrap_or_default());
        let _ = writeln!(
            text,
            "warning: {} {}: {}",
            part("kind"),
            part("name"),
            part("detail")
        );
    }
    text
}

/// Sessions and orphans that a collection removed, one line each, and the sum.
pub(crate) fn collected(body: &Value) -> String {
    let part = |item: &Value, name: &str| clean(item[name].as_str().unwrap_or("-"));
    let items = |list: &str| body[list].as_array().cloned().unwrap_or_default();
    let mut text = String::new();
    for session in items("sessions") {
        let [id, name, reason] = ["id", "name", "reason"].map(|member| part(&session, member));
        let _ = writeln!(text, "session {id} {name} ({reason}) {}", size(&session["bytes"]));
    }
    for orphan in items("orphans") {
        let [kind, name] = ["kind", "name"].map(|member| part(&orphan, member));
        let _ = writeln!(text, "{kind} {name} (of no session) {}", size(&orphan["bytes"]));
    }
    let did = if body["dry_run"] == true {
        "would go"
    } else {
        "removed"
    };
    let _ = writeln!(
        text,
        "{did}: {} sessions, {} orphans, {}; database {}",
        items("sessions").len(),
        items("orphans").len(),
        size(&body["bytes"]),
        size(&body["database_bytes"]),
    );
    if body["more"] == true {
        text.push_str("there is more: run it again\n");
    }
    text
}

const NARROW: &[Column] = &[
    ("SESSION", |session| match session["name"].as_str() {
        Some(name) => clean(name),
        None => word(session, "id"),
    }),
    ("STATE", state),
    ("AGE", |session| since(&session["created"])),
    ("IDLE FOR", |session| match session["state"].as_str() {
        Some("busy") => "-".to_owned(),
        _ => since(&session["last_activity"]),
    }),
    ("MEMORY", |session| size(&session["memory_used_bytes"])),
    ("TEMPLATE", |session| word(session, "template")),
];

const WIDE: &[Column] = &[
    NARROW[0],
    ("ID", |session| word(session, "id")),
    NARROW[1],
    NARROW[2],
    NARROW[3],
    NARROW[4],
    NARROW[5],
    ("KERNELSPEC", |session| word(session, "kernelspec")),
    ("ISOLATION", |session| word(session, "isolation")),
    ("STARTED BY", |session| word(session, "started_by")),
    ("OWNER", |session| word(session, "owner")),
    ("PARENT", |session| word(session, "parent")),
    ("LABELS", labels),
];

/// The state, with the reason if there is one.
fn state(session: &Value) -> String {
    match session["reason"].as_str() {
        Some(reason) => clean(&format!("{} ({reason})", word(session, "state"))),
        None => word(session, "state"),
    }
}

fn labels(session: &Value) -> String {
    let pairs = session["labels"].as_object().into_iter().flatten();
    let pairs: Vec<String> = pairs
        .map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default()))
        .collect();
    if pairs.is_empty() {
        return "-".to_owned();
    }
    clean(&pairs.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use time::OffsetDateTime;
    use time::format_description::well_known::Rfc3339;

    #[test]
    fn columns_are_aligned_and_controls_are_left_out() {
        let moment = |ago| {
            let then = OffsetDateTime::now_utc() - time::Duration::seconds(ago);
            then.format(&Rfc3339).unwrap()
        };
        let one = json!({"id": "0123456789", "name": "n", "template": "x\u{1b}[31m", "state": "idle",
            "created": moment(90_000), "last_activity": moment(3_700), "memory_used_bytes": 34 << 20});
        let text = sessions(std::slice::from_ref(&one), false);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0], "SESSION  STATE  AGE    IDLE FOR  MEMORY  TEMPLATE",
            "{text}"
        );
        assert_eq!(
            lines[1], "n        idle   1d 1h  1h 1m     34 MiB  x[31m",
            "{text}"
        );
        let dead = json!({"id": "0123456789", "state": "dead", "reason": "oom", "isolation": "none", "labels": {"a": "b"}});
        let text = sessions(&[dead], true);
        for part in ["0123456789", "dead (oom)", "none", "a=b"] {
            assert!(text.contains(part), "{text}");
        }
        assert_eq!(sessions(&[], false), "no sessions\n");
    }
}
