//! Settings as a person writes them: flags, `HIMALIA_*` variables and the TOML file share this one list, so that each
//! setting has one name and one text.
#![allow(
    clippy::doc_markdown,
    reason = "the texts of the help are plain, not Markdown"
)]

mod tables;
mod tenants;
mod values;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Deserialize;

pub(crate) use tables::{DockerTable, LimitsTable, PoolTable, TemplateTable};
pub(crate) use tenants::{Scope, TenantTable, TokenSetting};
pub(crate) use values::{
    ByteSize, DockerHost, HostUids, IsolationSetting, LogFormat, OnStop, Processors, Seconds, Secret,
};

/// Every setting of the gateway; what is `None` was not said. Defaults are in [`crate::config`].
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Settings {
    /// TOML file with these settings (`max_kernels = 20`); unknown keys are refused. Relative paths in it start at
    /// its directory
    #[arg(long, value_name = "FILE", env = "HIMALIA_CONFIG")]
    #[serde(skip)]
    pub(crate) config: Option<PathBuf>,

    /// Address and port; port 0 takes a free one and prints it [default: 127.0.0.1:8888]
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        env = "HIMALIA_LISTEN",
        help_heading = "Access"
    )]
    pub(crate) listen: Option<String>,
    /// Token that clients must show; visible in `ps`, so prefer --token-file. Without one, a token is made and kept in
    /// the data directory, and the address must be a loopback one
    #[arg(
        long,
        value_name = "TOKEN",
        env = "HIMALIA_TOKEN",
        hide_env_values = true,
        help_heading = "Access"
    )]
    pub(crate) token: Option<Secret>,
    /// File whose first line is the token
    #[arg(
        long,
        value_name = "FILE",
        env = "HIMALIA_TOKEN_FILE",
        help_heading = "Access"
    )]
    pub(crate) token_file: Option<PathBuf>,
    /// Tenants by name.
    #[arg(skip)]
    pub(crate) tenants: Option<BTreeMap<String, TenantTable>>,
    /// Path that everything is served below, lower case [default: /]
    #[arg(long, value_name = "PATH", env = "HIMALIA_BASE_URL", help_heading = "Access")]
    pub(crate) base_url: Option<String>,
    /// Web origin that may call from a browser, such as https://lab.example.org, or * for any; may be repeated
    #[arg(
        long,
        value_name = "ORIGIN",
        env = "HIMALIA_ALLOW_ORIGIN",
        value_delimiter = ',',
        help_heading = "Access"
    )]
    pub(crate) allow_origin: Option<Vec<String>>,

    /// Durable state: output logs, tokens, the list of kernels [default: ~/.local/share/himalia/data]
    #[arg(
        long,
        value_name = "DIR",
        env = "HIMALIA_DATA_DIR",
        help_heading = "Directories"
    )]
    pub(crate) data_dir: Option<PathBuf>,
    /// Short directory for sockets [default: below $XDG_RUNTIME_DIR/himalia, /run/himalia for root, or
    /// /tmp/himalia-<uid>]
    #[arg(
        long,
        value_name = "DIR",
        env = "HIMALIA_RUN_DIR",
        help_heading = "Directories"
    )]
    pub(crate) run_dir: Option<PathBuf>,
    /// Python environments made by `himalia env build` [default: ~/.local/share/himalia/env]
    #[arg(
        long,
        value_name = "DIR",
        env = "HIMALIA_ENV_DIR",
        help_heading = "Directories"
    )]
    pub(crate) env_dir: Option<PathBuf>,
    /// The himalia-shim program [default: beside this program, else on PATH]
    #[arg(long, value_name = "FILE", env = "HIMALIA_SHIM", help_heading = "Directories")]
    pub(crate) shim: Option<PathBuf>,
    /// The himalia-jail program, which makes sandboxes of namespaces [default: beside this program, else on PATH]
    #[arg(long, value_name = "FILE", env = "HIMALIA_JAIL", help_heading = "Directories")]
    pub(crate) jail: Option<PathBuf>,

    /// What kernels are closed in: none (plain processes, for development), namespaces, container, gvisor, microvm; auto
    /// is namespaces if they work here, else none, on a loopback address only [default: auto]
    #[arg(
        long,
        value_name = "LEVEL",
        env = "HIMALIA_ISOLATION",
        help_heading = "Isolation"
    )]
    pub(crate) isolation: Option<IsolationSetting>,
    /// Socket of the Docker engine [default: unix:///var/run/docker.sock, if a level, an image or a template needs it]
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "HIMALIA_DOCKER_HOST",
        help_heading = "Isolation"
    )]
    #[serde(skip)]
    pub(crate) docker_host: Option<DockerHost>,
    /// As root: host user ids, one for each living sandbox.
    #[arg(skip)]
    pub(crate) host_uids: Option<HostUids>,
    /// The Docker engine.
    #[arg(skip)]
    pub(crate) docker: Option<DockerTable>,
    /// What a template does not say, and kernels without one.
    #[arg(skip)]
    pub(crate) defaults: Option<TemplateTable>,
    /// Templates by name.
    #[arg(skip)]
    pub(crate) templates: Option<BTreeMap<String, TemplateTable>>,

    /// Directory of kernelspecs (DIR/<name>/kernel.json) to look in first; may be repeated
    #[arg(
        long = "kernelspec-dir",
        value_name = "DIR",
        env = "HIMALIA_KERNELSPEC_DIRS",
        value_delimiter = ':',
        help_heading = "Kernels"
    )]
    pub(crate) kernelspec_dirs: Option<Vec<PathBuf>>,
    /// Do not look on the Jupyter path, only in --kernelspec-dir and the built environment [default: false]
    #[arg(
        long,
        value_name = "BOOL",
        env = "HIMALIA_ONLY_THESE_KERNELSPECS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        help_heading = "Kernels"
    )]
    pub(crate) only_these_kernelspecs: Option<bool>,
    /// Name of a kernelspec to offer; without any, all are; may be repeated
    #[arg(
        long = "allowed-kernelspec",
        value_name = "NAME",
        env = "HIMALIA_ALLOWED_KERNELSPECS",
        value_delimiter = ',',
        help_heading = "Kernels"
    )]
    pub(crate) allowed_kernelspecs: Option<Vec<String>>,
    /// Kernelspec to use when a client names none [default: python3]
    #[arg(
        long,
        value_name = "NAME",
        env = "HIMALIA_DEFAULT_KERNEL",
        help_heading = "Kernels"
    )]
    pub(crate) default_kernel: Option<String>,
    /// Kernels that may live at once, those being started included [default: 100]
    #[arg(
        long,
        value_name = "NUMBER",
        env = "HIMALIA_MAX_KERNELS",
        help_heading = "Kernels"
    )]
    pub(crate) max_kernels: Option<u32>,
    /// End a kernel that was idle for so long; 0 = never [default: 0]
    #[arg(
        long,
        value_name = "TIME",
        env = "HIMALIA_CULL_IDLE_TIMEOUT",
        help_heading = "Kernels"
    )]
    pub(crate) cull_idle_timeout: Option<Seconds>,
    /// How often to look for idle kernels [default: 5m]
    #[arg(
        long,
        value_name = "TIME",
        env = "HIMALIA_CULL_INTERVAL",
        help_heading = "Kernels"
    )]
    pub(crate) cull_interval: Option<Seconds>,
    /// Also end idle kernels that have clients [default: false]
    #[arg(
        long,
        value_name = "BOOL",
        env = "HIMALIA_CULL_CONNECTED",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        help_heading = "Kernels"
    )]
    pub(crate) cull_connected: Option<bool>,
    /// Also end kernels that execute something [default: false]
    #[arg(
        long,
        value_name = "BOOL",
        env = "HIMALIA_CULL_BUSY",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        help_heading = "Kernels"
    )]
    pub(crate) cull_busy: Option<bool>,

    /// How long kernels go on when no gateway comes back for them [default: 24h]
    #[arg(
        long,
        value_name = "TIME",
        env = "HIMALIA_ORPHAN_TTL",
        help_heading = "Stopping"
    )]
    pub(crate) orphan_ttl: Option<Seconds>,
    /// How long the executions of a session of /v1 can be read after its end, and a kernel whose sandbox is lost stays
    /// listed unused; 0 = nothing is kept of ended sessions [default: 24h]
    #[arg(
        long,
        value_name = "TIME",
        env = "HIMALIA_RETENTION",
        help_heading = "Stopping"
    )]
    pub(crate) retention: Option<Seconds>,
    /// Disk for the logs of ended sessions together; above it the oldest go [default: 10GiB]
    #[arg(
        long,
        value_name = "SIZE",
        env = "HIMALIA_RETENTION_BYTES",
        help_heading = "Stopping"
    )]
    pub(crate) retention_bytes: Option<ByteSize>,
    /// Largest message of a kernel, at most 256MiB; a larger one is dropped and marked as a gap [default: 32MiB]
    #[arg(
        long,
        value_name = "SIZE",
        env = "HIMALIA_MAX_MESSAGE",
        help_heading = "Kernels"
    )]
    pub(crate) max_message: Option<ByteSize>,
    /// Disk of the data directory that must be free for a new session [default: 1GiB]
    #[arg(
        long,
        value_name = "SIZE",
        env = "HIMALIA_MIN_FREE_DISK",
        help_heading = "Kernels"
    )]
    pub(crate) min_free_disk: Option<ByteSize>,
    /// What SIGTERM does to kernels [default: keep]
    #[arg(
        long,
        value_name = "WHAT",
        env = "HIMALIA_ON_SIGTERM",
        help_heading = "Stopping"
    )]
    pub(crate) on_sigterm: Option<OnStop>,
    /// What Ctrl-C does to kernels [default: stop]
    #[arg(
        long,
        value_name = "WHAT",
        env = "HIMALIA_ON_INTERRUPT",
        help_heading = "Stopping"
    )]
    pub(crate) on_interrupt: Option<OnStop>,

    /// What to log on standard error: error, warn, info, debug, trace, or per module (info,himalia_http=debug)
    /// [default: info]
    #[arg(
        long = "log",
        value_name = "FILTER",
        env = "HIMALIA_LOG",
        help_heading = "Log"
    )]
    pub(crate) log: Option<String>,
    /// Form of the log [default: text]
    #[arg(long, value_name = "FORM", env = "HIMALIA_LOG_FORMAT", help_heading = "Log")]
    pub(crate) log_format: Option<LogFormat>,
}

impl Settings {
    /// What is said here, and for the rest what `file` says. The token and the file it is in are one setting.
    pub(crate) fn over(self, file: Self) -> Self {
        let own_token = self.token.is_some() || self.token_file.is_some();
        let (token, token_file) = if own_token {
            (self.token, self.token_file)
        } else {
            (file.token, file.token_file)
        };
        Self {
            config: self.config,
            listen: self.listen.or(file.listen),
            token,
            token_file,
            tenants: file.tenants,
            base_url: self.base_url.or(file.base_url),
            allow_origin: self.allow_origin.or(file.allow_origin),
            data_dir: self.data_dir.or(file.data_dir),
            run_dir: self.run_dir.or(file.run_dir),
            env_dir: self.env_dir.or(file.env_dir),
            shim: self.shim.or(file.shim),
            jail: self.jail.or(file.jail),
            isolation: self.isolation.or(file.isolation),
            docker_host: self.docker_host,
            host_uids: file.host_uids,
            docker: file.docker,
            defaults: file.defaults,
            templates: file.templates,
            kernelspec_dirs: self.kernelspec_dirs.or(file.kernelspec_dirs),
            only_these_kernelspecs: self.only_these_kernelspecs.or(file.only_these_kernelspecs),
            allowed_kernelspecs: self.allowed_kernelspecs.or(file.allowed_kernelspecs),
            default_kernel: self.default_kernel.or(file.default_kernel),
            max_kernels: self.max_kernels.or(file.max_kernels),
            cull_idle_timeout: self.cull_idle_timeout.or(file.cull_idle_timeout),
            cull_interval: self.cull_interval.or(file.cull_interval),
            cull_connected: self.cull_connected.or(file.cull_connected),
            cull_busy: self.cull_busy.or(file.cull_busy),
            orphan_ttl: self.orphan_ttl.or(file.orphan_ttl),
            retention: self.retention.or(file.retention),
            retention_bytes: self.retention_bytes.or(file.retention_bytes),
            max_message: self.max_message.or(file.max_message),
            min_free_disk: self.min_free_disk.or(file.min_free_disk),
            on_sigterm: self.on_sigterm.or(file.on_sigterm),
            on_interrupt: self.on_interrupt.or(file.on_interrupt),
            log: self.log.or(file.log),
            log_format: self.log_format.or(file.log_format),
        }
    }

    /// Makes relative paths start at `base`.
    pub(crate) fn anchor(&mut self, base: &Path) {
        let single = [
            &mut self.token_file,
            &mut self.data_dir,
            &mut self.run_dir,
            &mut self.env_dir,
            &mut self.shim,
            &mut self.jail,
        ];
        let listed = self.kernelspec_dirs.iter_mut().flatten();
        let tenants = self.tenants.iter_mut().flat_map(BTreeMap::values_mut);
        let tokens = tenants
            .flat_map(|tenant| tenant.tokens.values_mut())
            .filter_map(|token| match token {
                TokenSetting::File(path) => Some(path),
                TokenSetting::Text(_) => None,
            });
        for path in single.into_iter().flatten().chain(listed).chain(tokens) {
            *path = base.join(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_a_file_are_read_as_those_of_flags() {
        let file: Settings = toml::from_str("cull_interval = 7\norphan_ttl = \"2h\"").unwrap();
        assert_eq!(
            (file.cull_interval, file.orphan_ttl),
            (Some(Seconds(7)), Some(Seconds(7_200)))
        );
    }

    #[test]
    fn the_first_layer_wins_and_the_token_goes_with_its_file() {
        let file = || toml::from_str("listen = \"a\"\nmax_kernels = 3\ntoken_file = \"t\"").unwrap();
        let said = Settings {
            listen: Some("b".into()),
            token: Some(Secret("s".into())),
            ..Settings::default()
        };
        let merged = said.over(file());
        assert_eq!(
            (merged.listen.as_deref(), merged.max_kernels),
            (Some("b"), Some(3))
        );
        assert_eq!((merged.token.is_some(), merged.token_file), (true, None));
        assert!(Settings::default().over(file()).token_file.is_some());
    }

    #[test]
    fn paths_of_a_file_start_at_its_directory() {
        let mut file: Settings = toml::from_str(
            "data_dir = \"d\"\nshim = \"/s\"\nkernelspec_dirs = [\"k\"]\n[tenants.a]\ntokens.b.file = \"t\"",
        )
        .unwrap();
        file.anchor(Path::new("/etc/himalia"));
        assert_eq!(file.data_dir.as_deref(), Some(Path::new("/etc/himalia/d")));
        assert_eq!(file.shim.as_deref(), Some(Path::new("/s")));
        assert_eq!(file.kernelspec_dirs, Some(vec![PathBuf::from("/etc/himalia/k")]));
        let token = &file.tenants.unwrap()["a"].tokens["b"];
        assert!(matches!(token, TokenSetting::File(path) if path == Path::new("/etc/himalia/t")));
    }
}
