//! Files on their way into the cache, from a server on loopback.

use std::net::SocketAddr;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use himalia_egress::Outbound;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::time::timeout;
use url::Url;

use crate::blobs::Blobs;
use crate::download::{Downloads, Reading};
use crate::fetch::Fetch;

const SIZE: usize = 1 << 20;
/// The owner of the sessions.
const ME: &str = "acme";

/// A host with one file, whose second half it sends when it may.
struct Server {
    address: SocketAddr,
    asked: Arc<AtomicUsize>,
    more: Arc<Notify>,
}

impl Server {
    async fn new() -> Self {
        Self::with(&format!("content-length: {SIZE}\r\n")).await
    }

    /// With these lines in the head of its response.
    async fn with(lines: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            address: listener.local_addr().unwrap(),
            asked: Arc::default(),
            more: Arc::default(),
        };
        let (asked, more) = (Arc::clone(&server.asked), Arc::clone(&server.more));
        let head = format!("HTTP/1.1 200 OK\r\n{lines}connection: close\r\n\r\n");
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                asked.fetch_add(1, Ordering::SeqCst);
                let (more, head) = (Arc::clone(&more), head.clone());
                tokio::spawn(async move {
                    let _ = stream.read(&mut [0; 4096]).await.unwrap();
                    stream.write_all(head.as_bytes()).await.unwrap();
                    stream.write_all(&file()[..SIZE / 2]).await.unwrap();
                    more.notified().await;
                    // The other side may have gone.
                    let _ = stream.write_all(&file()[SIZE / 2..]).await;
                    let _ = stream.read(&mut [0; 16]).await;
                });
            }
        });
        server
    }

    fn url(&self) -> Url {
        Url::parse(&format!("http://{}/f", self.address)).unwrap()
    }

    fn fetch(&self) -> Fetch {
        let exceptions = vec![self.address.to_string().parse().unwrap()];
        Fetch::new(&self.url(), Outbound::direct(exceptions).unwrap())
    }
}

fn file() -> Vec<u8> {
    (0..SIZE).map(|at| u8::try_from(at % 251).unwrap()).collect()
}

fn digest() -> String {
    hex::encode(Sha256::digest(file()))
}

fn downloads(dir: &Path) -> Arc<Downloads> {
    Arc::new(Downloads::new(Blobs::open(dir, 4 << 20).unwrap()))
}

/// All of it, or what came before an error.
async fn read(reading: Reading) -> Result<Vec<u8>, Vec<u8>> {
    let mut stream = pin!(reading.into_stream());
    let mut all = Vec::new();
    while let Some(piece) = within(stream.next()).await {
        match piece {
            Ok(piece) => all.extend_from_slice(&piece),
            Err(_) => return Err(all),
        }
    }
    Ok(all)
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(30), future)
        .await
        .expect("nothing comes of it")
}

#[tokio::test]
async fn a_file_is_fetched_once_for_all_who_want_it_and_given_while_it_comes() {
    let (server, dir) = (Server::new().await, tempfile::tempdir().unwrap());
    let (downloads, fetch) = (downloads(dir.path()), server.fetch());
    let (digest, url) = (digest(), server.url());
    let (one, other) = tokio::join!(
        downloads.get(ME, &digest, &url, &fetch),
        downloads.get(ME, &digest, &url, &fetch)
    );
    let (one, other) = (one.unwrap(), other.unwrap());
    assert_eq!((one.total, one.cached), (Some(SIZE as u64), false));
    // Half of it is there before the rest is sent.
    let mut early = Box::pin(one.into_stream());
    let first = within(early.next()).await.unwrap().unwrap();
    assert!(!first.is_empty() && first.len() <= SIZE / 2);
    server.more.notify_one();
    assert!(read(other).await.unwrap() == file());
    let mut all = first.to_vec();
    while let Some(piece) = within(early.next()).await {
        all.extend_from_slice(&piece.unwrap());
    }
    assert!(all == file());
    let again = downloads.get(ME, &digest, &url, &fetch).await.unwrap();
    assert!(again.cached && read(again).await.unwrap() == file());
    assert_eq!(server.asked.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_file_that_is_another_is_cut_before_its_end_and_not_kept() {
    let (server, dir) = (Server::new().await, tempfile::tempdir().unwrap());
    let (downloads, wrong) = (downloads(dir.path()), "0".repeat(64));
    let reading = downloads
        .get(ME, &wrong, &server.url(), &server.fetch())
        .await
        .unwrap();
    server.more.notify_one();
    assert!(read(reading).await.unwrap_err().len() < SIZE);
    let kept: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert!(kept.is_empty(), "{kept:?}");
}

#[tokio::test]
async fn a_file_that_no_session_wants_any_more_is_given_up() {
    let (server, dir) = (Server::new().await, tempfile::tempdir().unwrap());
    let downloads = downloads(dir.path());
    drop(
        downloads
            .get(ME, &digest(), &server.url(), &server.fetch())
            .await
            .unwrap(),
    );
    server.more.notify_one();
    within(async {
        while !downloads.is_idle() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // It can be fetched anew.
    server.more.notify_one();
    let reading = within(downloads.get(ME, &digest(), &server.url(), &server.fetch()))
        .await
        .unwrap();
    assert!(!reading.cached && read(reading).await.unwrap() == file());
    assert_eq!(server.asked.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn an_address_that_is_not_public_is_refused() {
    let (server, dir) = (Server::new().await, tempfile::tempdir().unwrap());
    let fetch = Fetch::new(&server.url(), Outbound::direct(Vec::new()).unwrap());
    let denial = downloads(dir.path())
        .get(ME, &digest(), &server.url(), &fetch)
        .await
        .unwrap_err();
    assert!(
        denial
            .to_string()
            .contains("is a loopback address, which no list allows"),
        "{denial}"
    );
    assert_eq!(server.asked.load(Ordering::SeqCst), 0);
}

/// Its host does not say how long it is.
#[tokio::test]
async fn a_file_that_outgrows_its_room_is_given_up() {
    let (server, dir) = (Server::with("").await, tempfile::tempdir().unwrap());
    let downloads = Arc::new(Downloads::new(Blobs::open(dir.path(), SIZE as u64).unwrap()));
    let (url, fetch) = (server.url(), server.fetch());
    let reading = downloads.get(ME, &digest(), &url, &fetch).await.unwrap();
    server.more.notify_one();
    assert!(read(reading).await.unwrap_err().len() < SIZE);
    let kept: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert!(kept.is_empty(), "{kept:?}");
}

#[tokio::test]
async fn a_file_without_room_is_refused_before_anything_is_written() {
    let (server, dir) = (Server::new().await, tempfile::tempdir().unwrap());
    let downloads = Arc::new(Downloads::new(
        Blobs::open(dir.path(), SIZE as u64 / 2 * 3).unwrap(),
    ));
    let (url, fetch) = (server.url(), server.fetch());
    let first = downloads.get(ME, &digest(), &url, &fetch).await.unwrap();
    for owner in [ME, "other"] {
        let denial = downloads
            .get(owner, &"1".repeat(64), &url, &fetch)
            .await
            .unwrap_err();
        assert!(denial.to_string().contains("try again later"), "{denial}");
    }
    server.more.notify_one();
    assert!(read(first).await.unwrap() == file());
}
