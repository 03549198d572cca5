//! One connection over real TCP, with a scripted kernel log behind it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use himalia_engine::{Delivery, EngineError, FeedClosed, KernelId};
use himalia_wire::v1::Frame;
use himalia_wire::{Channel, Limits, build, legacy, v1};
use time::OffsetDateTime;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::{Error as WsError, Message};
use tokio_util::sync::CancellationToken;

use super::framing::Framing;
use super::receive::Sink;
use super::session::Session;
use super::transmit::Source;
use crate::jupyter::quirks::Quirks;
use crate::socket::Stream;
use crate::ws::{Close, Upgraded};

/// A log that a test feeds; remembers how far the client got.
struct Log {
    batches: mpsc::UnboundedReceiver<Result<Vec<Delivery>, FeedClosed>>,
    got: Arc<AtomicU64>,
}

impl Source for Log {
    async fn next(&mut self) -> Result<Vec<Delivery>, FeedClosed> {
        match self.batches.recv().await {
            Some(batch) => batch,
            None => std::future::pending().await,
        }
    }

    fn acknowledge(&self, seq: u64) {
        self.got.store(seq, Ordering::SeqCst);
    }

    fn kernel_session(&self) -> String {
        "kernel-session".into()
    }
}

/// A kernel that takes control messages at once and shell messages when it is given room.
#[derive(Clone)]
struct Kernel {
    sent: mpsc::UnboundedSender<(Channel, Bytes)>,
    shell: Arc<tokio::sync::Semaphore>,
}

impl Sink for Kernel {
    async fn send(&self, frame: Frame) -> Result<(), EngineError> {
        let channel = frame.channel();
        if channel == Channel::Shell {
            self.shell.acquire().await.unwrap().forget();
        }
        if channel == Channel::Stdin {
            return Err(EngineError::unavailable("unexpected request"));
        }
        self.sent.send((channel, frame.into_bytes())).unwrap();
        Ok(())
    }
}

struct Setup {
    client: TcpStream,
    log: mpsc::UnboundedSender<Result<Vec<Delivery>, FeedClosed>>,
    got: Arc<AtomicU64>,
    sent: mpsc::UnboundedReceiver<(Channel, Bytes)>,
    shell: Arc<tokio::sync::Semaphore>,
    shutdown: CancellationToken,
    session: JoinHandle<()>,
}

impl Setup {
    async fn new(framing: Framing, adjust: impl FnOnce(&mut Session)) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let stream = listener.accept().await.unwrap().0;
        let (log, batches) = mpsc::unbounded_channel();
        let (sender, sent) = mpsc::unbounded_channel();
        let got = Arc::new(AtomicU64::new(0));
        let shell = Arc::new(tokio::sync::Semaphore::new(1000));
        let shutdown = CancellationToken::new();
        let mut session = Session {
            kernel: KernelId::random(),
            framing,
            limits: Limits {
                message_bytes: 1 << 20,
                ..Limits::CLIENT
            },
            ping_interval: Duration::from_mins(1),
            pong_timeout: Duration::from_mins(1),
            stall_timeout: Duration::from_mins(1),
            shutdown: shutdown.clone(),
            clients: Arc::clone(himalia_engine::Metrics::new().clients()),
        };
        adjust(&mut session);
        let feed = Log {
            batches,
            got: got.clone(),
        };
        let kernel = Kernel {
            sent: sender,
            shell: shell.clone(),
        };
        let socket = Upgraded {
            stream: Stream::Plain(stream),
            early: Bytes::new(),
        };
        let session = tokio::spawn(session.run(socket, feed, kernel));
        Self {
            client,
            log,
            got,
            sent,
            shell,
            shutdown,
            session,
        }
    }

    fn got(&self) -> u64 {
        self.got.load(Ordering::SeqCst)
    }
}

async fn websocket(client: TcpStream) -> WebSocketStream<TcpStream> {
    WebSocketStream::from_raw_socket(client, Role::Client, None).await
}

fn output(seq: u64, text: &str) -> Delivery {
    let parts = build::stream("kernel-session", Some(b"{\"msg_id\":\"m\"}"), "stdout", text);
    let frame = v1::encode(Channel::Iopub, &parts);
    Delivery {
        seq,
        at: OffsetDateTime::UNIX_EPOCH,
        channel: Channel::Iopub,
        frame,
    }
}

async fn close_code(client: &mut WebSocketStream<TcpStream>) -> u16 {
    loop {
        match client.next().await {
            Some(Ok(Message::Close(Some(close)))) => return close.code.into(),
            Some(Ok(_)) => {}
            other => panic!("no close: {other:?}"),
        }
    }
}

fn request() -> Bytes {
    v1::encode(Channel::Shell, &build::kernel_info_request("client"))
}

#[tokio::test]
async fn everything_arrives_in_order_and_the_position_follows() {
    let mut setup = Setup::new(Framing::V1, |_| {}).await;
    let sent: Vec<_> = (1..=100)
        .map(|i| output(2 * i, &"x".repeat(usize::try_from(i * 211).unwrap())))
        .collect();
    for batch in sent.chunks(7) {
        setup.log.send(Ok(batch.to_vec())).unwrap();
    }
    setup.log.send(Err(FeedClosed::KernelGone)).unwrap();
    let mut client = websocket(setup.client).await;
    for wanted in &sent {
        assert_eq!(
            client.next().await.unwrap().unwrap(),
            Message::Binary(wanted.frame.clone())
        );
    }
    assert_eq!(close_code(&mut client).await, 1000);
    while client.next().await.is_some() {}
    setup.session.await.unwrap();
    assert_eq!(setup.got.load(Ordering::SeqCst), 200);
    assert!(setup.sent.recv().await.is_none());
}

#[tokio::test]
async fn the_position_settles_without_further_traffic() {
    let setup = Setup::new(Framing::V1, |_| {}).await;
    setup.log.send(Ok(vec![output(5, "x")])).unwrap();
    let mut client = websocket(setup.client).await;
    client.next().await.unwrap().unwrap();
    while setup.got.load(Ordering::SeqCst) != 5 {
        tokio::task::yield_now().await;
    }
}

/// Also the second message, which follows too soon after the look at the first.
#[tokio::test]
async fn the_position_of_a_burst_settles_after_it() {
    let setup = Setup::new(Framing::V1, |_| {}).await;
    let mut client = websocket(setup.client).await;
    for seq in 1..=50 {
        setup.log.send(Ok(vec![output(seq, "x")])).unwrap();
        client.next().await.unwrap().unwrap();
    }
    while setup.got.load(Ordering::SeqCst) != 50 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_client_that_leaves_messages_unread_gets_them_again() {
    let setup = Setup::new(Framing::V1, |_| {}).await;
    let text = "y".repeat(100_000);
    for seq in 1..=400 {
        setup.log.send(Ok(vec![output(seq, &text)])).unwrap();
    }
    let mut client = websocket(setup.client).await;
    for _ in 0..3 {
        client.next().await.unwrap().unwrap();
    }
    client.get_ref().set_zero_linger().unwrap();
    drop(client);
    setup.session.await.unwrap();
    let got = setup.got.load(Ordering::SeqCst);
    // Its TCP took at most what fits into its receive buffer; the rest was never acknowledged.
    assert!((3..400).contains(&got), "{got}");
}

#[tokio::test]
async fn requests_pass_unchanged_and_control_overtakes_a_full_shell() {
    let mut setup = Setup::new(Framing::V1, |_| {}).await;
    setup.shell.forget_permits(1000);
    let mut client = websocket(setup.client).await;
    let control = v1::encode(Channel::Control, &build::interrupt_request("client"));
    for _ in 0..20 {
        client.send(Message::Binary(request())).await.unwrap();
    }
    client.send(Message::Binary(control.clone())).await.unwrap();
    assert_eq!(setup.sent.recv().await.unwrap(), (Channel::Control, control));
    setup.shell.add_permits(100);
    for _ in 0..20 {
        let (channel, frame) = setup.sent.recv().await.unwrap();
        assert_eq!(channel, Channel::Shell);
        assert_eq!(
            v1::decode(&frame, &Limits::CLIENT).unwrap().1.content,
            Bytes::from_static(b"{}")
        );
    }
}

#[tokio::test]
async fn a_request_that_cannot_be_sent_is_told() {
    let setup = Setup::new(Framing::V1, |_| {}).await;
    let mut client = websocket(setup.client).await;
    let answer = v1::encode(
        Channel::Stdin,
        &build::message("client", "input_reply", None, &serde_json::json!({})),
    );
    client.send(Message::Binary(answer)).await.unwrap();
    let Message::Binary(frame) = client.next().await.unwrap().unwrap() else {
        panic!()
    };
    let (channel, parts) = v1::decode(&frame, &Limits::KERNEL).unwrap();
    assert_eq!(channel, Channel::Iopub);
    let content = String::from_utf8(parts.content.to_vec()).unwrap();
    assert!(
        content.contains("stderr") && content.contains("unexpected request"),
        "{content}"
    );
    assert!(String::from_utf8_lossy(&parts.header).contains("kernel-session"));
    assert!(String::from_utf8_lossy(&parts.parent_header).contains("input_reply"));
}

#[tokio::test]
async fn our_closes_have_their_codes() {
    for (closed, code) in [
        (FeedClosed::Draining, 1012),
        (FeedClosed::Replaced, 4001),
        (FeedClosed::Storage, 1011),
        (FeedClosed::KernelGone, 1000),
    ] {
        let setup = Setup::new(Framing::V1, |_| {}).await;
        setup.log.send(Err(closed)).unwrap();
        assert_eq!(close_code(&mut websocket(setup.client).await).await, code);
    }
    let setup = Setup::new(Framing::V1, |_| {}).await;
    setup.shutdown.cancel();
    assert_eq!(close_code(&mut websocket(setup.client).await).await, 1012);
}

/// A client that connects twice may write to the older connection before it sees that it was replaced.
#[tokio::test]
async fn a_request_that_crosses_the_close_of_a_replaced_connection_is_sent() {
    let mut setup = Setup::new(Framing::V1, |_| {}).await;
    setup.log.send(Err(FeedClosed::Replaced)).unwrap();
    // The close is there, and not read.
    setup.client.readable().await.unwrap();
    let mut client = websocket(setup.client).await;
    let request = request();
    client.send(Message::Binary(request.clone())).await.unwrap();
    assert_eq!(setup.sent.recv().await, Some((Channel::Shell, request)));
    assert_eq!(close_code(&mut client).await, 4001);
    setup.session.await.unwrap();
    assert_eq!(setup.sent.recv().await, None);
}

#[tokio::test]
async fn bad_messages_have_their_codes() {
    let big = v1::encode(
        Channel::Shell,
        &build::stream("c", None, "x", &"x".repeat(1 << 20)),
    );
    let legacy = || Framing::Legacy(Quirks::default());
    for (framing, message, code) in [
        (Framing::V1, Message::text("{}"), 1003),
        (Framing::V1, Message::binary(vec![0xff; 100]), 1009),
        (Framing::V1, Message::binary(request().slice(..100)), 1007),
        (Framing::V1, Message::binary(big), 1009),
        (Framing::V1, Message::binary(vec![0; 3 << 20]), 1009),
        (legacy(), Message::text("{"), 1007),
        (legacy(), Message::binary(vec![0, 0, 0]), 1007),
    ] {
        let setup = Setup::new(framing, |_| {}).await;
        let mut client = websocket(setup.client).await;
        client.send(message).await.unwrap();
        assert_eq!(close_code(&mut client).await, code);
    }
}

#[tokio::test]
async fn the_clients_close_is_answered_in_kind() {
    let setup = Setup::new(Framing::V1, |_| {}).await;
    setup.log.send(Ok(vec![output(1, "a")])).unwrap();
    let mut client = websocket(setup.client).await;
    client.next().await.unwrap().unwrap();
    client.close(None).await.unwrap();
    loop {
        match client.next().await {
            None | Some(Err(WsError::ConnectionClosed)) => break,
            Some(Ok(_)) => {}
            Some(Err(error)) => panic!("{error}"),
        }
    }
    setup.session.await.unwrap();
    assert_eq!(setup.got.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn pings_are_answered_and_sent() {
    let setup = Setup::new(Framing::V1, |s| s.ping_interval = Duration::from_millis(20)).await;
    let mut client = websocket(setup.client).await;
    client
        .send(Message::Ping(Bytes::from_static(b"hi")))
        .await
        .unwrap();
    let (mut pinged, mut ponged) = (false, false);
    while !(pinged && ponged) {
        match client.next().await.unwrap().unwrap() {
            Message::Ping(_) => pinged = true,
            Message::Pong(payload) => ponged = payload == "hi",
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_silent_client_is_cut_off_and_told() {
    let adjust = |s: &mut Session| {
        s.ping_interval = Duration::from_millis(20);
        s.pong_timeout = Duration::from_millis(100);
    };
    let mut setup = Setup::new(Framing::V1, adjust).await;
    let mut all = Vec::new();
    setup.client.read_to_end(&mut all).await.unwrap();
    let close = Close::silent().payload();
    let end = [&[0x88, u8::try_from(close.len()).unwrap()][..], &close].concat();
    let pings = all.strip_suffix(&end[..]).unwrap();
    assert!(pings.chunks(2).all(|frame| frame == [0x89, 0]), "{all:?}");
    setup.session.await.unwrap();
}

#[tokio::test]
async fn a_client_that_takes_nothing_is_cut_off_with_its_position_kept() {
    let setup = Setup::new(Framing::V1, |s| s.stall_timeout = Duration::from_millis(100)).await;
    let text = "z".repeat(1 << 20);
    for seq in 1..=64 {
        setup.log.send(Ok(vec![output(seq, &text)])).unwrap();
    }
    let (client, got) = (setup.client, setup.got);
    setup.session.await.unwrap();
    assert!(got.load(Ordering::SeqCst) < 64);
    drop(client);
}

#[tokio::test]
async fn legacy_clients_get_text_and_binary() {
    let mut setup = Setup::new(Framing::Legacy(Quirks::of("", false, false)), |_| {}).await;
    let mut parts = build::stream("kernel-session", None, "stdout", "hi");
    let text = legacy::encode_text(Channel::Iopub, &parts).unwrap();
    let mut deliveries = vec![output(1, "hi")];
    deliveries[0].frame = v1::encode(Channel::Iopub, &parts);
    parts.buffers.push(Bytes::from_static(b"buffer"));
    deliveries.push(Delivery {
        seq: 2,
        frame: v1::encode(Channel::Iopub, &parts),
        ..deliveries[0].clone()
    });
    setup.log.send(Ok(deliveries)).unwrap();
    assert_eq!(setup.got(), 0);
    let mut client = websocket(setup.client).await;
    assert_eq!(client.next().await.unwrap().unwrap(), Message::text(text));
    let Message::Binary(frame) = client.next().await.unwrap().unwrap() else {
        panic!()
    };
    assert_eq!(
        legacy::decode_binary(&frame, &Limits::KERNEL).unwrap().1.buffers,
        ["buffer"]
    );
    let request = legacy::encode_text(Channel::Shell, &build::kernel_info_request("c")).unwrap();
    client.send(Message::text(request)).await.unwrap();
    assert_eq!(setup.sent.recv().await.unwrap().0, Channel::Shell);
}
