//! Servers that an OpenAPI description describes: each of its operations is a tool, and a call is an HTTP request.

mod description;
mod form;
mod operation;
mod reply;
mod request;
mod schema;
mod yaml;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use himalia_model::{DescriptionSource, HttpUrl, TraceContext};
use himalia_upstream::{Http, Secret, SentFlag};
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout_at};

use crate::call::{CallError, Limits, Reply, trace_header};
use crate::listing::Listing;
use description::Description;
use operation::Operation;

/// A server whose description was read.
pub(crate) struct OpenApi {
    http: Arc<Http>,
    base: HttpUrl,
    operations: HashMap<String, Operation>,
}

impl OpenApi {
    /// Reads the description.
    ///
    /// # Errors
    /// It cannot be read, or does not say where the server is.
    pub(crate) async fn read(
        http: Arc<Http>,
        source: &DescriptionSource,
        base: Option<&HttpUrl>,
    ) -> Result<(Self, Listing), String> {
        let text = description::load(&http, source).await?;
        let (source, base) = (source.clone(), base.cloned());
        // A long description takes a while.
        let read = tokio::task::spawn_blocking(move || {
            let description = Description::parse(&text)?;
            let base = match base {
                Some(base) => base,
                None => description.base(&source)?,
            };
            let (operations, mut listing) = operation::all(&description);
            listing.place_below(base.as_str());
            Ok::<_, String>((base, operations, listing))
        });
        let (base, operations, listing) = read.await.map_err(|error| error.to_string())??;
        let made = Self {
            http,
            base,
            operations,
        };
        Ok((made, listing))
    }

    /// Calls an operation, once.
    pub(crate) async fn call(
        &self,
        tool: &str,
        arguments: &Map<String, Value>,
        limits: Limits,
        deadline: Instant,
        trace: Option<TraceContext>,
    ) -> Result<Reply, CallError> {
        let operation = self.operations.get(tool);
        let operation = operation
            .ok_or_else(|| CallError::unavailable(format_args!("there is no tool {tool} any more")))?;
        let request = request::request(&self.base, operation, arguments);
        let mut request = request.map_err(CallError::BadArguments)?;
        request.headers_mut().extend(trace.and_then(trace_header));
        let sent = SentFlag::default();
        let called = async {
            let incoming = self
                .http
                .send(&self.base, request, Secret::Needed, limits.reply_bytes, &sent)
                .await?;
            reply::reply(incoming).await
        };
        match timeout_at(deadline, called).await {
            Ok(called) => called,
            Err(_) if sent.is_sent() => Err(CallError::Timeout(limits.time)),
            Err(_) => Err(CallError::unavailable(format_args!(
                "the call could not be sent within {:.1} s",
                limits.time.as_secs_f64()
            ))),
        }
    }
}

impl fmt::Debug for OpenApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} operations at {}", self.operations.len(), self.base)
    }
}
