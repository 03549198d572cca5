use std::fs::File;
use std::io::{self, Read};
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame};
use tokio::sync::mpsc;

/// Read at once.
const CHUNK_BYTES: usize = 256 * 1024;
/// Chunks that wait to be sent.
const CHUNKS: usize = 2;

/// A file as the body of a request, read by a thread of its own while it is sent.
#[derive(Debug)]
pub(super) struct FileBody {
    chunks: mpsc::Receiver<io::Result<Bytes>>,
}

impl FileBody {
    pub(super) fn new(mut file: File) -> Self {
        let (sender, chunks) = mpsc::channel(CHUNKS);
        tokio::task::spawn_blocking(move || {
            loop {
                let mut chunk = vec![0; CHUNK_BYTES];
                let read = file.read(&mut chunk).map(|read| {
                    chunk.truncate(read);
                    Bytes::from(chunk)
                });
                let ends = read.as_ref().map_or(true, Bytes::is_empty);
                // Nobody takes it any more: the request is over.
                if sender.blocking_send(read).is_err() || ends {
                    return;
                }
            }
        });
        Self { chunks }
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.chunks.poll_recv(cx).map(|next| match next {
            Some(Ok(bytes)) if bytes.is_empty() => None,
            Some(chunk) => Some(chunk.map(Frame::data)),
            None => Some(Err(io::Error::other("the file is not read any more"))),
        })
    }
}
