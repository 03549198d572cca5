//! Reasons why a call has no reply.

use std::time::Duration;

use himalia_upstream::{BodyError, SendError};
use thiserror::Error;

/// Reasons why a call has no reply. Texts of servers in the operator's network are only in the gateway log, not here.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Failure {
    /// The request was not sent.
    #[error("{0}")]
    Unavailable(String),
    /// No reply in time. Whether it was done is unknown.
    #[error("no reply within {:.1} s", .0.as_secs_f64())]
    Timeout(Duration),
    /// The connection ended before the reply. Whether it was done is unknown.
    #[error("the connection ended before the reply")]
    Lost,
    /// The reply is longer than this, and was not read further.
    #[error("the reply has more than {0} bytes")]
    TooLarge(usize),
    /// The server answered something that is no reply.
    #[error("{0}")]
    Failed(String),
}

impl From<SendError> for Failure {
    fn from(error: SendError) -> Self {
        match error {
            SendError::NotSent(_) => Self::Unavailable(
                "its server cannot be called now; the log of the gateway says why".to_owned(),
            ),
            SendError::NoGrant(reason) => Self::Unavailable(reason),
            SendError::Lost(_) => Self::Lost,
            SendError::Unreadable(reason) => Self::Failed(reason),
        }
    }
}

impl From<BodyError> for Failure {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::TooLong(most) => Self::TooLarge(most),
            BodyError::Lost => Self::Lost,
        }
    }
}
