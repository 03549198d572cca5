//! Columns, and what their cells have in common.

use std::fmt::Write as _;

use himalia_outcome::Sight;
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Title and content of a list's column.
pub(crate) type Column = (&'static str, fn(&Value) -> String);

/// A table, or this line if it has no rows.
pub(crate) fn listed(rows: &[Value], columns: &[Column], none: &str) -> String {
    if rows.is_empty() {
        return format!("{none}\n");
    }
    table(rows, columns)
}

/// Rows under heads, each column as wide as its widest cell.
pub(super) fn table(sessions: &[Value], columns: &[Column]) -> String {
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

/// A member that is a text, without what steers a terminal, cut.
pub(crate) fn word(session: &Value, member: &str) -> String {
    clean(session[member].as_str().unwrap_or("-"))
}

/// Replaces control characters, so that the text cannot control the terminal, and cuts it to one line.
pub(crate) fn clean(text: &str) -> String {
    printable(text).chars().take(100).collect()
}

/// A text of one line without what steers a terminal, and without what is not seen.
pub(crate) fn printable(text: &str) -> String {
    let mut sight = Sight::default();
    text.chars().filter(|c| sight.shows(*c)).collect()
}

/// The first characters of a text.
pub(crate) fn cut(text: String, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// The time from a moment (RFC 3339) to now, as a person says it.
pub(crate) fn since(moment: &Value) -> String {
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

/// A number of bytes as it is said of files.
pub(super) fn size(bytes: &Value) -> String {
    match bytes.as_u64() {
        None => "-".to_owned(),
        Some(bytes) if bytes < 10 << 10 => format!("{bytes} bytes"),
        Some(bytes) if bytes < 10 << 20 => format!("{} KiB", bytes >> 10),
        Some(bytes) => format!("{} MiB", bytes >> 20),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_their_two_largest_units() {
        let shown: Vec<String> = [-1, 0, 59, 61, 3_599, 7_260, 90_000]
            .into_iter()
            .map(span)
            .collect();
        assert_eq!(shown, ["0s", "0s", "59s", "1m 1s", "59m 59s", "2h 1m", "1d 1h"]);
    }
}
