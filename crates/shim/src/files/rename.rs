use himalia_shim_protocol::{StreamDone, StreamFailure};
use rustix::fs::{AtFlags, OFlags, renameat, statat};
use rustix::io::Errno;

use super::beneath::Root;
use super::failure::{Failure, Result};
use super::path::Relative;

/// Makes a directory with those above it, and tells whether it is new.
pub(super) fn make(root: &Root, path: &Relative) -> Result<StreamDone> {
    let what = path.text();
    match root.get(path, OFlags::PATH | OFlags::DIRECTORY) {
        Ok(_) => return Ok(StreamDone::default()),
        Err(Failure {
            code: StreamFailure::NotFound,
            ..
        }) => {}
        Err(failure) => return Err(failure),
    }
    root.make_dir(path.names(), &what)?;
    Ok(StreamDone {
        entries: 1,
        created: true,
        ..StreamDone::default()
    })
}

/// Gives a file, a link or a directory another path. A file that has that path is replaced, a directory only if it is empty.
pub(super) fn run(
    (root, from): (&Root, &Relative),
    (new_root, to): (&Root, &Relative),
) -> Result<StreamDone> {
    let (source, name) = root.parent(from)?;
    let failed = |error| Failure::of(&from.text(), error);
    statat(&source, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
    let (above, new_name) = to.split()?;
    let target = new_root.make_dir(above, &to.text())?;
    let renamed = renameat(&source, name, &target, new_name);
    renamed.map_err(|error| match error {
        // A directory into itself.
        Errno::INVAL => Failure::new(
            StreamFailure::BadPath,
            format!("{}: is within what is moved", to.text()),
        ),
        Errno::XDEV => Failure::new(
            StreamFailure::Failed,
            format!(
                "{}: is on another file system: copy the file, then remove it",
                to.text()
            ),
        ),
        error => Failure::of(&to.text(), error),
    })?;
    Ok(StreamDone {
        entries: 1,
        ..StreamDone::default()
    })
}
