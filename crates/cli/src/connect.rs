//! `himalia connect`: a session's kernel for Jupyter clients of this machine.

use std::env;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use himalia_connect::{Bridge, Dial, DialError, End, Io, Settings, Transport, Upgrade};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use super::gateway::Gateway;
use super::http::Client;
use super::{find, show};
use crate::args::connect::{ConnectArgs, Sockets};
use crate::support::expect;

/// Longest wait for the gateway's answer to an upgrade.
const UPGRADE: Duration = Duration::from_secs(30);

/// Opens connections to one kernel.
struct Channels {
    gateway: Gateway,
    session: String,
    kernel: String,
}

/// Serves clients until Ctrl-C, or the end of the session.
pub(super) async fn connect(args: ConnectArgs) -> anyhow::Result<ExitCode> {
    let (as_json, gateway) = (args.gateway.json, Gateway::new(args.gateway));
    let client = gateway.client()?;
    let session = find::find(&client, &args.session).await?;
    let kernel = kernel(&client, &session, args.kernel.as_deref()).await?;
    let id = text(&kernel, "id").to_owned();
    let label: String = args
        .session
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .take(16)
        .collect();
    let settings = Settings {
        transport: match args.transport {
            Sockets::Tcp => Transport::Tcp,
            Sockets::Ipc => Transport::Ipc,
        },
        runtime_dir: runtime_dir().context("JUPYTER_RUNTIME_DIR: not set, nor is HOME")?,
        file_name: format!("kernel-himalia-{label}-{}.json", std::process::id()),
        kernel_name: Some(text(&kernel, "kernelspec").to_owned()),
    };
    // Signals are caught before there is a file to be removed.
    let mut signals = [
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::hangup(),
    ]
    .map(signal)
    .into_iter()
    .collect::<Result<Vec<_>, _>>()?;
    let stop = async {
        let waits = signals.iter_mut().map(|signal| Box::pin(signal.recv()));
        futures_util::future::select_all(waits).await;
    };
    let latest = Mutex::new(String::new());
    let report = Arc::new(move |line: &str| {
        // A client that tries again and again would otherwise fill the screen.
        if std::mem::replace(&mut *latest.lock(), line.to_owned()) != line {
            eprintln!("himalia: {line}");
        }
    });
    let bridge = Bridge::bind(settings, report).await?;
    announce(&bridge, &args.session, &id, as_json)?;
    let channels = Channels {
        gateway,
        session,
        kernel: id,
    };
    match Box::pin(bridge.serve(channels, stop)).await? {
        End::Stopped => {}
        End::Session(reason) => eprintln!("himalia: {reason}"),
    }
    Ok(ExitCode::SUCCESS)
}

/// The kernel that is wanted: the session's first, or one by its id, the beginning of that, or its kernelspec.
async fn kernel(client: &Client, session: &str, wanted: Option<&str>) -> anyhow::Result<Value> {
    let path = format!("/v1/sessions/{session}/kernels");
    let mut body = client.list(&path, "kernels").await?;
    let Value::Array(mut kernels) = body["kernels"].take() else {
        bail!("the gateway has no list of kernels");
    };
    if let Some(wanted) = wanted {
        kernels
            .retain(|kernel| text(kernel, "kernelspec") == wanted || text(kernel, "id").starts_with(wanted));
    } else {
        kernels.truncate(1);
    }
    match kernels.pop() {
        Some(kernel) if kernels.is_empty() => Ok(kernel),
        None => bail!(
            "no kernel of the session has this id or kernelspec: {}",
            wanted.unwrap_or_default()
        ),
        Some(_) => bail!(
            "more than one kernel of the session is meant by {}",
            wanted.unwrap_or_default()
        ),
    }
}

fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap_or_default()
}

/// The name of the file alone on standard output, for scripts; what to do with it on the other.
fn announce(bridge: &Bridge, session: &str, kernel: &str, as_json: bool) -> anyhow::Result<()> {
    let (path, session) = (bridge.file().display(), show::clean(session));
    let line = if as_json {
        json!({ "connection_file": bridge.file(), "kernel": kernel }).to_string()
    } else {
        path.to_string()
    };
    eprintln!(
        "Session {session} has a connection file. Clients attach to it until Ctrl-C; the session continues after that."
    );
    eprintln!("  jupyter console --existing {path}");
    let mut out = std::io::stdout();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

/// Directory where Jupyter's clients look for connection files.
fn runtime_dir() -> Option<PathBuf> {
    let dir = |name: &str| {
        env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let data = || {
        let share = || dir("XDG_DATA_HOME").or_else(|| Some(dir("HOME")?.join(".local/share")));
        dir("JUPYTER_DATA_DIR").or_else(|| Some(share()?.join("jupyter")))
    };
    dir("JUPYTER_RUNTIME_DIR").or_else(|| Some(data()?.join("runtime")))
}

impl Dial for Channels {
    async fn dial(&self, session_id: &str) -> Result<Box<dyn Io>, DialError> {
        let away = |error: anyhow::Error| DialError::Away(format!("{error:#}"));
        let client = self.gateway.client().map_err(away)?;
        let path = format!("/api/kernels/{}/channels?session_id={session_id}", self.kernel);
        let upgrade = Upgrade::new();
        let opened = tokio::time::timeout(UPGRADE, client.upgrade(&path, &upgrade)).await;
        let opened = opened.map_err(|_| DialError::Away(format!("no answer in {} s", UPGRADE.as_secs())))?;
        let refusal = match opened.map_err(away)? {
            Ok(io) => return Ok(Box::new(io)),
            Err(refusal) => refusal,
        };
        Err(match refusal.status {
            404 => DialError::Ended(self.end(&client).await),
            408 | 429 | 500.. => DialError::Away(refusal.problem()),
            _ => DialError::Refused(refusal.problem()),
        })
    }
}

impl Channels {
    /// Waits for the end of the session; returns its cause.
    async fn end(&self, client: &Client) -> String {
        let reply = client.get(&format!("/v1/sessions/{}", self.session)).await;
        let session = reply.ok().and_then(|reply| expect(&reply, 200).ok());
        match session {
            Some(session) if text(&session, "state") != "ended" => {
                "the kernel has ended; its session continues".to_owned()
            }
            Some(session) if !text(&session, "reason").is_empty() => {
                format!(
                    "the session has ended ({})",
                    show::clean(text(&session, "reason"))
                )
            }
            _ => "the session has ended".to_owned(),
        }
    }
}
