//! All of the configured models.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use himalia_credentials::CredentialSource;
use himalia_model::{HttpUrl, LlmConfig, LlmEndpoint as Endpoint, ModelUse};
use himalia_upstream::{Http, IncomingResponse, Secret, SendError, SentFlag, is_json, json, needs_tls};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Request, StatusCode};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use crate::failure::Failure;
use crate::request::{Estimate, PreparedRequest};
use crate::stream::Stream;
use crate::usage;

/// Calls of one model at once. The next ones wait within their time.
pub const MAX_CALLS: usize = 64;
/// Calls of one model that wait. More are refused.
pub const MAX_WAITING: usize = 1024;
/// Bytes of a reply, of a stream too.
pub const MAX_REPLY_BYTES: usize = 16 << 20;
/// Bytes of a reply that is an error.
const MAX_ERROR_BYTES: usize = 64 * 1024;
/// Headers that clients look at when they wait before they send a request again.
const KEPT_HEADERS: &[&str] = &["retry-after", "retry-after-ms", "x-should-retry"];

/// The configured models.
pub struct Models {
    by_name: BTreeMap<String, Model>,
}

struct Model {
    config: LlmConfig,
    http: Http,
    /// Calls in progress.
    calls: Arc<Semaphore>,
    /// Places of running and waiting calls.
    places: Arc<Semaphore>,
}

/// The place of a call among those of its model.
pub(crate) struct Turn {
    _place: OwnedSemaphorePermit,
    _call: OwnedSemaphorePermit,
}

/// A reply.
#[derive(Debug)]
pub enum Answer {
    Whole(Whole),
    /// It comes in pieces.
    Stream(Box<Stream>),
}

/// A whole reply, as the server gives it.
#[derive(Clone, Debug)]
pub struct Whole {
    /// HTTP status: a success, or an error.
    pub status: StatusCode,
    /// Media type of the body.
    pub media_type: String,
    /// Headers that tell a client when to retry.
    pub headers: Vec<(&'static str, String)>,
    pub body: Bytes,
    /// Tokens and cost of the call.
    pub took: ModelUse,
    /// Text of the reply or of its error, for a log.
    pub text: String,
}

impl Models {
    /// The models of a gateway, whose names differ. Blocks on the disk, for the certificates of this machine.
    ///
    /// # Errors
    /// Two have one name, or TLS cannot be set up. Begins with the name of the model.
    pub fn new(
        configs: impl IntoIterator<Item = LlmConfig>,
        credentials: &Arc<dyn CredentialSource>,
    ) -> Result<Self, String> {
        let mut by_name = BTreeMap::new();
        for config in configs {
            let name = config.name.clone();
            let tls = needs_tls([&config.url]);
            let http = Http::new(&config.owner, config.credential.as_deref(), credentials, tls)
                .map_err(|reason| format!("{name}: {reason}"))?;
            let model = Model {
                config,
                http,
                calls: Arc::new(Semaphore::new(MAX_CALLS)),
                places: Arc::new(Semaphore::new(MAX_CALLS + MAX_WAITING)),
            };
            if by_name.insert(name.clone(), model).is_some() {
                return Err(format!("{name}: there are two models of this name"));
            }
        }
        Ok(Self { by_name })
    }

    /// One of them, as it is configured.
    pub fn config(&self, name: &str) -> Option<&LlmConfig> {
        self.by_name.get(name).map(|model| &model.config)
    }

    /// Sends a request, once, and gives what its server says, be it an error. When this is dropped, or the stream that it gives, the
    /// connection is closed.
    ///
    /// # Errors
    /// [`Failure`] says whether it may have been done.
    pub async fn send(
        &self,
        name: &str,
        prepared: &PreparedRequest,
        deadline: Instant,
    ) -> Result<Answer, Failure> {
        let Some(model) = self.by_name.get(name) else {
            return Err(Failure::Unavailable("it is not there any more".to_owned()));
        };
        let Ok(place) = Arc::clone(&model.places).try_acquire_owned() else {
            return Err(Failure::Unavailable("too many calls of it wait".to_owned()));
        };
        let turn = timeout_at(deadline, Arc::clone(&model.calls).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else {
            return Err(Failure::Unavailable(format!(
                "it has {MAX_CALLS} calls in progress, and none of them ended in time"
            )));
        };
        let turn = Turn {
            _place: place,
            _call: turn,
        };
        model.send(prepared, turn, deadline).await
    }
}

impl Model {
    async fn send(
        &self,
        prepared: &PreparedRequest,
        turn: Turn,
        deadline: Instant,
    ) -> Result<Answer, Failure> {
        let url = format!(
            "{}/{}",
            self.config.url.as_str().trim_end_matches('/'),
            prepared.endpoint.path()
        );
        let request = Request::post(&url).body(prepared.body.clone());
        let mut request = request.map_err(|error| Failure::Unavailable(format!("its URL: {error}")))?;
        let accept = if prepared.is_stream {
            "text/event-stream"
        } else {
            "application/json"
        };
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        let sent = SentFlag::default();
        let too_late = || {
            if sent.is_sent() {
                Failure::Timeout(self.config.call_time)
            } else {
                Failure::Unavailable(
                    "its server cannot be called now; the log of the gateway says why".to_owned(),
                )
            }
        };
        let base: &HttpUrl = &self.config.url;
        let incoming = self
            .http
            .send(base, request, Secret::Needed, MAX_REPLY_BYTES, &sent);
        let incoming = timeout_at(deadline, incoming).await.map_err(|_| too_late())?;
        let incoming = incoming.map_err(|error| self.noted(error))?;
        if incoming.status.is_redirection() {
            tracing::warn!(
                model = self.config.name,
                "the server of a model answers with a redirect, which is not followed"
            );
            return Err(Failure::Failed("its server answers with a redirect".to_owned()));
        }
        if matches!(incoming.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            let status = incoming.status.as_u16();
            let reason = timeout_at(deadline, incoming.refusal()).await.unwrap_or_default();
            tracing::warn!(
                model = self.config.name,
                status,
                reason = himalia_upstream::clip(&reason),
                "the server of a model refuses the gateway"
            );
            // Servers repeat parts of keys in what they say.
            return Err(Failure::Failed(format!(
                "its server refuses the gateway ({status}); the operator has to look at its credential"
            )));
        }
        if incoming.status.is_success() && prepared.is_stream && incoming.media_type() == "text/event-stream"
        {
            let stream = Stream::new(incoming, prepared, &self.config, turn, deadline);
            return Ok(Answer::Stream(Box::new(stream)));
        }
        let whole = timeout_at(deadline, self.whole(incoming, prepared)).await;
        whole.map_err(|_| too_late())?.map(Answer::Whole)
    }

    async fn whole(
        &self,
        mut incoming: IncomingResponse,
        prepared: &PreparedRequest,
    ) -> Result<Whole, Failure> {
        let (status, media_type) = (incoming.status, incoming.media_type());
        let headers = KEPT_HEADERS.iter().filter_map(|name| {
            let value = incoming.header(*name)?;
            Some((*name, value.to_owned()))
        });
        let headers: Vec<_> = headers.collect();
        if !status.is_success() {
            let body = incoming.body.start(MAX_ERROR_BYTES).await;
            let text = himalia_upstream::clip(&String::from_utf8_lossy(&body));
            return Ok(Whole {
                status,
                media_type,
                headers,
                body,
                took: ModelUse::default(),
                text,
            });
        }
        if !is_json(&media_type) {
            return Err(Failure::Failed(
                "the response of its server is not JSON".to_owned(),
            ));
        }
        let body = incoming.body.all().await?;
        let answer: Value = json::parse(&body)
            .map_err(|reason| Failure::Failed(format!("the reply of its server {reason}")))?;
        let text = text_of(prepared.endpoint, &answer);
        let took = self.took(usage::of(&answer), prepared, || (text.len() as u64).div_ceil(4));
        Ok(Whole {
            status,
            media_type,
            headers,
            body,
            took,
            text,
        })
    }

    fn took(
        &self,
        usage: Option<usage::Usage>,
        prepared: &PreparedRequest,
        written: impl Fn() -> u64,
    ) -> ModelUse {
        took(&self.config, usage, prepared.estimate, written)
    }

    /// Logs an error with all details, and returns the part that sessions may see.
    fn noted(&self, error: SendError) -> Failure {
        tracing::warn!(model = self.config.name, %error, "a call of a model has failed");
        error.into()
    }
}

/// The use of a call: as the server says it, or else the most that it may be.
pub(crate) fn took(
    config: &LlmConfig,
    usage: Option<usage::Usage>,
    estimate: Estimate,
    written: impl Fn() -> u64,
) -> ModelUse {
    let (input_tokens, output_tokens) = match usage {
        Some(usage) => (usage.input_tokens, usage.output_tokens),
        None => (estimate.input_tokens, written().max(estimate.output_tokens)),
    };
    ModelUse {
        input_tokens,
        output_tokens,
        spend: config
            .prices
            .map(|prices| prices.spend(input_tokens, output_tokens))
            .unwrap_or_default(),
        cached: false,
        estimated: usage.is_none(),
    }
}

/// Text of the model's reply, for a log.
fn text_of(endpoint: Endpoint, answer: &Value) -> String {
    match endpoint {
        Endpoint::Chat => {
            let message = &answer["choices"][0]["message"];
            match &message["content"] {
                Value::String(text) => text.clone(),
                _ => message.to_string(),
            }
        }
        Endpoint::Embeddings => {
            let vectors = answer["data"].as_array().map_or(0, Vec::len);
            format!("{vectors} vectors")
        }
    }
}

impl fmt::Debug for Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_name.keys()).finish()
    }
}
