//! A gateway on loopback without any kernel, and a bare HTTP client that sends the given bytes.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::unwrap_used,
    reason = "each test binary uses a part"
)]

pub mod log;

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use himalia_engine::{Engine, EngineConfig};
use himalia_http::{HttpConfig, serve};
use himalia_provisioner::{
    BoxFuture, Capabilities, Enforcement, Isolation, LimitReport, MeasuredBy, Provisioner, ProvisionerKind,
    RootFiles, SandboxError, SandboxExit, SandboxHandle, SandboxId, SandboxInfo, SandboxSpec,
};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub const TOKEN: &str = "the-token-of-the-tests";

/// Starts nothing.
#[derive(Debug)]
struct NoSandboxes;

fn none<T: Send + 'static>(id: SandboxId) -> BoxFuture<'static, Result<T, SandboxError>> {
    Box::pin(async move { Err(SandboxError::NotFound(id)) })
}

impl Provisioner for NoSandboxes {
    fn kind(&self) -> ProvisionerKind {
        ProvisionerKind::Local
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            isolation: Isolation::None,
            root: RootFiles::Host,
            networks: false,
            proxy: false,
            zygotes: false,
            kept_files: true,
            mounts: &[],
            measured_by: MeasuredBy::Provisioner,
            oom_report_delay: Duration::ZERO,
        }
    }

    fn limits(&self) -> LimitReport {
        let none = Enforcement::None;
        LimitReport {
            memory: none,
            pids: none,
            cpu: none,
            disk: none,
        }
    }

    fn start(&self, _: SandboxSpec) -> BoxFuture<'_, Result<SandboxHandle, SandboxError>> {
        Box::pin(async { Err(SandboxError::BadId) })
    }

    fn adopt(&self, id: SandboxId) -> BoxFuture<'_, Result<SandboxHandle, SandboxError>> {
        none(id)
    }

    fn stop(&self, id: SandboxId, _: Duration) -> BoxFuture<'_, Result<SandboxExit, SandboxError>> {
        none(id)
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<SandboxInfo>, SandboxError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn inspect(&self, id: SandboxId) -> BoxFuture<'_, Result<SandboxInfo, SandboxError>> {
        none(id)
    }

    fn note_process(&self, _: SandboxId, _: u32) -> BoxFuture<'_, Result<bool, SandboxError>> {
        Box::pin(async { Ok(false) })
    }

    fn sweep(&self, _: Vec<SandboxId>) -> BoxFuture<'_, Result<Vec<SandboxId>, SandboxError>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

/// An engine that starts nothing, with a kernelspec `python3`.
pub async fn engine(dir: &Path) -> Engine {
    engine_with(dir, |_| {}).await
}

/// The same with other settings.
pub async fn engine_with(dir: &Path, adjust: impl FnOnce(&mut EngineConfig)) -> Engine {
    kernelspec(dir);
    let mut config = EngineConfig::new(dir.join("data"));
    config.kernelspec_dirs = vec![dir.join("kernels")];
    config.only_these_kernelspecs = true;
    adjust(&mut config);
    Engine::open(config, Arc::new(NoSandboxes)).await.unwrap()
}

/// A running gateway.
pub struct Gateway {
    pub address: SocketAddr,
    pub shutdown: CancellationToken,
    pub served: JoinHandle<()>,
    dir: tempfile::TempDir,
}

impl Gateway {
    pub async fn start() -> Self {
        Self::with(|_| {}).await
    }

    /// With a kernelspec `python3` that has a logo, and an adjusted configuration.
    pub async fn with(adjust: impl FnOnce(&mut HttpConfig)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let engine = engine(dir.path()).await;
        Self::over(engine, dir, adjust).await
    }

    /// Over an engine whose directories are in `dir`.
    pub async fn over(engine: Engine, dir: tempfile::TempDir, adjust: impl FnOnce(&mut HttpConfig)) -> Self {
        let mut config = HttpConfig::new(TOKEN);
        adjust(&mut config);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let serving = serve(
            listener,
            himalia_runs::Runs::open(engine),
            config,
            shutdown.clone(),
        );
        let served = tokio::spawn(async move { serving.await.unwrap() });
        Self {
            address,
            shutdown,
            served,
            dir,
        }
    }

    /// The data directory.
    pub fn data(&self) -> std::path::PathBuf {
        self.dir.path().join("data")
    }

    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// A connection whose receive buffer stays small: what its client does not read remains with the gateway.
    pub async fn connect_with_small_buffer(&self) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        socket.connect(self.address).await.unwrap()
    }

    /// Sends a request with the token.
    pub async fn call(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Reply {
        let auth = format!("Authorization: token {TOKEN}");
        let headers: Vec<&str> = headers.iter().copied().chain([auth.as_str()]).collect();
        self.bare(method, path, &headers, body).await
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.call("GET", path, &[], "").await
    }

    /// Sends a request without anything that the caller does not give.
    pub async fn bare(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Reply {
        let mut text = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", self.address);
        if !headers
            .iter()
            .any(|h| h.to_ascii_lowercase().starts_with("connection:"))
        {
            text.push_str("Connection: close\r\n");
        }
        if !body.is_empty() {
            let _ = write!(text, "Content-Length: {}\r\n", body.len());
        }
        for header in headers {
            text.push_str(header);
            text.push_str("\r\n");
        }
        text.push_str("\r\n");
        text.push_str(body);
        let mut stream = self.connect().await;
        stream.write_all(text.as_bytes()).await.unwrap();
        if method == "HEAD" {
            Reply::head(&mut stream).await
        } else {
            Reply::read(&mut stream).await
        }
    }
}

fn kernelspec(dir: &Path) {
    let spec = dir.join("kernels/python3");
    std::fs::create_dir_all(&spec).unwrap();
    let json = r#"{"argv": ["python3", "-m", "x", "-f", "{connection_file}"], "display_name": "Python 3", "language": "python"}"#;
    std::fs::write(spec.join("kernel.json"), json).unwrap();
    std::fs::write(spec.join("logo-64x64.png"), b"not really a png").unwrap();
}

/// A reply, read to its end.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Reply {
    /// Reads the head, then as many bytes as it announces (or all, for a stream that ends).
    pub async fn read(stream: &mut TcpStream) -> Self {
        let mut reply = Self::head(stream).await;
        let announced = reply
            .header("content-length")
            .map(|n| n.parse::<usize>().unwrap());
        let none = matches!(reply.status, 101 | 204 | 304);
        while !none && announced.is_none_or(|n| reply.body.len() < n) {
            if stream.read_buf(&mut reply.body).await.unwrap_or(0) == 0 {
                break;
            }
        }
        reply
    }

    /// Reads the head, and whatever came with it.
    pub async fn head(stream: &mut TcpStream) -> Self {
        let mut bytes = Vec::new();
        let split = loop {
            if let Some(at) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
                break at;
            }
            assert_ne!(
                stream.read_buf(&mut bytes).await.unwrap(),
                0,
                "{}",
                String::from_utf8_lossy(&bytes)
            );
        };
        let head = String::from_utf8(bytes[..split].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self {
            status,
            head,
            body: bytes[split + 4..].to_vec(),
        }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines
            .filter(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
            .next()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&self.body)))
    }

    pub fn message(&self) -> String {
        self.json()["message"].as_str().unwrap_or_default().to_owned()
    }
}

/// The headers of a WebSocket handshake.
pub const UPGRADE: [&str; 4] = [
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
];
