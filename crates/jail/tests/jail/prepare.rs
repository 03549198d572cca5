//! `himalia-jail prepare`: what it returns makes the same sandbox as `exec`, by the documented steps.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use crate::support::{Caller, Jail, assert_locked_in, bind, place, view_code};
use himalia_jail::{Failure, Plan, Step};
use serde_json::{Value, json};

/// Runs a Python program in a prepared sandbox. What it prints to descriptor 2, and whether it ended well.
fn enter(jail: &Jail, caller: Caller, plan: &Plan, code: &str) -> (bool, String) {
    let mut python = caller.command(Path::new("/usr/bin/python3"));
    python.args(["-I", "-c", include_str!("enter.py")]);
    python.arg(jail.path()).arg(code);
    python.stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut running = python.spawn().unwrap();
    let text = serde_json::to_vec(plan).unwrap();
    running.stdin.take().unwrap().write_all(&text).unwrap();
    let output = running.wait_with_output().unwrap();
    (output.status.success(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_process_that_enters_is_locked_in_as_by_exec() {
    let jail = Jail::new();
    for caller in Caller::all() {
        let (good, text) = enter(&jail, *caller, &place(*caller), &view_code());
        assert!(good, "{text}");
        let view: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert_locked_in(*caller, &view);
        assert_eq!(view["pids"], json!([1]));
    }
}

#[test]
fn a_failure_comes_in_place_of_the_namespaces() {
    let jail = Jail::new();
    for caller in Caller::all() {
        let mut plan = place(*caller);
        plan.mounts
            .push(bind(Path::new("/no/such/source"), Path::new("/x"), true));
        let (good, text) = enter(&jail, *caller, &plan, "");
        assert!(!good);
        let failure: Failure =
            serde_json::from_str(text.trim()).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert_eq!(failure.step, Step::Mounts);
        assert!(failure.error.contains("/no/such/source"), "{failure}");
    }
}
