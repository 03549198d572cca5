//! The root file system of a sandbox: mounts from the host, and files that are created for it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use himalia_jail::{Device, HostIds, Mount, Plan, SANDBOX_ID};

use super::binds::{Binds, read_only};
use super::config::{NamespacesConfig, Sizes};
use super::record::work_dir;
use super::shared::SandboxMount;
use crate::{Limits, SandboxError, inside};

/// System directories, links on hosts whose `/usr` is merged.
const SYSTEM: [&str; 8] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
];
/// Files of `/etc` that programs and libraries read. None of them is secret; the rest of `/etc` does not exist inside.
const ETC: [&str; 22] = [
    // What Debian's R and Java have in their own directories are links to these.
    "/etc/R",
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/fonts",
    "/etc/java-8-openjdk",
    "/etc/java-11-openjdk",
    "/etc/java-17-openjdk",
    "/etc/java-21-openjdk",
    "/etc/java-25-openjdk",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/locale.alias",
    "/etc/localtime",
    "/etc/magic",
    "/etc/mime.types",
    "/etc/pki/ca-trust/extracted",
    "/etc/pki/tls/certs",
    "/etc/protocols",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
];
/// Space for sockets and connection files, in bytes.
const RUNTIME_BYTES: u64 = 4 << 20;

/// The system directory that this path lies in: every sandbox sees what is there.
pub(super) fn system_dir(path: &Path) -> Option<&'static str> {
    SYSTEM.into_iter().find(|dir| path.starts_with(dir))
}

/// The file systems in memory of one sandbox, in bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Memory {
    /// `None`: the work directory is one of the host's.
    session: Option<u64>,
    tmp: u64,
    shm: u64,
}

impl Memory {
    pub(super) fn new(limits: &Limits, is_kept: bool, default: Sizes) -> Self {
        Self {
            session: (!is_kept).then(|| limits.disk_bytes.unwrap_or(default.session_bytes)),
            tmp: limits.tmp_bytes.unwrap_or(default.tmp_bytes),
            shm: limits.shm_bytes.unwrap_or(default.shm_bytes),
        }
    }

    /// The places whose size is another one in `other`, with the size here.
    pub(super) fn unlike(self, other: Self, work_dir: &'static str) -> Vec<(&'static str, u64)> {
        [
            (work_dir, self.session, other.session),
            ("/tmp", Some(self.tmp), Some(other.tmp)),
            ("/dev/shm", Some(self.shm), Some(other.shm)),
        ]
        .into_iter()
        .filter(|(_, here, there)| here != there)
        .filter_map(|(target, here, _)| Some((target, here?)))
        .collect()
    }

    /// Upper bound of their contents together, in bytes.
    pub(super) fn sum(self) -> u64 {
        [self.session.unwrap_or(0), self.tmp, self.shm, RUNTIME_BYTES]
            .into_iter()
            .fold(0, u64::saturating_add)
    }
}

/// Parts of a root that do not come from the host's system.
#[derive(Debug)]
pub(super) struct Root<'a> {
    pub(super) config: &'a NamespacesConfig,
    pub(super) private: &'a [PathBuf],
    pub(super) host_ids: Option<HostIds>,
    pub(super) gateway_dir: &'a Path,
    /// The directory of the kept files, if they are kept.
    pub(super) kept_files: Option<PathBuf>,
    pub(super) memory: Memory,
    pub(super) binds: &'a [PathBuf],
    pub(super) names: &'a BTreeMap<&'static str, PathBuf>,
    /// Mounts of the operator.
    pub(super) shared: &'a [SandboxMount],
    /// The work directory is at [`inside::DATA_DIR`] too, if nothing else is.
    pub(super) shows_data: bool,
}

impl Root<'_> {
    /// The plan for `himalia-jail`, and whether the work directory is at [`inside::USER_HOME`].
    pub(super) fn plan(&self) -> Result<(Plan, bool), SandboxError> {
        let mut mounts = Vec::new();
        let mut covered = host(&SYSTEM, &mut mounts);
        covered.extend(host(&ETC, &mut mounts));
        mounts.push(tmpfs("/tmp", self.memory.tmp, 0o1777));
        let mut binds = Binds::new(self.private, covered);
        binds.add_all(self.binds)?;
        mounts.extend(binds.into_mounts());
        mounts.extend(self.shared.iter().map(|shared| shared.mount(self.host_ids)));
        let in_user_home = self.config.in_user_home && !is_taken(&mounts, inside::USER_HOME);
        let work_dir = work_dir(in_user_home);
        etc(&mut mounts, work_dir);
        devices(&mut mounts, self.memory.shm);
        self.own(&mut mounts, work_dir);
        self.links(&mut mounts, work_dir);
        let plan = Plan {
            host_ids: self.host_ids,
            hostname: inside::HOSTNAME.to_owned(),
            mounts,
        };
        Ok((plan, in_user_home))
    }

    /// The other paths of the work directory.
    fn links(&self, mounts: &mut Vec<Mount>, work_dir: &str) {
        let data = self.shows_data.then_some(inside::DATA_DIR);
        let places = [inside::WORK_DIR].into_iter().chain(inside::OTHER_HOMES);
        for place in places.chain(data) {
            if !is_taken(mounts, place) {
                mounts.push(Mount::Symlink {
                    target: place.into(),
                    to: work_dir.into(),
                });
            }
        }
    }

    fn own(&self, mounts: &mut Vec<Mount>, work_dir: &str) {
        let bind = |source: &Path, target: &str, read_only: bool| Mount::Bind {
            source: source.to_owned(),
            target: target.into(),
            read_only,
        };
        mounts.push(match (&self.kept_files, self.memory.session) {
            (Some(dir), _) => bind(dir, work_dir, false),
            (None, size) => tmpfs(work_dir, size.unwrap_or(0), 0o700),
        });
        mounts.push(bind(self.gateway_dir, inside::GATEWAY_DIR, true));
        mounts.push(tmpfs(inside::RUNTIME_DIR, RUNTIME_BYTES, 0o700));
        mounts.push(bind(&self.config.shim, inside::SHIM, true));
        mounts.push(bind(&self.config.kernel_package_dir, inside::KERNEL_DIR, true));
        mounts.extend(self.names.iter().map(|(name, to)| Mount::Symlink {
            target: Path::new(inside::OWN_DIR).join(name),
            to: to.clone(),
        }));
    }
}

/// Returns true if something is mounted at, below or above a path. A host may have a Python environment there, and an operator a mount.
fn is_taken(mounts: &[Mount], place: &str) -> bool {
    let place = Path::new(place);
    mounts.iter().any(|mount| match mount {
        Mount::Bind { target, .. }
        | Mount::Shared { target, .. }
        | Mount::Tmpfs { target, .. }
        | Mount::Symlink { target, .. } => target.starts_with(place) || place.starts_with(target),
        _ => false,
    })
}

/// Refuses paths that no root may have. Looks at the disk.
pub(super) fn check_binds(private: &[PathBuf], paths: &[PathBuf]) -> Result<(), SandboxError> {
    let mut covered = host(&SYSTEM, &mut Vec::new());
    covered.extend(host(&ETC, &mut Vec::new()));
    Binds::new(private, covered).add_all(paths)
}

/// Adds mounts for the host paths that exist, links as links; returns the missing paths, for which the root gets replacements.
fn host(paths: &[&str], mounts: &mut Vec<Mount>) -> Vec<PathBuf> {
    let mut covered = Vec::new();
    for path in paths.iter().map(Path::new) {
        if let Ok(to) = fs::read_link(path) {
            mounts.push(Mount::Symlink {
                target: path.to_owned(),
                to,
            });
        } else if path.exists() {
            covered.push(path.to_owned());
            mounts.push(read_only(path));
        }
    }
    covered
}

/// Files of `/etc` that are not the host's.
fn etc(mounts: &mut Vec<Mount>, home: &str) {
    let id = SANDBOX_ID;
    let files = [
        (
            "/etc/passwd",
            format!("kernel:x:{id}:{id}:kernel:{home}:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"),
        ),
        ("/etc/group", format!("kernel:x:{id}:\nnogroup:x:65534:\n")),
        (
            "/etc/hosts",
            format!("127.0.0.1 localhost {}\n::1 localhost ip6-localhost\n", inside::HOSTNAME),
        ),
        ("/etc/hostname", format!("{}\n", inside::HOSTNAME)),
        // Names are looked up in files only: there is no network to ask.
        (
            "/etc/nsswitch.conf",
            "passwd: files\ngroup: files\nshadow: files\nhosts: files\nnetworks: files\nprotocols: files\nservices: files\n"
                .to_owned(),
        ),
    ];
    mounts.extend(files.map(|(target, content)| Mount::File {
        target: target.into(),
        content,
    }));
}

fn devices(mounts: &mut Vec<Mount>, shm: u64) {
    mounts.extend(Device::ALL.map(|device| Mount::Device { device }));
    mounts.push(Mount::Pty);
    mounts.push(tmpfs("/dev/shm", shm, 0o1777));
    let links = [
        ("/dev/fd", "/proc/self/fd"),
        ("/dev/stdin", "/proc/self/fd/0"),
        ("/dev/stdout", "/proc/self/fd/1"),
        ("/dev/stderr", "/proc/self/fd/2"),
    ];
    mounts.extend(links.map(|(target, to)| Mount::Symlink {
        target: target.into(),
        to: to.into(),
    }));
}

fn tmpfs(target: &str, size_bytes: u64, mode: u32) -> Mount {
    Mount::Tmpfs {
        target: target.into(),
        size_bytes,
        mode,
    }
}
