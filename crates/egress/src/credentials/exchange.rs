//! One request with a secret, and its response.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use himalia_credentials::{Applied, Credential, Mask, PayloadHash};
use http::header::{ACCEPT_ENCODING, UPGRADE};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, Version};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use sha2::{Digest, Sha256};
use time::OffsetDateTime;

use super::masked::{MaskedBody, check_encoding, mask_headers};
use super::upstreams::{Endpoint, Upstreams};
use crate::denial::Denial;
use crate::gate::Gate;
use crate::http::{end_to_end, rewrite};
use crate::internal::Body;

/// Most bytes of a body that has to be read before its request can be signed.
pub(crate) const SIGNED_BYTES: usize = 8 << 20;

/// A request to a host, and the credentials that are bound to this host.
pub(super) struct Exchange<'a> {
    pub(super) gate: &'a Gate,
    pub(super) upstreams: &'a Upstreams,
    pub(super) endpoint: Endpoint,
    /// Those of the session that are bound to the host: their secrets are not passed on in responses.
    pub(super) bound: &'a [Credential],
    /// The one that is added; `None`: placeholders are replaced.
    pub(super) added: Option<&'a Credential>,
}

impl Exchange<'_> {
    pub(super) async fn run(&self, request: Request<Incoming>) -> Result<Response<Body>, Denial> {
        if is_websocket(&request) {
            return Err(self.refused(Denial::credential(format_args!(
                "{}: WebSockets cannot be searched for secrets, and are not supported here",
                self.endpoint.target
            ))));
        }
        let roots = self.gate.roots()?;
        let method = request.method().as_str().to_owned();
        let mut upstream = self
            .upstreams
            .take(self.gate, roots, &self.endpoint, &method)
            .await?;
        let sent = async {
            let (mut head, body) = request.into_parts();
            rewrite(
                &mut head,
                &self.endpoint.target,
                self.endpoint.scheme.port(),
                upstream.via.as_ref(),
            )?;
            head.headers.remove(ACCEPT_ENCODING);
            head.headers
                .insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
            let (used, body) = self.with_secrets(&mut head, body).await?;
            for name in &used {
                upstream.meter.used(name);
            }
            let is_head = head.method == Method::HEAD;
            let response = upstream
                .sender
                .send_request(Request::from_parts(head, body))
                .await;
            let response = response
                .map_err(|error| Denial::unreachable(format_args!("{}: {error}", self.endpoint.target)))?;
            if !is_head && let Some(first) = self.bound.first() {
                check_encoding(&response, used.first().unwrap_or(&first.name))?;
            }
            Ok(response)
        };
        let response = sent.await.inspect_err(|denial| upstream.meter.deny(denial))?;
        self.upstreams.keep(upstream);
        Ok(self.passed_on(response))
    }

    fn refused(&self, denial: Denial) -> Denial {
        self.gate.refused(&self.endpoint.target, &denial);
        denial
    }

    /// Puts secrets into a request. Gives the names of their credentials.
    async fn with_secrets(&self, head: &mut Parts, body: Incoming) -> Result<(Vec<String>, Body), Denial> {
        let (used, needs_hash) = self.apply(head, None)?;
        if !needs_hash {
            return Ok((used, body.map_err(Into::into).boxed()));
        }
        // The session's own requests wait for each other, and hold nothing meanwhile.
        let _turn = self.gate.turn_to_sign().await;
        let read = Limited::new(body, SIGNED_BYTES).collect().await;
        let read = read.map_err(|_| {
            Denial::credential(format_args!(
                "the body cannot be signed: it did not come, or is longer than {SIGNED_BYTES} bytes"
            ))
        })?;
        let bytes = read.to_bytes();
        let (used, _) = self.apply(head, Some(Sha256::digest(&bytes).into()))?;
        Ok((used, whole(bytes)))
    }

    fn apply(&self, head: &mut Parts, body: PayloadHash) -> Result<(Vec<String>, bool), Denial> {
        let now = OffsetDateTime::now_utc();
        let (mut used, mut needs_hash) = (Vec::new(), false);
        let mut note = |credential: &Credential, applied| {
            let applied = match applied {
                Ok(applied) => applied,
                Err(error) => {
                    return Err(Denial::credential(format_args!(
                        "the credential {} cannot be added: {error}",
                        credential.name
                    )));
                }
            };
            match applied {
                Applied::Done => used.push(credential.name.clone()),
                Applied::NeedsHash => needs_hash = true,
                Applied::NoPlaceholder => {}
            }
            Ok(())
        };
        match self.added {
            Some(added) => note(added, added.add(head, body, now))?,
            None => {
                for credential in self.bound {
                    note(credential, credential.replace(head, body, now))?;
                }
            }
        }
        Ok((used, needs_hash))
    }

    /// The response as the sandbox gets it.
    fn passed_on(&self, response: Response<Incoming>) -> Response<Body> {
        let (mut head, body) = response.into_parts();
        end_to_end(&mut head.headers);
        // The reason phrase is left out too.
        head.extensions = http::Extensions::new();
        head.version = Version::HTTP_11;
        if self.bound.is_empty() {
            return Response::from_parts(head, body.map_err(Into::into).boxed());
        }
        let mask = Arc::new(Mask::new(self.bound));
        mask_headers(&mut head.headers, &mask);
        Response::from_parts(head, MaskedBody::new(body, mask).map_err(Into::into).boxed())
    }
}

fn is_websocket(request: &Request<Incoming>) -> bool {
    let named = |value: &HeaderValue| value.as_bytes().to_ascii_lowercase().starts_with(b"websocket");
    request.headers().get_all(UPGRADE).iter().any(named)
}

fn whole(bytes: Bytes) -> Body {
    Full::new(bytes)
        .map_err(|never: Infallible| match never {})
        .boxed()
}
