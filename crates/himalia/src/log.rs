//! The log: standard error, never standard output, and never a token.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;

use crate::config::{Config, ConfigError};
use crate::settings::LogFormat;

/// Reads a filter such as `info,himalia_http=debug`.
pub(crate) fn filter(text: &str) -> Result<EnvFilter, ConfigError> {
    EnvFilter::builder()
        .parse(text)
        .map_err(|error| ConfigError::new("log", error.to_string()))
}

/// Starts the log of this process. A second call changes nothing.
pub(crate) fn start(config: &Config) -> Result<(), ConfigError> {
    let builder = fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(filter(&config.log)?);
    let started = match config.log_format {
        LogFormat::Text => builder
            .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
            .try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
    if let Err(error) = started {
        tracing::debug!(%error, "the log had been started");
    }
    Ok(())
}
