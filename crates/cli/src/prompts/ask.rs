//! Asks the person at the terminal for the answer to a prompt. Without a terminal the answer is the first line of standard input.

use std::future::pending;

use anyhow::{Context as _, bail};
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};

use super::text;
use crate::http::Client;
use crate::keyboard::{self, END_OF_INPUT, Keyboard};
use crate::support::{array, expect};

/// Seconds that one response waits for the end of the prompt.
const WAIT_S: u64 = 60;

/// The answer to the prompt at a path. An error if the prompt ends first, or if the person gives none.
pub(super) async fn answer(client: &Client, path: &str) -> anyhow::Result<String> {
    let prompt = expect(&client.get(path).await?, 200)?;
    if !is_open(&prompt) {
        bail!("{}", text::ended(&prompt).trim_end());
    }
    let is_terminal = keyboard::is_there();
    let options: Vec<&str> = array(&prompt["options"])
        .iter()
        .filter_map(Value::as_str)
        .collect();
    if is_terminal {
        eprint!("{}\n{}", text::prompt(&prompt), text::choices(&prompt));
    }
    let mut interrupt = signal(SignalKind::interrupt()).context("Ctrl-C")?;
    let mut keyboard = Keyboard::default();
    let mut ends = std::pin::pin!(end(client, path));
    loop {
        if is_terminal {
            eprint!("Answer: ");
        }
        keyboard.ask(prompt["password"] == true);
        let line = tokio::select! {
            line = keyboard.line() => line,
            _ = interrupt.recv() => END_OF_INPUT.to_owned(),
            ended = &mut ends => {
                eprintln!();
                bail!("{}", text::ended(&ended).trim_end());
            }
        };
        if keyboard.show() || (is_terminal && line == END_OF_INPUT) {
            // The line break was not shown.
            eprintln!();
        }
        if line == END_OF_INPUT {
            bail!("no answer was given; the prompt is still open");
        }
        match chosen(&options, &line) {
            Some(value) => return Ok(value.to_owned()),
            // The gateway says what is wrong.
            None if !is_terminal => return Ok(line),
            None => eprintln!("Choose one of the options."),
        }
    }
}

fn is_open(prompt: &Value) -> bool {
    prompt["state"] == "open"
}

/// The prompt when it has ended, because another answer came first or nothing waits for one any more.
async fn end(client: &Client, path: &str) -> Value {
    let waiting = format!("{path}?wait_s={WAIT_S}");
    loop {
        let reply = client.get(&waiting).await;
        match reply.and_then(|reply| expect(&reply, 200)) {
            Ok(prompt) if is_open(&prompt) => {}
            Ok(prompt) => return prompt,
            // The answer meets the same problem, and tells of it.
            Err(_) => return pending().await,
        }
    }
}

/// Option that a line chooses: by its text, or by its number if no option is a number. Without options, the line is the answer.
fn chosen<'a>(options: &[&'a str], line: &'a str) -> Option<&'a str> {
    if options.is_empty() {
        return Some(line);
    }
    let line = line.trim();
    if let Some(option) = options.iter().find(|option| **option == line) {
        return Some(option);
    }
    if options.iter().any(|option| option.trim().parse::<f64>().is_ok()) {
        return None;
    }
    let at = line.parse::<usize>().ok()?.checked_sub(1)?;
    options.get(at).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_chosen_by_its_text_or_number() {
        let options = ["once", "deny"];
        assert_eq!(chosen(&options, " deny "), Some("deny"));
        assert_eq!(chosen(&options, "1"), Some("once"));
        for other in ["", "0", "3", "-1", "den", "DENY"] {
            assert_eq!(chosen(&options, other), None, "{other}");
        }
        assert_eq!(chosen(&[], " any text "), Some(" any text "));
        assert_eq!(chosen(&[], ""), Some(""));
    }

    #[test]
    fn options_that_are_numbers_have_no_other_numbers() {
        let options = ["10", "1", "all"];
        assert_eq!(chosen(&options, "1"), Some("1"));
        assert_eq!(chosen(&options, "2"), None);
        assert_eq!(chosen(&options, "all"), Some("all"));
    }
}
