//! Replicas, who has what, and a network between them that can be cut.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, Response};
use futures_util::future::BoxFuture;
use himalia_engine::{
    Drain, Engine, EngineConfig, EngineError, PoolConfig, PoolStatus, Principal, ResourceRef, Template,
};
use himalia_http::{Cluster, Directory, HttpConfig, Listeners, Location, Mounted, Peers, serve};
use himalia_relay::{Authority, Peer, Pool};
use himalia_sandbox::{LocalConfig, LocalProvisioner};
use himalia_testkit::binaries;
use himalia_testkit::client::{Connect, Framing, WsClient};
use himalia_testkit::http::Http;
use himalia_testkit::patience::{Deadline, within};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::service_fn;

pub(crate) const TOKEN: &str = "the-token-of-the-tests";

/// Who has what: every engine is asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Board {
    replicas: Arc<Mutex<Vec<(Peer, Engine)>>>,
    /// Replicas that have nothing yet, by name.
    hidden: Arc<Mutex<Vec<String>>>,
}

impl Board {
    fn hides(&self, replica: &str) -> bool {
        self.hidden.lock().iter().any(|hidden| hidden == replica)
    }
}

#[derive(Debug)]
struct View {
    board: Board,
    replica: String,
    engine: Engine,
}

impl View {
    async fn has(engine: &Engine, principal: &Principal, sought: &ResourceRef) -> bool {
        match sought {
            ResourceRef::JupyterSession(id) => engine.session(principal, *id).await.is_ok(),
            ResourceRef::JupyterPath(path) => {
                let sessions = engine.sessions(principal).await.unwrap_or_default();
                sessions.iter().any(|session| session.path == *path)
            }
            sought => engine.has(principal, sought),
        }
    }
}

impl Directory for View {
    fn has(&self, principal: &Principal, sought: &ResourceRef) -> bool {
        !self.board.hides(&self.replica) && self.engine.has(principal, sought)
    }

    fn find<'a>(
        &'a self,
        principal: &'a Principal,
        sought: &'a ResourceRef,
    ) -> BoxFuture<'a, Result<Option<Location>, EngineError>> {
        Box::pin(async move {
            let all = self.board.replicas.lock().clone();
            for (peer, engine) in all {
                if !self.board.hides(&peer.replica) && Self::has(&engine, principal, sought).await {
                    return Ok(Some(if peer.replica == self.replica {
                        Location::Here
                    } else if peer.address.is_empty() {
                        Location::Lost {
                            replica: peer.replica,
                        }
                    } else {
                        Location::At(peer)
                    }));
                }
            }
            Ok(None)
        })
    }

    fn ready<'a>(&'a self, template: &'a str, most: u32) -> BoxFuture<'a, Result<Vec<Peer>, EngineError>> {
        let all = self.board.replicas.lock().clone();
        assert_eq!(template, "warm");
        let ready = |engine: &Engine| pool_of(engine).ready;
        let mut others = all;
        others.retain(|(peer, _)| peer.replica != self.replica && !peer.address.is_empty());
        // By name, also those without any: what is known of others may be old.
        let has_one = others.iter().any(|(_, engine)| ready(engine) > 0);
        others.truncate(if has_one { most as usize } else { 0 });
        let peers = others.into_iter().map(|(peer, _)| peer).collect();
        Box::pin(async { Ok(peers) })
    }

    fn peers(&self) -> BoxFuture<'_, Result<Vec<Peer>, EngineError>> {
        let all = self.board.replicas.lock().clone();
        let others = all.into_iter().map(|(peer, _)| peer);
        let others = others
            .filter(|peer| peer.replica != self.replica && !peer.address.is_empty())
            .collect();
        Box::pin(async { Ok(others) })
    }
}

/// The pool of an engine.
pub(crate) fn pool_of(engine: &Engine) -> PoolStatus {
    let pools = engine.pools(&Principal::operator()).unwrap();
    pools.into_iter().next().unwrap()
}

/// One replica.
pub(crate) struct Replica {
    pub(crate) engine: Engine,
    pub(crate) address: SocketAddr,
    pub(crate) pool: Pool,
    /// Between it and its peers.
    pub(crate) network: Network,
    shutdown: CancellationToken,
    served: JoinHandle<()>,
    _dirs: Dirs,
}

/// The text of the panic of [`panics`].
pub(crate) const PANICS: &str = "canary of a panic";

/// What is mounted at `/mcp`.
async fn panics(_: Request<Body>) -> Result<Response<Body>, Infallible> {
    panic!("{PANICS}")
}

/// Of data, sandboxes and kernelspecs.
struct Dirs([TempDir; 3]);

impl Drop for Dirs {
    /// A failed test leaves no processes: every one of a sandbox names the run directory.
    fn drop(&mut self) {
        let run = self.0[1].path().to_string_lossy().into_owned();
        for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let name = process.file_name().to_string_lossy().into_owned();
            let pid = name.parse().ok().and_then(rustix::process::Pid::from_raw);
            let command = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
            if let Some(pid) = pid
                && String::from_utf8_lossy(&command).contains(&run)
            {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }
}

/// All of them, under one authority.
pub(crate) struct Replicas {
    pub(crate) all: Vec<Replica>,
    pub(crate) board: Board,
}

impl Replicas {
    pub(crate) async fn start(count: usize) -> Self {
        Self::with_pools(&vec![None; count]).await
    }

    /// Each with a template `warm` and a pool of so many kernels; those of a pool of 0 never get ready.
    pub(crate) async fn with_pools(pools: &[Option<u32>]) -> Self {
        let authority = Authority::generate().unwrap();
        let board = Board::default();
        let mut all = Vec::new();
        for (number, pool) in pools.iter().enumerate() {
            all.push(replica(&format!("r{number}"), *pool, &authority, &board).await);
        }
        Self { all, board }
    }

    /// Hides the sessions of a replica, which it will have taken over later.
    pub(crate) fn hide(&self, number: usize) {
        self.board.hidden.lock().push(format!("r{number}"));
    }

    /// A replica that was hidden takes over what another one has, whose connections are cut.
    pub(crate) fn take_over(&self, number: usize, lost: usize) {
        let name = format!("r{number}");
        self.board.hidden.lock().retain(|hidden| *hidden != name);
        self.lose(lost);
        self.all[lost].network.cut();
    }

    /// Says that a replica is gone.
    pub(crate) fn lose(&self, number: usize) {
        let name = format!("r{number}");
        for (peer, _) in self.board.replicas.lock().iter_mut() {
            if peer.replica == name {
                peer.address.clear();
            }
        }
    }

    pub(crate) async fn stop(self) {
        for replica in &self.all {
            replica.shutdown.cancel();
        }
        for replica in self.all {
            within("the end of a gateway", replica.served)
                .await
                .unwrap()
                .unwrap();
            let operator = Principal::operator();
            let drained = replica.engine.drain(&operator, Drain::StopKernels);
            within("drain", drained).await.unwrap().unwrap();
        }
    }
}

async fn replica(name: &str, pool: Option<u32>, authority: &Authority, board: &Board) -> Replica {
    let dirs = Dirs([short(), short(), short()]);
    let [data, run, specs] = &dirs.0;
    let fake = binaries::fake_kernel().unwrap();
    let spec =
        json!({"argv": [fake, "-f", "{connection_file}"], "display_name": "Fake", "language": "script"});
    let mut argv = vec![json!(fake), json!("-f"), json!("{connection_file}")];
    if pool == Some(0) {
        argv.extend([json!("--start-delay"), json!("3600000")]);
    }
    let pooled = json!({"argv": argv, "display_name": "Pooled", "language": "script",
        "metadata": {"himalia": {"late_bind": true}}});
    for (name, spec) in [("fake", &spec), ("pooled", &pooled)] {
        std::fs::create_dir_all(specs.path().join(name)).unwrap();
        std::fs::write(specs.path().join(name).join("kernel.json"), spec.to_string()).unwrap();
    }
    let shim = binaries::path("himalia-shim").unwrap();
    let provisioner = LocalProvisioner::new(LocalConfig::new(run.path(), shim)).unwrap();
    let mut config = EngineConfig::new(data.path());
    config.kernelspec_dirs = vec![specs.path().to_owned()];
    config.only_these_kernelspecs = true;
    config.default_kernel = "fake".into();
    if let Some(size) = pool {
        // Shorter than a test: those that never get ready are ended with it.
        config.ready_timeout = if size == 0 {
            Duration::from_secs(1)
        } else {
            config.ready_timeout
        };
        let warm = Template {
            kernelspec: Some("pooled".into()),
            pool: PoolConfig {
                size: size.max(1),
                max: size.max(1),
                ..PoolConfig::default()
            },
            ..Template::default()
        };
        config.templates.insert("warm".into(), warm);
    }
    let engine = Engine::open(config, Arc::new(provisioner)).await.unwrap();

    let peers = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let network = Network::to(peers.local_addr().unwrap()).await;
    let peer = Peer {
        replica: name.to_owned(),
        address: network.address.to_string(),
    };
    board.replicas.lock().push((peer, engine.clone()));
    let identity = authority.identity(name, "127.0.0.1").unwrap();
    let pool = Pool::new(identity.clone());
    let view = View {
        board: board.clone(),
        replica: name.to_owned(),
        engine: engine.clone(),
    };
    let mut http = HttpConfig::new(TOKEN);
    http.mcp = Some(Mounted::new(service_fn(panics)));
    http.cluster = Some(Cluster::new(Arc::new(view), pool.clone()));
    let clients = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = clients.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    let listeners = Listeners {
        clients,
        peers: Some(Peers {
            listener: peers,
            identity,
        }),
    };
    let serving = serve(listeners, engine.clone(), http, shutdown.clone());
    Replica {
        engine,
        address,
        pool,
        network,
        shutdown,
        served: tokio::spawn(async move { serving.await.unwrap() }),
        _dirs: dirs,
    }
}

fn short() -> TempDir {
    let mut builder = tempfile::Builder::new();
    let private = std::fs::Permissions::from_mode(0o700);
    builder
        .prefix("hm")
        .permissions(private)
        .tempdir_in("/tmp")
        .unwrap()
}

impl Replica {
    pub(crate) fn http(&self) -> Http {
        Http::new(self.address.to_string(), Some(TOKEN))
    }

    /// A client of a kernel's channels.
    pub(crate) async fn client(&self, kernel: &str, session: &str, framing: Framing) -> WsClient {
        let url = format!("ws://{}/api/kernels/{kernel}/channels", self.address);
        let connect = Connect {
            token: Some(TOKEN.into()),
            session_id: Some(session.into()),
            framing,
            ..Connect::new(url)
        };
        within("a WebSocket", WsClient::connect(&connect))
            .await
            .unwrap()
            .unwrap()
    }

    /// Starts a kernel; its id.
    pub(crate) async fn kernel(&self) -> String {
        let reply = self.http().post("/api/kernels", Some(&json!({}))).await.unwrap();
        let model: Value = reply.expect(201).unwrap().json().unwrap();
        model["id"].as_str().unwrap().to_owned()
    }
}

/// A network that can be cut.
pub(crate) struct Network {
    pub(crate) address: SocketAddr,
    cut: tokio::sync::watch::Sender<u64>,
    answers: Arc<Answers>,
    task: JoinHandle<()>,
}

/// The answers that come back over a network.
#[derive(Debug, Default)]
struct Answers {
    are_lost: AtomicBool,
    lost_bytes: AtomicU64,
}

impl Answers {
    async fn pass(&self, from: &mut (impl AsyncRead + Unpin), to: &mut (impl AsyncWrite + Unpin)) {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            if self.are_lost.load(Ordering::SeqCst) {
                self.lost_bytes.fetch_add(count as u64, Ordering::SeqCst);
            } else if to.write_all(&buffer[..count]).await.is_err() {
                return;
            }
        }
        let _ = to.shutdown().await;
    }
}

impl Network {
    async fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (cut, cuts) = tokio::sync::watch::channel(0);
        let answers = Arc::new(Answers::default());
        let back = Arc::clone(&answers);
        let task = tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let (mut cuts, back) = (cuts.clone(), Arc::clone(&back));
                cuts.borrow_and_update();
                tokio::spawn(async move {
                    let Ok(mut far) = TcpStream::connect(target).await else {
                        return;
                    };
                    let (mut near_read, mut near_write) = near.split();
                    let (mut far_read, mut far_write) = far.split();
                    let there = async {
                        let _ = tokio::io::copy(&mut near_read, &mut far_write).await;
                        let _ = far_write.shutdown().await;
                    };
                    tokio::select! {
                        _ = async { tokio::join!(there, back.pass(&mut far_read, &mut near_write)) } => {}
                        _ = cuts.changed() => {}
                    }
                });
            }
        });
        Self {
            address,
            cut,
            answers,
            task,
        }
    }

    /// Loses all answers. Requests arrive.
    pub(crate) fn lose_answers(&self) {
        self.answers.are_lost.store(true, Ordering::SeqCst);
    }

    /// Waits for an answer that is lost, and cuts all connections. Later ones are whole.
    pub(crate) async fn cut_after_answer(&self) {
        let deadline = Deadline::new();
        while self.answers.lost_bytes.load(Ordering::SeqCst) == 0 {
            assert!(!deadline.is_over(), "no answer");
            deadline.pause().await;
        }
        self.answers.are_lost.store(false, Ordering::SeqCst);
        self.cut();
    }

    /// Cuts all connections that there are.
    pub(crate) fn cut(&self) {
        self.cut.send_modify(|cuts| *cuts += 1);
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Replicas {
    /// Says that a replica listens elsewhere.
    pub(crate) fn replace(&self, number: usize, address: SocketAddr) {
        let name = format!("r{number}");
        for (peer, _) in self.board.replicas.lock().iter_mut() {
            if peer.replica == name {
                peer.address = address.to_string();
            }
        }
    }
}
