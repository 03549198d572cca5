//! The report on the container engine, in a build without it.

use std::path::Path;

use super::finding::{Finding, Level};
use crate::config::Config;
use himalia_cli::features;

#[expect(clippy::unused_async, reason = "as with the feature")]
pub(super) async fn look(config: &Config, _dir: &Path) -> Vec<Finding> {
    let level = if config.sandboxes.docker_wanted {
        Level::Bad
    } else {
        Level::Info
    };
    vec![Finding::new(level, "Docker", features::missing("docker"))]
}
