//! What each command of a script does.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use rustix::process::{Signal, getpid, kill_process};
use serde_json::{Value, json};

use super::execute::{ExecuteRequest, Raised, Shell};
use super::router::Request;
use super::script::Step;

/// How often `wait-file` looks.
const LOOK: Duration = Duration::from_millis(2);

impl Shell {
    pub(super) async fn steps(
        &mut self,
        steps: Vec<Step>,
        request: &Request,
        asked: &ExecuteRequest,
    ) -> Result<(), Raised> {
        for step in steps {
            self.step(step, request, asked).await?;
        }
        Ok(())
    }

    async fn step(&mut self, step: Step, request: &Request, asked: &ExecuteRequest) -> Result<(), Raised> {
        let parent = &request.parts.header;
        match step {
            Step::Print { name, text } => self.iopub.stream(parent, name, &format!("{text}\n")).await,
            Step::RawStderr(text) => eprintln!("{text}"),
            Step::Count { messages, bytes } => self.count_to(messages, bytes, parent).await?,
            Step::Display { mime, data } => {
                let data = json!({ "data": { mime: data }, "metadata": {}, "transient": {} });
                self.publish("display_data", parent, &data).await;
            }
            Step::Result(text) => {
                let data = json!({
                    "data": { "text/plain": text },
                    "metadata": {},
                    "execution_count": self.count,
                });
                self.publish("execute_result", parent, &data).await;
            }
            Step::Clear => {
                self.publish("clear_output", parent, &json!({ "wait": false }))
                    .await;
            }
            Step::Binary { buffers, bytes } => {
                let content = json!({ "comm_id": "fake", "data": { "buffers": buffers } });
                let mut message = self.maker.message("comm_msg", parent, &content);
                let numbered = (0..buffers).map(|n| vec![u8::try_from(n % 256).unwrap_or_default(); bytes]);
                message.buffers = numbered.map(Bytes::from).collect();
                self.iopub.send(message, "comm-fake").await;
            }
            Step::Input { prompt, password } => self.input(&prompt, password, request, asked).await?,
            Step::Error { name, message } => return Err(Raised { name, message }),
            Step::Sleep(ms) => {
                self.interrupts
                    .unless(tokio::time::sleep(Duration::from_millis(ms)))
                    .await?;
            }
            Step::Hang => self.interrupts.unless(std::future::pending::<()>()).await?,
            Step::Freeze(ms) => std::thread::sleep(Duration::from_millis(ms)),
            Step::WaitFile(path) => {
                let appears = async {
                    while !std::path::Path::new(&path).exists() {
                        tokio::time::sleep(LOOK).await;
                    }
                };
                self.interrupts.unless(appears).await?;
            }
            Step::Touch(path) => drop(std::fs::OpenOptions::new().create(true).append(true).open(path)?),
            Step::Append { path, text } => {
                let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
                file.write_all(format!("{text}\n").as_bytes())?;
            }
            Step::Set { name, value } => self.state.set(name, value),
            Step::Get(name) => {
                let missing = || Raised::new("NameError", format!("name {name:?} is not defined"));
                let value = self.state.get(&name).ok_or_else(missing)?;
                self.iopub.stream(parent, "stdout", &format!("{value}\n")).await;
            }
            Step::Pid => {
                self.iopub
                    .stream(parent, "stdout", &format!("{}\n", std::process::id()))
                    .await;
            }
            Step::Cwd => {
                let cwd = std::env::current_dir()?;
                self.iopub
                    .stream(parent, "stdout", &format!("{}\n", cwd.display()))
                    .await;
            }
            Step::Env(name) => {
                self.iopub
                    .stream(parent, "stdout", &environment(&self.state.env(), name.as_deref()))
                    .await;
            }
            // Written to, so that it is resident.
            Step::Allocate(bytes) => self.held.push(vec![1; bytes]),
            Step::Fork { children, own_group } => self.fork(children, own_group, parent).await?,
            Step::IgnoreSigint => self.interrupter.ignore_sigint.store(true, Ordering::Relaxed),
            Step::IgnoreSigterm => drop(tokio::signal::unix::signal(
                tokio::signal::unix::SignalKind::terminate(),
            )?),
            Step::IgnoreShutdown => self.ignore_shutdown.store(true, Ordering::Relaxed),
            Step::Exit(code) => {
                self.iopub.flush().await;
                std::process::exit(code);
            }
            Step::Kill(name) => {
                self.iopub.flush().await;
                kill_process(getpid(), signal(&name)?).map_err(std::io::Error::from)?;
                // One that is handled shows in the next wait.
                self.interrupts.unless(tokio::task::yield_now()).await?;
            }
        }
        Ok(())
    }

    async fn publish(&self, msg_type: &str, parent: &Bytes, content: &Value) {
        let topic = format!("kernel.fake.{msg_type}");
        self.iopub
            .send(self.maker.message(msg_type, parent, content), topic)
            .await;
    }

    async fn count_to(&mut self, messages: u64, bytes: usize, parent: &Bytes) -> Result<(), Raised> {
        for number in 0..messages {
            // Digits and `x` need no escapes.
            let text = format!(
                "{number}{:x<width$}",
                "",
                width = bytes.saturating_sub(digits(number))
            );
            let content = format!(r#"{{"name":"stdout","text":"{text}\n"}}"#);
            let message = self.maker.raw("stream", parent, content);
            self.interrupts
                .unless(self.iopub.send(message, "stream.stdout"))
                .await?;
        }
        Ok(())
    }

    async fn input(
        &mut self,
        prompt: &str,
        password: bool,
        request: &Request,
        asked: &ExecuteRequest,
    ) -> Result<(), Raised> {
        let refused = |why: &str| Raised::new("StdinNotImplementedError", why);
        if !asked.allow_stdin {
            return Err(refused("this client does not allow input"));
        }
        let parent = &request.parts.header;
        // Old answers are not for this question.
        while self.answers.try_recv().is_ok() {}
        let question = json!({ "prompt": prompt, "password": password });
        let question = self.maker.message("input_request", parent, &question);
        if self.stdin.send(&request.identities, &question).await.is_err() {
            return Err(refused("the asker has no stdin socket"));
        }
        let answer = self.interrupts.unless(self.answers.recv()).await?;
        let answer = answer.ok_or_else(|| refused("the socket is closed"))?;
        let content: Value = serde_json::from_slice(&answer.parts.content).unwrap_or_default();
        let value = content.get("value").and_then(Value::as_str).unwrap_or_default();
        self.iopub
            .stream(parent, "stdout", &format!("input: {value}\n"))
            .await;
        Ok(())
    }

    async fn fork(&mut self, children: usize, own_group: bool, parent: &Bytes) -> Result<(), Raised> {
        let mut pids = String::new();
        for _ in 0..children {
            let mut command = Command::new(std::env::current_exe()?);
            command.arg("--child").stdin(Stdio::null()).stdout(Stdio::null());
            if own_group {
                command.process_group(0);
            }
            let child = command.spawn()?;
            let _ = write!(pids, "{} ", child.id());
            self.children.push(child);
        }
        self.iopub
            .stream(parent, "stdout", &format!("{}\n", pids.trim_end()))
            .await;
        Ok(())
    }
}

fn digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

fn environment(env: &BTreeMap<String, String>, name: Option<&str>) -> String {
    if let Some(name) = name {
        return env
            .get(name)
            .map_or_else(|| "unset\n".to_owned(), |value| format!("{value}\n"));
    }
    let all: Vec<String> = env
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    all.join("\n") + "\n"
}

fn signal(name: &str) -> Result<Signal, Raised> {
    Ok(match name.trim_start_matches("SIG") {
        "INT" => Signal::INT,
        "TERM" => Signal::TERM,
        "KILL" => Signal::KILL,
        "STOP" => Signal::STOP,
        "SEGV" => Signal::SEGV,
        "ABRT" => Signal::ABORT,
        "HUP" => Signal::HUP,
        "QUIT" => Signal::QUIT,
        other => return Err(Raised::new("ValueError", format!("unknown signal {other:?}"))),
    })
}
