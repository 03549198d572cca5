//! `himalia-jail resize`: file systems of a sandbox that lives get other sizes.

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use himalia_jail::{Failure, Resize, ResizeReply, Step, TmpfsSize};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Caller, Jail, plan};

/// Says that it is there, waits for a signal, fills the file systems and says how much they took.
const FILL: &str = "
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
os.write(2, b'.')
signal.sigwait([signal.SIGUSR1])
for path in ['/session', '/tmp']:
    written = 0
    try:
        with open(path + '/full', 'wb', buffering=0) as file:
            while True:
                written += file.write(bytes(1 << 20))
    except OSError as error:
        os.write(2, f'{path} {error.errno} {written >> 20}\\n'.encode())
";
/// Executes the program after the process id with a descriptor of that process as number 4.
const WITH_PROCESS: &str = "
import os, sys
os.dup2(os.pidfd_open(int(sys.argv[1])), 4)
os.execv(sys.argv[2], sys.argv[2:])";

fn resize(jail: &Jail, caller: Caller, pid: u32, sizes: &[(&str, u64)]) -> Result<ResizeReply, Failure> {
    let wanted = Resize {
        tmpfs: sizes
            .iter()
            .map(|(target, size)| TmpfsSize {
                target: target.into(),
                size_bytes: *size,
            })
            .collect(),
    };
    let mut command = caller.command(Path::new("/usr/bin/python3"));
    command.args(["-I", "-c", WITH_PROCESS, &pid.to_string()]);
    command.arg(jail.path()).args(["resize", "--report-fd", "1"]);
    let mut running = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let text = serde_json::to_vec(&wanted).unwrap();
    running.stdin.take().unwrap().write_all(&text).unwrap();
    let output = running.wait_with_output().unwrap();
    if output.status.success() {
        Ok(serde_json::from_slice(&output.stdout).unwrap())
    } else {
        Err(serde_json::from_slice(&output.stdout).unwrap())
    }
}

#[test]
fn file_systems_in_memory_grow_and_shrink() {
    let jail = Jail::new();
    for caller in Caller::all() {
        let mut run = jail.exec(*caller, &plan(*caller, &["/usr/bin/python3", "-I", "-c", FILL]));
        let pid = run.answer.as_ref().unwrap().pid;
        assert_eq!(run.byte(), b'.');
        let done = resize(&jail, *caller, pid, &[("/session", 12 << 20), ("/tmp", 3 << 20)]);
        assert_eq!(done, Ok(ResizeReply { resized: 2 }), "{caller:?}");
        kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::USR1).unwrap();
        // ENOSPC at the new sizes; both had 8 MiB.
        assert_eq!(run.rest(), "/session 28 12\n/tmp 28 3\n", "{caller:?}");
    }
}

#[test]
fn what_is_no_file_system_in_memory_or_holds_more_is_refused() {
    let jail = Jail::new();
    let code = "
import os, signal
with open('/session/file', 'wb') as file:
    file.write(bytes(4 << 20))
os.write(2, b'.')
signal.pause()";
    for caller in Caller::all() {
        let mut run = jail.exec(*caller, &plan(*caller, &["/usr/bin/python3", "-I", "-c", code]));
        let pid = run.answer.as_ref().unwrap().pid;
        assert_eq!(run.byte(), b'.');
        for target in ["/usr", "/session/file", "/none", "/session"] {
            let failure = resize(&jail, *caller, pid, &[(target, 1 << 20)]).unwrap_err();
            assert_eq!(failure.step, Step::Mounts, "{failure}");
            assert!(failure.error.starts_with(target), "{failure}");
        }
        for target in ["/", "/proc/self/root", "../tmp"] {
            let failure = resize(&jail, *caller, pid, &[(target, 1 << 20)]).unwrap_err();
            assert_eq!(failure.step, Step::Plan, "{failure}");
        }
        kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
        run.rest();
    }
}
