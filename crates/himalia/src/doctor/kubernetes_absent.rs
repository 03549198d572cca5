//! The report on a cluster, in a build without it.

use anyhow::bail;

use super::finding::Finding;
use crate::config::Config;
use himalia_cli::features;

pub(super) fn look(_config: &Config) -> anyhow::Result<Vec<Finding>> {
    bail!("--kubernetes: {}", features::missing("kubernetes"))
}
