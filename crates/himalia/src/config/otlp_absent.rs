//! The collector of `OpenTelemetry`, in a build without it.

use std::path::PathBuf;

use super::ConfigError;
use himalia_cli::features;

#[derive(Clone, Debug)]
pub(crate) enum Collector {}

#[expect(clippy::needless_pass_by_value, reason = "as with the feature")]
pub(super) fn collector(
    endpoint: Option<String>,
    _headers: Option<PathBuf>,
) -> Result<Option<Collector>, ConfigError> {
    match endpoint {
        Some(_) => Err(ConfigError::new("otlp_endpoint", features::missing("otlp"))),
        None => Ok(None),
    }
}
