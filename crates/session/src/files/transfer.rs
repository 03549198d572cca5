use std::future::Future;
use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, stream};
use himalia_link::{StreamConnection, StreamError};
use himalia_model::{EngineError, FileError};
use himalia_shim_protocol::{CHUNK_BYTES, FileHead, Frame, ProtocolError, StreamDone, StreamFrame};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::model::failure;
use crate::{FileInfo, PackedFiles, WrittenFiles};

/// Longest pause of the sandbox.
const STALL: Duration = Duration::from_mins(1);

/// One stream.
#[derive(Debug)]
pub struct Transfer {
    stream: StreamConnection,
    _permit: OwnedSemaphorePermit,
}

impl Transfer {
    /// A stream that the shim has opened. The permit is given back at its end.
    pub fn new(stream: StreamConnection, permit: OwnedSemaphorePermit) -> Self {
        Self {
            stream,
            _permit: permit,
        }
    }

    /// Next frame of the sandbox; a failure is an error. Cancel-safe.
    pub async fn next(&mut self) -> Result<StreamFrame, EngineError> {
        in_time(async {
            match self.stream.next().await {
                Ok(frame) => understood(frame),
                Err(StreamError::Closed) => Err(lost("the sandbox closed the transfer")),
                Err(StreamError::Io(error)) => Err(broken(&error)),
                Err(StreamError::Protocol(error)) => Err(nonsense(&error)),
            }
        })
        .await
    }

    /// Sends one chunk, at most [`CHUNK_BYTES`]. An error also when the sandbox has said that it failed.
    async fn send(&mut self, chunk: Bytes) -> Result<(), EngineError> {
        let mut out = BytesMut::new();
        StreamFrame::Chunk(chunk)
            .encode(&mut out)
            .map_err(|error| nonsense(&error))?;
        if in_time(async { Ok(self.stream.send(&out).await) }).await? {
            return Ok(());
        }
        // Before the end of what is sent it has nothing to say but why it failed.
        match self.next().await {
            Err(error) => Err(error),
            Ok(_) => Err(lost("the sandbox has done something else")),
        }
    }

    /// Takes what is sent up to its end.
    pub async fn collect(&mut self, limit: usize) -> Result<(BytesMut, StreamDone), EngineError> {
        let mut body = BytesMut::new();
        loop {
            match self.next().await? {
                StreamFrame::Chunk(chunk) if body.len() + chunk.len() <= limit => {
                    body.extend_from_slice(&chunk);
                }
                StreamFrame::Done(done) => return Ok((body, done)),
                _ => return Err(lost("the sandbox has said too much")),
            }
        }
    }
}

async fn in_time<T>(work: impl Future<Output = Result<T, EngineError>>) -> Result<T, EngineError> {
    let late = EngineError::Timeout {
        what: "the transfer's next step",
        seconds: STALL.as_secs(),
    };
    timeout(STALL, work).await.unwrap_or(Err(late))
}

fn understood(frame: Frame) -> Result<StreamFrame, EngineError> {
    match StreamFrame::parse(frame).map_err(|error| nonsense(&error))? {
        StreamFrame::Failed(failed) => Err(failure(&failed)),
        frame => Ok(frame),
    }
}

fn lost(reason: &str) -> EngineError {
    EngineError::Files {
        code: FileError::Failed,
        reason: reason.to_owned(),
    }
}

fn broken(error: &io::Error) -> EngineError {
    lost(&format!("the transfer broke off: {error}"))
}

fn nonsense(error: &ProtocolError) -> EngineError {
    lost(&format!("the sandbox does not keep to the protocol: {error}"))
}

/// Checks that the announced part lies in the file.
fn check(head: &FileHead) -> Result<(), EngineError> {
    let FileHead {
        size, first, bytes, ..
    } = *head;
    match first.checked_add(bytes) {
        Some(end) if end <= size => Ok(()),
        _ => Err(lost(&format!(
            "the sandbox does not keep to the protocol: {bytes} bytes from byte {first} on of a file of {size}"
        ))),
    }
}

/// A file or an archive that is being read. Dropping it gives it up.
#[derive(Debug)]
pub struct FileDownload {
    /// Metadata of the file; `None` for an archive.
    pub info: Option<FileInfo>,
    transfer: Transfer,
    /// First frame, which was read to see that the file exists.
    first: Option<StreamFrame>,
    ended: bool,
    packed: Option<PackedFiles>,
}

impl FileDownload {
    /// A download of one file; waits for what it is.
    pub async fn file(mut transfer: Transfer) -> Result<Self, EngineError> {
        match transfer.next().await? {
            StreamFrame::Head(head) => {
                check(&head)?;
                Ok(Self::new(transfer, Some(head.into()), None))
            }
            _ => Err(lost("the sandbox sent something else than a file")),
        }
    }

    /// A download of an archive; waits until it begins.
    pub async fn archive(mut transfer: Transfer) -> Result<Self, EngineError> {
        let first = transfer.next().await?;
        Ok(Self::new(transfer, None, Some(first)))
    }

    fn new(transfer: Transfer, info: Option<FileInfo>, first: Option<StreamFrame>) -> Self {
        Self {
            info,
            transfer,
            first,
            ended: false,
            packed: None,
        }
    }

    /// The next bytes; `None` at the end. After an error there is nothing more.
    pub async fn next(&mut self) -> Option<Result<Bytes, EngineError>> {
        if self.ended {
            return None;
        }
        let frame = match self.first.take() {
            Some(frame) => Ok(frame),
            None => self.transfer.next().await,
        };
        self.ended = !matches!(frame, Ok(StreamFrame::Chunk(_)));
        match frame {
            Ok(StreamFrame::Chunk(bytes)) => Some(Ok(bytes)),
            Ok(StreamFrame::Done(done)) => {
                self.packed = Some(PackedFiles {
                    entries: done.entries,
                    skipped: done.skipped,
                });
                None
            }
            Ok(_) => Some(Err(lost("the sandbox sent something else than bytes"))),
            Err(error) => Some(Err(error)),
        }
    }

    /// The rest of its bytes, as the body of a response.
    pub fn into_stream(self) -> impl Stream<Item = Result<Bytes, EngineError>> + Send + 'static {
        stream::unfold(self, async |mut download| {
            let next = download.next().await?;
            if let Err(error) = &next {
                tracing::info!(%error, "a download was aborted");
            }
            Some((next, download))
        })
    }

    /// Contents of an archive, once it was read to its end.
    pub fn packed(&self) -> Option<PackedFiles> {
        self.packed
    }
}

/// A file or an archive that is being written. Dropping it before [`FileUpload::finish`] leaves everything as it was.
#[derive(Debug)]
pub struct FileUpload {
    transfer: Transfer,
    /// It may not be larger because the session's files may not.
    by_quota: bool,
}

impl FileUpload {
    /// An upload. `by_quota`: what is too much is so by the quota of the session.
    pub fn new(transfer: Transfer, by_quota: bool) -> Self {
        Self { transfer, by_quota }
    }

    pub async fn send(&mut self, mut bytes: Bytes) -> Result<(), EngineError> {
        while !bytes.is_empty() {
            let chunk = bytes.split_to(bytes.len().min(CHUNK_BYTES));
            let sent = self.transfer.send(chunk).await;
            sent.map_err(|error| self.meant(error))?;
        }
        Ok(())
    }

    /// All bytes were sent: puts the files in their places.
    pub async fn finish(mut self) -> Result<WrittenFiles, EngineError> {
        let ended = self.transfer.send(Bytes::new()).await;
        let ended = match ended {
            Ok(()) => self.transfer.next().await,
            Err(error) => Err(error),
        };
        match ended.map_err(|error| self.meant(error))? {
            StreamFrame::Done(done) => Ok(WrittenFiles {
                entries: done.entries,
                bytes: done.bytes,
                created: done.created,
            }),
            _ => Err(lost("the sandbox sent something else than an answer")),
        }
    }

    fn meant(&self, error: EngineError) -> EngineError {
        match error {
            EngineError::Files {
                code: FileError::TooLarge,
                reason,
            } if self.by_quota => EngineError::Files {
                code: FileError::Quota,
                reason: format!("{reason}, which is what is left of the disk quota"),
            },
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_lies_in_its_file() {
        let head = |first, bytes, size| FileHead {
            size,
            first,
            bytes,
            modified_ms: 0,
            tag: String::new(),
        };
        for (first, bytes, size) in [(0, 0, 0), (0, 9, 9), (4, 5, 9), (9, 0, 9)] {
            assert!(check(&head(first, bytes, size)).is_ok(), "{first} {bytes} {size}");
        }
        for (first, bytes, size) in [(0, 10, 9), (5, 5, 9), (u64::MAX, 2, 9), (2, u64::MAX, u64::MAX)] {
            let error = check(&head(first, bytes, size)).unwrap_err().to_string();
            assert!(error.contains("does not keep to the protocol"), "{error}");
        }
    }
}
