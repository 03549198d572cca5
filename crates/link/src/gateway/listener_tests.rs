//! Who is let in, and what it costs to find out.

use bytes::BytesMut;
use himalia_shim_protocol::{HEAD_BYTES, HELLO_BYTES, Kind, Lane, NETWORK_STREAM};

use super::*;
use tokio::net::UnixStream;

use crate::{FIRST_LINK, KEY_FILE};

const KEY: &str = "the key";

fn hello(key: &str, epoch_seen: u64) -> BytesMut {
    hello_of(None, key, epoch_seen)
}

fn hello_of(stream: Option<&str>, key: &str, epoch_seen: u64) -> BytesMut {
    let hello = Hello {
        lane: Lane::Now,
        key: key.into(),
        versions: VersionRange::OURS,
        build: "test".into(),
        epoch_seen,
        pid: 1,
        kernels: Vec::new(),
        stream: stream.map(str::to_owned),
    };
    let mut out = BytesMut::new();
    ToGateway::Hello(Box::new(hello)).encode(&mut out).unwrap();
    out
}

struct ListeningSocket {
    dir: tempfile::TempDir,
    arrivals: mpsc::Receiver<Arrival>,
    streams: Arc<Streams>,
    _stop: tokio_util::sync::DropGuard,
}

fn listen() -> ListeningSocket {
    listen_within(&Arc::default())
}

/// Listens with a budget that others share.
fn listen_within(unproven: &Arc<UnprovenBudget>) -> ListeningSocket {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(KEY_FILE), KEY).unwrap();
    let hash = Sha256::digest(KEY).into();
    let gate = Gate {
        key_hash: hash,
        epoch: 5,
        unproven: Arc::clone(unproven),
    };
    let listener = Endpoint::Unix(dir.path().to_owned())
        .listen(FIRST_LINK, gate)
        .unwrap();
    let (arrivals_in, arrivals) = mpsc::channel(4);
    let (stop, streams) = (CancellationToken::new(), Arc::<Streams>::default());
    tokio::spawn(listener.run(arrivals_in, Arc::clone(&streams), stop.clone()));
    ListeningSocket {
        dir,
        arrivals,
        streams,
        _stop: stop.drop_guard(),
    }
}

impl ListeningSocket {
    async fn call(&self, bytes: &[u8]) -> UnixStream {
        let mut stream = UnixStream::connect(self.dir.path().join(FIRST_LINK))
            .await
            .unwrap();
        stream.write_all(bytes).await.unwrap();
        stream
    }

    /// What a caller that is not let in hears.
    async fn denied(&mut self, bytes: &[u8]) -> String {
        let mut heard = Vec::new();
        // A reset follows where not all was read that was sent.
        let _ = self.call(bytes).await.read_to_end(&mut heard).await;
        assert!(self.arrivals.try_recv().is_err());
        assert!(self.dir.path().join(KEY_FILE).exists(), "the key is still needed");
        String::from_utf8_lossy(&heard).into_owned()
    }
}

#[tokio::test]
async fn a_caller_with_the_key_is_let_in_and_the_key_file_goes() {
    let mut place = listen();
    let _stream = place.call(&hello(KEY, 5)).await;
    let arrival = place.arrivals.recv().await.unwrap();
    assert_eq!(
        (arrival.hello.lane, arrival.protocol),
        (Lane::Now, himalia_shim_protocol::PROTOCOL_MAX)
    );
    assert!(!place.dir.path().join(KEY_FILE).exists());
}

#[tokio::test]
async fn a_stream_of_the_network_is_plain_bytes_to_who_serves_it() {
    let place = listen();
    let said = [&hello_of(Some(NETWORK_STREAM), KEY, 5)[..], b"first"].concat();
    let mut unserved = place.call(&said).await;
    assert!(!matches!(unserved.read(&mut [0]).await, Ok(1..)), "it is closed");
    let mut network = place.streams.network();
    let mut theirs = place.call(&said).await;
    let (mut ours, mut heard) = network.recv().await.unwrap().into_plain();
    theirs.write_all(b" second").await.unwrap();
    while heard.len() < 12 {
        assert_ne!(ours.read_buf(&mut heard).await.unwrap(), 0);
    }
    assert_eq!(&heard[..], b"first second");
    ours.write_all(b"answer").await.unwrap();
    ours.shutdown().await.unwrap();
    let mut heard = Vec::new();
    theirs.read_to_end(&mut heard).await.unwrap();
    assert_eq!(heard, b"answer");
    // Without the key it is closed.
    place.call(&hello_of(Some(NETWORK_STREAM), "another", 5)).await;
    theirs = place.call(&hello_of(Some(NETWORK_STREAM), KEY, 5)).await;
    drop(theirs);
    let (mut last, _) = network.recv().await.unwrap().into_plain();
    assert_eq!(last.read(&mut [0]).await.unwrap(), 0);
}

#[tokio::test]
async fn others_hear_why_not() {
    let mut place = listen();
    assert!(place.denied(&hello("another", 0)).await.contains("wrong key"));
    assert!(
        place
            .denied(&hello(KEY, 6))
            .await
            .contains("epoch 5 is older than 6")
    );
    let garbage = place.denied(&[0xff; 64]).await;
    assert!(garbage.contains("must be a hello"), "{garbage}");
}

#[tokio::test]
async fn an_older_socket_is_replaced() {
    let place = listen();
    let gate = Gate {
        key_hash: [0; 32],
        epoch: 6,
        unproven: Arc::default(),
    };
    assert!(
        Endpoint::Unix(place.dir.path().to_owned())
            .listen(FIRST_LINK, gate)
            .is_ok()
    );
}

/// The head of a frame with a body of so many bytes.
fn head(kind: Kind, body: usize) -> Vec<u8> {
    let length = u32::try_from(HEAD_BYTES - 4 + body).unwrap();
    let mut head = length.to_le_bytes().to_vec();
    head.push(kind as u8);
    head.resize(HEAD_BYTES, 0);
    head
}

#[tokio::test]
async fn the_head_alone_tells_what_is_no_hello() {
    let mut place = listen();
    let message = place.denied(&head(Kind::Message, 256 << 20)).await;
    assert!(message.contains("must be a hello"), "{message}");
    let too_long = place.denied(&head(Kind::Hello, HELLO_BYTES + 1)).await;
    assert!(too_long.contains("announces"), "{too_long}");
}

/// How many of these are closed by the other side.
fn closed(streams: &[UnixStream]) -> usize {
    let is_closed = |stream: &&UnixStream| matches!(stream.try_read(&mut [0]), Ok(0));
    streams.iter().filter(is_closed).count()
}

#[tokio::test]
async fn those_that_say_nothing_are_closed_for_others() {
    const SILENT: usize = 200;
    let mut place = listen();
    let mut silent = Vec::new();
    for _ in 0..SILENT {
        silent.push(place.call(&[]).await);
    }
    let _stream = place.call(&hello(KEY, 5)).await;
    place.arrivals.recv().await.unwrap();
    // Its own turn came when all before it were accepted, so that only the latest are left.
    while closed(&silent) < SILENT - UNPROVEN_MAX {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn unfinished_hellos_hold_no_more_than_the_budget() {
    let unproven = Arc::new(UnprovenBudget::new(0));
    let (one, mut other) = (listen_within(&unproven), listen_within(&unproven));
    let mut slow = one.call(&head(Kind::Hello, HELLO_BYTES)).await;
    slow.write_all(&[b' '; 100]).await.unwrap();
    while unproven.free() > 0 {
        tokio::task::yield_now().await;
    }
    let _stream = other.call(&hello(KEY, 5)).await;
    drop(slow);
    other.arrivals.recv().await.unwrap();
    assert_eq!(unproven.free(), HEAD_BYTES + HELLO_BYTES);
}

#[test]
fn accepting_has_a_pace() {
    let (mut pace, start) = (Pace::new(ACCEPT_MAX, ACCEPT_WINDOW), Instant::now());
    let pauses = |pace: &mut Pace, at: Instant, count: u32| {
        (0..count).filter_map(|_| pace.accepted(at)).collect::<Vec<_>>()
    };
    assert_eq!(pauses(&mut pace, start, ACCEPT_MAX), [ACCEPT_WINDOW]);
    let half = start + ACCEPT_WINDOW / 2;
    assert!(pauses(&mut pace, start, ACCEPT_MAX - 1).is_empty());
    assert_eq!(pauses(&mut pace, half, 1), [ACCEPT_WINDOW / 2]);
    for window in 0..10 {
        let at = start + ACCEPT_WINDOW * window * 2;
        assert!(pauses(&mut pace, at, ACCEPT_MAX - 1).is_empty());
    }
}
