//! A connection to a host: its name is resolved once, and the address that was checked is the one that is connected to.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use himalia_model::network::Host;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::address::refusal;
use crate::denial::{Denial, Target};
use crate::egress::Egress;
use crate::resolve::Resolve;
use crate::upstream::{self, HttpProxy};

const RESOLVE_TIME: Duration = Duration::from_secs(10);
/// Time for a connection to one address.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// Addresses of one name that are tried.
const ADDRESSES_MAX: usize = 4;

/// Connects to a host that the session may reach, with HTTP or other bytes.
pub(crate) async fn connect(
    egress: &Egress,
    target: &Target,
    http: bool,
) -> Result<(TcpStream, Option<HttpProxy>), Denial> {
    let exceptions = &egress.exceptions;
    let found = match &target.host {
        Host::Address(address) => Ok(vec![*address]),
        Host::Name(name) => resolve(&*egress.resolver, name).await,
    };
    if let Some(proxy) = upstream::proxy_for(&egress.proxies, target, http) {
        // Behind such a proxy the names of the internet may have no address here. One that has must still have a public one.
        let refusals: Vec<_> = found
            .iter()
            .flatten()
            .map(|address| refusal(*address, target.port, exceptions))
            .collect();
        if let Some(Some(reason)) = refusals.iter().find(|_| refusals.iter().all(Option::is_some)) {
            return Err(not_allowed(target, reason));
        }
        return upstream::connect(&proxy, target, http).await;
    }
    let found = found?;
    let mut refused = None;
    let mut last = None;
    let mut tried = 0;
    for address in found {
        if let Some(reason) = refusal(address, target.port, exceptions) {
            refused = Some(reason);
            continue;
        }
        if tried == ADDRESSES_MAX {
            break;
        }
        tried += 1;
        match timeout(
            CONNECT_TIME,
            TcpStream::connect(SocketAddr::new(address, target.port)),
        )
        .await
        {
            Ok(Ok(stream)) => {
                // Small messages of a conversation do not wait for each other.
                let _ = stream.set_nodelay(true);
                return Ok((stream, None));
            }
            Ok(Err(error)) => last = Some(error.to_string()),
            Err(_) => last = Some(format!("no answer within {} s", CONNECT_TIME.as_secs())),
        }
    }
    Err(match (last, refused) {
        (Some(error), _) => Denial::unreachable(format_args!("{target}: {error}")),
        (None, Some(reason)) => not_allowed(target, reason),
        (None, None) => Denial::unreachable(format_args!("{target} has no address")),
    })
}

fn not_allowed(target: &Target, reason: &str) -> Denial {
    Denial::policy(format_args!("{target} is {reason}, which no list allows"))
}

async fn resolve(resolver: &dyn Resolve, name: &str) -> Result<Vec<IpAddr>, Denial> {
    match timeout(RESOLVE_TIME, resolver.resolve(name)).await {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(error)) => Err(Denial::unreachable(format_args!(
            "the name {name} was not resolved: {error}"
        ))),
        Err(_) => Err(Denial::unreachable(format_args!(
            "the name {name} was not resolved within {} s",
            RESOLVE_TIME.as_secs()
        ))),
    }
}
