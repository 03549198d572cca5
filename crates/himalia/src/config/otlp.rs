//! The collector of `OpenTelemetry`.

use std::path::PathBuf;

use himalia_otlp::BadCollector;
pub(crate) use himalia_otlp::Collector;

use super::ConfigError;

/// The collector of OpenTelemetry, with the headers of a file.
pub(super) fn collector(
    endpoint: Option<String>,
    headers: Option<PathBuf>,
) -> Result<Option<Collector>, ConfigError> {
    let Some(endpoint) = endpoint else {
        return match headers {
            None => Ok(None),
            Some(_) => Err(ConfigError::new("otlp_endpoint", "is needed with otlp_headers")),
        };
    };
    let lines = match headers {
        None => String::new(),
        Some(file) => std::fs::read_to_string(&file)
            .map_err(|error| ConfigError::new("otlp_headers", format!("{}: {error}", file.display())))?,
    };
    let collector = Collector::new(&endpoint, &lines).map_err(|error| {
        let key = if matches!(error, BadCollector::Header(_)) {
            "otlp_headers"
        } else {
            "otlp_endpoint"
        };
        ConfigError::new(key, error.to_string())
    })?;
    Ok(Some(collector))
}
