use std::io::{Read, Write};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use himalia_link::{BlockingSocket, Gateway};
use himalia_shim_protocol::{
    CHUNK_BYTES, Decoder, Hello, Kind, StreamFailure, StreamFrame, ToGateway, encode_head,
};

use super::failure::{Failure, Result};

/// Longest time without progress by the gateway; the gateway gives up earlier.
const STALL: Duration = Duration::from_mins(2);
/// Read from the socket at once.
const READ_BYTES: usize = 64 * 1024;

/// The connection of one stream. Blocks.
#[derive(Debug)]
pub(super) struct Connection {
    socket: BlockingSocket,
    decoder: Decoder,
    buffer: Vec<u8>,
}

impl Connection {
    /// Dials and says hello.
    pub(super) fn dial(gateway: &Gateway, link: &str, hello: Hello) -> Result<Self> {
        let socket = gateway.connect_blocking(link, STALL);
        let socket = socket.map_err(|error| Failure::io("the stream", &error))?;
        let mut out = BytesMut::new();
        let encoded = ToGateway::Hello(Box::new(hello)).encode(&mut out);
        encoded.map_err(|error| Failure::new(StreamFailure::Failed, error.to_string()))?;
        let mut this = Self::over(socket);
        this.write(&out)?;
        Ok(this)
    }

    /// A connection that has said hello.
    pub(super) fn over(socket: BlockingSocket) -> Self {
        Self {
            socket,
            decoder: Decoder::new(),
            buffer: vec![0; READ_BYTES],
        }
    }

    pub(super) fn send(&mut self, frame: &StreamFrame) -> Result<()> {
        let mut out = BytesMut::new();
        let encoded = frame.encode(&mut out);
        encoded.map_err(|error| Failure::new(StreamFailure::Failed, error.to_string()))?;
        self.write(&out)
    }

    /// Sends bytes, as many chunks as it takes.
    pub(super) fn send_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        for chunk in bytes.chunks(CHUNK_BYTES) {
            let head = encode_head(Kind::Chunk, 0, 0, chunk.len());
            let head = head.map_err(|error| Failure::new(StreamFailure::Failed, error.to_string()))?;
            self.write(&head)?;
            self.write(chunk)?;
        }
        Ok(())
    }

    /// The next bytes; `None` at the end of what the gateway sends.
    pub(super) fn receive(&mut self) -> Result<Option<Bytes>> {
        let broken = |reason: &str| Failure::new(StreamFailure::Failed, reason);
        loop {
            let frame = self.decoder.next().map_err(|error| broken(&error.to_string()))?;
            if let Some(frame) = frame {
                return match StreamFrame::parse(frame) {
                    Ok(StreamFrame::Chunk(bytes)) => Ok(Some(bytes).filter(|bytes| !bytes.is_empty())),
                    Ok(_) => Err(broken("the gateway sent something else than bytes")),
                    Err(error) => Err(broken(&error.to_string())),
                };
            }
            let read = self.socket.read(&mut self.buffer);
            let read = read.map_err(|error| Failure::io("the stream", &error))?;
            match self.buffer.get(..read) {
                None | Some([]) => return Err(broken("the gateway closed the stream")),
                Some(bytes) => self.decoder.buffer().extend_from_slice(bytes),
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.socket.write_all(bytes);
        written.map_err(|error| Failure::io("the stream", &error))
    }
}
