//! The commands that the fake kernel understands.

use serde_json::{Map, Value};

/// The commands, for `--help` and for people who write tests.
pub const HELP: &str = "\
Commands of the fake kernel, one per line of code; `#` begins a comment:
  print TEXT            a stream message on stdout, with a line end
  eprint TEXT           the same on stderr
  raw-stderr TEXT       a line on the process's own stderr
  count N [BYTES]       N stream messages, `0` to `N-1`, each padded to BYTES
  display MIME BYTES    display_data with so much data, or with this JSON object
  result TEXT           execute_result with text/plain
  clear                 clear_output
  binary N BYTES        comm_msg with N buffers of BYTES each
  input PROMPT          asks on stdin and prints `input: ANSWER`
  password PROMPT       the same with `password: true`
  error NAME MESSAGE    raises
  sleep MS              waits; an interrupt raises KeyboardInterrupt
  hang                  waits for ever; an interrupt raises KeyboardInterrupt
  freeze MS             stops the whole process: no heartbeat, no control, no signal handler
  wait-file PATH        waits until a file exists
  touch PATH            makes a file
  append PATH TEXT      adds a line to a file
  set NAME VALUE        a variable, kept while the process lives
  get NAME              prints it, or raises NameError
  pid | cwd             prints it
  env [NAME]            prints one variable of the environment, or all, sorted
  allocate BYTES        takes memory and keeps it
  fork N [own-group]    starts N children that sleep, prints their pids
  ignore-sigint         from now on
  ignore-sigterm        from now on
  ignore-shutdown       from now on: shutdown_request gets no answer and has no effect
  exit CODE             ends the process at once, without a reply; earlier output is written first
  kill SIGNAL           sends itself INT, TERM, KILL, STOP, SEGV, ABRT, HUP or QUIT
";

/// One command.
#[derive(Clone, Debug, Eq, PartialEq)]
#[allow(missing_docs)] // HELP says what each means.
pub enum Step {
    Print { name: &'static str, text: String },
    RawStderr(String),
    Count { messages: u64, bytes: usize },
    Display { mime: String, data: Value },
    Result(String),
    Clear,
    Binary { buffers: usize, bytes: usize },
    Input { prompt: String, password: bool },
    Error { name: String, message: String },
    Sleep(u64),
    Hang,
    Freeze(u64),
    WaitFile(String),
    Touch(String),
    Append { path: String, text: String },
    Set { name: String, value: String },
    Get(String),
    Pid,
    Cwd,
    Env(Option<String>),
    Allocate(usize),
    Fork { children: usize, own_group: bool },
    IgnoreSigint,
    IgnoreSigterm,
    IgnoreShutdown,
    Exit(i32),
    Kill(String),
}

/// Reads a script. The error is what a `SyntaxError` would say.
pub fn parse(code: &str) -> Result<Vec<Step>, String> {
    let lines = code.lines().map(str::trim).enumerate();
    let commands = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    commands
        .map(|(at, line)| command(line).ok_or_else(|| format!("line {}: cannot read {line:?}", at + 1)))
        .collect()
}

/// `None` for an unknown command, a missing or a bad argument.
fn command(line: &str) -> Option<Step> {
    let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
    let rest = rest.trim_start();
    let (first, second) = rest.split_once(' ').unwrap_or((rest, ""));
    let step = match verb {
        "print" => Step::Print {
            name: "stdout",
            text: rest.to_owned(),
        },
        "eprint" => Step::Print {
            name: "stderr",
            text: rest.to_owned(),
        },
        "raw-stderr" => Step::RawStderr(rest.to_owned()),
        "count" => Step::Count {
            messages: first.parse().ok()?,
            bytes: if second.is_empty() {
                0
            } else {
                second.parse().ok()?
            },
        },
        "display" => Step::Display {
            mime: word(first)?,
            data: match second.parse() {
                Ok(bytes) => "d".repeat(bytes).into(),
                Err(_) => serde_json::from_str::<Map<String, Value>>(second).ok()?.into(),
            },
        },
        "result" => Step::Result(rest.to_owned()),
        "clear" => Step::Clear,
        "binary" => Step::Binary {
            buffers: first.parse().ok()?,
            bytes: second.parse().ok()?,
        },
        "input" => Step::Input {
            prompt: rest.to_owned(),
            password: false,
        },
        "password" => Step::Input {
            prompt: rest.to_owned(),
            password: true,
        },
        "error" => Step::Error {
            name: word(first)?,
            message: second.to_owned(),
        },
        "sleep" => Step::Sleep(rest.parse().ok()?),
        "hang" => Step::Hang,
        "freeze" => Step::Freeze(rest.parse().ok()?),
        "wait-file" => Step::WaitFile(word(rest)?),
        "touch" => Step::Touch(word(rest)?),
        "append" => Step::Append {
            path: word(first)?,
            text: second.to_owned(),
        },
        "set" => Step::Set {
            name: word(first)?,
            value: second.to_owned(),
        },
        "get" => Step::Get(word(rest)?),
        "pid" => Step::Pid,
        "cwd" => Step::Cwd,
        "env" => Step::Env(word(rest)),
        "allocate" => Step::Allocate(rest.parse().ok()?),
        "fork" => Step::Fork {
            children: first.parse().ok()?,
            own_group: match second {
                "" => false,
                "own-group" => true,
                _ => return None,
            },
        },
        "ignore-sigint" => Step::IgnoreSigint,
        "ignore-sigterm" => Step::IgnoreSigterm,
        "ignore-shutdown" => Step::IgnoreShutdown,
        "exit" => Step::Exit(rest.parse().ok()?),
        "kill" => Step::Kill(word(rest)?),
        _ => return None,
    };
    Some(step)
}

fn word(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script() {
        let steps =
            parse("# start\nprint a  b\n\n count 3 10\ncount 2\nerror ValueError no such thing\nhang")
                .unwrap();
        assert_eq!(
            steps,
            [
                Step::Print {
                    name: "stdout",
                    text: "a  b".into()
                },
                Step::Count {
                    messages: 3,
                    bytes: 10
                },
                Step::Count {
                    messages: 2,
                    bytes: 0
                },
                Step::Error {
                    name: "ValueError".into(),
                    message: "no such thing".into()
                },
                Step::Hang,
            ]
        );
        assert_eq!(parse("").unwrap(), []);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for bad in [
            "x = 1",
            "sleep",
            "sleep soon",
            "count",
            "count 1 2 3",
            "get",
            "fork 2 x",
            "printing",
        ] {
            let error = parse(&format!("print ok\n{bad}")).unwrap_err();
            assert!(error.starts_with("line 2: ") && error.contains(bad), "{error}");
        }
    }

    #[test]
    fn help_names_every_command() {
        for line in HELP.lines().skip(1) {
            for verb in line.trim().split("  ").next().unwrap_or_default().split(" | ") {
                let verb = verb.split(' ').next().unwrap_or_default();
                let tried = ["", " 1", " a", " a 1", " 1 1"];
                assert!(
                    tried.iter().any(|args| parse(&format!("{verb}{args}")).is_ok()),
                    "{verb}"
                );
            }
        }
    }
}
