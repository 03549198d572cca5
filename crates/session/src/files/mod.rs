//! Files of sessions. They are read and written by the shim, inside the sandbox; the bytes go over a connection of their
//! own, past the kernel's task and its log.

mod model;
mod transfer;

pub use himalia_shim_protocol::{ByteRange, FileKind, LIST_MAX as MAX_LISTED};
pub(crate) use model::failure;
pub use model::{FileInfo, FileListing, ListedFile, PackedFiles, RemovedFiles, WrittenFiles};
pub use transfer::Transfer;
pub use transfer::{FileDownload, FileUpload};

/// Most bytes of an uploaded file, of the files in an uploaded archive together, and of those in one that is downloaded.
pub const MAX_TRANSFER_BYTES: u64 = 1 << 30;
/// Transfers at once in one sandbox, branches included.
pub const MAX_TRANSFERS: usize = 8;
