use std::fs;
use std::io::Read;
use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use clap::Parser;
use himalia_shim_protocol::{PROTOCOL_MAX, PROTOCOL_MIN, VersionRange};

/// Most bytes of a key file.
const KEY_BYTES: u64 = 4096;

/// First process of a Himalia sandbox.
#[derive(Clone, Debug, Parser)]
#[command(name = "himalia-shim", version)]
pub(crate) struct Options {
    /// Directory with the gateway's socket `gw.sock` and, until the gateway deletes it, the file `key`.
    #[arg(long)]
    pub(crate) gateway_dir: PathBuf,
    /// Private directory for kernels' sockets and connection files; emptied at start, removed at exit.
    #[arg(long)]
    pub(crate) runtime_dir: PathBuf,
    /// Directory for the spill files; the runtime directory when absent.
    #[arg(long)]
    pub(crate) spill_dir: Option<PathBuf>,
    /// Bytes of a kernel's spill file.
    #[arg(long, default_value_t = 1 << 30)]
    pub(crate) spill_quota: u64,
    /// Bytes of a kernel's output that are kept in memory before the spill file is used.
    #[arg(long, default_value_t = 16 << 20)]
    pub(crate) window: usize,
    /// Seconds without a gateway after which the kernels are stopped and the shim exits; 0 is never.
    #[arg(long, default_value_t = 86_400)]
    pub(crate) orphan_ttl: u64,
    /// Milliseconds that kernels get for an orderly end when the shim itself ends.
    #[arg(long, default_value_t = 5000)]
    pub(crate) stop_grace_ms: u64,
    /// Most bytes of memory of the shim itself (`RLIMIT_DATA`); for sandboxes without a memory limit of their own.
    /// A kernel that makes the shim need more than this ends the sandbox.
    #[arg(long)]
    pub(crate) memory_limit: Option<u64>,
    /// Least severe messages on standard error.
    #[arg(long, default_value = "info")]
    pub(crate) log: tracing::Level,
    /// Highest protocol version that is offered.
    #[arg(long, hide = true, default_value_t = PROTOCOL_MAX)]
    pub(crate) protocol_max: u16,
}

impl Options {
    /// Reads the sandbox key.
    pub(crate) fn read_key(&self) -> anyhow::Result<String> {
        let path = self.gateway_dir.join("key");
        let file = fs::File::open(&path).with_context(|| format!("key file {}", path.display()))?;
        let mut key = String::new();
        file.take(KEY_BYTES)
            .read_to_string(&mut key)
            .with_context(|| format!("key file {}", path.display()))?;
        let key = key.trim();
        ensure!(!key.is_empty(), "key file {} is empty", path.display());
        Ok(key.to_owned())
    }

    /// Checks the values, makes the directories and makes their paths absolute.
    pub(crate) fn prepare(mut self) -> anyhow::Result<Self> {
        if !(PROTOCOL_MIN..=PROTOCOL_MAX).contains(&self.protocol_max) {
            bail!("--protocol-max must be {PROTOCOL_MIN} to {PROTOCOL_MAX}");
        }
        fs::create_dir_all(&self.runtime_dir)
            .with_context(|| format!("--runtime-dir {}", self.runtime_dir.display()))?;
        let absolute = |path: &PathBuf, name: &str| {
            fs::canonicalize(path).with_context(|| format!("--{name} {}", path.display()))
        };
        self.gateway_dir = absolute(&self.gateway_dir, "gateway-dir")?;
        self.runtime_dir = absolute(&self.runtime_dir, "runtime-dir")?;
        if let Some(dir) = &mut self.spill_dir {
            *dir = absolute(dir, "spill-dir")?;
        }
        Ok(self)
    }

    /// The gateway's socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.gateway_dir.join("gw.sock")
    }

    /// Where spill files are made.
    pub(crate) fn spill_dir(&self) -> PathBuf {
        self.spill_dir.clone().unwrap_or_else(|| self.runtime_dir.clone())
    }

    /// The versions that are offered.
    pub(crate) fn protocol(&self) -> VersionRange {
        VersionRange {
            min: PROTOCOL_MIN,
            max: self.protocol_max,
        }
    }
}
