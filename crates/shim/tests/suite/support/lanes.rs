//! The gateway's end of one lane.

use bytes::BytesMut;
use himalia_shim_protocol::{Decoder, ToGateway, ToShim};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::within;

pub struct Lanes {
    pub(super) stream: UnixStream,
    pub(super) decoder: Decoder,
}

impl Lanes {
    pub async fn send(&mut self, packet: &ToShim) {
        let mut frame = BytesMut::new();
        packet.encode(&mut frame).unwrap();
        self.stream.write_all(&frame).await.unwrap();
    }

    /// The next packet; `None` when the shim has closed.
    pub async fn next(&mut self) -> Option<ToGateway> {
        loop {
            if let Some(frame) = self.decoder.next().unwrap() {
                return Some(ToGateway::parse(frame).unwrap());
            }
            match within(self.stream.read_buf(self.decoder.buffer())).await {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }
}

pub(super) async fn read(lane: &mut Option<Lanes>) -> bool {
    match lane {
        Some(lane) => !matches!(lane.stream.read_buf(lane.decoder.buffer()).await, Ok(0) | Err(_)),
        None => std::future::pending().await,
    }
}
