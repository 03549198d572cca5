//! Code to run, kernels to start, processes to look at.

use std::collections::BTreeMap;
use std::path::Path;

use himalia_shim_protocol::KernelSpec;
use himalia_testkit::binaries;
use himalia_wire::{Parts, build};
use serde_json::json;

use super::PATIENCE;

pub fn execute(code: &str) -> Parts {
    let content = json!({"code": code, "silent": false, "store_history": true, "user_expressions": {},
        "allow_stdin": true, "stop_on_error": true});
    build::message("test", "execute_request", None, &content)
}

pub fn fake_spec(arguments: &[&str]) -> KernelSpec {
    let mut argv = vec![binaries::fake_kernel().unwrap().to_str().unwrap().to_owned()];
    argv.extend(["-f".to_owned(), "{connection_file}".to_owned()]);
    argv.extend(arguments.iter().map(|argument| (*argument).to_owned()));
    spec(argv)
}

pub fn spec(argv: Vec<String>) -> KernelSpec {
    KernelSpec {
        argv,
        env: BTreeMap::from([("MARK".to_owned(), "1".to_owned())]),
        cwd: "/".to_owned(),
        interrupt_mode: himalia_shim_protocol::InterruptMode::Signal,
        kernel_name: "fake".to_owned(),
        limits: himalia_shim_protocol::ResourceLimits::default(),
        connect_ms: 30_000,
        via_zygote: false,
    }
}

pub async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.expect("in time")
}

pub fn hostile_spec() -> KernelSpec {
    let program = binaries::hostile_kernel().unwrap().to_str().unwrap().to_owned();
    spec(vec![program, "-f".to_owned(), "{connection_file}".to_owned()])
}

/// Is there such a process, not counting zombies?
pub fn lives(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| {
        !matches!(
            stat.rsplit(") ").next().and_then(|rest| rest.chars().next()),
            Some('Z' | 'X')
        )
    })
}

/// Resident memory of a process, bytes.
pub fn resident(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap_or("0");
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
}

pub fn exists(path: &Path) -> bool {
    path.exists()
}
