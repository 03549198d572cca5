//! `himalia exec`: runs code in a session and shows what it prints while it runs.

use std::io::Read as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

use super::console::{Console, Stream};
use super::http::Client;
use super::keyboard::{self, Keyboard};
use super::plots::Plots;
use super::show::{clean, printable};
use super::stream::Lines;
use crate::args::exec::ExecArgs;
use crate::find;
use crate::support::{connect, encoded, expect};

/// Longest time in which a lost connection is retried; a gateway that restarts takes less.
const RECONNECT: Duration = Duration::from_secs(30);
/// From one attempt to the next.
const PAUSE: Duration = Duration::from_millis(300);

/// Exit codes of results, beside 0 and 1; they are those of `timeout(1)` and of shells.
const TIMED_OUT: u8 = 124;
const INTERRUPTED: u8 = 130;
/// The kernel's process ended.
const DIED: u8 = 3;
/// Names of lost variables that are shown; `--json` has more.
const NAMES_SHOWN: usize = 30;

/// An execution as far as it was shown.
struct Run<'a> {
    client: &'a Client,
    /// Prints the result at the end instead of events.
    quiet: bool,
    /// Path of the execution, once it was accepted.
    path: String,
    seq: u64,
    signals: Signal,
    interrupts: u32,
    /// It waits for an answer.
    asked: bool,
    keyboard: Keyboard,
    console: Console,
    /// Session as the caller wrote it.
    name: String,
    plots: Plots,
}

/// Runs code, and shows it to its end.
pub(super) async fn exec(args: ExecArgs) -> anyhow::Result<ExitCode> {
    let client = &connect(&args.gateway)?;
    // A wrong name is reported before the user types code for it.
    let found = find::lookup(client, &args.session).await?;
    if found.is_none() && args.no_create {
        return Err(find::none(&args.session));
    }
    let (code, asks) = read_code(&args)?;
    let mut console = Console::new(args.raw);
    let session = match found {
        Some(id) => id,
        None => create(client, &args, &mut console).await?,
    };
    for file in &args.upload {
        upload(client, &session, file).await?;
    }
    let mut body = json!({ "code": code, "allow_stdin": asks });
    if args.bash {
        body["language"] = "bash".into();
    }
    if let Some(timeout) = args.timeout {
        body["timeout_s"] = timeout.0.into();
    }
    if let Some(incarnation) = args.expect_incarnation {
        body["expect_incarnation"] = incarnation.into();
    }
    if let Some(most) = args.max_failures {
        body["max_failures"] = most.into();
    }
    let plots = Plots::new(args.plots, args.gateway.json)?;
    let lines = client
        .post_lines(&format!("/v1/sessions/{session}/executions"), &body)
        .await?;
    let mut run = Run {
        client,
        quiet: args.gateway.json,
        path: String::new(),
        seq: 0,
        signals: signal(SignalKind::interrupt()).context("Ctrl-C")?,
        interrupts: 0,
        asked: false,
        keyboard: Keyboard::default(),
        console,
        name: clean(&args.session),
        plots,
    };
    run.follow(lines).await
}

/// The code that is wanted, and whether the keyboard is free for questions of it.
fn read_code(args: &ExecArgs) -> anyhow::Result<(String, bool)> {
    match (args.code.as_deref(), &args.file) {
        (Some("-") | None, None) => {
            if keyboard::is_there() {
                Console::new(false).say("the code, and Ctrl-D at its end:")?;
            }
            let mut code = String::new();
            std::io::stdin()
                .read_to_string(&mut code)
                .context("standard input")?;
            Ok((code, false))
        }
        (Some(code), None) => Ok((code.to_owned(), keyboard::is_there())),
        (_, Some(file)) => {
            let code = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
            Ok((code, keyboard::is_there()))
        }
    }
}

/// Puts a file into the session's work directory, under its own name.
async fn upload(client: &Client, session: &str, file: &Path) -> anyhow::Result<()> {
    let what = || format!("--upload {}", file.display());
    let name = file.file_name().and_then(|name| name.to_str());
    let name = name.with_context(|| format!("{}: has no name in UTF-8", what()))?;
    let opened = std::fs::File::open(file).with_context(what)?;
    let path = format!("/v1/sessions/{session}/files/{}", encoded(name));
    let reply = client.put_file(&path, opened).await.with_context(what)?;
    match reply.status {
        200 | 201 => Ok(()),
        _ => bail!("{}: {}", what(), reply.problem()),
    }
}

/// Starts a session of the name that was given.
async fn create(client: &Client, args: &ExecArgs, console: &mut Console) -> anyhow::Result<String> {
    let body = args
        .template
        .as_ref()
        .map_or_else(|| json!({}), |name| json!({ "template": name }));
    let session = find::start(client, &args.session, &body).await?;
    let part = |name: &str| clean(session[name].as_str().unwrap_or("?"));
    console.say(&format!(
        "started session {} ({}, isolation {})",
        part("name"),
        part("template"),
        part("isolation")
    ))?;
    Ok(part("id"))
}

impl Run<'_> {
    /// Shows all events. Reconnects when a connection is lost: the execution continues meanwhile.
    async fn follow(&mut self, mut lines: Lines) -> anyhow::Result<ExitCode> {
        loop {
            let lost = loop {
                let line = tokio::select! {
                    line = lines.next() => line,
                    _ = self.signals.recv() => {
                        self.interrupt().await?;
                        continue;
                    }
                    answer = self.keyboard.line(), if self.asked => {
                        self.answer(answer).await?;
                        continue;
                    }
                };
                match line {
                    Ok(Some(event)) => {
                        if let Some(code) = self.event(&event).await? {
                            return Ok(code);
                        }
                    }
                    Ok(None) => break anyhow::anyhow!("the gateway closed the connection"),
                    Err(error) => break error,
                }
            };
            lines = self.again(lost).await?;
        }
    }

    async fn again(&self, lost: anyhow::Error) -> anyhow::Result<Lines> {
        if self.path.is_empty() {
            return Err(lost);
        }
        let end = Instant::now() + RECONNECT;
        loop {
            match self
                .client
                .get_lines(&format!("{}/events?after={}", self.path, self.seq))
                .await
            {
                Ok(lines) => return Ok(lines),
                Err(_) if Instant::now() < end => tokio::time::sleep(PAUSE).await,
                Err(error) => return Err(error.context(format!("{lost:#}; it continues as {}", self.path))),
            }
        }
    }

    /// The first Ctrl-C interrupts the code, the second one leaves it alone.
    async fn interrupt(&mut self) -> anyhow::Result<()> {
        self.interrupts += 1;
        if self.interrupts > 1 || self.path.is_empty() {
            bail!("left; it continues as {}", self.path);
        }
        let reply = self
            .client
            .post(&format!("{}/interrupt", self.path), &json!({}))
            .await?;
        if reply.status != 202 {
            bail!("{}", reply.problem());
        }
        Ok(())
    }

    /// Shows one event; the exit code with the last one.
    async fn event(&mut self, event: &Value) -> anyhow::Result<Option<ExitCode>> {
        if let Some(id) = event["execution_id"].as_str() {
            self.path = format!("/v1/executions/{id}");
        }
        self.seq = event["seq"].as_u64().unwrap_or(self.seq);
        let word = event["event"].as_str().unwrap_or_default();
        match word {
            "done" => return self.done(&event["result"]).map(Some),
            "stuck" => return self.stuck(event).await.map(Some),
            _ => {}
        }
        if word == "input_request" {
            self.ask(event)?;
        }
        let is_output = ["display", "result", "update_display"].contains(&word);
        if self.quiet {
            if is_output && self.plots.are_saved() {
                self.plot(event).await?;
            }
            return Ok(None);
        }
        let text = event["text"].as_str().unwrap_or_default();
        match word {
            "stdout" => self.console.print(Stream::Out, text)?,
            "stderr" | "gap" => self.console.print(Stream::Err, text)?,
            _ if is_output => {
                let shown = event["summary"].as_str().or(event["data"]["text/plain"].as_str());
                self.console.value(shown.unwrap_or("<no text>"))?;
                self.plot(event).await?;
            }
            "exception" => {
                let lines = event["traceback"].as_array().into_iter().flatten();
                let lines: Vec<&str> = lines.filter_map(Value::as_str).collect();
                self.console.traceback(&lines)?;
            }
            "queued" if event["position"].as_u64().unwrap_or(0) > 0 => {
                self.console.say(&format!("waits behind {}", event["position"]))?;
            }
            "started" if event["replaced"].is_object() => {
                let cause = clean(event["replaced"]["cause"].as_str().unwrap_or("unknown"));
                let gone = gone(&event["replaced"]["variables_lost"]);
                self.console.say(&format!("a new process, {gone} ({cause})"))?;
            }
            _ => {}
        }
        Ok(None)
    }

    /// Shows or saves the plot of an output, if it has one. One that cannot be saved does not end what is shown.
    async fn plot(&mut self, event: &Value) -> anyhow::Result<()> {
        let execution = self.path.rsplit('_').next().unwrap_or_default();
        let update = event["event"] == "update_display";
        let taken = self
            .plots
            .take(self.client, &event["data"], execution, update)
            .await;
        match taken.unwrap_or_else(|error| Some(format!("no plot: {error:#}"))) {
            Some(text) => self.console.say(&text),
            None => Ok(()),
        }
    }

    fn ask(&mut self, event: &Value) -> anyhow::Result<()> {
        self.asked = true;
        self.keyboard.ask(event["password"] == true);
        if keyboard::is_there() {
            // A prompt of the code must not pass for a question of the shell or of this command.
            self.console
                .say(&format!("the code in session {} asks:", self.name))?;
        }
        self.console
            .print(Stream::Err, event["prompt"].as_str().unwrap_or_default())
    }

    async fn answer(&mut self, value: String) -> anyhow::Result<()> {
        self.asked = false;
        if self.keyboard.show() {
            // The line break was not shown either.
            self.console.print(Stream::Err, "\n")?;
        } else if value != keyboard::END_OF_INPUT {
            self.console.line_was_typed();
        }
        let answer = json!({ "value": value });
        let reply = self.client.post(&format!("{}/input", self.path), &answer).await?;
        match reply.status {
            202 => Ok(()),
            // Another client answered first, or it was interrupted.
            409 => self.console.say("it does not wait for an answer any more"),
            _ => bail!("{}", reply.problem()),
        }
    }

    /// Code that ignores interrupts is not waited for, nor is it behind which this execution waits.
    async fn stuck(&mut self, event: &Value) -> anyhow::Result<ExitCode> {
        self.keyboard.show();
        if self.quiet {
            let reply = self.client.get(&self.path).await?;
            let result = expect(&reply, 200)?;
            self.console.print(Stream::Out, &format!("{result:#}\n"))?;
        } else {
            self.console.end_line()?;
            self.console
                .say(&clean(event["hint"].as_str().unwrap_or_default()))?;
            self.console.say(&format!("it continues as {}", self.path))?;
        }
        Ok(ExitCode::from(TIMED_OUT))
    }

    fn done(&mut self, result: &Value) -> anyhow::Result<ExitCode> {
        self.keyboard.show();
        let status = result["status"].as_str().unwrap_or_default();
        let code = match status {
            "ok" => 0,
            "timeout" => TIMED_OUT,
            "interrupted" => INTERRUPTED,
            "kernel_died" | "oom_killed" => DIED,
            _ => 1,
        };
        if self.quiet {
            self.console.print(Stream::Out, &format!("{result:#}\n"))?;
            return Ok(ExitCode::from(code));
        }
        self.console.end_line()?;
        if let Some(hint) = result["error"]["hint"].as_str() {
            self.console.say(&format!("hint: {}", printable(hint)))?;
        }
        match status {
            "timeout" => self.console.say("it reached its timeout and was interrupted")?,
            "kernel_died" | "oom_killed" => {
                let cause = clean(result["death"]["cause"].as_str().unwrap_or_default());
                let gone = gone(&result["death"]["variables_lost"]);
                self.console
                    .say(&format!("the kernel has ended ({cause}), {gone}"))?;
            }
            _ => {}
        }
        Ok(ExitCode::from(code))
    }
}

/// Message that variables are lost, with their names.
fn gone(lost: &Value) -> String {
    let names = lost["names"].as_array().into_iter().flatten();
    let names: Vec<&str> = names.filter_map(Value::as_str).collect();
    if names.is_empty() {
        return "the variables are gone".to_owned();
    }
    let shown = names.len().min(NAMES_SHOWN);
    let more = if lost["truncated"] == true || names.len() > shown {
        ", …"
    } else {
        ""
    };
    format!(
        "its variables are gone: {}{more}",
        printable(&names[..shown].join(", "))
    )
}
