//! Requests to upstream servers that the operator has configured: tools, models.
//!
//! ```text
//! Http (client.rs)   one request, sent once: the credential of now (CredentialSource, crate credentials), no redirects -> Incoming
//!   |- sent.rs       whether something of a request may have reached the server
//!   `- body.rs       the body of a response: counted, without secrets
//! json.rs            JSON of servers, with a bound on its values;   text.rs: what they say, for errors
//! ```
//!
//! Servers are hostile: the bytes of a response have a bound, and a compressed one is refused. The secret of the credential goes to the
//! hosts that it is bound to, and is masked in what comes back. Nothing that may have been sent is sent again.

mod body;
mod client;
pub mod json;
mod sent;
mod text;

pub use body::{Body, BodyError};
pub use client::{ERROR_BYTES, Http, IncomingResponse, Secret, SendError, is_json, needs_tls};
pub use sent::SentFlag;
pub use text::clip;
