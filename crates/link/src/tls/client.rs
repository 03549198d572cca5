//! The gateway's side: it dials.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::material::{Material, invalid};
use super::{ALPN, LinkName, tcp};

/// Time for a connection and its handshake.
const CONNECT_TIME: Duration = Duration::from_secs(5);

/// TLS configuration of the gateway: its certificate for shims, and the root that it checks them by.
#[derive(Clone)]
pub struct TlsClient(Arc<ClientConfig>);

impl TlsClient {
    /// From the authority's certificate, this gateway's certificate and its key, each as PEM.
    ///
    /// # Errors
    /// When one of them is none, or they do not belong together.
    pub fn new(ca: &[u8], cert: &[u8], key: &[u8]) -> io::Result<Self> {
        let Material { roots, chain, key } = Material::parse(ca, cert, key)?;
        let config = ClientConfig::builder_with_provider(himalia_tls::provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| invalid("TLS 1.3", &error))?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key);
        let mut config = config.map_err(|error| invalid("the key pair", &error))?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        // Each connection proves both sides anew.
        config.resumption = Resumption::disabled();
        Ok(Self(Arc::new(config)))
    }
}

impl fmt::Debug for TlsClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsClient(…)")
    }
}

/// Address of the shim of one sandbox.
#[derive(Clone, Debug)]
pub struct TlsEndpoint {
    address: SocketAddr,
    name: String,
    server: ServerName<'static>,
    client: TlsClient,
}

impl TlsEndpoint {
    /// `name` is what the sandbox's certificate must bear.
    ///
    /// # Errors
    /// When `name` is no name for a certificate.
    pub fn new(address: SocketAddr, name: &str, client: TlsClient) -> io::Result<Self> {
        let server = ServerName::try_from(name.to_owned());
        Ok(Self {
            address,
            name: name.to_owned(),
            server: server.map_err(|error| invalid("the sandbox's name", &error))?,
            client,
        })
    }

    /// Connects for the link of this name. The shim says its hello on the connection when it needs it.
    ///
    /// # Errors
    /// When the shim cannot be reached within five seconds or is not the one of this sandbox. That the shim refuses this
    /// side shows at the first read.
    pub async fn call(&self, link: &str) -> io::Result<TlsStream<TcpStream>> {
        let called = LinkName::new(link)?;
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "no connection in time");
        timeout(CONNECT_TIME, self.connect(&called)).await.map_err(late)?
    }

    async fn connect(&self, called: &LinkName) -> io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.address).await?;
        tcp::prepare(&stream)?;
        let connector = TlsConnector::from(Arc::clone(&self.client.0));
        let mut stream = connector.connect(self.server.clone(), stream).await?;
        stream.write_all(&called.encode()).await?;
        stream.flush().await?;
        Ok(stream)
    }
}

impl PartialEq for TlsEndpoint {
    fn eq(&self, other: &Self) -> bool {
        (self.address, &self.name) == (other.address, &other.name)
    }
}

impl Eq for TlsEndpoint {}

impl Hash for TlsEndpoint {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.address, &self.name).hash(state);
    }
}

impl fmt::Display for TlsEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.name, self.address)
    }
}
