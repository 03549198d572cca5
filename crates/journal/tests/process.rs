//! What only a process of its own can show: `kill -9`, and a disk that is full. The test binary runs itself again with
//! `JOURNAL_TEST_DIR` set; without it the parts that do the work return at once.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends by panicking")]

mod common;

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use common::{assert_numbered, drain, numbered, open, small};
use rustix::process::{Resource, getrlimit, setrlimit};

fn job() -> Option<PathBuf> {
    std::env::var_os("JOURNAL_TEST_DIR").map(PathBuf::from)
}

/// The command that runs one test function of this binary in `sh`, after `setup`.
fn again(test: &str, dir: &std::path::Path, setup: &str) -> Command {
    let mut command = Command::new("sh");
    let script = format!("{setup} exec \"$0\" --exact {test} --nocapture --test-threads=1");
    command
        .arg("-c")
        .arg(script)
        .arg(std::env::current_exe().unwrap())
        .env("JOURNAL_TEST_DIR", dir);
    command
}

#[test]
fn writes_until_killed() {
    let Some(dir) = job() else { return };
    let (journal, _) = open(&dir, small());
    loop {
        let seq = journal.append(&numbered(journal.head() + 1, 100)).unwrap();
        journal.positions().set(seq % 3, seq).unwrap();
        println!("seq {seq}");
        if journal.roll_due() {
            journal.roll(b"state").unwrap();
        }
    }
}

#[test]
fn what_was_appended_survives_kill_9() {
    let dir = tempfile::tempdir().unwrap();
    for round in 1..=5 {
        let mut child = again("writes_until_killed", dir.path(), "")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap())
            .lines()
            .map(Result::unwrap);
        let enough = lines
            .by_ref()
            .filter(|line| line.starts_with("seq "))
            .nth(200 * round)
            .unwrap();
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        let last = lines
            .filter(|line| line.starts_with("seq "))
            .last()
            .unwrap_or(enough);
        let told: u64 = last.strip_prefix("seq ").unwrap().parse().unwrap_or(0);

        let (journal, _) = open(dir.path(), small());
        assert!(journal.head() >= told && told > 0, "{} of {told}", journal.head());
        let all = drain(&mut journal.cursor(0), 100, 100_000);
        assert_eq!(all.len() as u64, journal.head());
        for record in all {
            assert_numbered(&record.unwrap());
        }
        let best = (0..3)
            .filter_map(|owner| journal.positions().get(owner))
            .max()
            .unwrap();
        assert!(best + 1 >= told);
    }
}

#[test]
fn meets_a_full_disk() {
    let Some(dir) = job() else { return };
    let (journal, _) = open(&dir, small());
    let error = loop {
        let first = journal.head() + 1;
        let batch: Vec<_> = (first..first + 7).map(|seq| numbered(seq, 1_111)).collect();
        if let Err(error) = journal.append_batch(&batch) {
            break error;
        }
    };
    assert!(error.is_no_space(), "{error}");
    let head = journal.head();
    assert!(head > 0 && head % 7 == 0);
    assert!(
        journal.append_batch(&[numbered(head + 1, 9_000)]).is_err(),
        "still full"
    );
    assert_eq!(drain(&mut journal.cursor(0), 10, 10_000).len() as u64, head);

    let mut limit = getrlimit(Resource::Fsize);
    limit.current = limit.maximum;
    setrlimit(Resource::Fsize, limit).unwrap();
    assert_eq!(journal.append(&numbered(head + 1, 5_000)).unwrap(), head + 1);
    drop(journal);
    let (journal, recovery) = open(&dir, small());
    assert_eq!((journal.head(), recovery.torn_bytes), (head + 1, 0));
    println!("met it");
}

#[test]
fn a_full_disk_refuses_appends_and_later_ones_work() {
    let dir = tempfile::tempdir().unwrap();
    let output = again("meets_a_full_disk", dir.path(), "trap '' XFSZ; ulimit -S -f 64;")
        .stderr(Stdio::inherit())
        .output();
    let output = output.unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    assert!(String::from_utf8_lossy(&output.stdout).contains("met it"));
}
