//! Prompts as text for a terminal. What they ask comes from code in a sandbox: it is bounded by the gateway, cleaned here, and set off from what the
//! command says itself.

use std::fmt::Write as _;

use himalia_outcome::escape_unseen;
use serde_json::Value;

use crate::show::{Column, cut, listed, printable, since, word};
use crate::support::array;

/// Characters of the text, and of the options, in a list.
const LISTED_CHARS: usize = 60;
/// Characters of a session's id in a list. They name it in other commands.
const SESSION_CHARS: usize = 8;

const PROMPTS: &[Column] = &[
    ("ID", |prompt| part(prompt, "id")),
    ("KIND", |prompt| word(prompt, "kind")),
    ("FROM", |prompt| match &prompt["run"] {
        Value::Null => word(prompt, "session").chars().take(SESSION_CHARS).collect(),
        _ => word(prompt, "run"),
    }),
    ("ASKED BY", asker),
    ("AGE", |prompt| since(&prompt["created"])),
    ("ANSWERS", |prompt| cut(answers(prompt), LISTED_CHARS)),
    ("TEXT", |prompt| {
        let words: Vec<&str> = prompt["text"]
            .as_str()
            .unwrap_or_default()
            .split_whitespace()
            .collect();
        cut(printable(&words.join(" ")), LISTED_CHARS)
    }),
];

/// Answers to an approval of a call, with their meanings.
const APPROVALS: &[(&str, &str)] = &[
    ("once", "approve this call"),
    ("session", "approve this tool as long as the session lives"),
    (
        "always",
        "approve this tool, in later sessions of the same caller and template too",
    ),
    ("deny", "refuse this call"),
];

/// A table of what waits, and which replicas did not say what waits with them.
pub(super) fn list(body: &Value) -> String {
    let mut text = listed(array(&body["prompts"]), PROMPTS, "nothing waits for an answer");
    for replica in array(&body["unanswered"]) {
        let name = printable(replica.as_str().unwrap_or_default());
        let _ = writeln!(
            text,
            "replica {name} did not answer: what waits with it is not listed"
        );
    }
    text
}

/// All of a prompt: a line for each member, then the text and the arguments, indented.
pub(super) fn prompt(prompt: &Value) -> String {
    let mut text = String::new();
    for (name, member) in [
        ("prompt", "id"),
        ("kind", "kind"),
        ("state", "state"),
        ("session", "session"),
        ("run", "run"),
        ("step", "step"),
        ("execution", "execution"),
        ("tool", "tool"),
        ("expires", "expires"),
        ("answer", "answer"),
        ("answered by", "answered_by"),
        ("reason", "reason"),
    ] {
        if prompt[member].is_string() {
            let _ = writeln!(text, "{name:12} {}", part(prompt, member));
        }
    }
    let asked = (part(prompt, "created"), since(&prompt["created"]));
    let _ = writeln!(text, "{:12} {} ({} ago)", "asked", asked.0, asked.1);
    let _ = writeln!(text, "{:12} {}", "answers", answers(prompt));
    let _ = writeln!(text, "{} asks:", asker(prompt));
    indented(&mut text, prompt["text"].as_str().unwrap_or_default());
    if let Some(arguments) = prompt.get("arguments") {
        text.push_str("with the arguments:\n");
        indented(&mut text, &escape_unseen(&format!("{arguments:#}")));
    }
    text
}

/// The options, a line each, with their numbers; nothing without options.
pub(super) fn choices(prompt: &Value) -> String {
    let mut text = String::new();
    for (at, option) in array(&prompt["options"]).iter().enumerate() {
        let option = option.as_str().unwrap_or_default();
        let is_approval = prompt["kind"] == "approval";
        let meaning = APPROVALS.iter().find(|(word, _)| is_approval && *word == option);
        let meaning = meaning.map_or_else(String::new, |(_, meaning)| format!(": {meaning}"));
        let _ = writeln!(text, "{:3}. {}{meaning}", at + 1, exact(option));
    }
    text
}

/// Result of a prompt that has ended.
pub(super) fn ended(prompt: &Value) -> String {
    let id = part(prompt, "id");
    if prompt["state"] == "withdrawn" {
        return format!("{id} was withdrawn: {}\n", part(prompt, "reason"));
    }
    let answer = prompt["answer"].as_str();
    let answer = answer.map_or_else(String::new, |answer| format!(": {}", printable(answer)));
    let by = prompt["answered_by"].as_str();
    let by = by.map_or_else(String::new, |by| format!(" by {}", printable(by)));
    format!("{id} was answered{by}{answer}\n")
}

/// Source of a prompt: a tool call, a step, or code.
fn asker(prompt: &Value) -> String {
    match (prompt["tool"].is_string(), prompt["step"].is_string()) {
        (true, _) => format!("tool {}", part(prompt, "tool")),
        (_, true) => format!("step {}", part(prompt, "step")),
        _ => "code".to_owned(),
    }
}

/// Possible answers.
fn answers(prompt: &Value) -> String {
    let options = array(&prompt["options"]).iter().filter_map(Value::as_str);
    let options: Vec<String> = options.map(exact).collect();
    match (options.is_empty(), prompt["password"] == true) {
        (false, _) => options.join(", "),
        (true, true) => "a password".to_owned(),
        (true, false) => "a text".to_owned(),
    }
}

fn part(prompt: &Value, member: &str) -> String {
    printable(prompt[member].as_str().unwrap_or("-"))
}

fn indented(to: &mut String, text: &str) {
    for line in text.lines() {
        let _ = writeln!(to, "  {}", printable(&line.replace('\t', "    ")));
    }
}

/// An option to the letter, on one line: others may look like it.
fn exact(option: &str) -> String {
    escape_unseen(option).replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use himalia_outcome::is_unseen;
    use serde_json::json;

    use super::*;

    fn approval() -> Value {
        json!({"id": "prm_0123_4", "session": "01234567-89ab-4def-8123-456789abcdef", "execution": "exe_0123_1", "kind": "approval",
            "text": "Create\u{1b}[2J it?\nkind         question\u{202e}", "options": ["once", "session", "always", "deny"], "tool": "orders.create",
            "arguments": {"customer": "a\u{1b}[2K\u{9b}\u{202e}\u{200b}\u{e0041}da", "amount": 7}, "created": "2026-01-01T00:00:00Z", "state": "open"})
    }

    #[test]
    fn a_list_has_a_line_for_each_and_no_controls() {
        let step = json!({"id": "prs_00_sign", "run": "run_00", "step": "sign", "kind": "step", "text": "x".repeat(80),
            "options": ["pay", "stop"], "created": ""});
        let input = json!({"id": "prm_9_9", "session": "9", "kind": "input", "text": "Word?", "options": [], "password": true, "created": ""});
        let text = list(&json!({"prompts": [approval(), step, input], "unanswered": ["r1"]}));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5, "{text}");
        for part in [
            "prm_0123_4",
            "approval",
            " 01234567 ",
            "tool orders.create",
            "once, session, always, deny",
            "Create[2J it? kind question",
        ] {
            assert!(lines[1].contains(part), "{part}: {text}");
        }
        assert!(
            lines[2].contains("run_00") && lines[2].contains("step sign") && lines[2].ends_with("x…"),
            "{text}"
        );
        assert!(
            lines[3].contains(" code ") && lines[3].contains("a password"),
            "{text}"
        );
        assert!(lines[4].contains("replica r1"), "{text}");
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
        assert_eq!(list(&json!({"prompts": []})), "nothing waits for an answer\n");
    }

    #[test]
    fn what_is_asked_is_set_off_and_arguments_hide_nothing() {
        let text = prompt(&approval());
        // A line of the text passes for none of the command's.
        assert_eq!(
            text.lines().filter(|line| line.starts_with("kind ")).count(),
            1,
            "{text}"
        );
        assert!(
            text.contains("tool orders.create asks:\n  Create[2J it?\n  kind         question\n"),
            "{text}"
        );
        assert!(
            text.contains("  {\n    \"amount\": 7,\n") || text.contains("\"amount\": 7\n"),
            "{text}"
        );
        assert!(
            text.contains(r#""customer": "a\u001b[2K\u009b\u202e\u200b\udb40\udc41da""#),
            "{text}"
        );
        assert!(
            !text
                .chars()
                .any(|c| c != '\n' && (c.is_control() || is_unseen(c))),
            "{text:?}"
        );
    }

    #[test]
    fn choices_of_an_approval_say_what_they_mean() {
        let text = choices(&approval());
        assert_eq!(
            text.lines().next(),
            Some("  1. once: approve this call"),
            "{text}"
        );
        assert!(text.contains("  4. deny: refuse this call\n"), "{text}");
        let question = json!({"kind": "question", "options": ["once"]});
        assert_eq!(choices(&question), "  1. once\n");
        let alike = json!({"kind": "step", "options": ["yes", "yes\u{200b}", "n\no"]});
        assert_eq!(choices(&alike), "  1. yes\n  2. yes\\u200b\n  3. n\\no\n");
        assert_eq!(choices(&json!({"kind": "input", "options": []})), "");
    }

    #[test]
    fn an_end_says_who_answered_what() {
        let answered =
            json!({"id": "prm_1_1", "state": "answered", "answer": "once", "answered_by": "acme/boss"});
        assert_eq!(ended(&answered), "prm_1_1 was answered by acme/boss: once\n");
        let hidden = json!({"id": "prm_1_1", "state": "answered", "answered_by": "operator"});
        assert_eq!(ended(&hidden), "prm_1_1 was answered by operator\n");
        let withdrawn = json!({"id": "prm_1_1", "state": "withdrawn", "reason": "the time has passed"});
        assert_eq!(ended(&withdrawn), "prm_1_1 was withdrawn: the time has passed\n");
    }
}
