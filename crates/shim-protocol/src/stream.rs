//! Streams: one connection for each transfer of files and each command, asked for by `open` on the now lane.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use serde::{Deserialize, Serialize};

use crate::packet::{from_json, to_json};
use crate::{Frame, Kind, ProtocolError, RunProcess, encode_frame};

/// Most bytes of a path.
pub const PATH_BYTES: usize = 4096;
/// Most entries that a listing shows.
pub const LIST_MAX: u32 = 10_000;
/// Most entries that a walk looks at: of a listing, an archive, a removal.
pub const WALK_MAX: u64 = 20_000;

/// Body of `open`: dial one more connection and do this there.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Open {
    /// Name that the hello of that connection contains: a secret, used once.
    pub stream: String,
    /// Task of the stream.
    pub task: StreamTask,
    /// Absolute paths of a [`FileTask`] are those of the sandbox. Without it they are refused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub absolute: bool,
}

/// Task of a stream.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum StreamTask {
    /// A command.
    Run(Box<RunProcess>),
    /// Something with files.
    #[serde(untagged)]
    File(FileTask),
}

/// Operation on a session's files. Paths are relative to the work directory and never lead out of it: neither by `..` nor by a link.
/// If [`Open::absolute`] is set, a path that begins with `/` is one of the whole sandbox instead, except in [`Self::Pack`] and [`Self::Unpack`].
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum FileTask {
    /// Read a file. The shim sends `head`, chunks and `done`.
    Get {
        /// The file.
        path: String,
        /// A part of it.
        #[serde(default)]
        range: Option<ByteRange>,
    },
    /// Write a file. The gateway sends chunks, the last one empty; the shim sends `done` once the file is in its place.
    /// Until then, and if the connection ends early, the file is what it was. Missing directories are made.
    Put {
        /// The file.
        path: String,
        /// Most bytes that it may have.
        max_bytes: u64,
        /// Metadata that the file gets, as extended attributes `user.e2b.<name>`.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        metadata: BTreeMap<String, String>,
    },
    /// Look at what is there. The shim sends `done` behind chunks, which together are a JSON array of [`FileEntry`].
    List {
        /// The directory, or one file.
        path: String,
        /// Directories inside of each other that are looked into, at least 1.
        depth: u32,
        /// Most entries that are shown, at most [`LIST_MAX`].
        limit: u32,
        /// Only what comes after this path, which is below `path`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<String>,
    },
    /// Remove a file, a link or a directory. The shim sends `done`.
    Delete {
        /// Path of the file.
        path: String,
        /// Also what is in the directory.
        recursive: bool,
    },
    /// Look at one thing, a link as a link. The shim sends `done` behind chunks, which together are a JSON array of one
    /// [`FileEntry`].
    Stat {
        /// Path of the directory; empty for the work directory.
        path: String,
    },
    /// Make a directory, with those above it. The shim sends `done`, which tells whether it is new.
    MakeDir {
        /// Path of the file or directory.
        path: String,
    },
    /// Give a file or a directory another name, in the place of a file that has it. Missing directories above it are made. The
    /// shim sends `done`.
    Move {
        /// Present path.
        from: String,
        /// New path.
        to: String,
    },
    /// Read a directory as a tar archive. The shim sends chunks and `done`.
    Pack {
        /// The directory.
        path: String,
        /// Most bytes that its files may have together.
        max_bytes: u64,
    },
    /// Write the files of a tar archive. The gateway sends chunks, the last one empty; the shim sends `done`. Files come to
    /// their places only after the whole archive was read and found good.
    Unpack {
        /// The directory, made if it is missing.
        path: String,
        /// Most bytes that the files may have together.
        max_bytes: u64,
    },
}

impl FileTask {
    /// Paths that the task names.
    pub fn paths(&self) -> Vec<&str> {
        match self {
            Self::Move { from, to } => vec![from, to],
            Self::Get { path, .. }
            | Self::Put { path, .. }
            | Self::List { path, .. }
            | Self::Delete { path, .. }
            | Self::Stat { path }
            | Self::MakeDir { path }
            | Self::Pack { path, .. }
            | Self::Unpack { path, .. } => vec![path],
        }
    }
}

/// A part of a file, as in RFC 9110 §14.1.2.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ByteRange {
    /// From one byte to another, both included; to the end without the second.
    From {
        /// The first.
        first: u64,
        /// The last.
        last: Option<u64>,
    },
    /// As many bytes of the end.
    Last {
        /// Number of bytes.
        bytes: u64,
    },
}

impl ByteRange {
    /// First byte and number of bytes in a file of `size`; `None` when it has none of them.
    pub fn within(self, size: u64) -> Option<(u64, u64)> {
        let (first, last) = match self {
            Self::From { first, last } => (first, last.unwrap_or(u64::MAX).min(size.checked_sub(1)?)),
            Self::Last { bytes } => (size.saturating_sub(bytes), size.checked_sub(1)?),
        };
        let bytes = last.checked_sub(first)?.checked_add(1)?;
        (first < size).then_some((first, bytes))
    }
}

/// Body of `head`: what a file is that is about to be sent.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct FileHead {
    /// Bytes of the whole file.
    pub size: u64,
    /// The first byte that is sent.
    pub first: u64,
    /// Number of bytes that follow.
    pub bytes: u64,
    /// Unix time in milliseconds of its last change.
    pub modified_ms: u64,
    /// Differs when the file differs.
    pub tag: String,
}

/// Kind of a directory entry.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A pipe, a socket, a device, or a kind of a later version.
    #[serde(other)]
    Other,
}

/// One entry of a listing.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Relative to the work directory. Bytes that are no UTF-8 are replaced.
    pub path: String,
    /// Kind of the entry.
    pub kind: FileKind,
    /// Size of a file in bytes. For a directory, 0 in a listing, and the size of the directory itself in the entry of a single path.
    pub bytes: u64,
    /// Unix time in milliseconds of its last change.
    pub modified_ms: u64,
    /// Permission bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
    /// Target of a symbolic link, only for the entry of a single path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Metadata of a file: its extended attributes `user.e2b.<name>` whose values are UTF-8.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

/// Body of `done`: all was done.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StreamDone {
    /// Entries that were written, removed, packed, or counted by a listing.
    pub entries: u64,
    /// Bytes of their files.
    pub bytes: u64,
    /// There is more than was counted or shown.
    pub truncated: bool,
    /// The file or the directory was not there before.
    pub created: bool,
    /// Entries that were left out of an archive: pipes, sockets, devices, links that lead out.
    pub skipped: u64,
}

/// Body of `failed`: nothing was done, or not all.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct StreamFailed {
    /// Reason, as a stable code.
    pub code: StreamFailure,
    /// One line.
    pub reason: String,
}

/// Reason why a stream failed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamFailure {
    /// The path is empty, too long, or has `..` or NUL in it.
    BadPath,
    /// A link leads out of the work directory.
    Outside,
    /// There is no such file.
    NotFound,
    /// It is a directory.
    IsADirectory,
    /// A part of the path is no directory.
    NotADirectory,
    /// It is a pipe, a socket or a device.
    NotAFile,
    /// The directory is not empty.
    NotEmpty,
    /// The file has no such bytes.
    Range,
    /// More bytes, or entries, than may be.
    TooLarge,
    /// The disk or its quota is full.
    NoSpace,
    /// The sandbox's user may not.
    Permission,
    /// The data is not a tar archive, or has entries of an unsupported type.
    BadArchive,
    /// As many streams as may be are open.
    Busy,
    /// Anything else, also of a later version.
    #[serde(other)]
    Failed,
}

/// A frame of a stream, body understood.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum StreamFrame {
    /// Bytes; none: the end of what the gateway sends.
    Chunk(Bytes),
    /// Description of the file that follows.
    Head(FileHead),
    /// All was done.
    Done(StreamDone),
    /// The operation was not done, or not completely.
    Failed(StreamFailed),
}

impl StreamFrame {
    /// Understands a frame.
    ///
    /// # Errors
    /// [`ProtocolError::Body`] or [`ProtocolError::Direction`].
    pub fn parse(frame: Frame) -> Result<Self, ProtocolError> {
        let Frame { kind, body, .. } = frame;
        Ok(match kind {
            Kind::Chunk => Self::Chunk(body),
            Kind::Head => Self::Head(from_json(kind, &body)?),
            Kind::Done => Self::Done(from_json(kind, &body)?),
            Kind::Failed => Self::Failed(from_json(kind, &body)?),
            _ => return Err(ProtocolError::Direction { kind: kind.as_str() }),
        })
    }

    /// Appends the frame.
    ///
    /// # Errors
    /// [`ProtocolError::Length`] when the body is too large for its kind.
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), ProtocolError> {
        match self {
            Self::Chunk(bytes) => encode_frame(out, Kind::Chunk, 0, 0, bytes),
            Self::Head(head) => encode_frame(out, Kind::Head, 0, 0, &to_json(Kind::Head, head)?),
            Self::Done(done) => encode_frame(out, Kind::Done, 0, 0, &to_json(Kind::Done, done)?),
            Self::Failed(failed) => encode_frame(out, Kind::Failed, 0, 0, &to_json(Kind::Failed, failed)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_within_the_file() {
        let from = |first, last| ByteRange::From { first, last };
        for (range, size, expected) in [
            (from(0, None), 10, Some((0, 10))),
            (from(3, Some(5)), 10, Some((3, 3))),
            (from(3, Some(50)), 10, Some((3, 7))),
            (from(10, None), 10, None),
            (from(5, Some(4)), 10, None),
            (from(0, None), 0, None),
            (ByteRange::Last { bytes: 4 }, 10, Some((6, 4))),
            (ByteRange::Last { bytes: 40 }, 10, Some((0, 10))),
            (ByteRange::Last { bytes: 0 }, 10, None),
            (ByteRange::Last { bytes: 4 }, 0, None),
        ] {
            assert_eq!(range.within(size), expected, "{range:?} of {size}");
        }
    }

    #[test]
    fn frames_come_back() {
        let frames = [
            StreamFrame::Chunk(Bytes::from_static(b"x")),
            StreamFrame::Chunk(Bytes::new()),
            StreamFrame::Done(StreamDone {
                entries: 1,
                ..StreamDone::default()
            }),
            StreamFrame::Failed(StreamFailed {
                code: StreamFailure::NotFound,
                reason: "r".into(),
            }),
        ];
        let mut out = BytesMut::new();
        for frame in &frames {
            frame.encode(&mut out).unwrap();
        }
        let mut decoder = crate::Decoder::new();
        decoder.buffer().extend_from_slice(&out);
        for frame in frames {
            let got = decoder.next().unwrap().unwrap();
            assert_eq!(StreamFrame::parse(got).unwrap(), frame);
        }
        let later = r#"{"code":"eaten_by_a_dog","reason":""}"#;
        let later: StreamFailed = serde_json::from_str(later).unwrap();
        assert_eq!(later.code, StreamFailure::Failed);
    }
}
