//! `himalia serve`: connects the parts, and starts and stops them in order.

use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use himalia_cli::address::Address;
use himalia_engine::{Drain, Engine, EngineConfig, Principal};
use himalia_http::{AllowedOrigins, HttpConfig, Listeners, MountedService, Tokens, Viewer};
use himalia_provisioner::Isolation;
use himalia_runs::Runs;
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::banner::Banner;
use crate::config::Config;
use crate::env::PythonEnv;
use crate::host_uids::{HostUids, Owner};
use crate::relay::Relay;
use crate::reload::Reload;
use crate::settings::{GivenSettings, OnStop};
use crate::signals::{Ending, SignalRequest, Signals};
use crate::telemetry::Telemetry;
use crate::tls::Certificate;
use crate::token::Token;
use crate::{data_dir, facades, keys, lock, log, notify, oidc, rundir, sandboxes, tenants, tls, viewer};

/// Open files that the gateway asks for, if the hard limit allows it: a kernel needs about six, a client one.
const OPEN_FILES: u64 = 65_536;

/// Longest wait for the audit log at the end.
const AUDIT_TIME: Duration = Duration::from_secs(2);
/// Longest wait for the collector of traces at the end.
const TRACES_TIME: Duration = Duration::from_secs(2);

/// Serves until a signal ends it. `said` is what the configuration was made of: its tokens are read again on SIGHUP.
pub(crate) fn run(config: Config, said: GivenSettings) -> anyhow::Result<ExitCode> {
    log::start(&config)?;
    raise_open_files();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_name("himalia")
        .enable_all()
        .build();
    let runtime = runtime.context("cannot start threads")?;
    let code = runtime.block_on(Box::pin(serve(config, said)))?;
    // Whatever still waits in a blocking thread must not delay the end.
    runtime.shutdown_background();
    Ok(code)
}

async fn serve(config: Config, said: GivenSettings) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::catch().context("cannot catch signals")?;
    data_dir::open(&config.data_dir)?;
    let _data_lock = lock::take(&config.data_dir)?;
    let run_dir = rundir::prepare(config.run_dir.as_deref(), &config.data_dir)?;
    let _run_lock = lock::take(&run_dir)?;
    let (token, tokens) = tenants::read(&config)?;
    let reload = Reload::new(said, &config, tokens.clone());
    let mut certificate = config.tls.clone().map(Certificate::load).transpose()?;
    let provider = config.oidc.as_ref();
    let oidc = provider
        .map(|settings| oidc::open(settings, &config.data_dir))
        .transpose()?;
    // Bound before the engine starts, so that an address that is taken costs nothing; clients wait in the backlog.
    let listener = TcpListener::bind(config.listen).await;
    let listener = listener.with_context(|| format!("cannot listen on {}", config.listen))?;
    let address = listener.local_addr().context("cannot listen")?;
    let relay = Relay::bind(&config.replica).await?;

    if let Some(env) = PythonEnv::locate(&config.env_dir).ready() {
        env.refresh()?;
    }
    let chosen = Box::pin(sandboxes::choose(&config, &run_dir, address.ip())).await?;
    let settings = EngineConfig {
        credentials: config
            .credentials
            .settings(&config.data_dir, config.replica.store.is_some())?,
        ..engine_config(&config)
    };
    let engine = Box::pin(Engine::open(settings, chosen.provisioners)).await?;
    let telemetry = Telemetry::new(&config);
    let audit = telemetry.audit(&config, &engine).context("audit_log")?;
    let runs = Runs::open(engine.with_audit(audit));
    let engine = runs.engine().clone();
    let traces = telemetry.export_traces(&engine);
    let shutdown = CancellationToken::new();
    let sign_in_code = viewer::sign_in_code()?;
    let (cluster, peers) = match relay {
        Some(relay) => relay
            .join(&engine)
            .await
            .map(|(cluster, peers)| (Some(cluster), Some(peers)))?,
        None => (None, None),
    };
    let listeners = Listeners {
        clients: listener,
        peers,
    };
    let secret = keys::secret(&config, "mcp-secret", "the secret of MCP's states")?;
    let mcp = himalia_mcp::service(runs.clone(), secret.as_bytes(), shutdown.clone());
    let mcp = mcp.map_err(|reason| anyhow::anyhow!("the secret of MCP's states: {reason}"))?;
    let http_config = HttpConfig {
        cluster,
        e2b: facades::e2b(&config, &engine, &shutdown)?,
        azure: facades::azure(&config, &engine)?,
        openai: facades::openai(&config, &engine)?,
        mcp: Some(MountedService::new(mcp)),
        viewer: Viewer::new(viewer::FILES),
        oidc,
        sign_in_code: Some(himalia_http::Token::new(&sign_in_code)),
        sign_ins_file: Some(config.data_dir.join("sign-ins")),
        new_tokens: Some(reload.subscribe()),
        tls: certificate.as_ref().map(Certificate::tls).unwrap_or_default(),
        ..http_config(&config, &token, tokens)
    };
    let http = himalia_http::serve(listeners, runs, http_config, shutdown.clone());
    let mut http = tokio::spawn(http);
    if !config.tenants.callers.is_empty() && chosen.levels.contains(&Isolation::None) {
        tracing::warn!(
            "kernels of tenants can reach each other: at level none they are processes of one user"
        );
    }
    print_banner(&config, &engine, &token, &sign_in_code, address, &chosen.levels).await?;
    notify::say(notify::READY);

    let ending = loop {
        let said = tokio::select! {
            said = signals.next() => said,
            reason = engine.lost_lease() => return lost_lease(&config, &reason),
            () = tls::changed(certificate.as_mut()) => continue,
            ended = &mut http => {
                let _ = engine.drain(&Principal::operator(), Drain::KeepKernels).await;
                ended.context("the HTTP server failed")??;
                anyhow::bail!("the HTTP server ended by itself");
            }
        };
        match said {
            SignalRequest::End(ending) => break ending,
            SignalRequest::Reload => {
                engine.audit().reopen();
                reload.run();
                if let Some(certificate) = &mut certificate {
                    certificate.reload();
                }
            }
        }
    };
    tokio::select! {
        result = end(&config, ending, &engine, shutdown, http) => {
            result?;
            if let Some(traces) = traces {
                traces.finish(TRACES_TIME).await;
            }
            tidy(&config, &run_dir, chosen.uids).await;
            Ok(ExitCode::SUCCESS)
        }
        _ = signals.ending() => {
            tracing::warn!("a second signal: not waiting any longer");
            Ok(ExitCode::from(ending.hurried()))
        }
    }
}

/// Ends at once: another replica may have the sessions, so nothing is written or sent any more. The kernels continue.
fn lost_lease(config: &Config, reason: &str) -> anyhow::Result<ExitCode> {
    Address::remove(&config.data_dir);
    anyhow::bail!(
        "replica {} ends, because {reason}; its kernels continue",
        config.replica.name
    )
}

/// Tells clients, lets open requests finish, then keeps or ends the kernels.
async fn end(
    config: &Config,
    ending: Ending,
    engine: &Engine,
    shutdown: CancellationToken,
    http: tokio::task::JoinHandle<Result<(), himalia_http::ServeError>>,
) -> anyhow::Result<()> {
    let kernels = ending.kernels(config);
    tracing::info!(?ending, ?kernels, "stopping");
    notify::say(notify::STOPPING);
    Address::remove(&config.data_dir);
    let operator = Principal::operator();
    let served = match kernels {
        OnStop::Keep if engine.has_successors().await => {
            // Sessions are served until this is done, and then wait for their next owner: they are given up at once, not after
            // the last response.
            engine.end_spare().await;
            shutdown.cancel();
            let (served, drained) = tokio::join!(http, engine.drain(&operator, Drain::KeepKernels));
            drained?;
            served.context("the HTTP server failed")
        }
        kernels => {
            shutdown.cancel();
            let served = http.await.context("the HTTP server failed");
            let drain = match kernels {
                OnStop::Keep => Drain::KeepKernels,
                OnStop::Stop => Drain::StopKernels,
            };
            engine.drain(&operator, drain).await?;
            served
        }
    };
    let audit = engine.audit().clone();
    let flushed = tokio::task::spawn_blocking(move || audit.flush(AUDIT_TIME)).await;
    if !flushed.unwrap_or(false) {
        tracing::error!("the end of the audit log was not written");
    }
    served??;
    tracing::info!("stopped");
    Ok(())
}

/// Leaves nothing on the host that no sandbox and no kept file needs.
async fn tidy(config: &Config, run_dir: &Path, uids: HostUids) {
    let (data_dir, run_dir) = (config.data_dir.clone(), run_dir.to_owned());
    let tidied = tokio::task::spawn_blocking(move || {
        uids.give_back(Owner {
            data_dir: &data_dir,
            run_dir: &run_dir,
        });
        rundir::remove(&run_dir);
    });
    let _ = tidied.await;
}

/// The engine's settings. `<data-dir>/kernelspecs` is added by the engine.
pub(crate) fn engine_config(config: &Config) -> EngineConfig {
    let mut kernelspec_dirs = config.kernelspec_dirs.clone();
    kernelspec_dirs.extend(
        PythonEnv::locate(&config.env_dir)
            .ready()
            .map(|env| env.kernelspecs()),
    );
    EngineConfig {
        replica: config.replica.name.clone(),
        shared_store: config.replica.store.clone(),
        max_kernels: config.max_kernels,
        default_kernel: config.default_kernel.clone(),
        kernelspec_dirs,
        only_these_kernelspecs: config.only_these_kernelspecs,
        allowed_kernelspecs: config.allowed_kernelspecs.clone(),
        cull: config.cull,
        orphan_ttl: Some(config.orphan_ttl),
        retention: config.retention,
        templates: config.sandboxes.templates.clone(),
        defaults: config.sandboxes.defaults.clone(),
        images: config.sandboxes.docker.images.clone(),
        networks: config.sandboxes.docker.networks.clone(),
        mounts: config.mounts.clone(),
        tool_servers: config.tool_servers.clone(),
        models: config.models.clone(),
        private_addresses: config.private_addresses.clone(),
        callback_addresses: config.callback_addresses.clone(),
        // Their clients name files by this path.
        show_data: config.facades.azure_sessions || config.facades.openai_containers,
        packages: config.packages.clone(),
        network: config.network,
        tenants: config.tenants.limits.clone(),
        message_bytes: config.message_bytes,
        min_free_bytes: config.min_free_bytes,
        ..EngineConfig::new(&config.data_dir)
    }
}

fn http_config(config: &Config, token: &Token, tokens: Tokens) -> HttpConfig {
    HttpConfig {
        base_url: config.base_url.clone(),
        allow_origin: AllowedOrigins::new(&config.allow_origin),
        tokens,
        ..HttpConfig::new(&token.text.0)
    }
}

async fn print_banner(
    config: &Config,
    engine: &Engine,
    token: &Token,
    sign_in_code: &str,
    address: SocketAddr,
    levels: &[Isolation],
) -> anyhow::Result<()> {
    let operator = Principal::operator();
    let found = engine.kernelspecs(&operator).await?;
    let mut kernelspecs: Vec<_> = found
        .specs
        .into_iter()
        .map(|(name, spec)| (name, spec.problem))
        .collect();
    kernelspecs.sort_by_key(|(name, _)| *name != found.default);
    let banner = Banner {
        address,
        base_url: &config.base_url,
        tls: config.tls.is_some(),
        token,
        sign_in_code: (!viewer::FILES.is_empty()).then_some(sign_in_code),
        data_dir: &config.data_dir,
        kernelspecs: &kernelspecs,
        levels,
        adopted: engine.kernels(&operator)?.len(),
        on_interrupt: config.on_interrupt,
        on_sigterm: config.on_sigterm,
    };
    let address = Address {
        url: banner.url(),
        token_file: token.origin.file().map(Path::to_owned),
    };
    let said = address.write(&config.data_dir);
    if let Err(error) = said {
        tracing::warn!(%error, "commands such as himalia session ls will need --url");
    }
    // A reader that has gone away is no reason to stop.
    if let Err(error) = banner.write(&mut std::io::stdout().lock()) {
        tracing::warn!(%error, "cannot print how to attach");
    }
    Ok(())
}

/// Raises the soft limit on open files towards the hard one.
fn raise_open_files() {
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.unwrap_or(OPEN_FILES).min(OPEN_FILES);
    if limit.current.is_some_and(|current| current < wanted) {
        limit.current = Some(wanted);
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::warn!(%error, "cannot raise the limit on open files");
        }
    }
}
