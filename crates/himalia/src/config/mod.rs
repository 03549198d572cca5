//! Settings, checked: defaults, then the file, then variables and flags.

mod credentials;
#[cfg_attr(not(feature = "kubernetes"), path = "kubernetes_absent.rs")]
mod kubernetes;
mod mounts;
mod named;
mod oidc;
#[cfg_attr(not(feature = "otlp"), path = "otlp_absent.rs")]
mod otlp;
mod replica;
mod sandboxes;
mod templates;
mod tenants;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use himalia_engine::{
    AuditTarget, CullConfig, LlmConfig, LlmFields, MountTemplate, NetworkLimits, PackageIndex,
    PrivateAddresses, Retention, ToolServerConfig, ToolServerFields,
};

pub(crate) use credentials::Credentials;
pub(crate) use himalia_cli::ConfigError;
pub(crate) use kubernetes::Kubernetes;
pub(crate) use oidc::OidcSettings;
pub(crate) use otlp::Collector;
use replica::SaidOfRelays;
pub(crate) use replica::{RelaySettings, Replica};
pub(crate) use sandboxes::Sandboxes;
#[cfg(test)]
pub(crate) use tenants::TenantCaller;
pub(crate) use tenants::{TenantToken, Tenants};

use crate::paths;
use crate::settings::{ByteSize, GivenSettings, LogFormat, OTLP, OnStop, STDOUT, Secret, Settings};
use crate::token::{self, TokenSource};

/// The most kernels that can be asked for.
const MAX_KERNELS: u32 = 10_000;

/// The services of others whose API is served.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facades {
    pub(crate) e2b: bool,
    pub(crate) azure_sessions: bool,
    pub(crate) openai_containers: bool,
}

/// The gateway's configuration. Everything in it can be used as it stands.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) listen: SocketAddr,
    pub(crate) token: TokenSource,
    pub(crate) tenants: Tenants,
    pub(crate) tls: Option<TlsFiles>,
    pub(crate) oidc: Option<OidcSettings>,
    /// Begins and ends with `/`.
    pub(crate) base_url: String,
    pub(crate) allow_origin: Vec<String>,
    pub(crate) facades: Facades,
    pub(crate) replica: Replica,
    pub(crate) data_dir: PathBuf,
    pub(crate) run_dir: Option<PathBuf>,
    pub(crate) env_dir: PathBuf,
    pub(crate) shim: Option<PathBuf>,
    pub(crate) jail: Option<PathBuf>,
    pub(crate) sandboxes: Sandboxes,
    pub(crate) mounts: BTreeMap<String, MountTemplate>,
    pub(crate) private_addresses: Vec<PrivateAddresses>,
    pub(crate) callback_addresses: Vec<PrivateAddresses>,
    pub(crate) packages: Option<PackageIndex>,
    pub(crate) network: NetworkLimits,
    pub(crate) credentials: Credentials,
    pub(crate) tool_servers: Vec<ToolServerConfig>,
    pub(crate) models: Vec<LlmConfig>,
    pub(crate) kernelspec_dirs: Vec<PathBuf>,
    pub(crate) only_these_kernelspecs: bool,
    pub(crate) allowed_kernelspecs: Vec<String>,
    pub(crate) default_kernel: String,
    pub(crate) max_kernels: u32,
    pub(crate) cull: CullConfig,
    pub(crate) orphan_ttl: Duration,
    pub(crate) retention: Retention,
    pub(crate) message_bytes: usize,
    pub(crate) min_free_bytes: u64,
    pub(crate) on_sigterm: OnStop,
    pub(crate) on_interrupt: OnStop,
    pub(crate) log: String,
    pub(crate) log_format: LogFormat,
    pub(crate) audit: AuditLog,
    pub(crate) audit_reads: bool,
    pub(crate) collector: Option<Collector>,
}

impl Config {
    /// Adds the file that `said` names, then the defaults, and checks everything.
    pub(crate) fn load(said: GivenSettings) -> Result<Self, ConfigError> {
        Self::check(with_file(said)?.complete())
    }

    /// As [`Config::load`], with a kernel kept ready.
    pub(crate) fn load_warm(said: GivenSettings) -> Result<Self, ConfigError> {
        let mut given = with_file(said)?;
        given.warm();
        Self::check(given.complete())
    }

    fn check(mut settings: Settings) -> Result<Self, ConfigError> {
        let listen = listen(&settings.listen)?;
        let sandboxes = Sandboxes::check(&mut settings, listen.ip())?;
        if let Some(kubernetes) = &sandboxes.kubernetes {
            kubernetes.check_shared(settings.store.is_some())?;
        }
        let token = match (settings.token, settings.token_file) {
            (Some(_), Some(_)) => {
                return Err(ConfigError::new("token", "give token or token_file, not both"));
            }
            (Some(token), None) => {
                token::check(&token.0).map_err(|reason| ConfigError::new("token", reason))?;
                TokenSource::Given(token)
            }
            (None, Some(file)) => TokenSource::File(paths::absolute("token_file", &file)?),
            (None, None) if listen.ip().to_canonical().is_loopback() => TokenSource::Made,
            (None, None) => {
                let reason =
                    format!("{listen} can be reached from other machines: give --token-file or --token");
                return Err(ConfigError::new("listen", reason));
            }
        };
        if !(1..=MAX_KERNELS).contains(&settings.max_kernels) {
            return Err(ConfigError::new(
                "max_kernels",
                format!("is not between 1 and {MAX_KERNELS}"),
            ));
        }
        let tenants = Tenants::check(
            settings.tenants.unwrap_or_default(),
            settings.max_kernels,
            &sandboxes.docker,
        )?;
        let credentials = Credentials::check(
            settings.credentials.unwrap_or_default(),
            settings.credentials_key_file,
            &tenants.limits,
        )?;
        let tool_servers = named::read(
            "tool_servers",
            settings.tool_servers.unwrap_or_default(),
            &tenants.limits,
            |fields: &ToolServerFields| fields.tenant.as_deref(),
            ToolServerConfig::new,
        )?;
        let models = named::read(
            "models",
            settings.models.unwrap_or_default(),
            &tenants.limits,
            |fields: &LlmFields| fields.tenant.as_deref(),
            LlmConfig::new,
        )?;
        if settings.default_kernel.is_empty() {
            return Err(ConfigError::new("default_kernel", "is empty"));
        }
        if settings.orphan_ttl.0 == 0 {
            return Err(ConfigError::new("orphan_ttl", "must be at least one second"));
        }
        crate::log::filter(&settings.log)?;
        let base_url = base_url(&settings.base_url)?;
        let collector = otlp::collector(settings.otlp_endpoint, settings.otlp_headers)?;
        let oidc = settings
            .oidc
            .map(|table| OidcSettings::check(table, &tenants.limits, &base_url, settings.store.is_some()))
            .transpose()?;
        let data_dir = paths::data_dir(settings.data_dir)?;
        let run_dir = settings
            .run_dir
            .map(|dir| paths::absolute("run_dir", &dir))
            .transpose()?;
        let private: Vec<&Path> = [Some(&data_dir), run_dir.as_ref()]
            .into_iter()
            .flatten()
            .map(PathBuf::as_path)
            .collect();
        let mounts = mounts::mounts(settings.mounts.unwrap_or_default(), &private)?;
        Ok(Self {
            listen,
            token,
            tenants,
            tls: tls(settings.tls_cert, settings.tls_key)?,
            base_url,
            oidc,
            facades: Facades {
                e2b: settings.e2b,
                azure_sessions: settings.azure_sessions,
                openai_containers: settings.openai_containers,
            },
            allow_origin: origins(settings.allow_origin.unwrap_or_default())?,
            replica: Replica::check(
                settings.store,
                settings.object_store,
                settings.replica,
                settings.lease,
                SaidOfRelays {
                    listen: settings.replica_listen,
                    address: settings.replica_address,
                    key: settings.replica_key,
                },
            )?,
            data_dir,
            run_dir,
            env_dir: paths::env_dir(settings.env_dir)?,
            shim: settings.shim,
            jail: settings.jail,
            sandboxes,
            mounts,
            credentials,
            tool_servers,
            models,
            private_addresses: addresses("private_addresses", settings.private_addresses)?,
            callback_addresses: addresses("callback_addresses", settings.callback_addresses)?,
            packages: packages(settings.package_index, settings.package_cache)?,
            network: NetworkLimits {
                session_bytes: settings.network_session_bytes.map(|size| size.0),
                connection_time: Some(settings.network_connection_time.duration())
                    .filter(|time| !time.is_zero()),
            },
            kernelspec_dirs: settings.kernelspec_dirs.unwrap_or_default(),
            only_these_kernelspecs: settings.only_these_kernelspecs,
            allowed_kernelspecs: settings.allowed_kernelspecs.unwrap_or_default(),
            default_kernel: settings.default_kernel,
            max_kernels: settings.max_kernels,
            cull: CullConfig {
                idle_timeout: settings.cull_idle_timeout.duration(),
                interval: settings.cull_interval.duration(),
                connected: settings.cull_connected,
                busy: settings.cull_busy,
            },
            orphan_ttl: settings.orphan_ttl.duration(),
            retention: Retention {
                time: settings.retention.duration(),
                bytes: settings.retention_bytes.0,
            },
            message_bytes: message_bytes(settings.max_message)?,
            min_free_bytes: settings.min_free_disk.0,
            on_sigterm: settings.on_sigterm,
            on_interrupt: settings.on_interrupt,
            log: settings.log,
            log_format: settings.log_format,
            audit: audit(settings.audit_log, collector.as_ref())?,
            audit_reads: settings.audit_reads,
            collector,
        })
    }
}

fn addresses(key: &'static str, said: Option<Vec<String>>) -> Result<Vec<PrivateAddresses>, ConfigError> {
    let read = |text: &String| text.parse();
    let read: Result<_, String> = said.unwrap_or_default().iter().map(read).collect();
    read.map_err(|reason| ConfigError::new(key, reason))
}

fn packages(index: Option<Secret>, cache: ByteSize) -> Result<Option<PackageIndex>, ConfigError> {
    let read = |index: Secret| PackageIndex::parse(&index.0, cache.0);
    let read = index.map(read).transpose();
    read.map_err(|reason| ConfigError::new("package_index", reason))
}

/// The files of the listener's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}

/// Files of a certificate and its key: both or none.
fn tls(cert: Option<PathBuf>, key: Option<PathBuf>) -> Result<Option<TlsFiles>, ConfigError> {
    match (cert, key) {
        (None, None) => Ok(None),
        (Some(cert), Some(key)) => Ok(Some(TlsFiles {
            cert: paths::absolute("tls_cert", &cert)?,
            key: paths::absolute("tls_key", &key)?,
        })),
        (Some(_), None) => Err(ConfigError::new("tls_key", "is needed with tls_cert")),
        (None, Some(_)) => Err(ConfigError::new("tls_cert", "is needed with tls_key")),
    }
}

/// Destination of the audit log.
#[derive(Clone, Debug)]
pub(crate) enum AuditLog {
    At(AuditTarget),
    Collector(Box<Collector>),
}

/// Without a file it is part of the log.
fn audit(file: Option<PathBuf>, collector: Option<&Collector>) -> Result<AuditLog, ConfigError> {
    let target = match file {
        None => AuditTarget::Log,
        Some(path) if path.as_os_str() == STDOUT => AuditTarget::Stdout,
        Some(path) if path.as_os_str() == OTLP => {
            let collector = collector.cloned().map(Box::new);
            let needed = || ConfigError::new("otlp_endpoint", "is needed with audit_log = \"otlp\"");
            return collector.map(AuditLog::Collector).ok_or_else(needed);
        }
        Some(path) => AuditTarget::File(paths::absolute("audit_log", &path)?),
    };
    Ok(AuditLog::At(target))
}

/// A shim takes no larger message than the most.
fn message_bytes(said: ByteSize) -> Result<usize, ConfigError> {
    const MOST: u64 = 256 << 20;
    match usize::try_from(said.0) {
        Ok(bytes) if said.0 <= MOST => Ok(bytes),
        _ => Err(ConfigError::new("max_message", "is more than 256MiB")),
    }
}

/// Merges command line and environment with the file, which has lower precedence.
fn with_file(said: GivenSettings) -> Result<GivenSettings, ConfigError> {
    match said.config.clone() {
        Some(path) => Ok(said.over(read_file(&path)?)),
        None => Ok(said),
    }
}

/// Reads a configuration file. An error names the key and the line, and quotes no value.
fn read_file(path: &Path) -> Result<GivenSettings, ConfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| ConfigError::new("config", format!("cannot read {}: {error}", path.display())))?;
    let mut settings = parse(&text).map_err(|(line, reason)| {
        let reason = reason.lines().next().unwrap_or_default();
        ConfigError::new(format!("{}:{line}", path.display()), reason)
    })?;
    let base = paths::absolute("config", path)?;
    settings.anchor(base.parent().unwrap_or(Path::new("/")));
    Ok(settings)
}

/// `Err` is the line number, and the key with what is wrong.
fn parse(text: &str) -> Result<GivenSettings, (usize, String)> {
    toml::from_str(text).map_err(|error: toml::de::Error| {
        let start = error.span().map_or(0, |span| span.start);
        let before = text.get(..start).unwrap_or_default();
        let number = before.matches('\n').count() + 1;
        let line = text.lines().nth(number - 1).unwrap_or_default();
        let message = error.message();
        match line.split_once('=') {
            Some((key, _)) if !message.contains(key.trim()) => (number, format!("{}: {message}", key.trim())),
            _ => (number, message.to_owned()),
        }
    })
}

fn listen(text: &str) -> Result<SocketAddr, ConfigError> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let local = text.strip_prefix("localhost:").and_then(|port| port.parse().ok());
    let local = local.map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    local.ok_or_else(|| {
        ConfigError::new(
            "listen",
            format!("{text:?} must be an address with port, such as 127.0.0.1:8888 or [::1]:8888"),
        )
    })
}

/// In the form `/` or `/a/b/`. Gateway clients lower-case WebSocket addresses, so upper case cannot work.
fn base_url(text: &str) -> Result<String, ConfigError> {
    let inner = text.trim_matches('/');
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-._~/".contains(c);
    let dotted = inner.split('/').any(|part| part == "." || part == "..");
    if !inner.chars().all(plain) || dotted || inner.contains("//") {
        let reason = format!("{text:?} must be a path of lower-case letters, digits, '-', '.', '_' and '~'");
        return Err(ConfigError::new("base_url", reason));
    }
    Ok(if inner.is_empty() {
        "/".into()
    } else {
        format!("/{inner}/")
    })
}

fn origins(given: Vec<String>) -> Result<Vec<String>, ConfigError> {
    for origin in &given {
        let host = origin
            .strip_prefix("https://")
            .or_else(|| origin.strip_prefix("http://"));
        let sound =
            |host: &str| !host.trim_end_matches('/').is_empty() && !host.trim_end_matches('/').contains('/');
        if origin != "*" && !host.is_some_and(sound) {
            let reason = format!("{origin:?} must be an origin such as https://lab.example.org, or *");
            return Err(ConfigError::new("allow_origin", reason));
        }
    }
    Ok(given)
}
