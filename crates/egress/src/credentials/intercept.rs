//! TLS of a sandbox to a host that the template names: the gateway is the server, and asks the host itself.

use std::sync::Arc;
use std::time::Duration;

use himalia_credentials::Credential;
use himalia_model::credential::UrlScheme;
use himalia_model::network::Host;
use rustls::server::Acceptor;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use super::access::CredentialAccess;
use super::exchange::Exchange;
use super::upstreams::{Endpoint, Upstreams};
use crate::client_hello::UNRECOGNIZED_NAME;
use crate::denial::{Denial, Target};
use crate::gate::{Gate, Purpose};
use crate::head::check_host;
use crate::prefixed::PrefixedStream;
use crate::server::serve_requests;

/// Time for the handshake of a client.
const HANDSHAKE_TIME: Duration = Duration::from_secs(30);

/// True if the TLS of a session to this target is read. The list of the session must have the host.
pub(crate) async fn wanted(gate: &Gate, target: &Target) -> Result<bool, Denial> {
    let Some(access) = gate.credentials() else {
        return Ok(false);
    };
    if access.intercept.is_none() || !gate.lists(target, &Purpose::SecureHost) {
        return Ok(false);
    }
    let wanted = access.intercept.names(&target.host, target.port)
        || (access.intercept.is_bound() && !bound(gate, &access, target).await?.is_empty());
    if wanted && gate.authority().is_none() {
        return Err(Denial::credential_unavailable(
            "the gateway has no key for interception",
        ));
    }
    Ok(wanted)
}

/// The credentials of a session that are bound to a host.
async fn bound(gate: &Gate, access: &CredentialAccess, target: &Target) -> Result<Vec<Credential>, Denial> {
    let mut all = access.find_all(gate).await?;
    all.retain(|credential| credential.is_bound_to(UrlScheme::Https, &target.host, target.port));
    Ok(all)
}

/// Serves a client that speaks TLS to this host.
pub(crate) async fn serve<S>(client: PrefixedStream<S>, target: Target, gate: &Arc<Gate>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let accepted = match timeout(HANDSHAKE_TIME, accept(client, &target, gate)).await {
        Ok(Ok(accepted)) => accepted,
        Ok(Err(denial)) => return gate.refused(&target, &denial),
        Err(_) => return,
    };
    let upstreams = Arc::new(Upstreams::default());
    let gate = Arc::clone(gate);
    serve_requests(accepted, move |request| {
        let (upstreams, gate, target) = (Arc::clone(&upstreams), Arc::clone(&gate), target.clone());
        async move {
            let noted = |denial: &Denial| gate.refused(&target, denial);
            check_host(&request, &target, UrlScheme::Https.port()).inspect_err(noted)?;
            let bound = match gate.credentials() {
                Some(access) => bound(&gate, &access, &target).await.inspect_err(noted)?,
                None => Vec::new(),
            };
            let exchange = Exchange {
                gate: &gate,
                upstreams: &upstreams,
                endpoint: Endpoint {
                    scheme: UrlScheme::Https,
                    target: target.clone(),
                },
                bound,
                added: None,
            };
            exchange.run(request).await
        }
    })
    .await;
}

async fn accept<S>(
    client: PrefixedStream<S>,
    target: &Target,
    gate: &Gate,
) -> Result<TlsStream<PrefixedStream<S>>, Denial>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let broken = |error: std::io::Error| {
        Denial::policy(format_args!(
            "cannot read the TLS that was sent to {target}: {error}"
        ))
    };
    let mut acceptor = LazyConfigAcceptor::new(Acceptor::default(), client);
    let begun = match (&mut acceptor).await {
        Ok(begun) => begun,
        Err(error) => return Err(broken(error)),
    };
    let named = begun.client_hello().server_name().map(str::to_owned);
    let same = match (&named, &target.host) {
        (None, Host::Address(_)) => true,
        (Some(name), host) => Host::parse(name).as_ref() == Ok(host),
        (None, Host::Name(_)) => false,
    };
    if !same {
        let mut stream = begun.io;
        // The client may have gone.
        let _ = stream.write_all(&UNRECOGNIZED_NAME).await;
        let _ = stream.shutdown().await;
        return Err(Denial::policy(format_args!(
            "a connection to {target} names the TLS server {:?}",
            named.unwrap_or_default()
        )));
    }
    let authority = gate.authority();
    let authority =
        authority.ok_or_else(|| Denial::credential_unavailable("the gateway has no key for interception"))?;
    let settings = authority.settings(&target.host).map_err(|error| {
        tracing::error!(%error, "cannot make a certificate for interception");
        Denial::credential_unavailable("the gateway cannot make a certificate")
    })?;
    begun.into_stream(settings).await.map_err(|error| {
        Denial::policy(format_args!(
            "the TLS of the client to {target}, which the gateway reads, has failed: {error}"
        ))
    })
}
