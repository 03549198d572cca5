//! `himalia-jail exec`, seen from inside and from outside.

use std::path::Path;

use crate::support::{Caller, Jail, Run, assert_locked_in, bind, plan, python, view_code};
use himalia_jail::{Mount, Resource, Rlimit, Step};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

#[test]
fn inside_is_nothing_of_the_host_and_no_power() {
    let jail = Jail::new();
    for caller in Caller::all() {
        let text = jail.output(*caller, &python(*caller, &view_code()));
        let view: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert_locked_in(*caller, &view);
        assert_eq!(view["pid"], 1);
        assert_eq!(view["pids"], json!([1]));
        assert_eq!(view["cwd"], "/session");
        assert_eq!(view["fds"], json!([0, 1, 2]));
        assert_eq!(view["env"]["LANG"], "C.UTF-8");
        assert!(
            view["env"].get("PATH").is_none(),
            "the caller's environment stays outside"
        );
    }
}

#[test]
fn the_answer_names_the_first_process_as_the_caller_sees_it() {
    let jail = Jail::new();
    for caller in Caller::all() {
        let wait = python(*caller, "import os, signal; os.write(2, b'x'); signal.pause()");
        let mut run = jail.exec(*caller, &wait);
        let pid = run.answer.as_ref().unwrap().pid;
        assert_eq!(run.byte(), b'x');
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let in_namespaces = format!("NSpid:\t{pid}\t1\n");
        assert!(status.contains(&in_namespaces), "{status}");
        if let Some(ids) = caller.host_ids() {
            assert!(
                status.contains(&format!("Uid:\t{0}\t{0}\t{0}\t{0}\n", ids.uid)),
                "{status}"
            );
        }
        kill(pid);
        assert_eq!(run.rest(), "");
    }
}

fn kill(pid: u32) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
}

#[test]
fn the_end_of_the_first_process_is_the_end_of_all() {
    // The daemon left its parent, session and terminal, and ignores what can be ignored. It holds the pipe open.
    let code = "
import os, signal
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in range(1, 32):
            if number not in (signal.SIGKILL, signal.SIGSTOP): signal.signal(number, signal.SIG_IGN)
        os.write(2, b'd')
        while True: signal.pause()
    os._exit(0)
while True: signal.pause()
";
    let jail = Jail::new();
    for caller in Caller::all() {
        let mut run = jail.exec(*caller, &python(*caller, code));
        assert_eq!(run.byte(), b'd');
        kill(run.answer.as_ref().unwrap().pid);
        assert_eq!(run.rest(), "", "the pipe closes when the daemon is dead");
    }
}

#[test]
fn processes_are_limited_in_each_sandbox_by_itself() {
    let code = "
import os, signal
count = 0
while True:
    try:
        if os.fork() == 0:
            signal.pause()
    except BlockingIOError:
        break
    count += 1
os.write(2, str(count).encode() + b'.')
signal.pause()
";
    let jail = Jail::new();
    for caller in Caller::all() {
        let mut wanted = python(*caller, code);
        wanted.rlimits = vec![Rlimit {
            resource: Resource::Nproc,
            soft: Some(20),
            hard: Some(20),
        }];
        let mut runs = [jail.exec(*caller, &wanted), jail.exec(*caller, &wanted)];
        for run in &mut runs {
            let mut count = String::new();
            loop {
                match run.byte() {
                    b'.' => break,
                    digit => count.push(char::from(digit)),
                }
            }
            // Itself is one of the twenty, and the other sandbox' processes are none of them.
            assert_eq!(count, "19", "{caller:?}");
        }
        for run in runs {
            kill(run.answer.as_ref().unwrap().pid);
        }
    }
}

#[test]
fn what_lies_in_a_private_home_can_be_given() {
    let jail = Jail::new();
    for caller in Caller::all() {
        let home = caller.private_dir();
        let environment = home.path().join("environment");
        std::fs::create_dir(&environment).unwrap();
        std::fs::write(environment.join("file"), "inside").unwrap();
        let work = home.path().join("work");
        std::fs::create_dir(&work).unwrap();
        caller.give_to_sandbox(&work);
        std::os::unix::fs::symlink(&environment, home.path().join("link")).unwrap();

        let code = "
import os
os.write(2, open('/opt/environment/file').read().encode())
open('/work/made', 'w').write('here')
try: open('/opt/environment/other', 'w')
except OSError as error: os.write(2, b' ' + str(error.errno).encode())
";
        let mut wanted = python(*caller, code);
        // A link on the host is followed.
        let mounts = &mut wanted.place.mounts;
        mounts.push(bind(
            &home.path().join("link"),
            Path::new("/opt/environment"),
            true,
        ));
        mounts.push(bind(&work, Path::new("/work"), false));
        assert_eq!(
            jail.output(*caller, &wanted),
            format!("inside {}", libc::EROFS),
            "{caller:?}"
        );
        assert_eq!(std::fs::read_to_string(work.join("made")).unwrap(), "here");
    }
}

#[test]
fn descriptors_are_those_of_the_plan() {
    let jail = Jail::new();
    for caller in Caller::all() {
        let code = "
import os
os.write(2, os.read(0, 9) + os.read(5, 9) + str(sorted(os.listdir('/proc/self/fd'))).encode())
";
        let mut wanted = python(*caller, code);
        wanted.program.stdin = Some(6);
        wanted.program.keep_fds = vec![5];
        let mut command = caller.command(Path::new("/bin/sh"));
        let script = "printf kept >\"$1/5\"; printf in- >\"$1/6\"; exec \"$0\" exec --report-fd 1 5<\"$1/5\" 6<\"$1/6\" 7</";
        let files = caller.private_dir();
        command.args(["-c", script]).arg(jail.path()).arg(files.path());
        let run = Run::start(command, &wanted);
        run.answer.as_ref().unwrap();
        // 3 is the listing's own descriptor.
        assert_eq!(run.rest(), "in-kept['0', '1', '2', '3', '5']");
    }
}

#[test]
fn a_failure_names_the_step_and_the_thing_and_leaves_nothing() {
    let jail = Jail::new();
    for caller in Caller::all() {
        let good = || plan(*caller, &["/bin/sh", "-c", "echo no >&2"]);
        let fails = |wanted, step, what: &str| {
            let run = jail.exec(*caller, &wanted);
            let failure = run.answer.as_ref().unwrap_err();
            assert_eq!(failure.step, step, "{failure}");
            assert!(failure.error.contains(what), "{failure}");
            assert_eq!(run.rest(), "");
        };
        let mut wanted = good();
        let missing = Path::new("/no/such/source");
        wanted.place.mounts.push(bind(missing, Path::new("/x"), true));
        fails(wanted, Step::Mounts, "source /no/such/source: No such file");

        let mut wanted = good();
        wanted.place.mounts.push(Mount::Symlink {
            target: "/link".into(),
            to: "/session".into(),
        });
        wanted.place.mounts.push(Mount::Directory {
            target: "/link/below".into(),
        });
        fails(
            wanted,
            Step::Mounts,
            "target /link/below, at link: is a symbolic link",
        );

        let mut wanted = good();
        wanted.program.argv = vec!["/no/such/program".to_owned()];
        fails(wanted, Step::Exec, "/no/such/program");

        let mut wanted = good();
        wanted.program.cwd = "/no/such/directory".into();
        fails(wanted, Step::Cwd, "/no/such/directory");

        let mut wanted = good();
        wanted.cgroups = vec!["/no/such/cgroup.procs".into()];
        fails(wanted, Step::Cgroups, "/no/such/cgroup.procs");

        let mut wanted = good();
        wanted.program.keep_fds = vec![77];
        fails(wanted, Step::Descriptors, "keep_fds 77");

        let mut wanted = good();
        wanted.place.host_ids = if *caller == Caller::Root {
            None
        } else {
            Caller::Root.host_ids()
        };
        fails(wanted, Step::Plan, "host_ids");
    }
}

#[test]
fn a_tmpfs_is_as_large_as_the_plan_says() {
    let jail = Jail::new();
    for caller in Caller::all() {
        let code = "
import os
written = 0
try:
    with open('/tmp/fill', 'wb', buffering=0) as file:
        while True: written += file.write(bytes(65536))
except OSError as error:
    os.write(2, f'{error.errno} {written}'.encode())
";
        let expected = format!("{} {}", libc::ENOSPC, 8 << 20);
        assert_eq!(jail.output(*caller, &python(*caller, code)), expected);
    }
}

#[test]
fn a_probe_says_that_sandboxes_can_be_made_here() {
    let jail = Jail::new();
    for caller in Caller::all() {
        let mut command = caller.command(&jail.path());
        let output = command.arg("probe").output().unwrap();
        let report: himalia_jail::ProbeReport = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report.failure, None, "{:?}", report.hint);
        assert!(output.status.success());
    }
}
