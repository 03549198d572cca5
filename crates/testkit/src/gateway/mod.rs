//! A gateway that tests start, kill and start again.

mod kernelspecs;
mod leftovers;
mod process;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::{Connect, Framing, WsClient};
use crate::http::Http;
use crate::patience;
use process::Process;

pub use kernelspecs::write_kernelspec;

/// The token of gateways in tests.
pub const TOKEN: &str = "testkit-token";

/// How to start a gateway.
#[derive(Debug, Default)]
pub struct Builder {
    args: Vec<String>,
    env: Vec<(String, String)>,
    kernelspecs: Vec<(String, Value)>,
    root: Option<TempDir>,
}

impl Builder {
    /// One more argument of `himalia serve`.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// One more variable of the gateway's environment (which kernels must not see).
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// One more kernelspec, beside `fake` (the default) and `hostile`.
    #[must_use]
    pub fn kernelspec(mut self, name: impl Into<String>, spec: Value) -> Self {
        self.kernelspecs.push((name.into(), spec));
        self
    }

    /// All of the gateway's directories lie in this one, which must have a short path.
    #[must_use]
    pub fn root(mut self, root: TempDir) -> Self {
        self.root = Some(root);
        self
    }

    /// Starts the gateway and waits until `GET /healthz` returns 200.
    pub async fn start(self) -> Result<Gateway> {
        let root = match self.root {
            Some(root) => root,
            None => new_root()?,
        };
        let specs = root.path().join("kernelspecs");
        kernelspecs::write_standard(&specs)?;
        for (name, spec) in &self.kernelspecs {
            write_kernelspec(&specs, name, spec)?;
        }
        let mut gateway = Gateway {
            process: None,
            address: "127.0.0.1:0".to_owned(),
            starts: 0,
            args: self.args,
            env: self.env,
            root,
        };
        gateway.start().await?;
        Ok(gateway)
    }
}

/// A directory for a gateway's.
pub fn new_root() -> Result<TempDir> {
    Ok(tempfile::Builder::new().prefix("hm").tempdir_in("/tmp")?)
}

/// A running gateway with directories of its own. Dropping it ends it with its kernels, and fails the test if anything of them is left
/// then; one that its test has ended already, and whatever is left, is killed.
#[derive(Debug)]
pub struct Gateway {
    process: Option<Process>,
    address: String,
    starts: u32,
    args: Vec<String>,
    env: Vec<(String, String)>,
    root: TempDir,
}

impl Gateway {
    /// Settings for a gateway with the kernelspecs `fake` and `hostile`.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Starts the gateway again after [`Gateway::kill`] or [`Gateway::end`]: same directories, port and token.
    pub async fn start(&mut self) -> Result<()> {
        self.starts += 1;
        let log = self.root.path().join(format!("gateway-{}.log", self.starts));
        let path = |name: &str| self.root.path().join(name).display().to_string();
        let mut args = vec!["serve".to_owned(), "--only-these-kernelspecs".to_owned()];
        for (flag, value) in [
            ("--listen", self.address.clone()),
            ("--token", TOKEN.to_owned()),
            ("--data-dir", path("data")),
            ("--run-dir", path("run")),
            ("--env-dir", path("env")),
            ("--kernelspec-dir", path("kernelspecs")),
            ("--default-kernel", "fake".to_owned()),
        ] {
            args.extend([flag.to_owned(), value]);
        }
        if !self.args.iter().any(|arg| arg == "--retention") {
            // What ends is gone, unless a test is about what is kept.
            args.extend(["--retention".to_owned(), "0".to_owned()]);
        }
        args.extend(self.args.iter().cloned());
        let mut process = Process::spawn(&args, &self.env, self.root.path(), &log)?;
        self.address = process.address().await?;
        self.process = Some(process);
        let http = self.http().anonymous();
        crate::assert_eventually!(
            self.exited()?.is_some() || http.get("/healthz").await.is_ok_and(|reply| reply.status == 200),
            "GET /healthz: {}",
            self.log()
        );
        anyhow::ensure!(self.exited()?.is_none(), "the gateway ended: {}", self.log());
        Ok(())
    }

    /// Ends the gateway with SIGKILL and waits for its end.
    pub async fn kill(&mut self) -> Result<()> {
        self.end(Signal::KILL).await.map(drop)
    }

    /// Ends the gateway with a signal, for example TERM, and waits; the value is the exit code, if it has one.
    pub async fn end(&mut self, signal: Signal) -> Result<Option<i32>> {
        let mut process = self.process.take().context("the gateway does not run")?;
        process.signal(signal)?;
        process.wait().await
    }

    /// Sends a signal and does not wait.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        self.process
            .as_ref()
            .context("the gateway does not run")?
            .signal(signal)
    }

    /// [`Gateway::kill`], then [`Gateway::start`].
    pub async fn crash(&mut self) -> Result<()> {
        self.kill().await?;
        self.start().await
    }

    /// The process id of the running gateway.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Process::pid)
    }

    /// `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// An HTTP client with the token.
    pub fn http(&self) -> Http {
        Http::new(&self.address, Some(TOKEN))
    }

    /// The directory that holds `data`, `run`, `kernelspecs` and the logs.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// A path for scripts of the fake kernel.
    pub fn file(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Everything that the running, or the last, gateway wrote.
    pub fn log(&self) -> String {
        let path = self.root.path().join(format!("gateway-{}.log", self.starts));
        std::fs::read_to_string(path).unwrap_or_default()
    }

    /// Processes that were started below this gateway and are alive, itself excepted.
    pub fn processes(&self) -> Vec<u32> {
        leftovers::find(self.root.path())
            .into_iter()
            .filter(|pid| Some(*pid) != self.pid())
            .collect()
    }

    /// Starts a kernel; the value is its id.
    pub async fn start_kernel(&self, name: &str) -> Result<String> {
        let reply = self
            .http()
            .post("/api/kernels", Some(&json!({ "name": name })))
            .await?
            .expect(201)?;
        let id = reply.json()?["id"].as_str().map(str::to_owned);
        id.context("the reply has no id")
    }

    /// Where a WebSocket client connects to, with a session id of its own.
    pub fn channels(&self, kernel: &str, framing: Framing) -> Connect {
        Connect {
            token: Some(TOKEN.to_owned()),
            session_id: Some(uuid::Uuid::new_v4().to_string()),
            framing,
            ..Connect::new(format!("ws://{}/api/kernels/{kernel}/channels", self.address))
        }
    }

    /// Connects to a kernel in the v1 framing.
    pub async fn connect(&self, kernel: &str) -> Result<WsClient> {
        Ok(WsClient::connect(&self.channels(kernel, Framing::V1)).await?)
    }

    fn exited(&mut self) -> Result<Option<i32>> {
        self.process.as_mut().map_or(Ok(None), Process::exited)
    }
}

impl Gateway {
    /// Tells it to end with its kernels, as Ctrl-C does, and looks what is left then. Blocks.
    ///
    /// # Errors
    /// When it does not end, or leaves anything.
    fn end_with_kernels(&mut self) -> Result<()> {
        let Some(mut process) = self.process.take() else {
            // Its test ended it, and its kernels were meant to live.
            return Ok(());
        };
        if process.exited()?.is_some() {
            return Ok(());
        }
        // Also one that its test has stopped.
        process.signal(Signal::CONT)?;
        process.signal(Signal::INT)?;
        let root = self.root.path();
        patience::block_until(|| Ok(process.exited()?.is_some())).context("the gateway does not end")?;
        let clean = patience::block_until(|| Ok(leftovers::left(root).is_empty()));
        clean.with_context(|| format!("left behind: {}", leftovers::left(root).join("; ")))
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let failed = std::thread::panicking();
        let ended = if failed { Ok(()) } else { self.end_with_kernels() };
        if failed || ended.is_err() {
            let log = self.log();
            let tail = log.char_indices().rev().nth(8000).map_or(0, |(index, _)| index);
            eprintln!("--- the gateway's log ---\n{}", &log[tail..]);
        }
        drop(self.process.take());
        leftovers::kill(self.root.path());
        if let Err(error) = ended {
            panic!("{error:#}");
        }
    }
}
