//! Errors, each with the step that failed.

use std::fmt;

use himalia_jail::{Failure, Step};

/// Turns an error into the failure of a step.
pub(crate) trait AtStep<T> {
    /// `subject` is the path or name that the step was about.
    fn at(self, step: Step, subject: impl fmt::Display) -> Result<T, Failure>;
}

impl<T, E: fmt::Display> AtStep<T> for Result<T, E> {
    fn at(self, step: Step, subject: impl fmt::Display) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(step, format_args!("{subject}: {error}")))
    }
}
