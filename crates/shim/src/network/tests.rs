use std::path::Path;
use std::time::Duration;

use futures_util::future::select_all;
use himalia_shim_protocol::{Decoder, NETWORK_STREAM, ToGateway};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::time::timeout;

use super::*;

const KEY: &str = "the key";

/// What carries, and where clients connect.
struct Carrying {
    dir: tempfile::TempDir,
    address: SocketAddr,
    way: watch::Sender<GatewayRoute>,
}

impl Carrying {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let link = Some("gw.sock".to_owned());
        let (way, seen) = watch::channel(GatewayRoute { link, epoch: 7 });
        let gateway = Gateway::Unix(dir.path().to_owned());
        tokio::spawn(run(listener, gateway, KEY.to_owned(), seen));
        Self { dir, address, way }
    }

    async fn client(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }
}

fn gateway(dir: &Path, name: &str) -> UnixListener {
    UnixListener::bind(dir.join(name)).unwrap()
}

/// The next connection of the shim, after its hello.
async fn stream(gateway: &UnixListener) -> UnixStream {
    let (mut stream, _) = within(gateway.accept()).await.unwrap();
    let mut decoder = Decoder::new();
    let frame = loop {
        if let Some(frame) = decoder.next().unwrap() {
            break frame;
        }
        assert!(within(stream.read_buf(decoder.buffer())).await.unwrap() > 0);
    };
    let ToGateway::Hello(hello) = ToGateway::parse(frame).unwrap() else {
        panic!()
    };
    assert_eq!((hello.key.as_str(), hello.epoch_seen), (KEY, 7));
    assert_eq!(hello.stream.as_deref(), Some(NETWORK_STREAM));
    stream
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(30), future)
        .await
        .expect("nothing comes of it")
}

async fn rest(stream: &mut (impl AsyncReadExt + Unpin)) -> Vec<u8> {
    let mut read = Vec::new();
    within(stream.read_to_end(&mut read)).await.unwrap();
    read
}

#[tokio::test]
async fn a_client_gets_a_connection_that_waited_and_the_next_one_is_made() {
    let carrying = Carrying::new();
    let gateway = gateway(carrying.dir.path(), "gw.sock");
    let mut waiting = vec![stream(&gateway).await, stream(&gateway).await];
    for _ in 0..3 {
        let mut client = carrying.client().await;
        client.write_all(b"question").await.unwrap();
        client.shutdown().await.unwrap();
        // Another one takes its place.
        waiting.push(stream(&gateway).await);
        let reads = waiting.iter_mut().map(|one| {
            Box::pin(async move {
                let mut heard = [0; 8];
                one.read_exact(&mut heard).await.unwrap();
                heard
            })
        });
        let (heard, at, _) = within(select_all(reads)).await;
        assert_eq!(&heard, b"question");
        let mut served = waiting.remove(at);
        assert!(rest(&mut served).await.is_empty());
        served.write_all(b"answer").await.unwrap();
        drop(served);
        assert_eq!(rest(&mut client).await, b"answer");
    }
}

#[tokio::test]
async fn without_a_gateway_a_client_hears_so_and_a_later_one_is_served() {
    let carrying = Carrying::new();
    let mut away = carrying.client().await;
    away.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut socks = carrying.client().await;
    socks.write_all(&[5, 1, 0]).await.unwrap();
    let heard = String::from_utf8(rest(&mut away).await).unwrap();
    let (head, body) = heard.split_once("\r\n\r\n").unwrap();
    assert!(
        head.starts_with("HTTP/1.1 503 egress_unreachable: the gateway is away\r\n"),
        "{heard}"
    );
    assert!(
        head.contains(&format!("content-length: {}\r\n", body.len())),
        "{heard}"
    );
    assert!(
        !matches!(within(socks.read(&mut [0])).await, Ok(1..)),
        "it is closed"
    );
    let gateway = gateway(carrying.dir.path(), "gw.sock");
    let _waits = stream(&gateway).await;
    // A connection that the gateway closes is replaced.
    drop(stream(&gateway).await);
    let _replaced = stream(&gateway).await;
}

#[tokio::test]
async fn the_link_that_is_named_is_used() {
    let carrying = Carrying::new();
    let first = gateway(carrying.dir.path(), "gw.sock");
    let mut before = stream(&first).await;
    let second = gateway(carrying.dir.path(), "k2.sock");
    carrying
        .way
        .send_modify(|way| way.link = Some("k2.sock".to_owned()));
    let _after = stream(&second).await;
    assert!(rest(&mut before).await.is_empty(), "it is closed");
}
