//! Files that are fetched once, for all who want them at the same time. What comes is hashed and written, and given to them while it
//! comes; only what has its digest at the end is kept, and a response of something else is cut before its end.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, stream};
use himalia_egress::{BodyError, Denial};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, StatusCode};
use hyper::body::Incoming;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tempfile::NamedTempFile;
use tokio::sync::{mpsc, watch};
use url::Url;

use crate::blobs::Blobs;
use crate::fetch::{Fetch, RequestHeaders, next, shown};
use crate::room::{Room, Slots};

/// Pieces that wait to be written.
const PIECES: usize = 16;
/// Read from a file at once.
const READ_BYTES: usize = 256 << 10;

/// The files of the cache, and those that are on their way into it.
#[derive(Debug)]
pub(crate) struct Downloads {
    blobs: Arc<Blobs>,
    /// By digest.
    coming: Mutex<HashMap<String, watch::Receiver<Progress>>>,
    slots: Slots,
}

#[derive(Clone, Debug)]
enum Progress {
    /// No byte of the file is there yet.
    Begun,
    /// So many bytes can be read.
    Written {
        file: Arc<File>,
        bytes: u64,
        total: Option<u64>,
    },
    /// All of it can be read, and it is what it should be.
    Whole {
        file: Arc<File>,
        bytes: u64,
    },
    Failed(Denial),
}

/// A file that is read, from its begin.
#[derive(Debug)]
pub(crate) struct Reading {
    progress: watch::Receiver<Progress>,
    /// Length of the file, if known.
    pub(crate) total: Option<u64>,
    /// It was there already.
    pub(crate) cached: bool,
}

impl Downloads {
    pub(crate) fn new(blobs: Blobs) -> Self {
        Self {
            blobs: Arc::new(blobs),
            coming: Mutex::default(),
            slots: Slots::default(),
        }
    }

    /// The file with this digest for a session of this owner; if it is not kept, it is fetched from this URL, whose content is not trusted.
    pub(crate) async fn get(
        self: &Arc<Self>,
        owner: &str,
        digest: &str,
        url: &Url,
        fetch: &Fetch,
    ) -> Result<Reading, Denial> {
        if let Some((file, bytes)) = self.kept(owner, digest).await {
            let (_, progress) = watch::channel(Progress::Whole {
                file: Arc::new(file),
                bytes,
            });
            return Ok(Reading {
                progress,
                total: Some(bytes),
                cached: true,
            });
        }
        let mut progress = {
            let mut coming = self.coming.lock();
            coming
                .entry(digest.to_owned())
                .or_insert_with(|| {
                    let (tell, progress) = watch::channel(Progress::Begun);
                    let (this, url, fetch) = (Arc::clone(self), url.clone(), fetch.clone());
                    let (owner, digest) = (owner.to_owned(), digest.to_owned());
                    tokio::spawn(async move {
                        if let Err(denial) = this.fetch(&owner, &digest, &url, &fetch, &tell).await {
                            tell.send_replace(Progress::Failed(denial));
                        }
                        let mut coming = this.coming.lock();
                        // Another one may have begun.
                        let is_this = |known: &watch::Receiver<_>| known.same_channel(&tell.subscribe());
                        if coming.get(&digest).is_some_and(is_this) {
                            coming.remove(&digest);
                        }
                    });
                    progress
                })
                .clone()
        };
        let begun = progress
            .wait_for(|progress| !matches!(progress, Progress::Begun))
            .await;
        let begun = begun.map(|progress| progress.clone());
        let total = match begun {
            Ok(Progress::Failed(denial)) => return Err(denial),
            Ok(Progress::Written { total, .. }) => total,
            Ok(Progress::Whole { bytes, .. }) => Some(bytes),
            Ok(Progress::Begun) | Err(_) => {
                return Err(Denial::unreachable(format_args!("{} was given up", shown(url))));
            }
        };
        Ok(Reading {
            progress,
            total,
            cached: false,
        })
    }

    /// True if no file is being fetched.
    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        self.coming.lock().is_empty()
    }

    async fn kept(&self, owner: &str, digest: &str) -> Option<(File, u64)> {
        let (blobs, owner, digest) = (Arc::clone(&self.blobs), owner.to_owned(), digest.to_owned());
        tokio::task::spawn_blocking(move || blobs.open_file(&owner, &digest))
            .await
            .ok()
            .flatten()
    }

    /// Gives up a fetch that no reader waits for. The next reader starts it again.
    fn give_up(&self, digest: &str, tell: &watch::Sender<Progress>) -> bool {
        let mut coming = self.coming.lock();
        // One receiver is in the list.
        let is_unread = tell.receiver_count() <= 1;
        if is_unread {
            coming.remove(digest);
        }
        is_unread
    }

    async fn fetch(
        &self,
        owner: &str,
        digest: &str,
        url: &Url,
        fetch: &Fetch,
        tell: &watch::Sender<Progress>,
    ) -> Result<(), Denial> {
        let failed = |reason: String| Denial::unreachable(format_args!("{}: {reason}", shown(url)));
        let slot = self.slots.take(owner).await;
        let _slot = slot.ok_or_else(|| failed("there is no slot for it".to_owned()))?;
        let (total, mut body) = open(url, fetch).await?;
        let mut room = Room::new(&self.blobs, owner);
        let reserved = tokio::task::spawn_blocking(move || room.grow(total.unwrap_or(0)).map(|()| room));
        let reserved = reserved.await.map_err(|error| failed(error.to_string()))?;
        let room = reserved.map_err(|reason| Denial::limit(format_args!("{}: {reason}", shown(url))))?;
        let (pieces, written) = mpsc::channel(PIECES);
        let (blobs, wanted, told) = (Arc::clone(&self.blobs), digest.to_owned(), tell.clone());
        let writing = tokio::task::spawn_blocking(move || write(&blobs, room, wanted, total, written, &told));
        let received = async {
            while let Some(data) = next(&mut body).await.map_err(failed)? {
                if self.give_up(digest, tell) {
                    return Err(failed("no reader is left".to_owned()));
                }
                // The writer has ended, and says why.
                if pieces.send(data).await.is_err() {
                    break;
                }
            }
            Ok(())
        };
        let received = received.await;
        if received.is_err() {
            // Not its end.
            let _ = pieces.send(Bytes::new()).await;
        }
        drop(pieces);
        let written = writing.await.map_err(|error| failed(error.to_string()))?;
        received?;
        written.map_err(failed)
    }
}

/// The response for a file, and how long it is.
pub(crate) async fn open(url: &Url, fetch: &Fetch) -> Result<(Option<u64>, Incoming), Denial> {
    let (from, response) = fetch.get(url, &RequestHeaders::default()).await?;
    if response.status() != StatusCode::OK {
        return Err(Denial::unreachable(format_args!(
            "{} answered {}",
            shown(&from),
            response.status()
        )));
    }
    let total = length(response.headers());
    Ok((total, response.into_body()))
}

fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Writes what comes, until it has all come. An empty piece says that it will not.
fn write(
    blobs: &Blobs,
    mut room: Room,
    wanted: String,
    total: Option<u64>,
    mut pieces: mpsc::Receiver<Bytes>,
    tell: &watch::Sender<Progress>,
) -> Result<(), String> {
    let text = |error: io::Error| error.to_string();
    let mut temporary: NamedTempFile = blobs.begin().map_err(text)?;
    let file = Arc::new(temporary.reopen().map_err(text)?);
    let (mut hasher, mut bytes) = (Sha256::new(), 0);
    let say = |bytes| {
        let file = Arc::clone(&file);
        tell.send_replace(Progress::Written { file, bytes, total });
    };
    say(0);
    while let Some(piece) = pieces.blocking_recv() {
        if piece.is_empty() {
            return Err("it was cut".to_owned());
        }
        bytes += piece.len() as u64;
        room.grow(bytes)?;
        hasher.update(&piece);
        temporary.write_all(&piece).map_err(text)?;
        say(bytes);
    }
    let found = hex::encode(hasher.finalize());
    if found != wanted {
        return Err(format!("has the SHA-256 {found}, and the index says {wanted}"));
    }
    // It counts as a kept one from here on.
    let owner = room.end();
    blobs.keep(temporary, &owner, wanted, bytes).map_err(text)?;
    tell.send_replace(Progress::Whole { file, bytes });
    Ok(())
}

impl Reading {
    /// Returns the bytes of the file as they come.
    pub(crate) fn into_stream(self) -> impl Stream<Item = Result<Bytes, BodyError>> + Send + Sync + 'static {
        stream::try_unfold((self.progress, 0), |(mut progress, at)| async move {
            let known = progress.wait_for(|progress| match progress {
                // The last byte is given when all of it is known to be right.
                Progress::Written { bytes, total, .. } => {
                    total.map_or(*bytes, |total| total.saturating_sub(1).min(*bytes)) > at
                }
                Progress::Begun => false,
                Progress::Whole { .. } | Progress::Failed(_) => true,
            });
            let (file, bytes) = match known.await.map(|progress| progress.clone()) {
                Ok(Progress::Written { file, bytes, total }) => (
                    file,
                    total.map_or(bytes, |total| total.saturating_sub(1).min(bytes)),
                ),
                Ok(Progress::Whole { bytes, .. }) if bytes == at => return Ok(None),
                Ok(Progress::Whole { file, bytes }) => (file, bytes),
                Ok(Progress::Failed(denial)) => return Err(denial.to_string().into()),
                Ok(Progress::Begun) | Err(_) => return Err("it was given up".into()),
            };
            let read = tokio::task::spawn_blocking(move || {
                let wanted = usize::try_from(bytes - at).unwrap_or(READ_BYTES).min(READ_BYTES);
                let mut piece = vec![0; wanted];
                file.read_exact_at(&mut piece, at).map(|()| piece)
            });
            let piece = read.await??;
            let next = at + piece.len() as u64;
            Ok(Some((Bytes::from(piece), (progress, next))))
        })
    }
}
