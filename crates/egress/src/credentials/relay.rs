//! `http://NAME.credential.internal/`: plain HTTP in the sandbox, and the credential's host with its secret outside.

use std::sync::Arc;

use himalia_credentials::Credential;
use himalia_model::credential::UrlScheme;
use himalia_model::network::Host;
use http::header::{CONTENT_LOCATION, HeaderMap, LOCATION};
use http::uri::Authority;
use http::{HeaderName, HeaderValue, Request, Response, Uri};
use hyper::body::Incoming;
use tokio::io::{AsyncRead, AsyncWrite};

use super::exchange::Exchange;
use super::upstreams::{Endpoint, Upstreams};
use crate::denial::{Denial, Target};
use crate::gate::Gate;
use crate::head::{check_host, target_of};
use crate::internal::Body;
use crate::prefixed::PrefixedStream;
use crate::server::serve_requests;

/// Suffix of the internal host of a credential.
const SUFFIX: &str = ".credential.internal";
/// The only port.
pub(crate) const PORT: u16 = 80;

/// The name of the credential that a host stands for.
pub(crate) fn name_of(host: &Host) -> Option<&str> {
    match host {
        Host::Name(name) => name.strip_suffix(SUFFIX),
        Host::Address(_) => None,
    }
}

/// Refuses another port than that of plain HTTP.
pub(crate) fn check_port(target: &Target) -> Result<(), Denial> {
    if target.port == PORT {
        return Ok(());
    }
    Err(Denial::request(format_args!(
        "{} is plain HTTP at port {PORT}: use http://{}/",
        target.host, target.host
    )))
}

/// Requests of one client to credentials.
#[derive(Default)]
pub(crate) struct Relay(Upstreams);

impl Relay {
    /// Sends a request for an internal name to the host of the credential.
    pub(crate) async fn respond(
        &self,
        gate: &Gate,
        target: &Target,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Denial> {
        let noted = |denial: &Denial| gate.refused(target, denial);
        check_port(target).inspect_err(noted)?;
        let name = name_of(&target.host).unwrap_or_default();
        let all = of_session(gate, name).await.inspect_err(noted)?;
        let found = all.iter().find(|credential| credential.name == name);
        let credential = found.ok_or_else(|| gone(name)).inspect_err(noted)?;
        let base = credential.definition.base();
        let base = base.ok_or_else(|| no_base(name)).inspect_err(noted)?;
        let endpoint = Endpoint {
            scheme: base.scheme(),
            target: Target {
                host: base.host().clone(),
                port: base.port(),
            },
        };
        let is_bound = |other: &&Credential| {
            other.is_bound_to(endpoint.scheme, &endpoint.target.host, endpoint.target.port)
        };
        let bound: Vec<Credential> = all.iter().filter(is_bound).cloned().collect();
        let exchange = Exchange {
            gate,
            upstreams: &self.0,
            endpoint: endpoint.clone(),
            bound,
            added: Some(credential.clone()),
        };
        let mut response = exchange.run(request).await?;
        to_internal(response.headers_mut(), &endpoint, &target.host);
        Ok(response)
    }
}

/// The credentials of a session, if one of them has this name.
async fn of_session(gate: &Gate, name: &str) -> Result<Vec<Credential>, Denial> {
    let access = gate.credentials();
    let names = access.as_ref().map_or(&[][..], |access| &access.names);
    if let Some(access) = &access
        && names.iter().any(|one| one == name)
    {
        return access.find_all(gate).await;
    }
    let has = if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    };
    Err(Denial::credential(format_args!(
        "{name:?} is not a credential of this session (has: {has})"
    )))
}

fn gone(name: &str) -> Denial {
    Denial::credential(format_args!(
        "the credential {name} does not exist, or was revoked"
    ))
}

fn no_base(name: &str) -> Denial {
    Denial::credential(format_args!(
        "the credential {name} has patterns of hosts only: its definition needs a base_url"
    ))
}

/// Redirects to the same host stay within the relay.
fn to_internal(headers: &mut HeaderMap, endpoint: &Endpoint, internal: &Host) {
    for name in [LOCATION, CONTENT_LOCATION] {
        if let Some(inside) = headers
            .get(&name)
            .and_then(|value| inside(value, endpoint, internal))
        {
            headers.insert(HeaderName::clone(&name), inside);
        }
    }
}

fn inside(value: &HeaderValue, endpoint: &Endpoint, internal: &Host) -> Option<HeaderValue> {
    let text = value.to_str().ok()?;
    let (link, fragment) = match text.split_once('#') {
        Some((link, fragment)) => (link, Some(fragment)),
        None => (text, None),
    };
    // A link without a scheme is to the host itself already, unless it names a host.
    let (scheme, rest) = if let Some(rest) = link.strip_prefix("//") {
        (endpoint.scheme.as_str(), rest.to_owned())
    } else {
        let uri: Uri = link.parse().ok()?;
        let scheme = match uri.scheme_str()? {
            "https" => UrlScheme::Https.as_str(),
            "http" => UrlScheme::Http.as_str(),
            _ => return None,
        };
        (scheme, link.split_once("://")?.1.to_owned())
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let authority: Authority = authority.parse().ok()?;
    let named = target_of(&authority, Some(endpoint.scheme.port())).ok()?;
    if scheme != endpoint.scheme.as_str() || named != endpoint.target {
        return None;
    }
    let slash = if path.starts_with('/') { "" } else { "/" };
    let fragment = fragment
        .map(|fragment| format!("#{fragment}"))
        .unwrap_or_default();
    HeaderValue::try_from(format!("http://{internal}{slash}{path}{fragment}")).ok()
}

/// Serves a client in a tunnel to an internal name.
pub(crate) async fn serve<S>(client: PrefixedStream<S>, target: Target, gate: &Arc<Gate>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let relay = Arc::new(Relay::default());
    let gate = Arc::clone(gate);
    serve_requests(client, move |request| {
        let (relay, gate, target) = (Arc::clone(&relay), Arc::clone(&gate), target.clone());
        async move {
            check_host(&request, &target, PORT).inspect_err(|denial| gate.refused(&target, denial))?;
            relay.respond(&gate, &target, request).await
        }
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_to_the_same_host_stay_inside() {
        let endpoint = Endpoint {
            scheme: UrlScheme::Https,
            target: Target {
                host: Host::parse("api.test").unwrap(),
                port: 443,
            },
        };
        let internal = Host::parse("x.credential.internal").unwrap();
        let location = |text: &'static str| {
            let inside = inside(&HeaderValue::from_static(text), &endpoint, &internal);
            inside.map(|value| value.to_str().unwrap().to_owned())
        };
        let to = |path: &str| Some(format!("http://x.credential.internal{path}"));
        assert_eq!(location("https://api.test/a?b=c#d"), to("/a?b=c#d"));
        assert_eq!(location("https://API.test:443"), to("/"));
        assert_eq!(location("https://api.test?b"), to("/?b"));
        assert_eq!(location("//api.test/a"), to("/a"));
        for text in [
            "/a",
            "a?b",
            "https://other.test/a",
            "http://api.test/a",
            "https://api.test:8443/",
            "//other.test/",
            "https://api.test@other.test/",
            "mailto:x",
        ] {
            assert_eq!(location(text), None, "{text}");
        }
    }
}
