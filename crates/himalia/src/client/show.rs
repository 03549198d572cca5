//! Formats replies for people.

use std::fmt::Write as _;

use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A table of sessions; `wide` has all columns.
pub(super) fn sessions(sessions: &[Value], wide: bool) -> String {
    if sessions.is_empty() {
        return "no sessions\n".to_owned();
    }
    table(sessions, if wide { &WIDE } else { &NARROW })
}

/// A table of the branches that were made.
pub(super) fn branches(body: &Value) -> String {
    let branches = || body["branches"].as_array().into_iter().flatten();
    let sessions: Vec<Value> = branches().map(|branch| branch["session"].clone()).collect();
    let mut text = table(&sessions, &WIDE);
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

/// What a collection removed, one line each, and the sum.
pub(super) fn collected(body: &Value) -> String {
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

/// A number of bytes as it is said of files.
fn size(bytes: &Value) -> String {
    match bytes.as_u64() {
        None => "-".to_owned(),
        Some(bytes) if bytes < 10 << 10 => format!("{bytes} bytes"),
        Some(bytes) if bytes < 10 << 20 => format!("{} KiB", bytes >> 10),
        Some(bytes) => format!("{} MiB", bytes >> 20),
    }
}

/// What a column of a list shows.
type Column = (&'static str, fn(&Value) -> String);

const NARROW: [Column; 6] = [
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

const WIDE: [Column; 13] = [
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

const TOKENS: [Column; 8] = [
    ("ID", |token| word(token, "id")),
    ("OWNER", |token| word(token, "owner")),
    ("CALLER", |token| word(token, "caller")),
    ("SCOPE", |token| word(token, "scope")),
    ("AGE", |token| since(&token["created"])),
    ("EXPIRES", expires),
    ("CREATED BY", |token| word(token, "created_by")),
    ("DESCRIPTION", |token| word(token, "description")),
];

/// A table of access tokens.
pub(super) fn tokens(tokens: &[Value]) -> String {
    if tokens.is_empty() {
        return "no tokens\n".to_owned();
    }
    table(tokens, &TOKENS)
}

/// What a new access token is, without its secret.
pub(super) fn created_token(token: &Value) -> String {
    format!(
        "token {} of {}/{}, scope {}, expires: {}; it is not shown again\n",
        word(token, "id"),
        word(token, "owner"),
        word(token, "caller"),
        word(token, "scope"),
        expires(token)
    )
}

fn expires(token: &Value) -> String {
    match token["expires"].as_str() {
        Some(date) => clean(date),
        None => "never".to_owned(),
    }
}

fn word(session: &Value, member: &str) -> String {
    clean(session[member].as_str().unwrap_or("-"))
}

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

/// The time from a moment (RFC 3339) to now, as a person says it.
fn since(moment: &Value) -> String {
    let Some(then) = moment
        .as_str()
        .and_then(|text| OffsetDateTime::parse(text, &Rfc3339).ok())
    else {
        return "-".to_owned();
    };
    span((OffsetDateTime::now_utc() - then).whole_seconds())
}

/// A number of seconds in its two largest units.
fn span(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {}s", seconds % 60),
        (0, _, _) => format!("{hours}h {}m", minutes % 60),
        _ => format!("{days}d {}h", hours % 24),
    }
}

/// What others wrote must not steer the terminal.
pub(super) fn clean(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(100).collect()
}

fn table(sessions: &[Value], columns: &[Column]) -> String {
    let mut rows: Vec<Vec<String>> = vec![columns.iter().map(|(head, _)| (*head).to_owned()).collect()];
    rows.extend(
        sessions
            .iter()
            .map(|session| columns.iter().map(|(_, cell)| cell(session)).collect()),
    );
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, "{cell:width$}  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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

    #[test]
    fn a_token_is_shown_without_its_secret() {
        let one = json!({"token": "himalia_canary", "id": "6f96", "owner": "acme", "caller": "ci", "scope": "read",
            "created": "", "expires": null, "created_by": "operator", "description": "x\u{1b}[31m"});
        let listed = tokens(std::slice::from_ref(&one));
        let row = listed.lines().nth(1).unwrap();
        assert_eq!(
            row, "6f96  acme   ci      read   -    never    operator    x[31m",
            "{listed}"
        );
        let said = created_token(&one);
        assert_eq!(
            said,
            "token 6f96 of acme/ci, scope read, expires: never; it is not shown again\n"
        );
        assert_eq!(tokens(&[]), "no tokens\n");
    }

    #[test]
    fn spans_have_their_two_largest_units() {
        let shown: Vec<String> = [-1, 0, 59, 61, 3_599, 7_260, 90_000]
            .into_iter()
            .map(span)
            .collect();
        assert_eq!(shown, ["0s", "0s", "59s", "1m 1s", "59m 59s", "2h 1m", "1d 1h"]);
    }
}
