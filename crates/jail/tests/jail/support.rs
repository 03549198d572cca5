//! Runs `himalia-jail` on plans, as root and as an ordinary user.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use himalia_jail::{Device, ExecPlan, ExecReply, Failure, HostIds, Mount, Plan, Program};
use serde_json::Value;

/// Prints what a process sees and may do, as JSON.
const VIEW: &str = include_str!("view.py");

/// An id that no account has.
const USER: u32 = 12_345;
/// The ids that root gives to a sandbox.
const SANDBOX_HOST_ID: u32 = 234_567;

/// Who makes the sandbox.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Caller {
    Root,
    User,
}

impl Caller {
    /// Root can play both; others only themselves.
    pub(crate) fn all() -> &'static [Self] {
        if rustix::process::geteuid().is_root() {
            &[Self::Root, Self::User]
        } else {
            &[Self::User]
        }
    }

    pub(crate) fn host_ids(self) -> Option<HostIds> {
        let (uid, gid) = (SANDBOX_HOST_ID, SANDBOX_HOST_ID);
        (self == Self::Root).then_some(HostIds { uid, gid })
    }

    /// A command that runs as this caller.
    pub(crate) fn command(self, program: &Path) -> Command {
        if !rustix::process::geteuid().is_root() {
            return Command::new(program);
        }
        let mut command = Command::new("setpriv");
        let id = USER.to_string();
        match self {
            // Root in a group more, to see that a sandbox leaves it.
            Self::Root => command.args(["--groups", &id, "--"]),
            Self::User => command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "--"]),
        };
        command.arg(program);
        command
    }

    /// A directory that is open to this caller alone.
    pub(crate) fn private_dir(self) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        self.own(dir.path());
        dir
    }

    /// Gives a path to this caller.
    pub(crate) fn own(self, path: &Path) {
        if self == Self::User && rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(path, Some(USER), Some(USER)).unwrap();
        }
    }

    /// Gives a path to the user of this caller's sandboxes.
    pub(crate) fn give_to_sandbox(self, path: &Path) {
        match self.host_ids() {
            Some(ids) => std::os::unix::fs::chown(path, Some(ids.uid), Some(ids.gid)).unwrap(),
            None => self.own(path),
        }
    }
}

/// The binary under test, at a path where all users may execute it.
pub(crate) struct Jail {
    dir: tempfile::TempDir,
}

impl Jail {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let all = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(dir.path(), all).unwrap();
        // Copied by another process: a file that this one had open for writing would be busy when a thread that forks
        // at that moment has inherited the descriptor.
        let mut copy = Command::new("install");
        copy.args(["-m", "755"]);
        copy.arg(env!("CARGO_BIN_EXE_himalia-jail")).arg(dir.path());
        assert!(copy.status().unwrap().success());
        Self { dir }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("himalia-jail")
    }

    /// Runs `exec`. The answer comes over its standard output, so plans give the program 2 as descriptor of output.
    pub(crate) fn exec(&self, caller: Caller, plan: &ExecPlan) -> Run {
        let mut command = caller.command(&self.path());
        command.args(["exec", "--report-fd", "1"]);
        Run::start(command, plan)
    }

    /// Runs a program to its end and returns what it printed.
    pub(crate) fn output(&self, caller: Caller, plan: &ExecPlan) -> String {
        let run = self.exec(caller, plan);
        run.answer.as_ref().unwrap();
        run.rest()
    }
}

/// A sandbox that was asked for.
pub(crate) struct Run {
    pub(crate) answer: Result<ExecReply, Failure>,
    output: std::process::ChildStderr,
}

impl Run {
    pub(crate) fn start(mut command: Command, plan: &ExecPlan) -> Self {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut jail = command.spawn().unwrap();
        let text = serde_json::to_vec(plan).unwrap();
        jail.stdin.take().unwrap().write_all(&text).unwrap();
        let mut line = String::new();
        let mut answer = jail.stdout.take().unwrap();
        answer.read_to_string(&mut line).unwrap();
        let good = jail.wait().unwrap().success();
        let answer = if good {
            Ok(serde_json::from_str(&line).unwrap())
        } else {
            Err(serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}")))
        };
        Self {
            answer,
            output: jail.stderr.take().unwrap(),
        }
    }

    /// Reads one byte of what the sandbox prints.
    pub(crate) fn byte(&mut self) -> u8 {
        let mut byte = [0];
        self.output.read_exact(&mut byte).unwrap();
        byte[0]
    }

    /// Reads until no process of the sandbox is left that could print.
    pub(crate) fn rest(mut self) -> String {
        let mut text = String::new();
        self.output.read_to_string(&mut text).unwrap();
        text
    }
}

/// A place with the host's programs and nothing else of it.
pub(crate) fn place(caller: Caller) -> Plan {
    let mut mounts = Vec::new();
    for path in ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc/ld.so.cache"] {
        let path = PathBuf::from(path);
        if let Ok(to) = std::fs::read_link(&path) {
            mounts.push(Mount::Symlink { target: path, to });
        } else if path.exists() {
            mounts.push(bind(&path, &path, true));
        }
    }
    mounts.extend(Device::ALL.map(|device| Mount::Device { device }));
    mounts.push(Mount::Pty);
    for (path, mode) in [("/tmp", 0o1777), ("/dev/shm", 0o1777), ("/session", 0o700)] {
        mounts.push(Mount::Tmpfs {
            target: path.into(),
            size_bytes: 8 << 20,
            mode,
        });
    }
    mounts.push(Mount::File {
        target: "/etc/passwd".into(),
        content: "kernel:x:1000:1000::/session:/bin/sh\n".to_owned(),
    });
    Plan {
        host_ids: caller.host_ids(),
        hostname: "kernel".to_owned(),
        mounts,
    }
}

pub(crate) fn bind(source: &Path, target: &Path, read_only: bool) -> Mount {
    Mount::Bind {
        source: source.to_owned(),
        target: target.to_owned(),
        read_only,
    }
}

/// A plan for a program whose output goes to descriptor 2.
pub(crate) fn plan(caller: Caller, argv: &[&str]) -> ExecPlan {
    ExecPlan {
        place: place(caller),
        cgroups: Vec::new(),
        rlimits: Vec::new(),
        program: Program {
            argv: argv.iter().map(ToString::to_string).collect(),
            env: [("LANG".to_owned(), "C.UTF-8".to_owned())].into(),
            cwd: "/session".into(),
            stdin: None,
            stdout: Some(2),
            stderr: Some(2),
            keep_fds: Vec::new(),
        },
    }
}

/// A plan for a Python program.
pub(crate) fn python(caller: Caller, code: &str) -> ExecPlan {
    plan(caller, &["/usr/bin/python3", "-I", "-c", code])
}

/// The program that prints what a process sees.
pub(crate) fn view_code() -> String {
    let numbers: serde_json::Map<String, Value> = REFUSED
        .iter()
        .map(|(name, errno)| {
            let number = name.parse::<syscalls::Sysno>().unwrap().id();
            ((*name).to_owned(), serde_json::json!([number, errno]))
        })
        .collect();
    VIEW.replace("REFUSED", &Value::from(numbers).to_string())
}

/// Calls that must fail, with the error.
const REFUSED: &[(&str, i32)] = &[
    ("add_key", libc::EPERM),
    ("bpf", libc::EPERM),
    ("chroot", libc::EPERM),
    ("clone3", libc::ENOSYS),
    ("delete_module", libc::EPERM),
    ("fsopen", libc::EPERM),
    ("fsmount", libc::EPERM),
    ("init_module", libc::EPERM),
    ("io_uring_setup", libc::ENOSYS),
    ("kexec_load", libc::EPERM),
    ("keyctl", libc::EPERM),
    ("mount", libc::EPERM),
    ("mount_setattr", libc::EPERM),
    ("move_mount", libc::EPERM),
    ("name_to_handle_at", libc::EPERM),
    ("open_by_handle_at", libc::EPERM),
    ("open_tree", libc::EPERM),
    ("perf_event_open", libc::EPERM),
    ("pidfd_getfd", libc::EPERM),
    ("pivot_root", libc::EPERM),
    ("process_vm_readv", libc::EPERM),
    ("process_vm_writev", libc::EPERM),
    ("ptrace", libc::EPERM),
    ("quotactl", libc::EPERM),
    ("reboot", libc::EPERM),
    ("request_key", libc::EPERM),
    ("sethostname", libc::EPERM),
    ("setns", libc::EPERM),
    ("swapon", libc::EPERM),
    ("syslog", libc::EPERM),
    ("umount2", libc::EPERM),
    ("unshare", libc::EPERM),
    ("userfaultfd", libc::EPERM),
];

/// Checks what the program of [`view_code`] printed.
pub(crate) fn assert_locked_in(caller: Caller, view: &Value) {
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(view["status"][set], "0000000000000000", "{caller:?} {set}");
    }
    assert_eq!(view["status"]["NoNewPrivs"], "1");
    assert_eq!(view["status"]["Seccomp"], "2");
    assert_eq!(view["status"]["Uid"], "1000\t1000\t1000\t1000");
    assert_eq!(view["status"]["Gid"], "1000\t1000\t1000\t1000");
    if caller == Caller::Root {
        assert_eq!(
            view["groups"],
            serde_json::json!([]),
            "an ordinary user cannot leave groups"
        );
    }
    assert_eq!(view["securebits"], 0xef);
    assert_eq!(view["umask"], 0o022);
    assert_eq!(view["hostname"], "kernel");
    assert_eq!(view["domainname"], "(none)");
    assert_eq!(view["interfaces"], serde_json::json!(["lo"]));
    assert_eq!(view["outside"], libc::ENETUNREACH);
    assert_eq!(view["loopback"], "hello");
    assert_eq!(
        view["writable"],
        serde_json::json!(["/dev/shm", "/session", "/tmp"])
    );
    assert_eq!(
        view["refused"],
        serde_json::json!({}),
        "calls with another outcome"
    );
    assert_eq!(view["clone_newuser"], libc::EPERM);
    assert_eq!(
        view["families"],
        serde_json::json!(["unix", "inet", "inet6", "netlink"])
    );
    // SOCK_STREAM is 1 and SOCK_DGRAM 2 on all architectures here.
    assert_eq!(
        view["sockets"],
        serde_json::json!([
            [2, 1, 0],
            [2, 1, 6],
            [2, 2, 0],
            [2, 2, 1],
            [2, 2, 17],
            [10, 1, 0],
            [10, 1, 6],
            [10, 2, 0],
            [10, 2, 17],
            [10, 2, 58]
        ])
    );
    assert_eq!(view["suid_mounts"], serde_json::json!([]));
    assert_eq!(view["readable_masks"], serde_json::json!([]));
    assert_eq!(view["sysctl_read_only"], true);
    assert_eq!(view["pty"], true);
    let root: Vec<&str> = view["root"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let expected = [
        "bin", "dev", "etc", "lib", "lib64", "proc", "sbin", "session", "tmp", "usr",
    ];
    for name in root {
        assert!(expected.contains(&name), "{name} is in the root");
    }
}
