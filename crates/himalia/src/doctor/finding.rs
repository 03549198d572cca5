//! Findings of the doctor.

use std::fmt;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// As it should be.
    Good,
    /// For information.
    Info,
    /// Something will be worse than it could be.
    Warn,
    /// `himalia serve` will not start, or will have no kernel.
    Bad,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Good => "ok",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Bad => "FAIL",
        })
    }
}

/// One line of the report.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(super) level: Level,
    pub(super) topic: &'static str,
    pub(super) text: String,
}

impl Finding {
    pub(crate) fn new(level: Level, topic: &'static str, text: impl Into<String>) -> Self {
        Self {
            level,
            topic,
            text: text.into(),
        }
    }

    /// Good with the value, or bad with the error.
    pub(crate) fn of<E: fmt::Display>(topic: &'static str, result: Result<String, E>) -> Self {
        match result {
            Ok(text) => Self::new(Level::Good, topic, text),
            Err(error) => Self::new(Level::Bad, topic, format!("{error:#}")),
        }
    }
}
