//! Metadata of files: pairs of texts, kept as extended attributes in a namespace of their own.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use himalia_shim_protocol::StreamFailure;
use rustix::fs::{XattrFlags, fsetxattr, lgetxattr, llistxattr};
use rustix::io::Errno;

use super::failure::{Failure, Result};

/// Beginning of the names of the attributes.
const NAMESPACE: &str = "user.e2b.";
/// Bytes of the first buffer for the names of all attributes of a file.
const USUAL_BYTES: usize = 1 << 10;
/// Most bytes of these names: the system's own bound.
const NAMES_BYTES: usize = 64 << 10;
/// Most bytes of a value. Longer ones are left out.
const VALUE_BYTES: usize = 4 << 10;

/// Gives a new file its metadata.
pub(super) fn set(file: &File, metadata: &BTreeMap<String, String>, what: &str) -> Result<()> {
    for (name, value) in metadata {
        let name = format!("{NAMESPACE}{name}");
        fsetxattr(file, &name, value.as_bytes(), XattrFlags::empty()).map_err(|error| {
            let reason = match error {
                Errno::OPNOTSUPP => "its file system keeps no metadata: write the file without it".to_owned(),
                Errno::NOSPC | Errno::TOOBIG | Errno::RANGE | Errno::NAMETOOLONG => {
                    "its metadata has more bytes than its file system keeps".to_owned()
                }
                error => error.to_string(),
            };
            Failure::new(StreamFailure::Failed, format!("{what}: {reason}"))
        })?;
    }
    Ok(())
}

/// Reads the metadata of an entry of a directory, which is not followed. An entry that is gone has none.
pub(super) fn get(dir: BorrowedFd<'_>, name: &[u8]) -> BTreeMap<String, String> {
    // The system has no call for an entry of a directory.
    let mut path = format!("/proc/self/fd/{}/", dir.as_raw_fd()).into_bytes();
    path.extend_from_slice(name);
    let mut names = vec![0; USUAL_BYTES];
    let mut listed = llistxattr(&path[..], &mut names[..]);
    if listed == Err(Errno::RANGE) {
        names.resize(NAMES_BYTES, 0);
        listed = llistxattr(&path[..], &mut names[..]);
    }
    names.truncate(listed.unwrap_or(0));
    let read = |attribute: &[u8]| {
        let name = std::str::from_utf8(attribute).ok()?.strip_prefix(NAMESPACE)?;
        let mut value = vec![0; VALUE_BYTES];
        let length = lgetxattr(&path[..], attribute, &mut value[..]).ok()?;
        value.truncate(length);
        Some((name.to_owned(), String::from_utf8(value).ok()?))
    };
    names.split(|byte| *byte == 0).filter_map(read).collect()
}
