//! A server that sends back what it is sent, over the handshake, reader and outbox that clients of kernels meet: test suites of
//! the protocol talk to such servers (`make autobahn`). Compiled for tests and with the feature `echo`.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming as Received;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use super::{Handshake, IncomingMessage, Outbox, Reader, UpgradedSocket, closing_handshake};
use crate::error::ApiError;
use crate::listen::LingeringStream;
use crate::socket::Stream;

/// As much as a kernel's clients may send.
const MESSAGE_BYTES: usize = 64 << 20;
const STALL: Duration = Duration::from_mins(1);

/// Serves until it is dropped. Every address is such a WebSocket; messages have at most 64 MiB.
pub async fn serve_echo(listener: TcpListener) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let service = service_fn(|request: hyper::Request<Received>| async {
            Ok::<_, Infallible>(upgrade(request.map(Body::new)).into_response())
        });
        let stream = TokioIo::new(LingeringStream::from(Stream::Plain(stream)));
        let connection = http1::Builder::new().serve_connection(stream, service);
        tokio::spawn(connection.with_upgrades());
    }
}

fn upgrade(mut request: Request) -> Result<Response, ApiError> {
    let (response, socket) = Handshake::new(&mut request)?.accept(None);
    tokio::spawn(async move {
        if let Some(socket) = socket.await {
            echo(socket).await;
        }
    });
    Ok(response)
}

async fn echo(socket: UpgradedSocket) {
    let (reading, writing) = socket.stream.into_split();
    let mut reader = Reader::new(reading, &socket.early, MESSAGE_BYTES);
    let mut outbox = Outbox::default();
    let ours = loop {
        match reader.next().await {
            Ok(IncomingMessage::Text(text)) => drop(outbox.text(text)),
            Ok(IncomingMessage::Binary(bytes)) => drop(outbox.binary(bytes)),
            Ok(IncomingMessage::Ping(payload)) => outbox.pong(payload),
            Ok(IncomingMessage::Pong) => {}
            Ok(IncomingMessage::Close(payload)) => {
                outbox.close_back(payload);
                break false;
            }
            Ok(IncomingMessage::End) => return,
            Err(close) => {
                outbox.close(&close);
                break true;
            }
        }
        if outbox.flush(&writing, STALL).await.is_err() {
            return;
        }
    };
    closing_handshake(&mut outbox, &writing, &mut reader, ours).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use futures_util::{SinkExt, StreamExt};
    use tokio::io::AsyncReadExt as _;
    use tokio::net::TcpStream;
    use tokio_tungstenite::tungstenite::Message;
    use tokio_tungstenite::tungstenite::protocol::CloseFrame;
    use tokio_tungstenite::tungstenite::protocol::frame::Frame;
    use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
    use tokio_tungstenite::{WebSocketStream, client_async};

    async fn client() -> WebSocketStream<TcpStream> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve_echo(listener));
        let stream = TcpStream::connect(address).await.unwrap();
        client_async(format!("ws://{address}/"), stream).await.unwrap().0
    }

    #[tokio::test]
    async fn messages_come_back_as_they_were_sent() {
        let mut client = client().await;
        for length in [0, 1, 125, 126, 127, 4_096, 4_097, 65_535, 65_536, 3 << 20] {
            for message in [
                Message::text("é".repeat(length / 2)),
                Message::binary(vec![0xff; length]),
            ] {
                client.send(message.clone()).await.unwrap();
                assert_eq!(client.next().await.unwrap().unwrap(), message);
            }
        }
    }

    #[tokio::test]
    async fn fragments_come_back_as_one_message_and_pings_pass_them() {
        let mut client = client().await;
        let fragment = |payload: &'static str, data: Data, last: bool| {
            Message::Frame(Frame::message(payload, OpCode::Data(data), last))
        };
        client.send(fragment("he", Data::Text, false)).await.unwrap();
        client
            .send(Message::Ping(Bytes::from_static(b"!")))
            .await
            .unwrap();
        assert_eq!(
            client.next().await.unwrap().unwrap(),
            Message::Pong(Bytes::from_static(b"!"))
        );
        client.send(fragment("ll", Data::Continue, false)).await.unwrap();
        client.send(fragment("o", Data::Continue, true)).await.unwrap();
        assert_eq!(client.next().await.unwrap().unwrap(), Message::text("hello"));
    }

    #[tokio::test]
    async fn a_close_comes_back_with_its_code_and_reason() {
        let mut client = client().await;
        let close = CloseFrame {
            code: CloseCode::Library(4_999),
            reason: "done".into(),
        };
        client.close(Some(close.clone())).await.unwrap();
        assert_eq!(client.next().await.unwrap().unwrap(), Message::Close(Some(close)));
        assert!(client.next().await.is_none());
    }
    #[tokio::test]
    async fn the_server_ends_a_connection_that_it_refuses() {
        let mut client = client().await;
        let mut reserved = Frame::message("x", OpCode::Data(Data::Text), true);
        reserved.header_mut().rsv1 = true;
        client.send(Message::Frame(reserved)).await.unwrap();
        let mut stream = client.into_inner();
        let mut all = Vec::new();
        // Ends although the client neither answers nor closes.
        stream.read_to_end(&mut all).await.unwrap();
        assert_eq!(&all[..4], b"\x88\x17\x03\xea");
        assert_eq!(&all[4..], b"reserved bits are set");
    }
}
