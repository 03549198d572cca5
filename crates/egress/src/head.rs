//! Heads of requests and responses: for which host a request is, and what is passed on of one.

use himalia_model::network::Host;
use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderName, PROXY_AUTHORIZATION, TRANSFER_ENCODING,
};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderValue, Request, Uri, Version};
use hyper::body::Incoming;

use crate::denial::{Denial, Target};
use crate::upstream::HttpProxy;

/// Headers of one connection, in addition to the ones that its header `connection` names.
const OF_CONNECTION: [HeaderName; 8] = [
    CONNECTION,
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("keep-alive"),
    http::header::PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    http::header::TE,
    http::header::TRAILER,
    http::header::UPGRADE,
];

/// The host and port of an authority, or this port if it has none.
pub(crate) fn target_of(authority: &Authority, port: Option<u16>) -> Result<Target, Denial> {
    // `host@other` is read in two ways by two readers.
    if authority.as_str().contains('@') {
        return Err(Denial::request("a host has no user name in front of it"));
    }
    let host = Host::parse(authority.host());
    let host = host.map_err(|reason| Denial::request(format_args!("{:?} {reason}", authority.host())))?;
    let bare = authority.as_str().len() == authority.host().len();
    let port = match authority.port_u16() {
        Some(port) => Some(port),
        None if bare => port,
        None => None,
    };
    let port = port
        .filter(|port| *port > 0)
        .ok_or_else(|| Denial::request("a port is from 1 to 65535"))?;
    Ok(Target { host, port })
}

/// A request in a tunnel must be for the host of the tunnel.
pub(crate) fn check_host(
    request: &Request<Incoming>,
    target: &Target,
    usual_port: u16,
) -> Result<(), Denial> {
    let differs = |named: &str| {
        Denial::policy(format_args!(
            "a request in a tunnel to {target} is for the host {named:?}"
        ))
    };
    let mut hosts = request.headers().get_all(HOST).iter();
    let named = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().unwrap_or_default(),
        _ => return Err(Denial::request("a request has one host")),
    };
    let same =
        |authority: &Authority| target_of(authority, Some(usual_port)).is_ok_and(|named| named == *target);
    if !named.parse::<Authority>().is_ok_and(|authority| same(&authority)) {
        return Err(differs(named));
    }
    match request.uri().authority() {
        Some(authority) if !same(authority) => Err(differs(authority.as_str())),
        _ => Ok(()),
    }
}

/// As the host gets it: its path, its host, and nothing of the connection to the proxy. Another proxy gets the whole URL.
pub(crate) fn rewrite(
    head: &mut Parts,
    target: &Target,
    usual_port: u16,
    via: Option<&HttpProxy>,
) -> Result<(), Denial> {
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let uri = match via {
        Some(_) => format!("http://{target}{path}").parse::<Uri>(),
        None => path.parse(),
    };
    head.uri = uri.map_err(|error| Denial::request(format_args!("the path is invalid: {error}")))?;
    head.version = Version::HTTP_11;
    let headers = &mut head.headers;
    remove_of_connection(headers);
    // hyper writes the length, or chunks, from the body that it has read.
    for name in [CONTENT_LENGTH, TRANSFER_ENCODING, EXPECT] {
        headers.remove(name);
    }
    let host = if target.port == usual_port {
        target.host.to_string()
    } else {
        target.to_string()
    };
    let host = HeaderValue::try_from(host).map_err(|_| Denial::request("the host is invalid"))?;
    headers.insert(HOST, host);
    if let Some(authorization) = via.and_then(|via| via.authorization.clone()) {
        headers.insert(PROXY_AUTHORIZATION, authorization);
    }
    Ok(())
}

/// Takes away what is of one connection alone from the head of a response.
pub(crate) fn end_to_end(headers: &mut HeaderMap) {
    if headers.contains_key(TRANSFER_ENCODING) {
        headers.remove(CONTENT_LENGTH);
    }
    remove_of_connection(headers);
}

fn remove_of_connection(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&OF_CONNECTION) {
        headers.remove(name);
    }
    headers.remove(TRANSFER_ENCODING);
}
