//! Mounts of the configuration file, in the engine's terms.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use himalia_engine::MountTemplate;
use himalia_provisioner::{FileOwner, MountSource, SharedMount, check_target};

use super::ConfigError;
use crate::settings::MountTable;

/// Most mounts.
const MAX_MOUNTS: usize = 64;
/// Longest name of a mount.
const NAME_BYTES: usize = 40;
/// Directories of the host that hold more than data; what holds them is refused too.
const HOST: &[&str] = &["/proc", "/sys", "/dev", "/etc", "/boot", "/run"];

/// Reads all of them. `private` are directories of the gateway.
pub(super) fn mounts(
    tables: BTreeMap<String, MountTable>,
    private: &[&Path],
) -> Result<BTreeMap<String, MountTemplate>, ConfigError> {
    if tables.len() > MAX_MOUNTS {
        let reason = format!("are {}, at most {MAX_MOUNTS} are possible", tables.len());
        return Err(ConfigError::new("mounts", reason));
    }
    let mut all = BTreeMap::new();
    for (name, table) in tables {
        let mount = read(&name, table, private)
            .map_err(|(key, reason)| ConfigError::new(format!("mounts.{name}{key}"), reason))?;
        all.insert(name, mount);
    }
    Ok(all)
}

/// A refusal of one key.
fn bad<T>(key: &str, reason: &str) -> Result<T, (String, String)> {
    Err((format!(".{key}"), reason.to_owned()))
}

fn read(name: &str, table: MountTable, private: &[&Path]) -> Result<MountTemplate, (String, String)> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
    if !(1..=NAME_BYTES).contains(&name.len()) || !name.bytes().all(plain) {
        return Err((
            String::new(),
            format!("a name has 1 to {NAME_BYTES} lower-case letters, digits, '_' and '-'"),
        ));
    }
    let subdirectory = table.subdirectory.unwrap_or_default();
    let source = match (table.directory, table.volume, table.claim) {
        (Some(base), None, None) => {
            directory(&base, private).or_else(|reason| bad("directory", &reason))?;
            MountSource::Directory { base, subdirectory }
        }
        (None, Some(_), None) if !subdirectory.as_os_str().is_empty() => {
            return bad(
                "subdirectory",
                "is for a directory or a claim; a volume can have placeholders in its name",
            );
        }
        (None, Some(volume), None) => MountSource::Volume(volume),
        (None, None, Some(claim)) => MountSource::Claim { claim, subdirectory },
        _ => {
            return Err((
                String::new(),
                "give one of directory, volume and claim".to_owned(),
            ));
        }
    };
    let is_claim = matches!(source, MountSource::Claim { .. });
    let is_volume = matches!(source, MountSource::Volume(_));
    let owner = match (table.uid, table.gid) {
        (None, None) => None,
        (None, Some(_)) => return bad("gid", "needs uid"),
        (Some(0), _) | (_, Some(0)) => return bad("uid", "is root's: no session writes as root"),
        (Some(_), _) if is_claim => {
            return bad(
                "uid",
                "is for directories and volumes: pods have [kubernetes] uid",
            );
        }
        (Some(uid), gid) => Some(FileOwner {
            uid,
            gid: gid.unwrap_or(uid),
        }),
    };
    if is_volume && table.writable && owner.is_none() {
        return bad(
            "uid",
            "is needed with a volume that can be written to: the user whose files are in it",
        );
    }
    let target = table.path.unwrap_or_else(|| PathBuf::from("/mnt").join(name));
    check_target(&target).or_else(|reason| bad("path", &reason))?;
    let mount = SharedMount {
        name: name.to_owned(),
        source,
        target,
        read_only: !table.writable,
        owner,
    };
    MountTemplate::new(mount).map_err(|(key, reason)| (format!(".{key}"), reason))
}

/// Checks that a directory of the host may be shared.
fn directory(base: &Path, private: &[&Path]) -> Result<(), String> {
    if !base.is_absolute() {
        return Err("must be an absolute path".to_owned());
    }
    let resolved = std::fs::canonicalize(base).map_err(|error| format!("{}: {error}", base.display()))?;
    if !resolved.is_dir() {
        return Err(format!("{} is not a directory", base.display()));
    }
    let private = private.iter().map(|path| {
        // One that is missing yet is where it will be.
        std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
    });
    let host = HOST.iter().map(PathBuf::from);
    let shown = private
        .chain(host)
        .find(|path| resolved.starts_with(path) || path.starts_with(&resolved));
    shown.map_or(Ok(()), |path| {
        Err(format!("{} shows {}", base.display(), path.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<MountTemplate, String> {
        let table: MountTable = toml::from_str(text).map_err(|error| error.to_string())?;
        let read = read("home", table, &[Path::new("/usr/lib")]);
        read.map_err(|(key, reason)| format!("{key} {reason}"))
    }

    #[test]
    fn a_table_becomes_a_mount() {
        let mount =
            check("directory = \"/srv\"\nsubdirectory = \"{tenant}/{caller}\"\nuid = 1500\nwritable = true")
                .unwrap();
        assert_eq!(mount.target, Path::new("/mnt/home"));
        assert!(!mount.read_only && mount.is_personal());
        assert_eq!(mount.owner, Some(FileOwner { uid: 1500, gid: 1500 }));
        let mount = check("claim = \"data\"\npath = \"/data\"").unwrap();
        assert!(mount.read_only && mount.owner.is_none());
        check("volume = \"home-{caller}\"\nwritable = true\nuid = 7\ngid = 8").unwrap();
    }

    #[test]
    fn what_is_wrong_names_its_key() {
        for (text, key) in [
            ("path = \"/data\"", "give one of"),
            ("directory = \"/srv\"\nvolume = \"v\"", "give one of"),
            ("directory = \"srv\"", ".directory must be an absolute"),
            ("directory = \"/missing/x\"", ".directory /missing/x"),
            ("directory = \"/usr/lib/x/..\"", ".directory"),
            ("directory = \"/usr\"", ".directory /usr shows /usr/lib"),
            ("directory = \"/etc\"", ".directory"),
            ("directory = \"/\"", ".directory"),
            ("directory = \"/srv\"\nsubdirectory = \"../x\"", ".subdirectory"),
            ("directory = \"/srv\"\nsubdirectory = \"{user}\"", ".subdirectory"),
            ("directory = \"/srv\"\npath = \"/etc/x\"", ".path"),
            ("directory = \"/srv\"\nuid = 0", ".uid"),
            ("directory = \"/srv\"\ngid = 5", ".gid"),
            ("volume = \"v1\"\nwritable = true", ".uid is needed"),
            ("volume = \"v1\"\nsubdirectory = \"a\"", ".subdirectory"),
            ("volume = \"a/b\"", ".volume"),
            ("claim = \"c\"\nuid = 5", ".uid"),
            ("claim = \"c\"\nread_only = false", "unknown field"),
        ] {
            let refused = check(text).unwrap_err();
            assert!(refused.contains(key), "{text}: {refused}");
        }
    }
}
