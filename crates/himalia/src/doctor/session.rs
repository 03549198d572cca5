//! `himalia doctor SESSION`: what is wrong with a session, and what can be done.

use serde_json::Value;

use super::finding::{Finding, Level};

/// Findings in the gateway's model of a session.
pub(super) fn look(session: &Value) -> Vec<Finding> {
    let text = |member: &str| session[member].as_str().unwrap_or_default();
    let state = text("state");
    let reason = match text("reason") {
        "" => String::new(),
        reason => format!(": {reason}"),
    };
    let level = match state {
        "dead" => Level::Bad,
        "starting" | "restarting" | "unknown" | "ended" => Level::Warn,
        _ => Level::Good,
    };
    let mut findings = vec![Finding::new(level, "state", format!("{state}{reason}"))];
    let silent = &session["unresponsive"];
    if silent.is_object() {
        let part = |member: &str| silent[member].as_str().unwrap_or_default();
        let text = format!(
            "no answer since {} ({})\n{}",
            part("since"),
            part("problem"),
            part("advice")
        );
        findings.push(Finding::new(Level::Bad, "answers", text));
    } else if state == "busy" {
        let text = "code runs, and the kernel answers heartbeats: it is busy, not stuck; an interrupt stops the code";
        findings.push(Finding::new(Level::Info, "answers", text));
    } else if state == "idle" {
        findings.push(Finding::new(Level::Good, "answers", "the kernel answers"));
    } else if state == "dead" {
        let text =
            "a restart, or the next execution of a session of /v1, starts a new process; variables are lost";
        findings.push(Finding::new(Level::Info, "answers", text));
    }
    findings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn levels(session: &Value) -> Vec<Level> {
        look(session).iter().map(|finding| finding.level).collect()
    }

    #[test]
    fn a_silent_kernel_is_told_from_a_busy_one() {
        let busy = json!({ "state": "busy", "unresponsive": null });
        assert_eq!(levels(&busy), [Level::Good, Level::Info]);
        let silent = json!({
            "state": "busy",
            "unresponsive": { "since": "2026-01-02T03:04:05Z", "problem": "heartbeat", "advice": "Restart it." },
        });
        let found = look(&silent);
        assert_eq!(found[1].level, Level::Bad);
        assert!(found[1].text.contains("Restart it.") && found[1].text.contains("2026-01-02"));
        let dead = json!({ "state": "dead", "reason": "oom" });
        assert_eq!(look(&dead)[0].text, "dead: oom");
    }
}
