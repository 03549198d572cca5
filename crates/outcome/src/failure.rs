//! An exception: without colours, with the line of the caller's code that failed.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value as Json};

use crate::excerpt::Excerpt;
use crate::screen::{Sink as _, plain};

/// Characters of an exception's text, and of one line of its traceback.
const VALUE_CHARS: usize = 2000;
const LINE_CHARS: usize = 500;
/// Lines of a traceback that are kept: from its beginning, from its end.
const FIRST_LINES: usize = 20;
const LAST_LINES: usize = 60;

/// Exception that the code raised.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Failure {
    /// `ename`: the exception's class.
    pub name: String,
    /// `evalue`: its text.
    pub value: String,
    /// Lines without colours; the middle of a long one is left out, and says so.
    pub traceback: Vec<String>,
    /// Place in the caller's own code, if that is known.
    pub frame: Option<Frame>,
    /// Hint for a fix, from kernels that give one.
    pub hint: Option<String>,
}

/// A line of the caller's code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Frame {
    /// Line number in the sent code, from 1.
    pub line: u64,
    /// The line itself, without the blanks around it.
    pub source: String,
}

impl Failure {
    /// From the content of an `error` message or of a reply with `status: error`.
    pub(crate) fn read(content: &Map<String, Json>) -> Self {
        let text = |name: &str| content.get(name).and_then(Json::as_str).unwrap_or_default();
        let parts = content.get("traceback").and_then(Json::as_array);
        let parts = parts.into_iter().flatten().filter_map(Json::as_str);
        let lines: Vec<String> = parts
            .flat_map(|part| plain(part).lines().map(str::to_owned).collect::<Vec<_>>())
            .collect();
        Self {
            name: cut(text("ename"), LINE_CHARS),
            value: cut(&plain(text("evalue")), VALUE_CHARS),
            frame: frame(&lines),
            traceback: bounded(&lines),
            hint: None,
        }
    }

    /// Adds details from the kernel: `{line, source, hint}`.
    pub(crate) fn annotate(&mut self, known: &Json) {
        let text = |name: &str| known.get(name).and_then(Json::as_str);
        if let Some(line) = known.get("line").and_then(Json::as_u64) {
            let source = cut(text("source").unwrap_or_default().trim(), LINE_CHARS);
            self.frame = Some(Frame { line, source });
        }
        self.hint = text("hint")
            .filter(|hint| !hint.is_empty())
            .map(|hint| cut(hint, VALUE_CHARS));
    }
}

fn bounded(lines: &[String]) -> Vec<String> {
    let short = |line: &String| cut(line, LINE_CHARS);
    let omitted = lines.len().saturating_sub(FIRST_LINES + LAST_LINES);
    if omitted == 0 {
        return lines.iter().map(short).collect();
    }
    let note = format!("[… {omitted} lines omitted …]");
    let first = lines.iter().take(FIRST_LINES).map(short);
    let last = lines.iter().skip(FIRST_LINES + omitted).map(short);
    first.chain([note]).chain(last).collect()
}

fn cut(text: &str, chars: usize) -> String {
    let mut excerpt = Excerpt::new(chars);
    excerpt.push(text);
    excerpt.shown().text("")
}

/// The innermost line of the cell in a traceback of `IPython`:
/// ```text
/// Cell In[3], line 2
///       1 x = 1
/// ----> 2 x / 0
/// ```
/// A `SyntaxError` has the source in the next line, without an arrow.
fn frame(lines: &[String]) -> Option<Frame> {
    let (at, line) = lines.iter().enumerate().rev().find_map(|(at, line)| {
        let cell = line.trim_start().strip_prefix("Cell In[")?;
        let (_, rest) = cell.split_once("line ")?;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        Some((at, digits.parse().ok()?))
    })?;
    let below = || lines.iter().skip(at + 1).take_while(|line| !line.is_empty());
    let arrow = below().find_map(|line| {
        let (arrow, rest) = line.split_once("> ")?;
        let is_arrow = arrow.len() >= 2 && arrow.bytes().all(|byte| byte == b'-');
        let (number, source) = rest.split_once(' ').unwrap_or((rest, ""));
        (is_arrow && number.parse() == Ok(line_number(line)?)).then(|| source.trim().to_owned())
    });
    let source = arrow.or_else(|| below().next().map(|line| line.trim().to_owned()))?;
    Some(Frame {
        line,
        source: cut(&source, LINE_CHARS),
    })
}

fn line_number(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once("> ")?;
    rest.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn failure(content: &Json) -> Failure {
        Failure::read(content.as_object().unwrap())
    }

    #[test]
    fn the_failing_line_is_the_innermost_of_the_cell() {
        let read = failure(
            &json!({"ename": "ZeroDivisionError", "evalue": "division by zero", "traceback": [
            "\u{1b}[31m-----------\u{1b}[39m",
            "\u{1b}[31mZeroDivisionError\u{1b}[39m      Traceback (most recent call last)",
            "\u{1b}[36mCell\u{1b}[39m\u{1b}[36m \u{1b}[39m\u{1b}[32mIn[4]\u{1b}[39m\u{1b}[32m, line 4\u{1b}[39m\n      1 def f(x):\n      2     return 1 / x\n----> 4 f(0)\n",
            "\u{1b}[36mCell\u{1b}[39m\u{1b}[36m \u{1b}[39m\u{1b}[32mIn[4]\u{1b}[39m\u{1b}[32m, line 2\u{1b}[39m, in f(x)\n      1 def f(x):\n----> 2     return 1 / x\n      4 f(0)\n",
            "\u{1b}[31mZeroDivisionError\u{1b}[39m: division by zero"]}),
        );
        assert_eq!(
            read.frame,
            Some(Frame {
                line: 2,
                source: "return 1 / x".into()
            })
        );
        assert_eq!(
            read.traceback.last().unwrap(),
            "ZeroDivisionError: division by zero"
        );
        assert!(read.traceback.iter().all(|line| !line.contains('\u{1b}')));
    }

    #[test]
    fn a_syntax_error_has_its_line_too() {
        let read = failure(
            &json!({"ename": "SyntaxError", "evalue": "invalid syntax (123.py, line 1)", "traceback": [
            "\u{1b}[36m  \u{1b}[39m\u{1b}[36mCell\u{1b}[39m\u{1b}[36m \u{1b}[39m\u{1b}[32mIn[1]\u{1b}[39m\u{1b}[32m, line 1\u{1b}[39m\n    x = = 1\n        ^\nSyntaxError: invalid syntax\n"]}),
        );
        assert_eq!(
            read.frame,
            Some(Frame {
                line: 1,
                source: "x = = 1".into()
            })
        );
    }

    #[test]
    fn other_tracebacks_have_no_frame_and_nothing_is_endless() {
        let lines: Vec<String> = (0..200)
            .map(|line| format!("line {line} {}", "x".repeat(1000)))
            .collect();
        let mut read = failure(&json!({"ename": "E", "evalue": "v".repeat(10_000), "traceback": lines}));
        assert_eq!(
            (read.frame.clone(), read.traceback.len()),
            (None, FIRST_LINES + LAST_LINES + 1)
        );
        assert_eq!(read.traceback[FIRST_LINES], "[… 120 lines omitted …]");
        assert!(
            read.traceback
                .iter()
                .all(|line| line.chars().count() < LINE_CHARS + 50)
        );
        assert!(read.value.chars().count() < VALUE_CHARS + 50);
        read.annotate(&json!({"line": 3, "source": "  df['x'] ", "hint": "columns are a, b"}));
        assert_eq!(
            read.frame,
            Some(Frame {
                line: 3,
                source: "df['x']".into()
            })
        );
        assert_eq!(read.hint.as_deref(), Some("columns are a, b"));
        assert_eq!(failure(&json!({})).name, "");
    }
}
