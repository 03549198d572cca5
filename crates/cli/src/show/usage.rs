//! Table of an owner's usage and quotas.

use std::fmt::Write as _;

use serde_json::Value;

use super::table::{clean, size};

/// Usage of an owner, a line for each quota, and a table of its callers.
pub(crate) fn usage(body: &Value) -> String {
    let number = |value: &Value| value.as_u64();
    let plain = |value: &Value| number(value).map_or_else(|| "-".to_owned(), |count| count.to_string());
    let seconds = |value: &Value| {
        number(value).map_or_else(
            || "-".to_owned(),
            |ms| format!("{}.{:03} s", ms / 1000, ms % 1000),
        )
    };
    let bytes = |value: &Value| number(value).map_or_else(|| "-".to_owned(), |_| size(value));
    let mut text = format!("{}\n", clean(body["owner"].as_str().unwrap_or_default()));
    let mut line = |what: &str, used: String, limit: String, note: &str| {
        let _ = writeln!(
            text,
            "{}",
            format!("  {what:21} {used:>14}  of {limit}{note}").trim_end()
        );
    };
    let resets = format!(", until {}", clean(body["resets"].as_str().unwrap_or_default()));
    let of = |name: &str| (&body[name]["used"], &body[name]["limit"]);
    for (what, name) in [
        ("kernels", "kernels"),
        ("connections", "connections"),
        ("streams", "streams"),
        ("network connections", "network_connections"),
    ] {
        let (used, limit) = of(name);
        line(what, plain(used), plain(limit), "");
    }
    let (used, limit) = of("cpu_ms");
    line("processor time", seconds(used), seconds(limit), &resets);
    let (used, limit) = of("network_bytes");
    line("network", bytes(used), bytes(limit), &resets);
    for (what, name) in [
        ("tool calls", "tool_calls"),
        ("tokens of models", "model_tokens"),
        ("spend on models", "model_spend"),
        ("returned characters", "returned_chars"),
    ] {
        let amount = |value: &Value| {
            if value.is_number() {
                value.to_string()
            } else {
                plain(value)
            }
        };
        let (used, limit) = of(name);
        line(what, amount(used), amount(limit), &resets);
    }
    for (what, name) in [
        ("memory of sandboxes", "sandbox_memory_bytes"),
        ("buffered responses", "buffered_bytes"),
    ] {
        let (used, limit) = of(name);
        line(what, bytes(used), bytes(limit), "");
    }
    let disk = &body["disk_bytes"];
    let all = ["live", "ended", "rows"].map(|part| number(&disk[part]).unwrap_or(0));
    let parts = format!(
        " ({} of ended sessions, {} of rows)",
        bytes(&disk["ended"]),
        bytes(&disk["rows"])
    );
    line(
        "disk",
        bytes(&Value::from(all.iter().sum::<u64>())),
        bytes(&disk["limit"]),
        &parts,
    );
    for (what, name) in [
        ("requests per second", "requests_per_second"),
        ("starts per second", "starts_per_second"),
    ] {
        line(what, String::new(), plain(&body[name]), "");
    }
    for caller in body["callers"].as_array().into_iter().flatten() {
        let _ = writeln!(
            text,
            "{}: {} executions, {}; {} returned characters; {} connections, {} buffered",
            clean(caller["caller"].as_str().unwrap_or_default()),
            plain(&caller["executions"]),
            seconds(&caller["execution_ms"]),
            plain(&caller["returned_chars"]),
            plain(&caller["connections"]),
            bytes(&caller["buffered_bytes"]),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn usage_has_a_line_for_each_quota_and_caller() {
        let used = |used: u64, limit: Option<u64>| json!({ "used": used, "limit": limit });
        let body = json!({"owner": "acme", "resets": "2026-01-02T00:00:00Z", "kernels": used(2, Some(5)), "connections": used(1, None),
            "streams": used(0, Some(9)), "network_connections": used(7, Some(8)), "network_bytes": used(3 << 20, Some(5 << 20)), "cpu_ms": used(61_500, Some(60_000)),
            "tool_calls": used(7, Some(9)), "model_tokens": used(0, None), "model_spend": {"used": 0.25, "limit": 1.5}, "returned_chars": used(12, None), "sandbox_memory_bytes": used(34 << 20, None),
            "buffered_bytes": used(0, Some(1 << 20)), "disk_bytes": {"live": 1 << 20, "ended": 1 << 20, "rows": 1 << 20, "limit": 1 << 30},
            "requests_per_second": 200, "starts_per_second": null,
            "callers": [{"caller": "acme/a\u{1b}da", "executions": 3, "execution_ms": 1_500, "returned_chars": 12, "connections": 1, "buffered_bytes": 0}]});
        let text = usage(&body);
        for line in [
            "acme",
            "  kernels                            2  of 5",
            "  connections                        1  of -",
            "  network connections                7  of 8",
            "  processor time              61.500 s  of 60.000 s, until 2026-01-02T00:00:00Z",
            "  tool calls                         7  of 9, until 2026-01-02T00:00:00Z",
            "  spend on models                 0.25  of 1.5, until 2026-01-02T00:00:00Z",
            "  returned characters               12  of -, until 2026-01-02T00:00:00Z",
            "  requests per second                   of 200",
            "  starts per second                     of -",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        }
        assert!(
            text.contains("\nacme/ada: 3 executions, 1.500 s; 12 returned characters; 1 connections, "),
            "{text}"
        );
        assert!(text.contains("3072 KiB") && text.contains("34 MiB"), "{text}");
    }
}
