//! The log: standard error, never standard output, and never a token. What callers send and get is not in it either, however
//! much is logged: an answer to `getpass()` may be among it.

use tracing::{Level, Metadata};
use tracing_subscriber::filter::{LevelFilter, Targets, filter_fn};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::{Config, ConfigError};
use crate::settings::LogFormat;

/// Reads a filter such as `info,himalia_http=debug`.
pub(crate) fn filter(text: &str) -> Result<Targets, ConfigError> {
    text.parse::<Targets>()
        .map_err(|error| ConfigError::new("log", error.to_string()))
}

/// Starts the log of this process. A second call changes nothing.
pub(crate) fn start(config: &Config) -> Result<(), ConfigError> {
    let builder = fmt()
        .with_writer(std::io::stderr)
        .with_max_level(LevelFilter::TRACE);
    let filter = filter(&config.log)?;
    let started = match config.log_format {
        LogFormat::Text => builder
            .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
            .finish()
            .with(filter)
            .with(filter_fn(is_ours_to_tell))
            .try_init(),
        LogFormat::Json => builder
            .json()
            .finish()
            .with(filter)
            .with(filter_fn(is_ours_to_tell))
            .try_init(),
    };
    if let Err(error) = started {
        tracing::debug!(%error, "the log had been started");
    }
    Ok(())
}

/// From `info` on the MCP SDK writes whole messages: those of upstream servers, and arguments of callers.
fn is_ours_to_tell(metadata: &Metadata<'_>) -> bool {
    !metadata.target().starts_with("rmcp") || *metadata.level() <= Level::WARN
}
