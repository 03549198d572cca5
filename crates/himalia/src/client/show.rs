//! Replies for people.

use std::fmt::Write as _;

use serde_json::Value;

/// Heads of the columns of [`row`].
const HEAD: [&str; 8] = [
    "ID",
    "NAME",
    "TEMPLATE",
    "STATE",
    "ISOLATION",
    "STARTED BY",
    "LAST ACTIVITY",
    "PARENT",
];

/// A table of sessions.
pub(super) fn sessions(body: &Value) -> String {
    let empty = Vec::new();
    let sessions = body["sessions"].as_array().unwrap_or(&empty);
    if sessions.is_empty() {
        return "no sessions\n".to_owned();
    }
    table(sessions)
}

/// A table of the branches that were made.
pub(super) fn branches(body: &Value) -> String {
    let branches = || body["branches"].as_array().into_iter().flatten();
    let mut text = table(branches().map(|branch| &branch["session"]));
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

fn row(session: &Value) -> [String; 8] {
    [
        "id",
        "name",
        "template",
        "state",
        "isolation",
        "started_by",
        "last_activity",
        "parent",
    ]
    .map(|field| clean(session[field].as_str().unwrap_or("-")))
}

/// What others wrote must not steer the terminal.
pub(super) fn clean(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(100).collect()
}

fn table<'a>(sessions: impl IntoIterator<Item = &'a Value>) -> String {
    let mut rows = vec![HEAD.map(str::to_owned)];
    rows.extend(sessions.into_iter().map(row));
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
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
        let one = json!({"id": "a-b", "name": "n", "template": "x\u{1b}[31m", "state": "idle", "isolation": "none",
            "started_by": "cold", "last_activity": "2026", "parent": null});
        let text = sessions(&json!({"sessions": [one]}));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("ID   NAME  TEMPLATE  STATE"), "{text}");
        assert!(
            lines[1].starts_with("a-b  n     x[31m     idle") && lines[1].ends_with("2026           -"),
            "{text}"
        );
        assert_eq!(sessions(&json!({"sessions": []})), "no sessions\n");
    }
}
