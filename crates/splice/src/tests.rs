use std::os::fd::AsFd;

use tokio::io::{AsyncReadExt, AsyncWriteExt, split};
use tokio::net::{TcpListener, TcpStream, UnixStream};

use crate::{Sockets, carry};

/// Bytes that differ from their neighbours.
fn pattern(count: usize) -> Vec<u8> {
    (0..count).map(|at| u8::try_from(at % 251).unwrap()).collect()
}

async fn tcp() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let ours = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (ours, listener.accept().await.unwrap().0)
}

/// What comes out of a Unix socket that a TCP socket is carried to, and what was counted.
async fn through(bytes: Vec<u8>, spliced: bool) -> (Vec<u8>, usize) {
    let (mut client, from) = tcp().await;
    let (to, mut host) = UnixStream::pair().unwrap();
    let sockets = spliced.then(|| Sockets::new(Some(from.as_fd()), Some(to.as_fd())).unwrap());
    let carried = tokio::spawn(async move {
        let (mut from, mut to, mut sum) = (split(from).0, split(to).1, 0);
        let ended = carry(&mut from, &mut to, sockets, |count| {
            sum += count;
            Ok(())
        });
        ended.await.unwrap();
        sum
    });
    let sent = tokio::spawn(async move {
        client.write_all(&bytes).await.unwrap();
        client.shutdown().await.unwrap();
        client
    });
    let mut read = Vec::new();
    host.read_to_end(&mut read).await.unwrap();
    drop(sent.await.unwrap());
    (read, carried.await.unwrap())
}

#[tokio::test]
async fn everything_arrives_in_order_with_a_pipe_and_without() {
    for count in [0, 1, 100_000, 256 << 10, 10 << 20] {
        for spliced in [true, false] {
            let sent = pattern(count);
            let (read, counted) = through(sent.clone(), spliced).await;
            assert!(read == sent, "{count} bytes, spliced: {spliced}");
            assert_eq!(counted, count);
        }
    }
}

#[tokio::test]
async fn an_error_of_the_count_is_the_end() {
    let (mut client, from) = tcp().await;
    let (to, host) = UnixStream::pair().unwrap();
    let sockets = Sockets::new(Some(from.as_fd()), Some(to.as_fd()));
    let carried = tokio::spawn(async move {
        let (mut from, mut to, mut left) = (split(from).0, split(to).1, 2 << 20);
        let ended = carry(&mut from, &mut to, sockets, |count| {
            left -= count.min(left);
            if left == 0 {
                Err(std::io::Error::other("enough"))
            } else {
                Ok(())
            }
        });
        ended.await.unwrap_err().to_string()
    });
    let read = tokio::spawn(async move {
        let (mut host, mut sum, mut buffer) = (host, 0, vec![0; 65536]);
        while let Ok(count @ 1..) = host.read(&mut buffer).await {
            sum += count;
        }
        sum
    });
    // The other side goes away in the middle.
    let _ = client.write_all(&pattern(16 << 20)).await;
    assert_eq!(carried.await.unwrap(), "enough");
    assert!(read.await.unwrap() < 4 << 20);
}
