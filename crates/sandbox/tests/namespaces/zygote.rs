//! Sandboxes that are forks of a zygote: a small one written here, with the real one's protocol.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use himalia_provisioner::{
    ExitCause, Limits, Provisioner as _, SandboxHandle, SandboxKey, SandboxSpec, ZygoteSpec,
};
use himalia_sandbox::NamespacesProvisioner;

use crate::fixture::{Fixture, QUIET, eventually, groups, lives, spec, start};

/// It enters the namespaces, becomes the sandbox's user and executes the program. It loads no filter and hides nothing.
const ZYGOTE: &str = r"
import ctypes, json, os, signal, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def must(result):
    if result:
        raise OSError(ctypes.get_errno(), 'call')
control = socket.socket(fileno=int(sys.argv[sys.argv.index('--control-fd') + 1]))
must(libc.prctl(36, 1, 0, 0, 0))
say = lambda **what: control.send(json.dumps(what).encode())
if os.environ.get('REFUSE'):
    say(ready=False, reason='refused by choice')
    sys.exit()
say(ready=True, python=os.environ['HIMALIA_PRELOAD'], preloaded=[], failed={}, pid=os.getpid(), threads=1)
def reap(*_):
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        say(op='exited', pid=pid, status=status)
signal.signal(signal.SIGCHLD, reap)
def enter(order, told):
    order = socket.socket(fileno=order)
    data, groups, _, _ = socket.recv_fds(order, 65536, 32)
    assert json.loads(data) == {'op': 'join'}
    for group in groups:
        os.write(group, b'0')
        os.close(group)
    data, fds, _, _ = socket.recv_fds(order, 65536, 32)
    request = json.loads(data)
    named = dict(zip(request['fds'], fds))
    for name in ['user', 'mnt', 'net', 'ipc', 'uts']:
        must(libc.setns(named[name], 0))
    must(libc.unshare(0x20000000))
    pid = os.fork()
    if pid:
        os.write(told, str(pid).encode())
        os._exit(0)
    os.close(told)
    os.setsid()
    must(libc.mount(b'proc', b'/proc', b'proc', 14, None))
    if request['setgroups']:
        os.setgroups([])
    os.setresgid(request['gid'], request['gid'], request['gid'])
    os.setresuid(request['uid'], request['uid'], request['uid'])
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number in (1, 2):
        os.dup2(named['log'], number)
    os.set_inheritable(named['key'], True)
    control.close()
    os.execve(request['argv'][0], request['argv'] + ['--key-fd', str(named['key']), '--zygote-fd', '0'], request['env'])
while True:
    data, fds, _, _ = socket.recv_fds(control, 65536, 32)
    if not data:
        break
    request = json.loads(data)
    if os.environ.get('DIE') == 'true':
        os._exit(1)
    if os.environ.get('DIE') == 'fail':
        say(op='failed', id=request['id'], step='setns', error='refused by choice')
        continue
    if os.environ.get('DIE') == 'mute':
        continue
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
            enter(*fds, writing)
        except BaseException as error:
            print(repr(error), flush=True)
        os._exit(1)
    os.close(writing)
    os.waitpid(child, 0)
    pid = int(os.read(reading, 99) or 0)
    for fd in [reading, *fds]:
        os.close(fd)
    say(op='spawned', id=request['id'], pid=pid, ms=1)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
    reap()
";

fn fixture(script: &str) -> Fixture {
    let fixture = Fixture::new(script);
    write_zygote(&fixture.config.kernel_package_dir);
    fixture
}

fn write_zygote(package_dir: &Path) {
    let package = package_dir.join("himalia_kernel");
    fs::create_dir(&package).unwrap();
    fs::write(package.join("__init__.py"), "").unwrap();
    fs::write(package.join("zygote.py"), ZYGOTE).unwrap();
}

fn with_zygote(variable: (&str, &str)) -> SandboxSpec {
    let mut wanted = spec();
    wanted.zygote = Some(ZygoteSpec {
        trust_domain: "gateway".to_owned(),
        python: "/usr/bin/python3".into(),
        env: [
            ("PATH".to_owned(), "/usr/bin".to_owned()),
            (variable.0.to_owned(), variable.1.to_owned()),
        ]
        .into(),
        preload: vec!["json".to_owned(), "math".to_owned()],
    });
    wanted
}

async fn warm(provisioner: &NamespacesProvisioner, wanted: &SandboxSpec) {
    provisioner.warm(wanted.zygote.as_ref().unwrap()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_is_a_sandbox_like_any_other() {
    let fixture = fixture(&format!(
        "echo \"$@\"; cat /proc/sys/kernel/hostname; id -u; {QUIET}"
    ));
    let provisioner = fixture.provisioner();
    let mut wanted = with_zygote(("A", "B"));
    wanted.limits = Limits {
        pids: Some(30),
        memory_bytes: Some(128 << 20),
        ..Limits::default()
    };
    // The first one does not wait for the zygote.
    let cold = start(&provisioner, wanted.clone()).await;
    assert!(!cold.zygote);
    warm(&provisioner, &wanted).await;
    let handle = start(&provisioner, wanted.clone()).await;
    assert!(
        handle.zygote,
        "{}",
        fs::read_to_string(fixture.config.run_dir.join("zygotes.log")).unwrap()
    );
    fixture.printed(&handle, "ready").await;
    let log = fixture.log(&handle);
    assert!(
        log.contains("--zygote-fd") && log.contains("\nkernel\n1000\n"),
        "{log}"
    );
    let pid = provisioner.inspect(handle.id).await.unwrap().pid.unwrap();
    let groups = groups(pid);
    assert_eq!(
        groups.is_empty(),
        fixture.config.cgroups == himalia_sandbox::CgroupRoot::default()
    );
    assert!(provisioner.adopt(handle.id).await.unwrap().zygote);
    let exit = provisioner.stop(handle.id, Duration::from_mins(1)).await.unwrap();
    // Only the zygote can know.
    assert_eq!(exit.cause, ExitCause::Exited(0));
    assert!(groups.iter().all(|group| !group.exists()));

    // Without the zygote sandboxes live on.
    let handle = start(&provisioner, wanted).await;
    assert!(handle.zygote);
    fixture.printed(&handle, "ready").await;
    let pid = provisioner.inspect(handle.id).await.unwrap().pid.unwrap();
    provisioner.end_zygotes();
    let begin = Instant::now();
    eventually("another parent", || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let parent = stat
            .rsplit_once(')')
            .unwrap()
            .1
            .split_ascii_whitespace()
            .nth(1)
            .unwrap()
            .to_owned();
        let name = fs::read_to_string(format!("/proc/{parent}/comm")).unwrap_or_default();
        (!name.contains("python")).then_some(())
    })
    .await;
    assert!(lives(pid) && begin.elapsed() < Duration::from_mins(1));
    let exit = provisioner.stop(handle.id, Duration::from_mins(1)).await.unwrap();
    assert_eq!(exit.cause, ExitCause::Exited(0));
    provisioner.stop(cold.id, Duration::ZERO).await.unwrap();
    provisioner.close().await;
    assert!(fixture.left().is_empty(), "{:?}", fixture.left());
}

/// Prints the key, and waits for `TERM`.
const TELLS_ITS_KEY: &str = r"
import os, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit())
key = int(sys.argv[sys.argv.index('--key-fd') + 1])
text = b''
while part := os.read(key, 999):
    text += part
if not text:
    sys.exit('no connection')
print(text.decode())
print('ready')
while True:
    signal.pause()
";

/// Ids of the sandboxes with a first process that are written down, and that process.
fn noted(fixture: &Fixture) -> Vec<(String, u32)> {
    let records = fixture.left().into_iter().filter_map(|name| {
        let text = fs::read_to_string(fixture.config.run_dir.join(&name)).ok()?;
        let record: serde_json::Value = serde_json::from_str(&text).ok()?;
        let pid = record["shim"]["pid"].as_u64()?;
        Some((name.strip_suffix(".json")?.to_owned(), u32::try_from(pid).ok()?))
    });
    records.collect()
}

/// Waits for the standby sandbox, which is not in `known`. Its record is written a moment before a start can take it.
async fn standby(fixture: &Fixture, known: &[&SandboxHandle]) -> (String, u32) {
    eventually("a standby sandbox", || {
        let mut others = noted(fixture);
        others.retain(|(id, _)| known.iter().all(|handle| handle.id.to_string() != *id));
        others.pop()
    })
    .await
}

/// Starts sandboxes until one is the standby sandbox `id`, and returns it. Starts before it was ready got other
/// sandboxes, which end at once.
async fn take(provisioner: &NamespacesProvisioner, wanted: &SandboxSpec, id: &str) -> SandboxHandle {
    for _ in 0..100 {
        let handle = start(provisioner, wanted.clone()).await;
        assert!(handle.zygote);
        if handle.id.to_string() == id {
            return handle;
        }
        provisioner.stop(handle.id, Duration::from_mins(1)).await.unwrap();
    }
    panic!("no start took {id}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_start_takes_a_standby_sandbox() {
    let fixture = Fixture::new("exec /usr/bin/python3 -u /himalia/kernel/main.py \"$@\"");
    write_zygote(&fixture.config.kernel_package_dir);
    fs::write(fixture.config.kernel_package_dir.join("main.py"), TELLS_ITS_KEY).unwrap();
    let provisioner = fixture.provisioner();
    let mut wanted = with_zygote(("A", "B"));
    wanted.limits.pids = Some(30);
    warm(&provisioner, &wanted).await;
    let first = start(&provisioner, wanted.clone()).await;
    fixture.printed(&first, wanted.key.expose()).await;

    // It has no owner, and is complete.
    let (id, pid) = standby(&fixture, &[&first]).await;
    assert_eq!(provisioner.list().await.unwrap().len(), 1);
    let before = groups(pid);
    wanted.key = SandboxKey::generate().unwrap();
    wanted.labels = [("whose".to_owned(), "mine".to_owned())].into();
    let second = take(&provisioner, &wanted, &id).await;
    fixture.printed(&second, wanted.key.expose()).await;
    let info = provisioner.inspect(second.id).await.unwrap();
    assert_eq!((info.pid, info.labels), (Some(pid), wanted.labels.clone()));
    assert_eq!(groups(pid), before);
    for group in before {
        assert_eq!(fs::read_to_string(group.join("pids.max")).unwrap(), "30\n");
    }

    // Who wants something else does not get it.
    let (id, pid) = standby(&fixture, &[&first, &second]).await;
    let mut other = wanted.clone();
    other.limits.pids = Some(40);
    let third = start(&provisioner, other).await;
    assert_ne!(third.id.to_string(), id);

    // One that has died is not given out.
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
    eventually("its end", || (!lives(pid)).then_some(())).await;
    wanted.key = SandboxKey::generate().unwrap();
    let fourth = start(&provisioner, wanted.clone()).await;
    assert!(fourth.zygote && fourth.id.to_string() != id);
    fixture.printed(&fourth, wanted.key.expose()).await;

    for handle in [first, second, third, fourth] {
        let exit = provisioner.stop(handle.id, Duration::from_mins(1)).await.unwrap();
        assert_eq!(exit.cause, ExitCause::Exited(0));
    }
    // A standby sandbox ends with the provisioner, ready or not.
    provisioner.close().await;
    assert!(fixture.left().is_empty(), "{:?}", fixture.left());
}

#[tokio::test(flavor = "multi_thread")]
async fn where_the_zygote_fails_the_start_is_cold() {
    let fixture = fixture(QUIET);
    let provisioner = fixture.provisioner();
    for how in ["fail", "true"] {
        let wanted = with_zygote(("DIE", how));
        warm(&provisioner, &wanted).await;
        let handle = start(&provisioner, wanted.clone()).await;
        assert!(!handle.zygote);
        fixture.printed(&handle, "ready").await;
        provisioner.stop(handle.id, Duration::ZERO).await.unwrap();
        // A zygote that refuses one sandbox continues; one that died starts again.
        eventually("the next zygote", || {
            let zygote = wanted.zygote.clone().unwrap();
            let warm = provisioner.clone();
            let ready = tokio::task::block_in_place(|| {
                tokio::runtime::Handle::current().block_on(async move { warm.warm(&zygote).await.is_ok() })
            });
            ready.then_some(())
        })
        .await;
    }
    assert!(fixture.left().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_does_not_answer_is_given_up() {
    let fixture = fixture(QUIET);
    let provisioner = fixture.provisioner();
    let wanted = with_zygote(("DIE", "mute"));
    warm(&provisioner, &wanted).await;
    let handle = start(&provisioner, wanted).await;
    assert!(!handle.zygote);
    provisioner.stop(handle.id, Duration::ZERO).await.unwrap();
    assert!(fixture.left().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_refuses_says_why() {
    let fixture = fixture(QUIET);
    let provisioner = fixture.provisioner();
    let wanted = with_zygote(("REFUSE", "yes"));
    let error = provisioner
        .warm(wanted.zygote.as_ref().unwrap())
        .await
        .unwrap_err();
    assert!(error.to_string().contains("refused by choice"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_others_can_replace_becomes_no_zygote() {
    use std::os::unix::fs::PermissionsExt as _;

    let fixture = fixture(QUIET);
    let provisioner = fixture.provisioner();
    // As a session with kept files, or another user, could write it.
    for (dir, mode) in [("data/files/a", 0o755), ("open", 0o777)] {
        let dir = fixture.path().join(dir);
        let ran = fixture.path().join("ran");
        fs::create_dir_all(&dir).unwrap();
        let program = dir.join("python3");
        fs::write(&program, format!("#!/bin/sh\ntouch {}\n", ran.display())).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(mode)).unwrap();
        let mut wanted = with_zygote(("A", "B"));
        let zygote = wanted.zygote.as_mut().unwrap();
        zygote.python.clone_from(&program);
        let refused = provisioner.warm(zygote).await.unwrap_err().to_string();
        let why = if mode == 0o777 {
            "can be written by others"
        } else {
            "where sandboxes have files"
        };
        assert!(refused.contains(why), "{refused}");
        assert!(!ran.exists());
        // It costs the quick start alone.
        let handle = start(&provisioner, wanted).await;
        assert!(!handle.zygote && !ran.exists());
        provisioner.stop(handle.id, Duration::ZERO).await.unwrap();
    }
}
