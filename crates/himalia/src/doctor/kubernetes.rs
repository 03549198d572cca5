//! Checks of a cluster for sandboxes.

use anyhow::Context as _;
use himalia_kubernetes::{Check, Verdict, examine};

use super::finding::{Finding, Level};
use crate::config::Config;
use crate::sandboxes;

/// Asks the cluster of `[kubernetes]`, and starts probes in it.
pub(super) fn look(config: &Config) -> anyhow::Result<Vec<Finding>> {
    let settings = config.sandboxes.kubernetes.as_ref();
    let settings = settings.context("--kubernetes: the configuration file has no table [kubernetes]")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("no runtime")?;
    let checks = runtime.block_on(Box::pin(async {
        let client = sandboxes::kubernetes::connect(settings).await?;
        anyhow::Ok(examine(&settings.config, &client).await)
    }))?;
    Ok(checks.into_iter().map(finding).collect())
}

fn finding(check: Check) -> Finding {
    let level = match check.verdict {
        Verdict::Good => Level::Good,
        Verdict::Warn => Level::Warn,
        Verdict::Bad => Level::Bad,
    };
    Finding::new(level, check.topic, check.text)
}
