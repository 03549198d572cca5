//! The error of all that reads settings.

/// A setting that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{key}: {reason}")]
pub(crate) struct ConfigError {
    /// The setting as it is called in the file, or the file.
    key: String,
    /// One line.
    reason: String,
}

impl ConfigError {
    pub(crate) fn new(key: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            reason: reason.into(),
        }
    }
}
