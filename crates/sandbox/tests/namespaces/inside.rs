//! What code in a sandbox can see and do.

use std::time::Duration;

use himalia_provisioner::{Isolation, Provisioner as _};
use himalia_sandbox::DEFAULT_HOST_UIDS;

use crate::fixture::{Fixture, is_root, spec, start};

const PROBE: &str = r"
import ctypes, errno, json, os, signal, socket, sys
def attempt(what):
    try:
        return repr(what())
    except OSError as error:
        return errno.errorcode[error.errno]
def status(name):
    return next(line.split(':')[1].strip() for line in open('/proc/self/status') if line.startswith(name + ':'))
key = int(sys.argv[sys.argv.index('--key-fd') + 1])
told = {
    'pid': os.getpid(), 'ids': [*os.getresuid(), *os.getresgid()], 'cwd': os.getcwd(), 'host': socket.gethostname(),
    'key': os.read(key, 999).decode(), 'key_end': os.read(key, 9).decode(), 'argv': sys.argv[1:],
    'env': sorted(os.environ), 'caps': [status('CapEff'), status('CapBnd'), status('CapInh')],
    'privileges': [status('NoNewPrivs'), status('Seccomp')],
    'root': sorted(os.listdir('/')), 'processes': sorted(int(n) for n in os.listdir('/proc') if n.isdigit()),
    'devices': sorted(line.split(':')[0].strip() for line in open('/proc/net/dev') if ':' in line),
    'fds': sorted(int(n) for n in os.listdir('/proc/self/fd'))[:-1],
    'write': {path: attempt(lambda: open(path + '/x', 'w').close()) for path in
        ['', '/usr', '/etc', '/himalia/gw', '/himalia/kernel', '/himalia/run', '/session', '/tmp', '/dev/shm', '/dev', '/proc/sys']},
    'gateway': attempt(lambda: os.listdir('/himalia/gw')),
    'etc': attempt(lambda: open('/etc/shadow')), 'me': __import__('pwd').getpwuid(os.getuid()).pw_dir,
    'reach': attempt(lambda: socket.create_connection(('127.0.0.1', PORT), 2)),
    'out': attempt(lambda: socket.create_connection(('169.254.169.254', 80), 2)),
    'loopback': attempt(lambda: socket.create_server(('127.0.0.1', 0)).close()),
}
libc = ctypes.CDLL(None, use_errno=True)
def call(function, *arguments):
    return 'ok' if function(*arguments) == 0 else errno.errorcode[ctypes.get_errno()]
told['mount'] = call(libc.mount, b'none', b'/tmp', b'tmpfs', 0, None)
told['unshare'] = call(libc.unshare, 0x10000000)
print(json.dumps(told))
signal.sigwait([signal.SIGTERM])
";

#[tokio::test]
async fn it_is_what_was_promised() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let fixture = Fixture::python(&PROBE.replace("PORT", &port.to_string()));
    let provisioner = fixture.provisioner();
    let mut wanted = spec();
    wanted.orphan_ttl = Some(Duration::from_mins(10));
    let key = wanted.key.expose().to_owned();
    let handle = start(&provisioner, wanted).await;
    assert_eq!(handle.isolation, Isolation::Namespaces);
    let told = crate::fixture::eventually("the report", || {
        let log = fixture.log(&handle);
        if let Some(exit) = handle.exit.borrow().as_ref() {
            panic!("it has ended: {exit:?}");
        }
        log.lines()
            .find_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
    })
    .await;
    let is = |name: &str, value: serde_json::Value| assert_eq!(told[name], value, "{name}: {told:#}");
    is("pid", 1.into());
    is("ids", vec![1000; 6].into());
    is("cwd", "/session".into());
    is("host", "kernel".into());
    is("key", key.into());
    is("key_end", "".into());
    is("me", "/session".into());
    is("processes", vec![1].into());
    is("devices", vec!["lo"].into());
    is("caps", vec!["0000000000000000"; 3].into());
    is("privileges", vec!["1", "2"].into());
    is("mount", "EPERM".into());
    is("unshare", "EPERM".into());
    is("etc", "ENOENT".into());
    is("reach", "ECONNREFUSED".into());
    is("out", "ENETUNREACH".into());
    is("loopback", "None".into());
    // Mode 0711: who is not the gateway's user can pass but not look. No key file in any case.
    is("gateway", if is_root() { "EACCES" } else { "[]" }.into());
    let names: Vec<&str> = told["env"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|name| name.as_str())
        .collect();
    for name in &names {
        // The shell and Python add some of their own.
        assert!(
            [
                "PATH",
                "LANG",
                "HIMALIA_SANDBOX_MARK",
                "PWD",
                "OLDPWD",
                "SHLVL",
                "_",
                "LC_CTYPE"
            ]
            .contains(name),
            "{names:?}"
        );
    }
    for (path, outcome) in [
        ("", "EROFS"),
        ("/usr", "EROFS"),
        ("/etc", "EROFS"),
        ("/dev", "EROFS"),
        ("/himalia/gw", "EROFS"),
        ("/himalia/kernel", "EROFS"),
        ("/himalia/run", "None"),
        ("/session", "None"),
        ("/tmp", "None"),
        ("/dev/shm", "None"),
    ] {
        assert_eq!(told["write"][path], outcome, "{path}: {told:#}");
    }
    assert_ne!(told["write"]["/proc/sys"], "None");
    let argv: Vec<&str> = told["argv"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|word| word.as_str())
        .collect();
    assert_eq!(
        argv[..8],
        [
            "--gateway-dir",
            "/himalia/gw",
            "--runtime-dir",
            "/himalia/run",
            "--spill-dir",
            "/session",
            "--orphan-ttl",
            "600"
        ]
    );
    if is_root() {
        let pid = provisioner.inspect(handle.id).await.unwrap().pid.unwrap();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let uid: u32 = status
            .lines()
            .find_map(|line| {
                line.strip_prefix("Uid:")?
                    .split_ascii_whitespace()
                    .next()?
                    .parse()
                    .ok()
            })
            .unwrap();
        assert!(DEFAULT_HOST_UIDS.contains(&uid), "{uid}");
    }
    provisioner.stop(handle.id, Duration::ZERO).await.unwrap();
}
