//! One request with a secret, and its response.

use std::convert::Infallible;

use bytes::Bytes;
use himalia_credentials::{ApplyOutcome, Credential, LiveMask, PayloadHash, ask_for_whole};
use http::header::{ACCEPT_ENCODING, UPGRADE, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body as _, Incoming};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;

use super::masked::{MaskedBody, check_encoding, check_whole, mask_headers};
use super::upstreams::{Endpoint, Upstreams};
use crate::denial::Denial;
use crate::gate::Gate;
use crate::head::{end_to_end, rewrite};
use crate::internal::Body;

/// Most bytes of a body that has to be read before its request can be signed.
pub(crate) const SIGNED_BYTES: usize = 8 << 20;

/// A request to a host, and the credentials that are bound to this host.
pub(super) struct Exchange<'a> {
    pub(super) gate: &'a Gate,
    pub(super) upstreams: &'a Upstreams,
    pub(super) endpoint: Endpoint,
    /// Credentials of the session that are bound to the host: their secrets are not passed on in responses.
    pub(super) bound: Vec<Credential>,
    /// The one that is added; `None`: placeholders are replaced.
    pub(super) added: Option<Credential>,
}

/// A response whose head has come, and the names of the credentials that its request had.
struct SentRequest {
    response: Response<Incoming>,
    used: Vec<String>,
}

impl SentRequest {
    /// The credential whose token the host has refused: it says so by the status and the challenge (RFC 6750), and has done nothing.
    fn refused_token(&self, exchange: &Exchange<'_>) -> Option<Credential> {
        if self.response.status() != StatusCode::UNAUTHORIZED || !is_challenge(self.response.headers()) {
            return None;
        }
        let mut bound = exchange.bound.iter().chain(&exchange.added);
        bound
            .find(|credential| credential.has_tokens() && self.used.contains(&credential.name))
            .cloned()
    }
}

/// True if a refusal asks for another token.
fn is_challenge(headers: &HeaderMap) -> bool {
    headers.get_all(WWW_AUTHENTICATE).iter().any(|value| {
        let scheme = value.as_bytes().get(..6);
        scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"bearer"))
    })
}

impl Exchange<'_> {
    /// Sends it, and once more if the host has only refused a token.
    pub(super) async fn run(mut self, request: Request<Incoming>) -> Result<Response<Body>, Denial> {
        if is_websocket(&request) {
            return Err(self.refused(Denial::credential(format_args!(
                "{}: WebSockets cannot be searched for secrets, and are not supported here",
                self.endpoint.target
            ))));
        }
        let (head, body) = request.into_parts();
        if let Err(denial) = self.get_ready(&head).await {
            return Err(self.refused(denial));
        }
        // A request without a body can be sent again.
        let again = body.is_end_stream().then(|| head.clone());
        let sent = self.send(head, Some(body)).await?;
        let Some(token) = sent.refused_token(&self) else {
            return Ok(self.passed_on(sent.response));
        };
        let Some(again) = again else {
            // The next request has another token.
            self.renew_later(token);
            return Ok(self.passed_on(sent.response));
        };
        let Some(renewed) = self.renewed(&token).await else {
            return Ok(self.passed_on(sent.response));
        };
        self.replace(renewed);
        // The refusal is not read to its end.
        drop(self.upstreams.forget());
        let sent = self.send(again, None).await?;
        Ok(self.passed_on(sent.response))
    }

    /// One request with secrets, and the head of its response.
    async fn send(&self, mut head: Parts, body: Option<Incoming>) -> Result<SentRequest, Denial> {
        let roots = self.gate.roots()?;
        let method = head.method.as_str().to_owned();
        let mut upstream = self
            .upstreams
            .take(self.gate, roots, &self.endpoint, &method)
            .await?;
        let sent = async {
            rewrite(
                &mut head,
                &self.endpoint.target,
                self.endpoint.scheme.port(),
                upstream.via.as_ref(),
            )?;
            head.headers.remove(ACCEPT_ENCODING);
            head.headers
                .insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
            let whole = self.bound.iter().any(Credential::sends_secret);
            if whole {
                ask_for_whole(&mut head.headers);
            }
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
                let name = used.first().unwrap_or(&first.name);
                check_encoding(&response, name)?;
                if whole {
                    check_whole(&response, name)?;
                }
            }
            Ok(SentRequest { response, used })
        };
        let sent = sent.await.inspect_err(|denial| upstream.meter.deny(denial))?;
        self.upstreams.keep(upstream);
        Ok(sent)
    }

    /// Gets the tokens that a request will have.
    async fn get_ready(&mut self, head: &Parts) -> Result<(), Denial> {
        let Some(access) = self.gate.credentials() else {
            return Ok(());
        };
        let mut wanted = self.wanted(head);
        wanted.dedup_by(|one, other| one.name == other.name);
        for credential in wanted {
            let ready = access.ready(credential).await?;
            self.replace(ready);
        }
        Ok(())
    }

    /// Credentials with tokens that a request will have.
    fn wanted(&self, head: &Parts) -> Vec<Credential> {
        let is_wanted = |credential: &&Credential| match &self.added {
            Some(added) => credential.name == added.name,
            None => credential.is_wanted(head),
        };
        let with_tokens = self.bound.iter().chain(&self.added);
        let with_tokens = with_tokens.filter(|credential| credential.has_tokens());
        with_tokens.filter(is_wanted).cloned().collect()
    }

    /// Takes the place of the credential of its name.
    fn replace(&mut self, credential: Credential) {
        for bound in &mut self.bound {
            if bound.name == credential.name {
                bound.clone_from(&credential);
            }
        }
        if let Some(added) = &mut self.added
            && added.name == credential.name
        {
            *added = credential;
        }
    }

    async fn renewed(&self, refused: &Credential) -> Option<Credential> {
        self.gate.credentials()?.renewed(refused).await
    }

    fn renew_later(&self, refused: Credential) {
        if let Some(access) = self.gate.credentials() {
            tokio::spawn(async move { access.renewed(&refused).await });
        }
    }

    fn refused(&self, denial: Denial) -> Denial {
        self.gate.refused(&self.endpoint.target, &denial);
        denial
    }

    /// Puts secrets into a request. Gives the names of their credentials.
    async fn with_secrets(
        &self,
        head: &mut Parts,
        body: Option<Incoming>,
    ) -> Result<(Vec<String>, Body), Denial> {
        let Some(body) = body else {
            let (used, _) = self.apply(head, Some(Sha256::digest(b"").into()))?;
            return Ok((used, whole(Bytes::new())));
        };
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
                ApplyOutcome::Done => used.push(credential.name.clone()),
                ApplyOutcome::NeedsHash => needs_hash = true,
                ApplyOutcome::NoPlaceholder => {}
            }
            Ok(())
        };
        match &self.added {
            Some(added) => note(added, added.add(head, body, now))?,
            None => {
                for credential in &self.bound {
                    note(credential, credential.replace(head, body, now))?;
                }
            }
        }
        Ok((used, needs_hash))
    }

    /// The response as the sandbox gets it.
    fn passed_on(self, response: Response<Incoming>) -> Response<Body> {
        let (mut head, body) = response.into_parts();
        end_to_end(&mut head.headers);
        // The reason phrase is left out too.
        head.extensions = http::Extensions::new();
        head.version = Version::HTTP_11;
        if self.bound.is_empty() {
            return Response::from_parts(head, body.map_err(Into::into).boxed());
        }
        let mut mask = LiveMask::new(self.bound);
        mask_headers(&mut head.headers, mask.current());
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
