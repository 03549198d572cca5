//! The messages of the service.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use himalia_engine::{ProcessExit, ProcessSource, TerminalSize};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use crate::connect::{Code, RpcFailure};

/// A command as its client describes it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Config {
    pub(super) cmd: String,
    pub(super) args: Vec<String>,
    pub(super) envs: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cwd: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Start {
    pub(super) process: Config,
    pub(super) pty: Option<Pty>,
    pub(super) tag: Option<String>,
    /// Absent means that the command has an input, as clients had it before there was this member.
    pub(super) stdin: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Pty {
    pub(super) size: Size,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Size {
    rows: u32,
    cols: u32,
}

impl Size {
    pub(super) fn read(self) -> Result<TerminalSize, RpcFailure> {
        let number = |number: u32| {
            let number = u16::try_from(number).ok();
            number.ok_or_else(|| RpcFailure::new(Code::InvalidArgument, "size: a number is too large"))
        };
        Ok(TerminalSize {
            rows: number(self.rows)?,
            cols: number(self.cols)?,
        })
    }
}

/// Selector of a command in a call.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Selector {
    Pid(u32),
    Tag(String),
}

/// Members of calls on a running command.
#[derive(Debug, Deserialize)]
pub(super) struct CommandCall {
    pub(super) process: Option<Selector>,
    pub(super) pty: Option<Pty>,
    pub(super) input: Option<Input>,
    pub(super) signal: Option<Value>,
}

/// Input of a command.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Input {
    Stdin(Base64),
    Pty(Base64),
}

impl Input {
    pub(super) fn bytes(self) -> Bytes {
        let (Self::Stdin(Base64(bytes)) | Self::Pty(Base64(bytes))) = self;
        bytes
    }
}

/// Bytes as this form of JSON has them.
#[derive(Debug)]
pub(super) struct Base64(Bytes);

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = BASE64_STANDARD.decode(text).map_err(serde::de::Error::custom)?;
        Ok(Self(bytes.into()))
    }
}

/// A message of a client's stream of input.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum StreamInput {
    Start { process: Option<Selector> },
    Data { input: Option<Input> },
    Keepalive {},
}

/// The signals that the service has: by name, or by number.
pub(super) fn signal(value: &Value) -> Option<i32> {
    match value {
        Value::String(name) if name == "SIGNAL_SIGTERM" => Some(15),
        Value::String(name) if name == "SIGNAL_SIGKILL" => Some(9),
        Value::Number(number) => {
            let number = i32::try_from(number.as_i64()?).ok()?;
            matches!(number, 9 | 15).then_some(number)
        }
        _ => None,
    }
}

/// Something that a command does, to its clients.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Started(u32),
    Output(ProcessSource, Bytes),
    Ended(ProcessExit),
    Silence,
}

impl Event {
    /// As a message of a stream.
    pub(super) fn to_json(&self) -> Value {
        let event = match self {
            Self::Started(pid) => json!({ "start": { "pid": pid } }),
            Self::Output(source, bytes) => {
                let source = match source {
                    ProcessSource::Stdout => "stdout",
                    ProcessSource::Stderr => "stderr",
                    ProcessSource::Terminal => "pty",
                };
                json!({ "data": { source: BASE64_STANDARD.encode(bytes) } })
            }
            Self::Ended(exit) => json!({ "end": ended(*exit) }),
            Self::Silence => json!({ "keepalive": {} }),
        };
        json!({ "event": event })
    }
}

/// End of a command, in the words of the service: the exit code is -1 after a signal.
fn ended(exit: ProcessExit) -> Value {
    match (exit.code, exit.signal) {
        (Some(code), _) => {
            let status = format!("exit status {code}");
            let mut ended = json!({ "exitCode": code, "exited": true, "status": status });
            if code != 0 {
                ended["error"] = status.into();
            }
            ended
        }
        (None, Some(signal)) => {
            let name = match signal {
                2 => "interrupt".to_owned(),
                9 => "killed".to_owned(),
                15 => "terminated".to_owned(),
                other => other.to_string(),
            };
            let status = format!("signal: {name}");
            json!({ "exitCode": -1, "exited": false, "status": status, "error": status })
        }
        (None, None) => json!({ "exitCode": -1, "exited": false, "status": "lost", "error": "lost" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read() {
        let start: Start = serde_json::from_value(json!({
            "process": {"cmd": "/bin/bash", "args": ["-c", "x"], "envs": {"A": "b"}},
            "pty": {"size": {"rows": 3, "cols": 4}},
        }))
        .unwrap();
        assert_eq!(
            (start.process.cmd.as_str(), start.process.envs["A"].as_str()),
            ("/bin/bash", "b")
        );
        assert_eq!(
            start.pty.unwrap().size.read().unwrap(),
            TerminalSize { rows: 3, cols: 4 }
        );
        assert!(
            Size {
                rows: 70_000,
                cols: 1
            }
            .read()
            .is_err()
        );
        let selected: CommandCall = serde_json::from_value(json!({
            "process": {"pid": 7}, "input": {"stdin": "aGk="}, "signal": "SIGNAL_SIGKILL",
        }))
        .unwrap();
        assert!(matches!(selected.process, Some(Selector::Pid(7))));
        assert_eq!(selected.input.unwrap().bytes(), "hi");
        assert_eq!(signal(&selected.signal.unwrap()), Some(9));
        assert_eq!(
            (signal(&json!(15)), signal(&json!(3)), signal(&json!("SIGNAL_X"))),
            (Some(15), None, None)
        );
        let data: StreamInput = serde_json::from_value(json!({"data": {"input": {"pty": ""}}})).unwrap();
        assert!(matches!(data, StreamInput::Data { input: Some(_) }));
        assert!(serde_json::from_value::<StreamInput>(json!({"keepalive": {}})).is_ok());
    }

    #[test]
    fn an_end_is_told_as_the_service_does() {
        let exit = |code, signal| ended(ProcessExit { code, signal });
        assert_eq!(
            exit(Some(0), None),
            json!({"exitCode": 0, "exited": true, "status": "exit status 0"})
        );
        assert_eq!(exit(Some(3), None)["error"], "exit status 3");
        assert_eq!(exit(None, Some(9))["status"], "signal: killed");
        assert_eq!(exit(None, Some(9))["exitCode"], -1);
    }
}
