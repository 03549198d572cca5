//! Counting starts.

use himalia_model::EngineError;
use tokio::time::Instant;

use crate::SessionManager;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Session,
    Fork,
    Additional,
    Resume,
}

impl SessionManager {
    /// A start has ended. `path` is how the process came to be, asked for one that was started.
    pub(super) fn count_start<T>(
        &self,
        source: Source,
        begun: Instant,
        started: &Result<T, EngineError>,
        path: impl FnOnce(&T) -> &'static str,
    ) {
        let starts = self.metrics.starts();
        match started {
            Ok(started) => starts.started(path(started), begun.elapsed()),
            Err(_) => starts.failed(match source {
                Source::Session => "session",
                Source::Fork => "fork",
                Source::Additional => "additional",
                Source::Resume => "resume",
            }),
        }
    }
}
