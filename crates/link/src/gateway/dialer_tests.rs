//! Both sides over TLS: who gets through, and what becomes of connections that end.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use himalia_authority::{Authority, KeyPairPem};
use himalia_shim_protocol::{Hello, Lane, ToGateway, VersionRange};
use sha2::{Digest, Sha256};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::*;
use crate::{
    CA_FILE, CERT_FILE, CERT_KEY_FILE, Connection, Endpoint, ExpectedStream, FIRST_LINK, Gate, Gateway,
    TlsClient, TlsServer, UnprovenBudget,
};

const KEY: &str = "the key";
const NAME: &str = "one.sandbox.test";

fn hello(lane: Lane, epoch_seen: u64, stream: Option<String>) -> ToGateway {
    ToGateway::Hello(Box::new(Hello {
        lane,
        key: KEY.into(),
        versions: VersionRange::OURS,
        build: "test".into(),
        epoch_seen,
        pid: 1,
        kernels: Vec::new(),
        stream,
    }))
}

struct World {
    dir: tempfile::TempDir,
    authority: Authority,
    gateway: Gateway,
    address: SocketAddr,
    _serving: JoinHandle<()>,
}

/// What a gateway has of a link.
struct ListeningSocket {
    arrivals: mpsc::Receiver<Arrival>,
    streams: Arc<Streams>,
    _stop: tokio_util::sync::DropGuard,
}

fn serve(dir: &std::path::Path, ca: &str, pair: &KeyPairPem) -> (Gateway, SocketAddr, JoinHandle<()>) {
    for (name, text) in [
        (CA_FILE, ca),
        (CERT_FILE, pair.cert.as_str()),
        (CERT_KEY_FILE, pair.key.as_str()),
    ] {
        std::fs::write(dir.join(name), text).unwrap();
    }
    let server = TlsServer::bind(([127, 0, 0, 1], 0).into(), dir).unwrap();
    let address = server.address();
    let gateway = Gateway::Tls(server);
    let serving = gateway.clone();
    let serving = tokio::spawn(async move { serving.serve().await.unwrap() });
    (gateway, address, serving)
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::open(&dir.path().join("authority")).unwrap();
        let pair = authority.sandbox(NAME).unwrap();
        let (gateway, address, serving) = serve(dir.path(), authority.cert(), &pair);
        Self {
            dir,
            authority,
            gateway,
            address,
            _serving: serving,
        }
    }

    fn client(&self, authority: &Authority, pair: &KeyPairPem) -> TlsClient {
        let _ = self;
        let ca = authority.cert().as_bytes();
        TlsClient::new(ca, pair.cert.as_bytes(), pair.key.as_bytes()).unwrap()
    }

    fn endpoint(&self) -> TlsEndpoint {
        let client = self.client(&self.authority, &self.authority.gateway().unwrap());
        TlsEndpoint::new(self.address, NAME, client).unwrap()
    }

    fn listen(&self) -> ListeningSocket {
        listen_at(self.endpoint(), 5)
    }

    async fn connect(&self) -> Connection {
        let socket = within(self.gateway.connect(FIRST_LINK)).await.unwrap();
        Connection::new(socket, Decoder::new())
    }

    /// Says hello as a lane, and gives both ends.
    async fn lane(&self, listening: &mut ListeningSocket, lane: Lane) -> (Connection, Arrival) {
        let mut shim = self.connect().await;
        say(&mut shim, &hello(lane, 5, None)).await;
        (shim, within(listening.arrivals.recv()).await.unwrap())
    }
}

fn listen_at(endpoint: TlsEndpoint, epoch: u64) -> ListeningSocket {
    let gate = Gate {
        key_hash: Sha256::digest(KEY).into(),
        epoch,
        unproven: Arc::new(UnprovenBudget::default()),
    };
    let listener = Endpoint::Tls(endpoint).listen(FIRST_LINK, gate).unwrap();
    let (arrivals_in, arrivals) = mpsc::channel(4);
    let (streams, stop) = (Arc::<Streams>::default(), CancellationToken::new());
    tokio::spawn(listener.run(arrivals_in, Arc::clone(&streams), stop.clone()));
    ListeningSocket {
        arrivals,
        streams,
        _stop: stop.drop_guard(),
    }
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), future)
        .await
        .expect("in time")
}

/// Sends it, all of it.
async fn say(shim: &mut Connection, packet: &ToGateway) {
    shim.queue_with(|out| packet.encode(out)).unwrap();
    while !shim.flush().unwrap() {
        within(poll_fn(|cx| shim.poll_room(cx))).await.unwrap();
    }
}

/// Passes frames of many sizes from one end to the other.
async fn pass(from: &mut Connection, to: &mut Connection) {
    let bodies = [0, 10, 20_000, 1_000_000, 16_384, 3_000_000, 7].map(|size| Bytes::from(vec![42; size]));
    let mut sent = 0;
    for body in &bodies {
        let head = himalia_shim_protocol::encode_head(himalia_shim_protocol::Kind::Message, 0, 0, body.len());
        from.queue(&head.unwrap(), body);
        sent += 1;
    }
    let mut received = 0;
    within(poll_fn(|cx| {
        loop {
            from.write_on(cx).unwrap();
            while let Some(frame) = to.next_frame().unwrap() {
                assert_eq!(frame.body.len(), bodies[received].len());
                received += 1;
            }
            if received == sent {
                return std::task::Poll::Ready(());
            }
            match to.poll_read(cx) {
                std::task::Poll::Ready(read) => read.unwrap(),
                std::task::Poll::Pending => return std::task::Poll::Pending,
            }
        }
    }))
    .await;
}

#[tokio::test]
async fn lanes_and_streams_pass_frames_both_ways() {
    let world = World::new();
    let mut gateway = world.listen();
    let (mut now, mut now_arrival) = world.lane(&mut gateway, Lane::Now).await;
    let (mut data, mut data_arrival) = world.lane(&mut gateway, Lane::Data).await;
    assert_eq!(
        (now_arrival.hello.lane, data_arrival.hello.lane),
        (Lane::Now, Lane::Data)
    );
    pass(&mut now, &mut now_arrival.connection).await;
    pass(&mut data_arrival.connection, &mut data).await;
    pass(&mut data, &mut data_arrival.connection).await;

    let expected: ExpectedStream = gateway.streams.expect();
    let said = hello(Lane::Now, 5, Some(expected.name().to_owned()));
    let dialled = world.gateway.clone();
    let shim = tokio::task::spawn_blocking(move || {
        use std::io::{Read as _, Write as _};
        let mut socket = dialled
            .connect_blocking(FIRST_LINK, Duration::from_secs(30))
            .unwrap();
        let mut out = bytes::BytesMut::new();
        said.encode(&mut out).unwrap();
        let head = himalia_shim_protocol::encode_head(himalia_shim_protocol::Kind::Chunk, 0, 0, 3);
        out.extend_from_slice(&head.unwrap());
        out.extend_from_slice(b"abc");
        socket.write_all(&out).unwrap();
        // The gateway's bytes are not read: the last word arrives all the same.
        socket.read_exact(&mut [0; 1]).unwrap();
    });
    let mut stream = within(expected.arrival()).await.unwrap();
    assert_eq!(&within(stream.next()).await.unwrap().body[..], b"abc");
    assert!(within(stream.send(&vec![7; 100_000])).await);
    within(shim).await.unwrap();
    let end = within(stream.next()).await;
    assert!(matches!(end, Err(crate::StreamError::Closed)), "{end:?}");
}

#[tokio::test]
async fn files_are_gone_once_they_were_read() {
    let world = World::new();
    for name in [CA_FILE, CERT_FILE, CERT_KEY_FILE] {
        assert!(!world.dir.path().join(name).exists(), "{name}");
    }
}

/// The error of a gateway that is not let in, or that does not find whom it wants.
async fn refused(endpoint: &TlsEndpoint) -> String {
    let mut stream = match within(endpoint.call(FIRST_LINK)).await {
        Ok(stream) => stream,
        Err(error) => return error.to_string(),
    };
    let mut decoder = Decoder::unproven();
    let read = within(stream.read_buf(decoder.buffer())).await;
    read.unwrap_err().to_string()
}

#[tokio::test]
async fn only_a_gateway_of_the_authority_gets_through() {
    let world = World::new();
    let other = tempfile::tempdir().unwrap();
    let other = Authority::open(other.path()).unwrap();
    let ours = &world.authority;

    // Its certificate is of another authority, which it says is ours.
    let stranger = TlsClient::new(
        ours.cert().as_bytes(),
        other.gateway().unwrap().cert.as_bytes(),
        &[],
    );
    assert!(stranger.is_err(), "a key must be there");
    let foreign = other.gateway().unwrap();
    let mixed = TlsClient::new(
        ours.cert().as_bytes(),
        foreign.cert.as_bytes(),
        foreign.key.as_bytes(),
    );
    let mixed = TlsEndpoint::new(world.address, NAME, mixed.unwrap()).unwrap();
    let reason = refused(&mixed).await;
    assert!(
        reason.contains("DecryptError") || reason.contains("alert"),
        "{reason}"
    );

    // The key of a sandbox opens no sandbox, its own neither.
    let sandbox = world.client(ours, &ours.sandbox(NAME).unwrap());
    let sandbox = TlsEndpoint::new(world.address, NAME, sandbox).unwrap();
    let reason = refused(&sandbox).await;
    assert!(reason.contains("alert"), "{reason}");

    // A gateway of another authority does not take this shim for its own.
    let elsewhere = world.client(&other, &other.gateway().unwrap());
    let elsewhere = TlsEndpoint::new(world.address, NAME, elsewhere).unwrap();
    let reason = refused(&elsewhere).await;
    assert!(reason.contains("invalid peer certificate"), "{reason}");

    // Nothing of all that is a connection for the shim.
    let waiting = world.gateway.connect(FIRST_LINK);
    let nothing = tokio::time::timeout(Duration::from_millis(50), waiting).await;
    assert!(nothing.is_err());
    world.lane(&mut world.listen(), Lane::Now).await;
}

#[tokio::test]
async fn the_certificate_of_another_sandbox_is_refused() {
    let world = World::new();
    let client = world.client(&world.authority, &world.authority.gateway().unwrap());
    let other = TlsEndpoint::new(world.address, "two.sandbox.test", client).unwrap();
    let reason = refused(&other).await;
    assert!(reason.contains("not valid for name"), "{reason}");
}

#[tokio::test]
async fn an_older_gateway_is_refused() {
    let world = World::new();
    let mut gateway = world.listen();
    let mut shim = world.connect().await;
    say(&mut shim, &hello(Lane::Now, 6, None)).await;
    let answer = within(poll_fn(|cx| {
        while let std::task::Poll::Ready(read) = shim.poll_read(cx) {
            read.unwrap();
            if let Some(frame) = shim.next_frame().unwrap() {
                return std::task::Poll::Ready(frame);
            }
        }
        std::task::Poll::Pending
    }))
    .await;
    let denied = format!("{:?}", himalia_shim_protocol::ToShim::parse(answer).unwrap());
    assert!(denied.contains("epoch 5 is older than 6"), "{denied}");
    assert!(gateway.arrivals.try_recv().is_err());
}

/// A relay between the two that can be cut.
async fn relay(to: SocketAddr) -> (SocketAddr, mpsc::Sender<()>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (cut, mut cuts) = mpsc::channel::<()>(1);
    tokio::spawn(async move {
        let mut passing = tokio::task::JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => {
                    let (mut near, _) = accepted.unwrap();
                    passing.spawn(async move {
                        if let Ok(mut far) = TcpStream::connect(to).await {
                            let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                        }
                    });
                }
                cut = cuts.recv() => match cut {
                    Some(()) => passing.abort_all(),
                    None => return,
                }
            }
        }
    });
    (address, cut)
}

#[tokio::test]
async fn a_connection_that_is_cut_is_dialled_again() {
    let mut world = World::new();
    let (address, cut) = relay(world.address).await;
    world.address = address;
    let mut gateway = world.listen();
    for _ in 0..3 {
        let (mut shim, mut arrival) = world.lane(&mut gateway, Lane::Now).await;
        pass(&mut shim, &mut arrival.connection).await;
        cut.send(()).await.unwrap();
        within(poll_fn(|cx| shim.poll_read(cx))).await.unwrap_err();
        within(poll_fn(|cx| arrival.connection.poll_read(cx)))
            .await
            .unwrap_err();
    }
}

#[tokio::test]
async fn callers_that_prove_nothing_hold_no_place() {
    let world = World::new();
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(TcpStream::connect(world.address).await.unwrap());
    }
    silent[99].write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut gateway = world.listen();
    world.lane(&mut gateway, Lane::Now).await;
}
