//! The error of all that reads settings.

/// A setting that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{key}: {reason}")]
pub struct ConfigError {
    /// The setting as it is called in the file, or the file.
    key: String,
    /// One line.
    reason: String,
}

impl ConfigError {
    /// An error about this setting, with a reason of one line.
    pub fn new(key: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            reason: reason.into(),
        }
    }
}
