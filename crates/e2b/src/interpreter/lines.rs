//! The lines of a streamed execution: one JSON object each, in ASCII, since some clients decode what arrives piece by piece.

use std::fmt::Write as _;

use himalia_engine::ExecutionResult;
use serde::Serialize;
use serde_json::{Map, Value};

#[derive(Debug, Serialize, PartialEq)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Line {
    NumberOfExecutions {
        execution_count: u64,
    },
    Stdout {
        text: String,
        timestamp: String,
    },
    Stderr {
        text: String,
        timestamp: String,
    },
    Result {
        #[serde(flatten)]
        data: Map<String, Value>,
        is_main_result: bool,
    },
    Error {
        name: String,
        value: String,
        traceback: String,
    },
    Keepalive,
    UnexpectedEndOfExecution,
    EndOfExecution,
}

impl Line {
    /// Appends the line.
    pub(super) fn write(&self, out: &mut String) {
        let text = serde_json::to_string(self).unwrap_or_default();
        for char in text.chars() {
            if char.is_ascii() {
                out.push(char);
                continue;
            }
            for unit in char.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
        out.push('\n');
    }
}

/// Line for an execution without an error of its own: its kernel died, or it was stopped.
pub(super) fn failure(result: &ExecutionResult) -> Option<Line> {
    use himalia_engine::ExecutionStatus as Status;
    if let Some(failure) = &result.error {
        return Some(Line::Error {
            name: failure.name.clone(),
            value: failure.value.clone(),
            traceback: failure.traceback.join("\n"),
        });
    }
    let (name, value) = match result.status {
        Status::Ok | Status::Queued | Status::Running => return None,
        Status::Error => ("Error", "the code failed"),
        Status::Timeout => ("TimeoutError", "the code ran longer than it may"),
        Status::Interrupted => ("ExecutionAborted", "the execution was interrupted"),
        Status::KernelDied => ("KernelDied", "the kernel's process ended; its variables are lost"),
        Status::OomKilled => (
            "OutOfMemory",
            "the kernel's process ran out of memory; its variables are lost",
        ),
    };
    let value = match &result.death {
        Some(death) => format!("{value} ({})", death.cause),
        None => value.to_owned(),
    };
    Some(Line::failed(name, value))
}

impl Line {
    /// An error that is not of the code.
    pub(super) fn failed(name: &str, value: String) -> Self {
        Self::Error {
            name: name.to_owned(),
            traceback: format!("{name}: {value}"),
            value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lines_are_ascii_and_come_back() {
        let mut out = String::new();
        let line = Line::Stdout {
            text: "ä😀\n\"x\"".into(),
            timestamp: "t".into(),
        };
        line.write(&mut out);
        assert!(
            out.is_ascii() && out.ends_with('\n') && out.lines().count() == 1,
            "{out}"
        );
        let read: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(
            read,
            json!({"type": "stdout", "text": "ä😀\n\"x\"", "timestamp": "t"})
        );
        let mut out = String::new();
        Line::EndOfExecution.write(&mut out);
        assert_eq!(out, "{\"type\":\"end_of_execution\"}\n");
        let data = json!({"text": "2"}).as_object().unwrap().clone();
        let line = serde_json::to_value(Line::Result {
            data,
            is_main_result: true,
        })
        .unwrap();
        assert_eq!(
            line,
            json!({"type": "result", "text": "2", "is_main_result": true})
        );
    }
}
