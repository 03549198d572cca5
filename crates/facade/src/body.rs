//! Bodies of requests, within bounds of length and time.

use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::multipart::MultipartError;
use axum::http::StatusCode;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::{Failure, Shape};

/// Time for a message to arrive.
const MESSAGE_TIME: Duration = Duration::from_secs(30);
/// Longest pause of a client in the middle of a body.
const SILENCE_OF_CLIENTS: Duration = Duration::from_mins(1);

/// Reasons why a body was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyError {
    /// It is longer than this, or broke off.
    TooLarge(usize),
    /// It took too long.
    Late,
    /// No more bytes came.
    Silent,
    /// It is not the form that it should be.
    Form(StatusCode, String),
}

impl BodyError {
    /// The status that says it.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Late | Self::Silent => StatusCode::REQUEST_TIMEOUT,
            Self::Form(status, _) => *status,
        }
    }

    /// One line for people.
    pub fn text(&self) -> String {
        match self {
            Self::TooLarge(most) => format!("the body is larger than {most} bytes, or broke off"),
            Self::Late => "the body took too long".to_owned(),
            Self::Silent => "the body stopped arriving".to_owned(),
            Self::Form(_, text) => text.clone(),
        }
    }
}

impl From<MultipartError> for BodyError {
    fn from(error: MultipartError) -> Self {
        Self::Form(error.status(), error.body_text())
    }
}

/// A body of at most so many bytes.
///
/// # Errors
/// It is longer, or too slow.
pub async fn whole(body: Body, most: usize) -> Result<Bytes, BodyError> {
    match timeout(MESSAGE_TIME, to_bytes(body, most)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(_)) => Err(BodyError::TooLarge(most)),
        Err(_) => Err(BodyError::Late),
    }
}

/// A message of at most so many bytes, in JSON.
///
/// # Errors
/// It is longer, or too slow, or not what it should be.
pub async fn message<T: DeserializeOwned, S: Shape>(body: Body, most: usize) -> Result<T, Failure<S>> {
    let bytes = whole(body, most).await?;
    serde_json::from_slice(&bytes).map_err(|error| Failure::field("body", error))
}

/// Awaits the next part of a body, within the time for it to arrive.
///
/// # Errors
/// [`BodyError::Silent`].
pub async fn in_time<T>(work: impl Future<Output = T>) -> Result<T, BodyError> {
    timeout(SILENCE_OF_CLIENTS, work)
        .await
        .map_err(|_| BodyError::Silent)
}
