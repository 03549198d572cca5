//! An answer that comes in pieces.

use std::fmt;

use bytes::Bytes;
use himalia_model::{LlmConfig, ModelUse};
use himalia_upstream::{IncomingResponse, json};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use crate::events::{Events, MAX_EVENT, data};
use crate::failure::Failure;
use crate::models::{Turn, took};
use crate::request::{Estimate, PreparedRequest};
use crate::usage::{self, Usage};

/// Bytes of the text that are kept for a log.
const TEXT_BYTES: usize = 16 * 1024;

/// An answer that comes in pieces. Its events are passed on as they come, but for the one that the gateway has asked for.
pub struct Stream {
    incoming: IncomingResponse,
    events: Events,
    config: LlmConfig,
    shows_usage: bool,
    estimate: Estimate,
    deadline: Instant,
    usage: Option<Usage>,
    /// Events with a part of the answer: about as many as tokens.
    parts: u64,
    text: String,
    ended: bool,
    _turn: Turn,
}

impl Stream {
    pub(crate) fn new(
        incoming: IncomingResponse,
        prepared: &PreparedRequest,
        config: &LlmConfig,
        turn: Turn,
        deadline: Instant,
    ) -> Self {
        Self {
            incoming,
            events: Events::default(),
            config: config.clone(),
            shows_usage: prepared.shows_usage,
            estimate: prepared.estimate,
            deadline,
            usage: None,
            parts: 0,
            text: String::new(),
            ended: false,
            _turn: turn,
        }
    }

    /// The next event, or `None` at the end.
    ///
    /// # Errors
    /// The stream has ended early, or is longer than it may be.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            while let Some(event) = self.events.next().map_err(|_| Failure::TooLarge(MAX_EVENT))? {
                if self.passes(&event) {
                    return Ok(Some(event));
                }
            }
            if self.ended {
                let rest = self.events.rest();
                return Ok((!rest.is_empty() && self.passes(&rest)).then_some(rest));
            }
            let piece = timeout_at(self.deadline, self.incoming.body.next()).await;
            match piece.map_err(|_| Failure::Timeout(self.config.call_time))?? {
                Some(piece) => self.events.push(&piece),
                None => self.ended = true,
            }
        }
    }

    /// Looks at an event. Whether it is passed on.
    fn passes(&mut self, event: &[u8]) -> bool {
        let Ok(event) = json::parse::<Value>(&data(event)) else {
            // `[DONE]`, or a comment.
            return true;
        };
        if let Some(usage) = usage::of(&event) {
            self.usage = Some(usage);
        }
        let choices = event["choices"].as_array();
        let is_only_usage = choices.is_some_and(Vec::is_empty) && event["usage"].is_object();
        if choices.is_some_and(|choices| !choices.is_empty()) {
            self.parts += 1;
        }
        if let Some(text) = event["choices"][0]["delta"]["content"].as_str()
            && self.text.len() + text.len() <= TEXT_BYTES
        {
            self.text.push_str(text);
        }
        self.shows_usage || !is_only_usage
    }

    /// The use so far, as the server says it; or else the most that it may be, since a model may write more than comes.
    pub fn took(&self) -> ModelUse {
        took(&self.config, self.usage, self.estimate, || self.parts)
    }

    /// The beginning of its text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Bytes of it that have come.
    pub fn bytes(&self) -> usize {
        self.incoming.body.read()
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({} bytes)", self.bytes())
    }
}
