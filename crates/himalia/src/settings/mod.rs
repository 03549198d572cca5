//! Settings as a person writes them. Each setting is one entry of the list below: its flag, its `HIMALIA_*` variable, its key
//! in the TOML file, its text, its default and its row in docs/reference/configuration.md are made from that entry.
#![allow(
    clippy::doc_markdown,
    rustdoc::bare_urls,
    rustdoc::invalid_html_tags,
    reason = "the texts of the help are plain, not Markdown"
)]

mod credentials;
#[macro_use]
mod declare;
#[cfg(test)]
mod documentation;
mod oidc;
mod tables;
mod template;
mod tenants;
mod values;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use himalia_engine::{LlmFields, ToolServerFields};

pub(crate) use credentials::CredentialTable;
pub(crate) use declare::Flags;
pub(crate) use himalia_cli::values::{Seconds, Secret};
pub(crate) use oidc::{GrantTable, OidcTable};
#[cfg_attr(not(feature = "full"), allow(unused_imports))]
pub(crate) use tables::{DockerTable, KubernetesTable, MountTable, PodTable};
pub(crate) use template::{LimitsTable, PoolTable, TemplateTable};
pub(crate) use tenants::{Scope, TenantTable, TokenSetting};
pub(crate) use values::{ByteSize, DockerHost, HostUids, IsolationSetting, LogFormat, OnStop, Processors};

/// In the place of a file: standard output.
pub(crate) const STDOUT: &str = "-";
/// The collector of OpenTelemetry, in place of a file.
pub(crate) const OTLP: &str = "otlp";

settings! {
    "Access" {
        /// Address and port; port 0 takes a free one and prints it
        listen("ADDRESS:PORT"): String = "127.0.0.1:8888";
        /// Token that clients must show; visible in `ps`, so prefer --token-file. Without one, a token is made and kept in
        /// the data directory, and the address must be a loopback one
        token("TOKEN", hide_env_values = true): Secret;
        /// File whose first line is the token
        token_file("FILE"): PathBuf;
        /// File with the certificate chain (PEM) of the listener, which serves https with it. It is read again when it changes, and
        /// on SIGHUP
        tls_cert("FILE"): PathBuf;
        /// File with the private key (PEM) of --tls-cert
        tls_key("FILE"): PathBuf;
        /// Path that everything is served below, lower case
        base_url("PATH"): String = "/";
        /// Web origin that may call from a browser, such as https://lab.example.org, or * for any; may be repeated
        allow_origin("ORIGIN", value_delimiter = ','): Vec<String>;
        /// Serve the API of E2B below /e2b, so that its clients can use this gateway; `himalia env e2b` prints the variables
        /// that point them here
        e2b("BOOL"): bool = false;
        /// Serve the API of Azure's dynamic sessions below /azure/TEMPLATE, so that its clients can use this gateway
        azure_sessions("BOOL"): bool = false;
        /// Serve the API of `OpenAI`'s containers and their files below /openai/v1
        openai_containers("BOOL"): bool = false;
    }
    "Directories" {
        /// Durable state: output logs, tokens, the list of kernels
        data_dir("DIR"): PathBuf, or "~/.local/share/himalia/data";
        /// Short directory for sockets
        run_dir("DIR"): PathBuf, or "below $XDG_RUNTIME_DIR/himalia, /run/himalia for root, or /tmp/himalia-<uid>";
        /// Python environments made by `himalia env build`
        env_dir("DIR"): PathBuf, or "~/.local/share/himalia/env";
        /// The himalia-shim program
        shim("FILE"): PathBuf, or "beside this program, else on PATH";
        /// The himalia-jail program, which makes sandboxes of namespaces
        jail("FILE"): PathBuf, or "beside this program, else on PATH";
    }
    "Replicas" {
        /// Postgres database that several gateways share, as postgres://user:password@host/database; visible in `ps`, so
        /// prefer HIMALIA_STORE. Without it, this gateway is alone and keeps its sessions in the data directory
        store("URL", hide_env_values = true): Secret;
        /// URL of the object store for session logs, shared by all gateways, so that logs outlive the data directory: file:///directory,
        /// s3://bucket/prefix, gs://bucket/prefix or az://container/prefix. Credentials are in the environment, with the variables of these
        /// services' own tools. Without it, logs are in the data directory only
        object_store("URL"): String;
        /// Name of this gateway among those that share the store; a later start of it has the same
        replica("NAME"): String, or "the host's name";
        /// Time without a sign of a gateway that shares the store after which others may take over its sessions, between 3s and 5m
        lease("TIME"): Seconds = "5s";
        /// Address to listen on for the other gateways that share the store, which then relay what is about a session of this
        /// one. Without it, clients must go to the gateway that has their session
        replica_listen("ADDR:PORT"): SocketAddr;
        /// Host and port at which the other gateways reach --replica-listen
        replica_address("HOST:PORT"): String, or "--replica-listen";
        /// File with the private key that the gateways share (PEM, PKCS #8), by which they know each other
        replica_key("FILE"): PathBuf;
    }
    "Isolation" {
        /// Isolation of kernels: none (plain processes, for development), namespaces, container, gvisor, microvm; auto is namespaces if
        /// they work here, else none, on a loopback address only
        isolation("LEVEL"): IsolationSetting = "auto";
        /// Address that sessions with network = "allow" may reach although it is not public, if their list names a host that
        /// has it: 10.1.2.3, 10.1.0.0/16, or one port as 127.0.0.1:8080; may be repeated
        private_addresses("ADDRESS", long = "private-address", value_delimiter = ','): Vec<String>;
        /// Address that callbacks and prompts may be posted to, and where authorization servers of tenants' credentials may be,
        /// although it is not public: 10.1.2.3, 10.1.0.0/16, or one port as 127.0.0.1:8080; may be repeated. Each caller with the
        /// scope execute can have something posted there
        callback_addresses("ADDRESS", long = "callback-address", value_delimiter = ','): Vec<String>;
        /// Bytes that one session with network = "allow" may send to and receive from hosts during its lifetime
        network_session_bytes("SIZE"): ByteSize, or "no limit";
        /// Longest duration of a session's connection to a host; 0 = no limit
        network_connection_time("TIME"): Seconds = 0;
        /// Index of Python packages, such as https://pypi.org/simple/, that sessions with network = "allow" use through the
        /// gateway and its cache, if their list has its host. A user name and a password in it are for the gateway alone, and
        /// visible in `ps`, so prefer HIMALIA_PACKAGE_INDEX
        package_index("URL", hide_env_values = true): Secret;
        /// Disk for the files of packages that are kept for all sessions; above it the least recently used go
        package_cache("SIZE"): ByteSize = "5GiB";
        /// File with the keys that secrets in the store are sealed with: 64 hexadecimal digits on a line. The first one seals, the others
        /// still open. Gateways that share a store have the same file
        credentials_key_file("FILE"): PathBuf, or "credentials.key in the data directory, made at the first start; none with --store";
    }
    "Kernels" {
        /// Directory of kernelspecs (DIR/<name>/kernel.json) to look in first; may be repeated
        kernelspec_dirs("DIR", long = "kernelspec-dir", value_delimiter = ':'): Vec<PathBuf>;
        /// Do not look on the Jupyter path, only in --kernelspec-dir and the built environment
        only_these_kernelspecs("BOOL"): bool = false;
        /// Name of a kernelspec to offer; without any, all are; may be repeated
        allowed_kernelspecs("NAME", long = "allowed-kernelspec", value_delimiter = ','): Vec<String>;
        /// Kernelspec to use when a client names none
        default_kernel("NAME"): String = "python3";
        /// Kernels that may live at once, those being started included
        max_kernels("NUMBER"): u32 = 100;
        /// End a kernel that was idle for so long; 0 = never
        cull_idle_timeout("TIME"): Seconds = 0;
        /// Interval of the search for idle kernels
        cull_interval("TIME"): Seconds = "5m";
        /// Also end idle kernels that have clients
        cull_connected("BOOL"): bool = false;
        /// Also end kernels that execute something
        cull_busy("BOOL"): bool = false;
        /// Largest message of a kernel, at most 256MiB; a larger one is dropped and marked as a gap
        max_message("SIZE"): ByteSize = "32MiB";
        /// Disk of the data directory that must be free for a new session
        min_free_disk("SIZE"): ByteSize = "1GiB";
    }
    "Stopping" {
        /// Time that kernels continue without a gateway
        orphan_ttl("TIME"): Seconds = "24h";
        /// Time after the end of a session of /v1 in which its executions can be read, and in which an unused kernel with a lost sandbox
        /// stays listed; 0 = data of ended sessions is not kept
        retention("TIME"): Seconds = "24h";
        /// Disk for the logs of ended sessions together; above it the oldest go
        retention_bytes("SIZE"): ByteSize = "10GiB";
        /// Effect of SIGTERM on kernels
        on_sigterm("WHAT"): OnStop = "keep";
        /// Effect of Ctrl-C on kernels
        on_interrupt("WHAT"): OnStop = "stop";
    }
    "Log" {
        /// Levels of messages on standard error: error, warn, info, debug, trace, or per module (info,himalia_http=debug)
        log("FILTER"): String = "info";
        /// Form of the log
        log_format("FORM"): LogFormat = "text";
        /// File for the audit log, one JSON object a line, opened again on SIGHUP; - is standard output, otlp the collector of
        /// otlp_endpoint
        audit_log("FILE"): PathBuf, or "part of the log";
        /// Also note commands that only look at states and lists in the audit log
        audit_reads("BOOL"): bool = false;
        /// OpenTelemetry collector that gets traces, as OTLP over HTTP in protobuf: its base address
        /// (http://127.0.0.1:4318), below which v1/traces and v1/logs are
        otlp_endpoint("URL"): String, or "no traces";
        /// File with lines "Name: value": headers for the collector, for example its token
        otlp_headers("FILE"): PathBuf;
    }
    file {
        /// Tenants by name
        tenants: BTreeMap<String, TenantTable>;
        /// Sign-in of people by an identity provider
        oidc: OidcTable;
        /// As root: host user ids, one for each living sandbox
        host_uids: HostUids;
        /// Secrets that are added to requests of sessions, by name
        credentials: BTreeMap<String, CredentialTable>;
        /// Servers of tools that sessions use, by name
        tool_servers: BTreeMap<String, ToolServerFields>;
        /// Language models that code in sessions calls, by name
        models: BTreeMap<String, LlmFields>;
        /// The Docker engine
        docker: DockerTable;
        /// A Kubernetes cluster: sandboxes are its pods
        kubernetes: KubernetesTable;
        /// Directories, volumes and claims that templates may name
        mounts: BTreeMap<String, MountTable>;
        /// Settings for templates that do not have them, and for kernels without a template
        defaults: TemplateTable;
        /// Templates by name
        templates: BTreeMap<String, TemplateTable>;
    }
    flags {
        /// Socket of the Docker engine, if a level, an image or a template needs it
        docker_host("ADDRESS"): DockerHost, or "unix:///var/run/docker.sock";
    }
}

impl GivenSettings {
    /// Makes relative paths start at `base`.
    pub(crate) fn anchor(&mut self, base: &Path) {
        let single = [
            &mut self.token_file,
            &mut self.tls_cert,
            &mut self.tls_key,
            &mut self.data_dir,
            &mut self.run_dir,
            &mut self.env_dir,
            &mut self.shim,
            &mut self.jail,
            &mut self.otlp_headers,
            &mut self.credentials_key_file,
            &mut self.replica_key,
        ];
        let credentials = self.credentials.iter_mut().flat_map(BTreeMap::values_mut);
        let credentials = credentials.flat_map(CredentialTable::files);
        let kubernetes = self.kubernetes.iter_mut();
        let kubernetes =
            kubernetes.flat_map(|table| table.kubeconfig.iter_mut().chain(&mut table.authority_keys));
        let oidc = self.oidc.iter_mut().flat_map(OidcTable::files);
        // A description that is not at a URL is a file.
        let servers = self.tool_servers.iter_mut().flat_map(BTreeMap::values_mut);
        for description in servers.filter_map(|server| server.openapi.as_mut()) {
            if !description.is_empty() && !description.contains("://") {
                *description = base.join(&*description).to_string_lossy().into_owned();
            }
        }
        // Standard output and the collector are no files.
        let is_file = |path: &&mut PathBuf| path.as_os_str() != STDOUT && path.as_os_str() != OTLP;
        let audit = self.audit_log.as_mut().filter(is_file);
        let listed = self.kernelspec_dirs.iter_mut().flatten();
        let tenants = self.tenants.iter_mut().flat_map(BTreeMap::values_mut);
        let tokens = tenants
            .flat_map(|tenant| tenant.tokens.values_mut())
            .filter_map(|token| match token {
                TokenSetting::File(path) => Some(path),
                TokenSetting::Text(_) => None,
            });
        for path in single
            .into_iter()
            .flatten()
            .chain(audit)
            .chain(listed)
            .chain(tokens)
            .chain(oidc)
            .chain(credentials)
            .chain(kubernetes)
        {
            *path = base.join(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_a_file_are_read_as_those_of_flags() {
        let file: GivenSettings = toml::from_str("cull_interval = 7\norphan_ttl = \"2h\"").unwrap();
        assert_eq!(
            (file.cull_interval, file.orphan_ttl),
            (Some(Seconds(7)), Some(Seconds(7_200)))
        );
    }

    #[test]
    fn the_first_layer_wins_and_the_token_goes_with_its_file() {
        let file = || toml::from_str("listen = \"a\"\nmax_kernels = 3\ntoken_file = \"t\"").unwrap();
        let said = GivenSettings {
            listen: Some("b".into()),
            token: Some(Secret("s".into())),
            ..GivenSettings::default()
        };
        let merged = said.over(file());
        assert_eq!(
            (merged.listen.as_deref(), merged.max_kernels),
            (Some("b"), Some(3))
        );
        assert_eq!((merged.token.is_some(), merged.token_file), (true, None));
        assert!(GivenSettings::default().over(file()).token_file.is_some());
    }

    #[test]
    fn paths_of_a_file_start_at_its_directory() {
        let mut file: GivenSettings = toml::from_str(
            "data_dir = \"d\"\nshim = \"/s\"\nkernelspec_dirs = [\"k\"]\nreplica_key = \"r\"\n[tenants.a]\ntokens.b.file = \"t\"\n\
             [kubernetes]\nkubeconfig = \"c\"\nauthority_keys = [\"a1\", \"/a2\"]",
        )
        .unwrap();
        file.anchor(Path::new("/etc/himalia"));
        assert_eq!(file.data_dir.as_deref(), Some(Path::new("/etc/himalia/d")));
        assert_eq!(file.shim.as_deref(), Some(Path::new("/s")));
        assert_eq!(file.kernelspec_dirs, Some(vec![PathBuf::from("/etc/himalia/k")]));
        assert_eq!(file.replica_key.as_deref(), Some(Path::new("/etc/himalia/r")));
        let kubernetes = file.kubernetes.unwrap();
        assert_eq!(
            kubernetes.kubeconfig.as_deref(),
            Some(Path::new("/etc/himalia/c"))
        );
        assert_eq!(
            kubernetes.authority_keys,
            ["/etc/himalia/a1", "/a2"].map(PathBuf::from)
        );
        let token = &file.tenants.unwrap()["a"].tokens["b"];
        assert!(matches!(token, TokenSetting::File(path) if path == Path::new("/etc/himalia/t")));
    }
}
