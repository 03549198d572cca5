//! The gateway's process.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::binaries;
use crate::patience::Deadline;

/// What stands before the address in the first line that `himalia serve` prints.
const READY: &str = " is ready at http://";

#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `himalia` with output and errors in one file, in an environment of `PATH`, `HOME` and `env`.
    pub(super) fn spawn(args: &[String], env: &[(String, String)], home: &Path, log: &Path) -> Result<Self> {
        let output = File::create(log).with_context(|| log.display().to_string())?;
        let binary = binaries::path("himalia")?;
        // Needed beside it.
        binaries::path("himalia-shim")?;
        // Most tests look at kernels' processes and files from outside. Others say `--isolation`, which wins, or have a
        // file that says it.
        let has_file = args.iter().any(|arg| arg == "--config");
        let isolation = (!has_file).then_some(("HIMALIA_ISOLATION", "none"));
        let child = Command::new(&binary)
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", home)
            .envs(isolation)
            .envs(env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| binary.display().to_string())?;
        Ok(Self {
            child,
            log: log.to_owned(),
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the line that names the address.
    pub(super) async fn address(&mut self) -> Result<String> {
        let deadline = Deadline::new();
        loop {
            let text = std::fs::read_to_string(&self.log).unwrap_or_default();
            let line = text
                .split_inclusive('\n')
                .find(|line| line.ends_with('\n') && line.contains(READY));
            if let Some((_, url)) = line.and_then(|line| line.split_once(READY)) {
                return Ok(url.split('/').next().unwrap_or_default().trim().to_owned());
            }
            if let Some(code) = self.exited()? {
                bail!("the gateway ended with {code}: {text}");
            }
            ensure!(!deadline.is_over(), "the gateway printed no address: {text}");
            deadline.pause().await;
        }
    }

    /// The exit code, or -1 after a signal; `None` while it runs.
    pub(super) fn exited(&mut self) -> Result<Option<i32>> {
        Ok(self.child.try_wait()?.map(|status| status.code().unwrap_or(-1)))
    }

    pub(super) fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).context("signal")
    }

    pub(super) async fn wait(&mut self) -> Result<Option<i32>> {
        let deadline = Deadline::new();
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status.code());
            }
            ensure!(!deadline.is_over(), "the gateway does not end");
            deadline.pause().await;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails only if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
