//! The command line from outside: help, refusals, exit codes. Nothing here starts a gateway.

#![allow(clippy::unwrap_used, reason = "a test ends by panicking")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Runs `himalia` with no environment but a home directory.
fn himalia(args: &[&str], variables: &[(&str, &str)]) -> Output {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_himalia"));
    command
        .args(args)
        .env_clear()
        .env("HOME", home.path())
        .env("PATH", "/usr/bin:/bin")
        .stdin(Stdio::null());
    command.envs(variables.iter().copied()).output().unwrap()
}

/// What it says on standard error when it refuses with this exit code.
fn refused(code: i32, args: &[&str], variables: &[(&str, &str)]) -> String {
    let output = himalia(args, variables);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
    assert!(output.stdout.is_empty());
    said
}

/// In place of a gateway: answers one request, and is gone then. Its URL, and the first line of the request.
fn answering(body: &'static str) -> (String, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let served = thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        drop(listener);
        let mut request = Vec::new();
        let mut byte = [0];
        while !request.ends_with(b"\r\n\r\n") {
            socket.read_exact(&mut byte).unwrap();
            request.push(byte[0]);
        }
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close";
        let reply = format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        socket.write_all(reply.as_bytes()).unwrap();
        let text = String::from_utf8(request).unwrap();
        text.lines().next().unwrap().to_owned()
    });
    (url, served)
}

#[test]
fn exec_says_that_there_is_no_session_before_it_waits_for_code() {
    let (url, served) = answering(r#"{"sessions": []}"#);
    let mut child = Command::new(env!("CARGO_BIN_EXE_himalia"))
        .args(["exec", "absent", "--no-create", "--url", &url])
        .env_clear()
        .env("HIMALIA_TOKEN", "canary")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // No input is typed, and the end of the code does not come either.
    let keyboard = child.stdin.take();
    let (send, ended) = mpsc::channel();
    thread::spawn(move || send.send(child.wait_with_output().unwrap()));
    let output = ended.recv_timeout(Duration::from_mins(1));
    drop(keyboard);
    let output = output.unwrap_or_else(|_| panic!("waits for code of a session that does not exist"));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("no session has this id") && said.contains("absent"),
        "{said}"
    );
    assert!(served.join().unwrap().starts_with("GET /v1/sessions "));
}

#[test]
fn a_list_of_sessions_is_one_request() {
    let (url, served) = answering(
        r#"{"sessions": [{"id": "11111111-2222-4333-8444-555555555555", "state": "idle", "memory_used_bytes": 35651584}]}"#,
    );
    let output = himalia(&["session", "ls", "--url", &url], &[("HIMALIA_TOKEN", "canary")]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains(" 34 MiB "), "{text}");
    assert!(served.join().unwrap().starts_with("GET /v1/sessions "));
}

#[test]
fn help_tells_a_newcomer_what_to_do() {
    let output = himalia(&["--help"], &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    for word in [
        "himalia up",
        "serve",
        "doctor",
        "env",
        "session",
        "Examples:",
        "JupyterLab",
        "--config",
    ] {
        assert!(text.contains(word), "{word} is not in\n{text}");
    }
    let text = String::from_utf8(himalia(&["serve", "--help"], &[]).stdout).unwrap();
    for word in [
        "--listen",
        "[env: HIMALIA_LISTEN=]",
        "127.0.0.1:8888",
        "--on-sigterm",
        "keep",
        "Examples:",
    ] {
        assert!(text.contains(word), "{word} is not in\n{text}");
    }
}

#[test]
fn help_shows_no_token() {
    let output = himalia(&["serve", "--help"], &[("HIMALIA_TOKEN", "canary-canary")]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("HIMALIA_TOKEN") && !text.contains("canary"));
}

#[test]
fn every_setting_is_a_flag_and_a_variable() {
    let text = String::from_utf8(himalia(&["serve", "--help"], &[]).stdout).unwrap();
    let is_flag = |line: &&str| line.trim_start().starts_with("--") && line.contains('<');
    let flags = text.lines().filter(is_flag).count();
    assert!(flags >= 20, "{flags} in\n{text}");
    assert_eq!(text.matches("[env: HIMALIA_").count(), flags, "{text}");
}

#[test]
fn beyond_loopback_it_refuses_to_start_without_a_token() {
    let said = refused(2, &["serve", "--listen", "0.0.0.0:0"], &[]);
    assert!(
        said.starts_with("himalia: listen: ") && said.contains("--token-file"),
        "{said}"
    );
    let said = refused(2, &["serve"], &[("HIMALIA_LISTEN", "192.0.2.1:1")]);
    assert!(said.starts_with("himalia: listen: "), "{said}");
}

#[test]
fn it_refuses_to_start_in_a_directory_that_others_write_to() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let data = dir.path().to_str().unwrap();
    // An address of which no machine has anything: nothing is listened on, whatever becomes of the directory.
    let args = ["serve", "--data-dir", data, "--listen", "192.0.2.1:1"];
    let said = refused(1, &args, &[("HIMALIA_TOKEN", "the-token-of-a-test-0123456789")]);
    assert!(
        said.starts_with("himalia: data_dir: other users may write to"),
        "{said}"
    );
}

#[test]
fn a_wrong_file_is_refused_with_key_and_line() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("himalia.toml");
    let path = file.to_str().unwrap();
    for (text, wanted) in [
        (
            "max_kernels = 3\nlisen = \"x\"",
            "himalia.toml:2: unknown field `lisen`",
        ),
        ("max_kernels = \"three\"", "himalia.toml:1: max_kernels: "),
        ("on_sigterm = \"kill\"", "himalia.toml:1: on_sigterm: "),
        ("listen = ", "himalia.toml:1: "),
        ("listen = \"nowhere\"", "himalia: listen: \"nowhere\""),
        ("base_url = \"/A\"", "himalia: base_url: "),
        (
            "[templates.x]\nmemry = \"1GiB\"",
            "himalia.toml:2: unknown field `memry`",
        ),
        (
            "[templates.x]\nmemory = \"1GB\"",
            "himalia.toml:2: memory: must be a size",
        ),
        ("[templates.x]\nimage = \"other\"", "himalia: templates.x.image: "),
    ] {
        fs::write(&file, text).unwrap();
        let said = refused(2, &["serve", "--config", path], &[]);
        assert!(said.contains(wanted), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    let said = refused(2, &["serve", "--config", "/nonexistent.toml"], &[]);
    assert!(said.contains("config: cannot read /nonexistent.toml"), "{said}");
}

#[test]
fn flags_win_over_variables_and_variables_over_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("himalia.toml");
    fs::write(&file, "max_kernels = 20000\nbase_url = \"/A\"").unwrap();
    let config = ("HIMALIA_CONFIG", file.to_str().unwrap());
    // The first complaint shows which layer's wrong value counts.
    assert!(refused(2, &["serve"], &[config]).contains("max_kernels"));
    assert!(refused(2, &["serve"], &[config, ("HIMALIA_MAX_KERNELS", "5")]).contains("base_url"));
    let said = refused(
        2,
        &["serve", "--max-kernels", "0"],
        &[config, ("HIMALIA_MAX_KERNELS", "5")],
    );
    assert!(said.contains("max_kernels"));
}

#[test]
fn bad_flags_and_variables_are_named() {
    assert!(refused(2, &["serve", "--cull-interval", "soon"], &[]).contains("--cull-interval"));
    assert!(refused(2, &["serve"], &[("HIMALIA_ON_SIGTERM", "explode")]).contains("--on-sigterm"));
    assert!(refused(2, &["serve", "--no-such-flag"], &[]).contains("--no-such-flag"));
    assert!(refused(2, &["frobnicate"], &[]).contains("frobnicate"));
    assert!(refused(2, &["serve", "--token", "a", "--token-file", "b"], &[]).contains("not both"));
}

#[test]
fn a_missing_shim_or_a_long_run_directory_is_said_before_anything_starts() {
    let data = tempfile::tempdir().unwrap();
    let run = tempfile::Builder::new().prefix("h").tempdir_in("/tmp").unwrap();
    let run = run.path().join("run");
    let (data, run) = (data.path().to_str().unwrap(), run.to_str().unwrap());
    let base = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        data,
        "--run-dir",
    ];
    let said = refused(
        1,
        &[&base[..], &[run, "--shim", "/nonexistent/shim"]].concat(),
        &[],
    );
    assert!(
        said.contains("shim: /nonexistent/shim is not an executable file"),
        "{said}"
    );
    let long = format!("/tmp/{}", "x".repeat(80));
    let said = refused(1, &[&base[..], &[&long]].concat(), &[]);
    assert!(said.contains("run_dir: ") && said.contains("--run-dir"), "{said}");
}

#[test]
fn env_path_names_a_directory_for_this_lock_file() {
    let output = himalia(&["env", "path", "--env-dir", "/envs"], &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    let name = text.trim().strip_prefix("/envs/").unwrap();
    assert!(output.status.success() && name.len() == 16 && name.bytes().all(|byte| byte.is_ascii_hexdigit()));
}

#[test]
fn no_isolation_is_for_loopback_only() {
    let open = ["serve", "--listen", "0.0.0.0:0", "--token", "x"];
    let said = refused(2, &[&open[..], &["--isolation", "none"]].concat(), &[]);
    assert!(
        said.starts_with("himalia: isolation: none is for loopback"),
        "{said}"
    );
    let said = refused(2, &["serve", "--isolation", "strong"], &[]);
    assert!(
        said.contains("--isolation") && said.contains("namespaces"),
        "{said}"
    );
    let said = refused(2, &["serve", "--docker-host", "tcp://h:1"], &[]);
    assert!(said.contains("--docker-host"), "{said}");
}

#[test]
fn a_token_that_can_be_guessed_is_for_loopback_only() {
    let data = tempfile::tempdir().unwrap();
    let run = tempfile::Builder::new().prefix("h").tempdir_in("/tmp").unwrap();
    let (data, run) = (data.path().to_str().unwrap(), run.path().join("r"));
    let run = run.to_str().unwrap();
    let file = std::path::Path::new(data).join("token");
    std::fs::write(&file, "aaaaaaaaaaaaaaaaaaaaaaaa\n").unwrap();
    let file = file.to_str().unwrap();
    for token in [["--token", "short-canary"], ["--token-file", file]] {
        let args = [
            "serve",
            "--listen",
            "0.0.0.0:0",
            "--data-dir",
            data,
            "--run-dir",
            run,
        ];
        let said = refused(1, &[&args[..], &token].concat(), &[]);
        assert!(
            said.contains("token: 0.0.0.0:0 can be reached from other machines"),
            "{said}"
        );
        assert!(
            said.contains("16 characters") && !said.contains("canary"),
            "{said}"
        );
    }
}

#[test]
fn a_jail_that_is_named_must_be_there() {
    let data = tempfile::tempdir().unwrap();
    let run = tempfile::Builder::new().prefix("h").tempdir_in("/tmp").unwrap();
    let (data, run) = (data.path().to_str().unwrap(), run.path().join("r"));
    let args = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        data,
        "--run-dir",
        run.to_str().unwrap(),
    ];
    let said = refused(1, &[&args[..], &["--jail", "/nonexistent/jail"]].concat(), &[]);
    assert!(
        said.contains("jail: /nonexistent/jail is not an executable file"),
        "{said}"
    );
}

#[test]
fn sessions_need_a_gateway_and_a_token() {
    let said = refused(1, &["session", "ls"], &[]);
    assert!(said.contains("no gateway has said its address"), "{said}");
    let said = refused(1, &["session", "ls", "--url", "http://127.0.0.1:1/"], &[]);
    assert!(said.contains("a token is needed"), "{said}");
    let token = ("HIMALIA_TOKEN", "canary");
    let said = refused(1, &["session", "ls", "--url", "http://127.0.0.1:1/"], &[token]);
    assert!(
        said.contains("cannot connect to 127.0.0.1:1") && !said.contains("canary"),
        "{said}"
    );
    let said = refused(1, &["session", "ls", "--url", "ftp://127.0.0.1:1/"], &[token]);
    assert!(said.contains("does not begin with http:// or https://"), "{said}");
    let said = refused(
        1,
        &["session", "rm", "../x", "--url", "http://127.0.0.1:1/"],
        &[token],
    );
    assert!(said.contains("is not a session's id"), "{said}");
}

#[test]
fn doctor_tells_programs_what_it_tells_people() {
    let output = himalia(&["doctor", "--json"], &[]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["ok"], output.status.success());
    let findings = report["findings"].as_array().unwrap();
    for topic in [
        "isolation",
        "namespaces",
        "seccomp",
        "cgroups",
        "Docker",
        "himalia-shim",
    ] {
        assert!(
            findings.iter().any(|one| one["topic"] == topic),
            "{topic} in {report:#}"
        );
    }
    let levels = ["ok", "info", "warn", "fail"];
    assert!(
        findings
            .iter()
            .all(|one| levels.contains(&one["level"].as_str().unwrap()))
    );
}
