//! `himalia exec`: runs code in a session and shows what it prints while it runs.

use std::io::{IsTerminal as _, Read as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::http::Client;
use super::show::clean;
use super::stream::Lines;
use crate::cli::ExecArgs;

/// How long a lost connection is made again for; a gateway that is restarted is back by then.
const RECONNECT: Duration = Duration::from_secs(30);
/// From one attempt to the next.
const PAUSE: Duration = Duration::from_millis(300);

/// Exit codes of results, beside 0 and 1; they are those of `timeout(1)` and of shells.
const TIMED_OUT: u8 = 124;
const INTERRUPTED: u8 = 130;
/// The kernel's process ended.
const DIED: u8 = 3;

/// An execution as far as it was shown.
struct Run<'a> {
    client: &'a Client,
    /// Prints the result at the end instead of events.
    quiet: bool,
    /// Its path, once it was taken.
    path: String,
    seq: u64,
    interrupts: u32,
}

pub(super) async fn exec(client: &Client, args: ExecArgs) -> anyhow::Result<ExitCode> {
    let session = find(client, &args.session).await?;
    let (code, asks) = match (args.code.as_deref(), &args.file) {
        (Some("-") | None, None) => {
            let mut code = String::new();
            std::io::stdin()
                .read_to_string(&mut code)
                .context("standard input")?;
            (code, false)
        }
        (Some(code), None) => (code.to_owned(), std::io::stdin().is_terminal()),
        (_, Some(file)) => {
            let code = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
            (code, std::io::stdin().is_terminal())
        }
    };
    for file in &args.upload {
        upload(client, &session, file).await?;
    }
    let mut body = json!({ "code": code, "allow_stdin": asks });
    if args.bash {
        body["language"] = "bash".into();
    }
    if let Some(timeout) = args.timeout {
        body["timeout_ms"] = timeout.0.saturating_mul(1000).into();
    }
    if let Some(incarnation) = args.expect_incarnation {
        body["expect_incarnation"] = incarnation.into();
    }
    let lines = client
        .post_lines(&format!("/v1/sessions/{session}/executions"), &body)
        .await?;
    let mut run = Run {
        client,
        quiet: args.gateway.json,
        path: String::new(),
        seq: 0,
        interrupts: 0,
    };
    run.follow(lines).await
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

/// One segment of a path, encoded so that it stays one (RFC 3986 unreserved characters stand as they are).
fn encoded(name: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// A session by its name, its label `name`, its id or the beginning of its id.
async fn find(client: &Client, wanted: &str) -> anyhow::Result<String> {
    let reply = client.get("/v1/sessions").await?;
    let body = super::expect(&reply, 200)?;
    let all: Vec<&Value> = body["sessions"].as_array().into_iter().flatten().collect();
    let named = |session: &&&Value| session["name"] == wanted || session["labels"]["name"] == wanted;
    let begins = |session: &&&Value| session["id"].as_str().is_some_and(|id| id.starts_with(wanted));
    let mut found: Vec<&&Value> = all.iter().filter(named).collect();
    if found.is_empty() && !wanted.is_empty() {
        found = all.iter().filter(begins).collect();
    }
    match found[..] {
        [one] => Ok(one["id"].as_str().unwrap_or_default().to_owned()),
        [] => bail!(
            "no session has this id, this name or this label `name`: {}",
            clean(wanted)
        ),
        _ => bail!("more than one session begins with {}", clean(wanted)),
    }
}

impl Run<'_> {
    /// Shows events to the last one. A connection that is lost is made again: the execution goes on meanwhile.
    async fn follow(&mut self, mut lines: Lines) -> anyhow::Result<ExitCode> {
        loop {
            let lost = loop {
                let line = tokio::select! {
                    line = lines.next() => line,
                    signal = tokio::signal::ctrl_c() => {
                        signal.context("Ctrl-C")?;
                        self.interrupt().await?;
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
                Err(error) => return Err(error.context(format!("{lost:#}; it goes on as {}", self.path))),
            }
        }
    }

    /// The first Ctrl-C interrupts the code, the second one leaves it alone.
    async fn interrupt(&mut self) -> anyhow::Result<()> {
        self.interrupts += 1;
        if self.interrupts > 1 || self.path.is_empty() {
            bail!("left; it goes on as {}", self.path);
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
        if let Some(id) = event["execution"].as_str() {
            self.path = format!("/v1/executions/{id}");
        }
        self.seq = event["seq"].as_u64().unwrap_or(self.seq);
        let word = event["event"].as_str().unwrap_or_default();
        if word == "done" {
            return self.done(&event["result"]).map(Some);
        }
        if word == "input_request" {
            self.input(event).await?;
        }
        if self.quiet {
            return Ok(None);
        }
        let text = event["text"].as_str().unwrap_or_default();
        match word {
            "stdout" => put(std::io::stdout(), text)?,
            "stderr" | "gap" => put(std::io::stderr(), text)?,
            "display" | "result" | "update_display" => {
                let shown = event["data"]["text/plain"].as_str().unwrap_or("<no text>");
                put(std::io::stdout(), &format!("{shown}\n"))?;
            }
            "error" => {
                let lines = event["traceback"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str);
                for line in lines {
                    put(std::io::stderr(), &format!("{line}\n"))?;
                }
            }
            "queued" if event["position"].as_u64().unwrap_or(0) > 0 => {
                put(
                    std::io::stderr(),
                    &format!("himalia: waits behind {}\n", event["position"]),
                )?;
            }
            "started" if event["replaced"].is_object() => {
                let cause = clean(event["replaced"]["cause"].as_str().unwrap_or("unknown"));
                put(
                    std::io::stderr(),
                    &format!("himalia: a new process, the variables are gone ({cause})\n"),
                )?;
            }
            _ => {}
        }
        Ok(None)
    }

    async fn input(&self, event: &Value) -> anyhow::Result<()> {
        put(std::io::stderr(), event["prompt"].as_str().unwrap_or_default())?;
        let read = tokio::task::spawn_blocking(|| {
            let mut line = String::new();
            std::io::stdin().read_line(&mut line).map(|_| line)
        });
        let line = read.await.context("standard input")??;
        let answer = json!({ "value": line.trim_end_matches(['\n', '\r']) });
        let reply = self.client.post(&format!("{}/input", self.path), &answer).await?;
        if reply.status != 202 {
            bail!("{}", reply.problem());
        }
        Ok(())
    }

    fn done(&self, result: &Value) -> anyhow::Result<ExitCode> {
        if self.quiet {
            put(std::io::stdout(), &format!("{result:#}\n"))?;
        }
        let status = result["status"].as_str().unwrap_or_default();
        let code = match status {
            "ok" => 0,
            "timeout" => TIMED_OUT,
            "interrupted" => INTERRUPTED,
            "kernel_died" | "oom_killed" => DIED,
            _ => 1,
        };
        if code == DIED && !self.quiet {
            let cause = clean(result["death"]["cause"].as_str().unwrap_or_default());
            put(
                std::io::stderr(),
                &format!("himalia: the kernel has ended ({cause}), the variables are gone\n"),
            )?;
        }
        Ok(ExitCode::from(code))
    }
}

fn put(mut to: impl std::io::Write, text: &str) -> anyhow::Result<()> {
    to.write_all(text.as_bytes())?;
    Ok(to.flush()?)
}
