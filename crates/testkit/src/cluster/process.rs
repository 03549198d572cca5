//! A container: a process with its own mounts and process ids.

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::watch;

/// Bytes of a log that are passed on.
const LOG_BYTES: usize = 2048;

/// Builds a root from the host's directories and the binds, and becomes the container's program. Arguments: the root, the
/// number of binds, twice as many paths, and the program.
const SCRIPT: &str = r#"set -eu
root=$1 count=$2; shift 2
mount --make-rprivate /
mount -t tmpfs tmpfs "$root"
for top in /*; do
  if [ -L "$top" ]; then cp -P "$top" "$root$top"
  elif [ "$top" = /proc ] || [ "$top" = /himalia ]; then mkdir -p "$root$top"
  elif [ -d "$top" ]; then mkdir -p "$root$top"; mount --rbind "$top" "$root$top"
  fi
done
mount -t proc proc "$root/proc"
while [ "$count" -gt 0 ]; do
  if [ -d "$1" ]; then mkdir -p "$root$2"; else mkdir -p "$(dirname "$root$2")"; touch "$root$2"; fi
  mount --bind "$1" "$root$2"
  shift 2; count=$((count - 1))
done
exec chroot "$root" env -i PATH=/usr/local/bin:/usr/bin:/bin IMAGE_SAYS=hello "$@"
"#;

/// How a container ended.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    /// 128 and the signal, where one ended it.
    pub(super) code: i32,
    pub(super) log: String,
}

#[derive(Debug)]
pub(super) struct Process {
    /// The process that made the container's; it ends with it.
    outer: Pid,
    ended: watch::Receiver<Option<Ended>>,
    asked: Mutex<bool>,
}

impl Process {
    /// Starts `words` with these paths of the host at those of the container.
    pub(super) fn start(dir: &Path, binds: &[(PathBuf, PathBuf)], words: &[String]) -> Result<Self> {
        let root = dir.join("root");
        std::fs::create_dir_all(&root)?;
        let log = dir.join("log");
        let output = std::fs::File::options().create(true).append(true).open(&log)?;
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child"]);
        if !rustix::process::geteuid().is_root() {
            command.args(["--user", "--map-root-user"]);
        }
        command.args(["--", "sh", "-c", SCRIPT, "sh"]);
        command.arg(&root).arg(binds.len().to_string());
        for (from, to) in binds {
            command.arg(from).arg(to);
        }
        command.args(words);
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .context("unshare")?;
        let outer = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let (tell, ended) = watch::channel(None);
        tokio::task::spawn_blocking(move || wait(child, &log, &tell));
        Ok(Self {
            outer: outer.context("it has ended already")?,
            ended,
            asked: Mutex::new(false),
        })
    }

    pub(super) async fn ended(&self) -> Ended {
        let mut ended = self.ended.clone();
        let result = ended.wait_for(Option::is_some).await;
        let result = result.ok().and_then(|ended| ended.clone());
        result.unwrap_or(Ended {
            code: 137,
            log: String::new(),
        })
    }

    /// Kills everything in it.
    pub(super) fn kill(&self) {
        if self.ended.borrow().is_none() {
            let _ = kill_process(self.outer, Signal::KILL);
        }
    }

    /// Asks it to end, and kills it after the grace.
    pub(super) fn end(&self, grace: Duration) {
        if std::mem::replace(&mut *self.asked.lock(), true) {
            return;
        }
        let outer = self.outer.as_raw_pid();
        let children = std::fs::read_to_string(format!("/proc/{outer}/task/{outer}/children"));
        let first = children
            .ok()
            .and_then(|list| list.split_whitespace().next()?.parse().ok());
        if let Some(first) = first.and_then(Pid::from_raw) {
            let _ = kill_process(first, Signal::TERM);
        }
        let (outer, mut ended) = (self.outer, self.ended.clone());
        tokio::spawn(async move {
            if tokio::time::timeout(grace, ended.wait_for(Option::is_some))
                .await
                .is_err()
            {
                let _ = kill_process(outer, Signal::KILL);
            }
        });
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn wait(mut child: Child, log: &Path, tell: &watch::Sender<Option<Ended>>) {
    let status = child.wait();
    let code = status.ok().and_then(|status| {
        status
            .code()
            .or_else(|| status.signal().map(|signal| 128 + signal))
    });
    let log = std::fs::read(log).unwrap_or_default();
    let tail = log.get(log.len().saturating_sub(LOG_BYTES)..).unwrap_or_default();
    tell.send_replace(Some(Ended {
        code: code.unwrap_or(137),
        log: String::from_utf8_lossy(tail).into_owned(),
    }));
}
