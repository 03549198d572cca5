//! Checks directories, sockets and the shim.

use std::path::Path;

use himalia_engine::{SqliteStore, StoreError};
use himalia_sandbox::SOCKET_PATH_BYTES;
use rustix::fs::{Access, access, statvfs};

use super::finding::{Finding, Level};
use super::host::mebibytes;
use super::versions;
use crate::backup::DATABASE;
use crate::config::Config;
use crate::data_dir;
use crate::programs::{SHIM, version};
use crate::rundir;

/// Free space below which the logs of a few kernels do not fit.
const LITTLE_SPACE: u64 = 2 << 30;

pub(super) fn look(config: &Config) -> Vec<Finding> {
    vec![
        find_data_dir(&config.data_dir),
        run_dir(config),
        find_shim(config),
        port(config),
    ]
}

fn find_data_dir(dir: &Path) -> Finding {
    let topic = "data directory";
    let there = existing(dir);
    if access(there, Access::WRITE_OK | Access::EXEC_OK).is_err() {
        let text = format!(
            "{}: this user may not write in {}",
            dir.display(),
            there.display()
        );
        return Finding::new(Level::Bad, topic, text);
    }
    if let Err(error) = data_dir::check_parents(dir) {
        return Finding::new(Level::Bad, topic, error.to_string());
    }
    if let Err(error) = SqliteStore::check(&dir.join(DATABASE)) {
        let remedy = match error {
            StoreError::NewerSchema { .. } => {
                "\ninstall the newer himalia again, or restore a backup of this version into another directory"
            }
            _ => "",
        };
        return Finding::new(Level::Bad, topic, format!("{error}{remedy}"));
    }
    let free = statvfs(there).map(|stat| stat.f_bavail.saturating_mul(stat.f_frsize));
    let (level, space) = match free {
        Ok(free) if free < LITTLE_SPACE => (Level::Warn, format!("only {} free", mebibytes(free))),
        Ok(free) => (Level::Good, format!("{} free", mebibytes(free))),
        Err(error) => (Level::Warn, format!("free space unknown: {error}")),
    };
    Finding::new(level, topic, format!("{}, {space}", dir.display()))
}

fn run_dir(config: &Config) -> Finding {
    let dir = config
        .run_dir
        .clone()
        .unwrap_or_else(|| rundir::choose(&config.data_dir));
    let there = existing(&dir);
    let usable = rundir::check_length(&dir).and_then(|()| {
        access(there, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| {
            anyhow::anyhow!("{}: cannot write in {}: {error}", dir.display(), there.display())
        })
    });
    Finding::of(
        "run directory",
        usable.map(|()| {
            let (bytes, most) = (dir.as_os_str().len(), rundir::MAX_BYTES);
            format!(
                "{}, {bytes} of {most} bytes, so that paths of sockets stay within {SOCKET_PATH_BYTES}",
                dir.display()
            )
        }),
    )
}

fn find_shim(config: &Config) -> Finding {
    let found = SHIM.find(config.shim.as_deref());
    let tried = found.and_then(|path| {
        let shown = version(&path)?;
        Ok((path, shown))
    });
    match tried {
        Ok((path, shown)) => versions::program("himalia-shim", &path, &shown),
        Err(error) => Finding::new(Level::Bad, "himalia-shim", format!("{error:#}")),
    }
}

fn port(config: &Config) -> Finding {
    match std::net::TcpListener::bind(config.listen) {
        Ok(_) => Finding::new(Level::Good, "address", format!("{} is free", config.listen)),
        Err(error) => Finding::new(Level::Warn, "address", format!("{}: {error}", config.listen)),
    }
}

/// The nearest directory that exists, from `path` upwards.
fn existing(path: &Path) -> &Path {
    path.ancestors()
        .find(|dir| dir.exists())
        .unwrap_or(Path::new("/"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use himalia_engine::copy_database;

    use super::*;

    #[test]
    fn a_parent_that_every_user_may_write_to_is_found() {
        let dir = tempfile::tempdir().unwrap();
        assert_ne!(find_data_dir(&dir.path().join("data")).level, Level::Bad);
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let found = find_data_dir(&dir.path().join("data"));
        assert_eq!(found.level, Level::Bad);
        assert!(found.text.contains("chmod o-w"), "{}", found.text);
    }

    #[test]
    fn a_database_of_a_newer_version_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        fs::create_dir(&data).unwrap();
        let database = data.join(DATABASE);
        let original = dir.path().join("original.db");
        let store = SqliteStore::open(&original, "main").unwrap();
        copy_database(&original, &database).unwrap();
        drop(store);
        assert_ne!(find_data_dir(&data).level, Level::Bad);
        // The version that SQLite keeps in the header of a file, `user_version`: bytes 60 to 63.
        let mut bytes = fs::read(&database).unwrap();
        bytes[60..64].copy_from_slice(&9999_u32.to_be_bytes());
        fs::write(&database, bytes).unwrap();
        let found = find_data_dir(&data);
        assert_eq!(found.level, Level::Bad);
        assert!(
            found.text.contains("schema version 9999 is newer"),
            "{}",
            found.text
        );
        assert!(found.text.contains("install the newer himalia"), "{}", found.text);
    }
}
