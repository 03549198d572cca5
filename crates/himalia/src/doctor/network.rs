//! Checks of the network for sessions with an allow list.

use std::time::Duration;

use anyhow::Context as _;
use himalia_egress::{Outbound, Route};
use himalia_engine::Network;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::finding::{Finding, Level};
use crate::config::Config;

const TOPIC: &str = "network";
const INDEX: &str = "package index";
/// Longest wait for the proxy of this machine's network.
const PROXY_TIME: Duration = Duration::from_secs(5);

/// Looks at what the configuration uses: the proxy of this machine's own network, and the index of packages.
pub(super) fn look(config: &Config) -> anyhow::Result<Vec<Finding>> {
    let sandboxes = &config.sandboxes;
    let templates = sandboxes.templates.values().chain([&sandboxes.defaults]);
    let lists = templates
        .filter(|template| template.network == Network::Allow)
        .count();
    if lists == 0 && config.packages.is_none() {
        return Ok(Vec::new());
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("no runtime")?;
    Ok(runtime.block_on(async {
        let mut findings = vec![route().await];
        findings.extend(index(config).await);
        findings
    }))
}

/// Checks the connection to hosts of the internet.
async fn route() -> Finding {
    match himalia_egress::route("example.org") {
        Route::Direct => Finding::new(
            Level::Good,
            TOPIC,
            "hosts are reached directly (no HTTPS_PROXY here)",
        ),
        Route::Unsupported(proxy) => {
            let text =
                format!("hosts are not reached: only http:// proxies are supported, and {proxy} is set");
            Finding::new(Level::Bad, TOPIC, text)
        }
        Route::Proxy { host, port } => {
            let connected = timeout(PROXY_TIME, TcpStream::connect((host.as_str(), port))).await;
            let text = format!("hosts are reached through the proxy {host}:{port} of the environment");
            match connected {
                Ok(Ok(_)) => Finding::new(Level::Good, TOPIC, text),
                Ok(Err(error)) => Finding::new(
                    Level::Bad,
                    TOPIC,
                    format!("{text}, which is not reached: {error}"),
                ),
                Err(_) => Finding::new(Level::Bad, TOPIC, format!("{text}, which does not answer")),
            }
        }
    }
}

/// Checks that the package index responds.
async fn index(config: &Config) -> Option<Finding> {
    let index = config.packages.as_ref()?;
    let place = format!("{}:{}", index.host, index.port);
    let scheme = if index.plain { "http" } else { "https" };
    let asked = async {
        let outbound = Outbound::of_this_process(config.private_addresses.clone())?;
        let answered = outbound.answers(&format!("{scheme}://{place}/")).await;
        answered.map_err(|denial| anyhow::anyhow!("{denial}"))
    };
    Some(match asked.await {
        // Whatever it says of its root: it is there, and its certificate is right.
        Ok(()) => Finding::new(Level::Good, INDEX, format!("{place} answers")),
        Err(error) => Finding::new(Level::Bad, INDEX, format!("{error:#}")),
    })
}
