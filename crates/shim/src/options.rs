use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::net::SocketAddr;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use anyhow::{Context, ensure};
use clap::Parser;
use himalia_link::{Gateway, KEY_FILE, TlsServer, open_key};

use crate::inherited;

/// Most bytes of a key.
const KEY_BYTES: u64 = 4096;

/// First process of a Himalia sandbox.
#[derive(Clone, Debug, Parser)]
#[command(name = "himalia-shim", version)]
pub(crate) struct Options {
    /// Directory with the gateway's sockets (`gw.sock`, and those of branches) and, until the gateway deletes it, the
    /// file `key`.
    #[arg(long)]
    pub(crate) gateway_dir: PathBuf,
    /// Listen on this TCP address for the gateway, with mutual TLS, instead of dialing its sockets. The gateway directory
    /// has `tls.crt`, `tls.key` and `ca.crt` then, which are deleted once they were read, as is `key`.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<SocketAddr>,
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
    /// Inherited descriptor to read the sandbox key from, instead of the file `key`; it is closed then.
    #[arg(long, value_name = "FD")]
    pub(crate) key_fd: Option<RawFd>,
    /// Inherited descriptor of the socket to the sandbox's zygote.
    #[arg(long, value_name = "FD")]
    pub(crate) zygote_fd: Option<RawFd>,
    /// Listen on 127.0.0.1:3128 for clients in the sandbox, and carry what they send to the gateway, which is their proxy.
    #[arg(long)]
    pub(crate) network: bool,
    /// Make a symbolic link to the directory of the spill files here.
    #[arg(long, value_name = "PATH", requires = "spill_dir")]
    pub(crate) work_link: Option<PathBuf>,
    /// Give kernels the variables of this process too, which are those of the image. Those that their start names win.
    #[arg(long)]
    pub(crate) image_env: bool,
    /// Say of kernels that were killed whether the container's own count of kills out of memory has grown.
    #[arg(long)]
    pub(crate) count_oom: bool,
    /// Least severe messages on standard error.
    #[arg(long, default_value = "info")]
    pub(crate) log: tracing::Level,
}

/// Descriptors and variables that the shim inherited, in addition to its command line.
#[derive(Debug)]
pub(crate) struct InheritedResources {
    pub(crate) key: String,
    /// The socket to the zygote.
    pub(crate) zygote: Option<OwnedFd>,
}

impl Options {
    /// Takes over what was inherited and reads the sandbox key. Must be called before anything is opened.
    pub(crate) fn inherit(&self) -> anyhow::Result<InheritedResources> {
        let take =
            |number: RawFd, name: &str| inherited::take(number).with_context(|| format!("--{name} {number}"));
        let key_fd = self.key_fd.map(|number| take(number, "key-fd")).transpose()?;
        let zygote = self
            .zygote_fd
            .map(|number| take(number, "zygote-fd"))
            .transpose()?;
        let (name, file) = if let Some(fd) = key_fd {
            ("--key-fd".to_owned(), Ok(fs::File::from(fd)))
        } else {
            let dir = &self.gateway_dir;
            (format!("key file in {}", dir.display()), open_key(dir))
        };
        let mut key = String::new();
        file.and_then(|file| file.take(KEY_BYTES).read_to_string(&mut key))
            .with_context(|| name.clone())?;
        let key = key.trim().to_owned();
        ensure!(!key.is_empty(), "{name} is empty");
        if self.listen.is_some() {
            // Nothing else needs it, and kernels of the same user could read it. A mounted directory may be read-only.
            let _ = fs::remove_file(self.gateway_dir.join(KEY_FILE));
        }
        Ok(InheritedResources { key, zygote })
    }

    /// Checks the values, makes the directories and the link, and makes their paths absolute.
    pub(crate) fn prepare(mut self) -> anyhow::Result<Self> {
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
        if let (Some(link), Some(dir)) = (&self.work_link, &self.spill_dir) {
            symlink(dir, link).with_context(|| format!("--work-link {}", link.display()))?;
        }
        Ok(self)
    }

    /// The way to the gateway; with `--listen` it is bound.
    pub(crate) fn gateway(&self) -> anyhow::Result<Gateway> {
        let Some(address) = self.listen else {
            return Ok(Gateway::Unix(self.gateway_dir.clone()));
        };
        let server = TlsServer::bind(address, &self.gateway_dir);
        Ok(Gateway::Tls(
            server.with_context(|| format!("--listen {address}"))?,
        ))
    }

    /// Variables that kernels have below those of their start.
    pub(crate) fn base_env(&self) -> BTreeMap<String, String> {
        if !self.image_env {
            return BTreeMap::new();
        }
        let all = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        // What the cluster adds names its own services.
        all.filter(|(name, _)| !name.starts_with("KUBERNETES_") && name != "HOSTNAME")
            .collect()
    }

    /// Directory of spill files.
    pub(crate) fn spill_dir(&self) -> PathBuf {
        self.spill_dir.clone().unwrap_or_else(|| self.runtime_dir.clone())
    }
}
