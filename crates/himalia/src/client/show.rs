//! Formats replies for people.

use std::fmt::Write as _;

use himalia_engine::is_bidi_control;
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
pub(super) type Column = (&'static str, fn(&Value) -> String);

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

const APPROVALS: [Column; 7] = [
    ("ID", |approval| word(approval, "id")),
    ("OWNER", |approval| word(approval, "owner")),
    ("CALLER", |approval| word(approval, "caller")),
    ("TEMPLATE", |approval| word(approval, "template")),
    ("TOOL", |approval| word(approval, "tool")),
    ("AGE", |approval| since(&approval["approved"])),
    ("APPROVED BY", |approval| word(approval, "approved_by")),
];

const CREDENTIALS: [Column; 7] = [
    ("NAME", |credential| word(credential, "name")),
    ("OWNER", |credential| word(credential, "owner")),
    ("KIND", |credential| word(credential, "kind")),
    ("HOSTS", |credential| {
        let hosts = credential["hosts"].as_array().into_iter().flatten();
        let hosts: Vec<&str> = hosts.filter_map(Value::as_str).collect();
        clean(&hosts.join(","))
    }),
    ("SET BY", |credential| match credential["set_by"].as_str() {
        Some(by) => clean(by),
        None => "configuration".to_owned(),
    }),
    ("AGE", |credential| since(&credential["set"])),
    ("TOKENS", |credential| word(&credential["tokens"], "state")),
];

const SKILLS: [Column; 6] = [
    ("NAME", |skill| word(skill, "name")),
    ("VERSION", |skill| word(skill, "version")),
    ("KIND", |skill| word(skill, "kind")),
    ("AGE", |skill| since(&skill["published"])),
    ("PUBLISHED BY", |skill| word(skill, "published_by")),
    ("DESCRIPTION", |skill| cut(word(skill, "description"), 60)),
];

const WORKFLOWS: [Column; 5] = [
    ("NAME", |workflow| word(workflow, "name")),
    ("VERSION", |workflow| word(workflow, "version")),
    ("AGE", |workflow| since(&workflow["published"])),
    ("PUBLISHED BY", |workflow| word(workflow, "published_by")),
    ("DESCRIPTION", |workflow| cut(word(workflow, "description"), 60)),
];

const RUNS: [Column; 6] = [
    ("ID", |run| word(run, "id")),
    ("WORKFLOW", |run| word(run, "workflow")),
    ("VERSION", |run| word(run, "version")),
    ("STATUS", |run| word(run, "status")),
    ("AGE", |run| since(&run["created"])),
    ("STARTED BY", |run| word(run, "started_by")),
];

const STEPS: [Column; 5] = [
    ("STEP", |step| word(step, "id")),
    ("STATUS", |step| word(step, "status")),
    ("ITEMS", |step| match step["items"].as_u64() {
        Some(items) => format!("{}/{items}", step["succeeded"]),
        None => String::new(),
    }),
    ("SESSION", |step| {
        let last = step["attempts"].as_array().and_then(|attempts| attempts.last());
        last.map_or_else(String::new, |attempt| word(attempt, "session"))
    }),
    ("WHAT", |step| match step["approval"]["options"].as_array() {
        Some(options) => {
            let options: Vec<&str> = options.iter().filter_map(Value::as_str).collect();
            format!("asks: {}", clean(&options.join(", ")))
        }
        None => format!(
            "{} {}",
            word(&step["skill"], "name"),
            word(&step["skill"], "version")
        ),
    }),
];

/// A table of workflows.
pub(super) fn workflows(workflows: &[Value]) -> String {
    if workflows.is_empty() {
        return "no workflows\n".to_owned();
    }
    table(workflows, &WORKFLOWS)
}

/// A table of runs of workflows.
pub(super) fn runs(runs: &[Value]) -> String {
    if runs.is_empty() {
        return "no runs\n".to_owned();
    }
    table(runs, &RUNS)
}

/// A run of a workflow with its steps.
pub(super) fn run(run: &Value) -> String {
    let steps = run["steps"].as_array().map_or(&[][..], Vec::as_slice);
    format!(
        "{}\n{}",
        table(std::slice::from_ref(run), &RUNS),
        table(steps, &STEPS)
    )
}

const SCHEDULES: [Column; 7] = [
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
    ("LAST RUN", |schedule| word(&schedule["last_run"], "due")),
    ("RESULT", |schedule| word(&schedule["last_run"], "status")),
];

const SCHEDULE_RUNS: [Column; 5] = [
    ("DUE", |run| word(run, "due")),
    ("STATUS", |run| word(run, "status")),
    ("MISSED BEFORE", |run| run["missed_before"].to_string()),
    ("EXECUTION", |run| match &run["workflow_run"] {
        Value::Null => word(run, "execution"),
        _ => word(run, "workflow_run"),
    }),
    ("RESULT", |run| match (&run["reason"], &run["outputs"]) {
        (Value::String(reason), _) => clean(reason),
        (_, Value::Null) => "-".to_owned(),
        (_, outputs) => clean(&outputs.to_string()),
    }),
];

/// What a schedule or webhook starts.
fn target(trigger: &Value) -> String {
    let target = &trigger["target"];
    match &target["workflow"] {
        Value::Null => word(target, "skill"),
        _ => format!("workflow {}", word(target, "workflow")),
    }
}

/// A table of schedules.
pub(super) fn schedules(schedules: &[Value]) -> String {
    if schedules.is_empty() {
        return "no schedules\n".to_owned();
    }
    table(schedules, &SCHEDULES)
}

/// A table of runs of a schedule.
pub(super) fn schedule_runs(runs: &[Value]) -> String {
    if runs.is_empty() {
        return "no runs\n".to_owned();
    }
    table(runs, &SCHEDULE_RUNS)
}

/// A schedule, with its runs if they are there.
pub(super) fn schedule(schedule: &Value) -> String {
    let mut text = schedules(std::slice::from_ref(schedule));
    if let Some(reason) = schedule["stopped"].as_str() {
        text = format!("{text}stopped: {}\n", clean(reason));
    }
    if let Some(secret) = schedule["callback_secret"].as_str() {
        text = format!("{text}results are signed with {} (shown once)\n", clean(secret));
    }
    if let Some(runs) = schedule["runs"].as_array() {
        text = format!("{text}\n{}", schedule_runs(runs));
    }
    text
}

const WEBHOOKS: [Column; 6] = [
    ("NAME", |webhook| word(webhook, "name")),
    ("PATH", |webhook| word(webhook, "path")),
    ("RUNS", target),
    ("STATE", |webhook| match webhook["enabled"] {
        Value::Bool(false) => "paused".to_owned(),
        _ => "ready".to_owned(),
    }),
    ("LAST RUN", |webhook| word(&webhook["last_run"], "due")),
    ("RESULT", |webhook| word(&webhook["last_run"], "status")),
];

const DELIVERIES: [Column; 5] = [
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

/// A table of webhooks.
pub(super) fn webhooks(webhooks: &[Value]) -> String {
    if webhooks.is_empty() {
        return "no webhooks\n".to_owned();
    }
    table(webhooks, &WEBHOOKS)
}

/// A table of deliveries.
pub(super) fn deliveries(deliveries: &[Value]) -> String {
    if deliveries.is_empty() {
        return "no deliveries\n".to_owned();
    }
    table(deliveries, &DELIVERIES)
}

/// A webhook, with its runs and deliveries if they are there.
pub(super) fn webhook(webhook: &Value) -> String {
    let mut text = webhooks(std::slice::from_ref(webhook));
    if let Some(runs) = webhook["runs"].as_array() {
        text = format!("{text}\n{}", schedule_runs(runs));
    }
    if let Some(all) = webhook["deliveries"].as_array() {
        text = format!("{text}\n{}", deliveries(all));
    }
    text
}

/// A new webhook, with its secrets.
pub(super) fn new_webhook(made: &Value) -> String {
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

/// A table of skills.
pub(super) fn skills(skills: &[Value]) -> String {
    if skills.is_empty() {
        return "no skills\n".to_owned();
    }
    table(skills, &SKILLS)
}

/// A table of credentials.
pub(super) fn credentials(credentials: &[Value]) -> String {
    if credentials.is_empty() {
        return "no credentials\n".to_owned();
    }
    table(credentials, &CREDENTIALS)
}

/// What a grant has given.
pub(super) fn granted(credential: &Value) -> String {
    let (name, tokens) = (word(credential, "name"), &credential["tokens"]);
    if let Some(problem) = tokens["problem"].as_str() {
        return format!("{name}: {}\n", clean(problem));
    }
    let scope = tokens["scope"].as_str();
    let scope = scope.map_or_else(String::new, |scope| format!(" with the scopes {}", clean(scope)));
    let expires = tokens["expires"].as_str().map_or_else(String::new, |expires| {
        format!(
            "; the first token is good until {}, and is replaced before",
            clean(expires)
        )
    });
    format!("{name} is granted{scope}{expires}\n")
}

/// A table of access tokens.
pub(super) fn tokens(tokens: &[Value]) -> String {
    if tokens.is_empty() {
        return "no tokens\n".to_owned();
    }
    table(tokens, &TOKENS)
}

/// A table of tools that are approved for later sessions.
pub(super) fn approvals(approvals: &[Value]) -> String {
    if approvals.is_empty() {
        return "no approvals\n".to_owned();
    }
    table(approvals, &APPROVALS)
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

/// A member that is a text, without what steers a terminal, cut.
pub(super) fn word(session: &Value, member: &str) -> String {
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

/// What an owner uses, a line for each quota, and a table of its callers.
pub(super) fn usage(body: &Value) -> String {
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
    let both = number(&disk["live"]).unwrap_or(0) + number(&disk["ended"]).unwrap_or(0);
    let ended = format!(" ({} of ended sessions)", bytes(&disk["ended"]));
    line("disk", bytes(&Value::from(both)), bytes(&disk["limit"]), &ended);
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

/// The time from a moment (RFC 3339) to now, as a person says it.
pub(super) fn since(moment: &Value) -> String {
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

/// What others wrote must not steer the terminal; as much of it as is shown in a line.
pub(super) fn clean(text: &str) -> String {
    printable(text).chars().take(100).collect()
}

/// A text of one line without what steers a terminal.
pub(super) fn printable(text: &str) -> String {
    let is_shown = |c: &char| !c.is_control() && !is_bidi_control(*c);
    text.chars().filter(is_shown).collect()
}

/// The first characters of a text.
pub(super) fn cut(text: String, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

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
    fn usage_has_a_line_for_each_quota_and_caller() {
        let used = |used: u64, limit: Option<u64>| json!({ "used": used, "limit": limit });
        let body = json!({"owner": "acme", "resets": "2026-01-02T00:00:00Z", "kernels": used(2, Some(5)), "connections": used(1, None),
            "streams": used(0, Some(9)), "network_connections": used(7, Some(8)), "network_bytes": used(3 << 20, Some(5 << 20)), "cpu_ms": used(61_500, Some(60_000)),
            "tool_calls": used(7, Some(9)), "model_tokens": used(0, None), "model_spend": {"used": 0.25, "limit": 1.5}, "returned_chars": used(12, None), "sandbox_memory_bytes": used(34 << 20, None),
            "buffered_bytes": used(0, Some(1 << 20)), "disk_bytes": {"live": 1 << 20, "ended": 1 << 20, "limit": 1 << 30},
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
        assert!(text.contains("2048 KiB") && text.contains("34 MiB"), "{text}");
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
