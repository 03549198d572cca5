use std::collections::BTreeMap;

use super::*;

fn env<const N: usize>(entries: [(&str, &str); N]) -> BTreeMap<String, String> {
    entries
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
}

fn request<const N: usize>(entries: [(&str, &str); N]) -> LaunchRequest {
    LaunchRequest {
        env: env(entries),
        shares_files: true,
        ..LaunchRequest::default()
    }
}

fn host() -> HostEnvironment {
    HostEnvironment::new([
        ("HOME", "/"),
        ("PATH", "/usr/bin:/bin"),
        ("LANG", "C.UTF-8"),
        ("HIMALIA_TOKEN", "gateway secret"),
        ("DATABASE_URL", "gateway secret"),
        ("PYTHONPATH", "gateway secret"),
    ])
}

#[test]
fn the_gateways_environment_reaches_no_kernel() {
    let spec = spec(
        r#"{"argv": ["/bin/sh", "{connection_file}"], "language": "sh",
            "env": {"A": "${HIMALIA_TOKEN}$DATABASE_URL", "B": "${KERNEL_X}:${HOME}"}}"#,
    );
    let mut request = request([("KERNEL_X", "x")]);
    request.marks = env([("HIMALIA_SANDBOX_MARK", "m")]);
    let launch = launch(&spec, &request, &host()).unwrap();
    let expected = env([
        ("A", "${HIMALIA_TOKEN}$DATABASE_URL"),
        ("B", "x:/"),
        ("HIMALIA_SANDBOX_MARK", "m"),
        ("HOME", "/"),
        ("KERNEL_X", "x"),
        ("LANG", "C.UTF-8"),
        ("PATH", "/usr/bin:/bin"),
        ("PYTHONUNBUFFERED", "1"),
    ]);
    assert_eq!(launch.env, expected);
}

#[test]
fn one_requests_variables_are_not_in_the_next_start() {
    let spec = spec(GOOD);
    let first = launch(&spec, &request([("KERNEL_SECRET", "1")]), &host()).unwrap();
    let second = launch(&spec, &request([]), &host()).unwrap();
    assert!(first.env.contains_key("KERNEL_SECRET"));
    assert!(!second.env.contains_key("KERNEL_SECRET"));
}

#[test]
fn the_mark_of_the_sandbox_cannot_be_overridden() {
    let mut request = request([("HIMALIA_SANDBOX_MARK", "forged")]);
    request.marks = env([("HIMALIA_SANDBOX_MARK", "m")]);
    assert_eq!(
        launch(&spec(GOOD), &request, &host()).unwrap().env["HIMALIA_SANDBOX_MARK"],
        "m"
    );
}

#[test]
fn the_command_line_is_filled_in() {
    let place = TestFiles::new();
    let json = r#"{"argv": ["{prefix}/bin/tool", "{resource_dir}/run", "{connection_file}", "{other}"]}"#;
    place
        .program("p/bin/tool")
        .file("p/share/jupyter/kernels/k/kernel.json", json);
    let dir = place.path("p/share/jupyter/kernels/k");
    let spec = super::super::read::read("k", &dir, "/bin").unwrap();
    assert_eq!(spec.problem, None);
    let launch = launch(&spec, &request([]), &host()).unwrap();
    let expected = [
        place.text("p/bin/tool"),
        format!("{}/run", dir.display()),
        "{connection_file}".into(),
        "{other}".into(),
    ];
    assert_eq!(launch.argv, expected);
    assert_eq!(
        launch.env["PATH"],
        format!("{}:/usr/bin:/bin", place.text("p/bin"))
    );
}

/// The gateway's user runs the program, or binds the directories around it: both are the operator's choice.
#[test]
fn a_bare_program_is_never_looked_up_on_a_requests_path() {
    let place = TestFiles::new();
    for dir in ["asked", "template", "spec"] {
        place.program(&format!("{dir}/sh"));
    }
    let (asked, template, own) = (place.text("asked"), place.text("template"), place.text("spec"));
    let plain = spec(r#"{"argv": ["sh", "{connection_file}"]}"#);
    let mut wanted = request([("PATH", &asked)]);
    let launched = launch(&plain, &wanted, &host()).unwrap();
    assert_eq!(launched.argv[0], "/usr/bin/sh");
    wanted.template_env = env([("PATH", &template)]);
    let launched = launch(&plain, &wanted, &host()).unwrap();
    assert_eq!(launched.argv[0], format!("{template}/sh"));
    // The kernel itself has what was asked for.
    assert_eq!(launched.env["PATH"], asked);
    // A kernelspec that has the request decide is not asked either.
    let sly = spec(&format!(
        r#"{{"argv": ["sh", "{{connection_file}}"], "env": {{"PATH": "${{KERNEL_BIN}}:{own}"}}}}"#
    ));
    let launched = launch(&sly, &request([("KERNEL_BIN", &asked)]), &host()).unwrap();
    assert_eq!(launched.argv[0], format!("{own}/sh"));
    assert_eq!(launched.env["PATH"], format!("{asked}:{own}"));
}

#[test]
fn a_bare_program_is_found_where_the_kernel_runs() {
    let launched = launch(
        &spec(r#"{"argv": ["sh", "{connection_file}"]}"#),
        &request([]),
        &host(),
    );
    assert_eq!(launched.unwrap().argv[0], "/usr/bin/sh");
    // In a container it is looked up among the image's files.
    let mut inside = request([]);
    inside.shares_files = false;
    inside.in_container = true;
    let spec_of = |argv: &str| spec(&format!(r#"{{"argv": {argv}}}"#));
    let launched = launch(&spec_of(r#"["sh", "{connection_file}"]"#), &inside, &host()).unwrap();
    assert_eq!(
        (launched.argv[0].as_str(), launched.cwd.as_str()),
        ("sh", "/session")
    );
    assert!(!launched.env.contains_key("PYTHONPATH"));
    // Our own launcher comes with the mount and runs on the image's interpreter.
    let ours = spec_of(r#"["/opt/env/bin/python3", "-m", "himalia_kernel", "-f", "{connection_file}"]"#);
    let launched = launch(&ours, &inside, &host()).unwrap();
    assert_eq!(launched.argv[..4], ["python3", "-P", "-m", "himalia_kernel"]);
    let says = spec_of(r#"["python3", "-P", "-m", "himalia_kernel", "-f", "{connection_file}"]"#);
    assert_eq!(
        launch(&says, &inside, &host()).unwrap().argv[..4],
        launched.argv[..4]
    );
    assert_eq!(launched.env["PYTHONPATH"], "/himalia/kernel");
    // In a root that is built from the host's files it is the host's program, in a home of the kernel's own.
    inside.in_container = false;
    let launched = launch(&spec_of(r#"["sh", "{connection_file}"]"#), &inside, &host()).unwrap();
    assert_eq!(
        (launched.argv[0].as_str(), launched.env["HOME"].as_str()),
        ("/usr/bin/sh", "/session")
    );
}

#[test]
fn a_broken_kernelspec_does_not_start_and_says_why() {
    let error = launch(&spec("{"), &request([]), &host()).unwrap_err();
    let EngineError::KernelStart { cause, .. } = &error else {
        panic!("{error}")
    };
    assert!(
        cause.starts_with("kernelspec k: kernel.json is not valid JSON"),
        "{cause}"
    );
}

#[test]
fn the_clients_directory_is_used_if_it_exists_here() {
    let place = TestFiles::new();
    place.file("home/x", "").file("work/x", "");
    let (home, work) = (place.text("home"), place.text("work"));
    let host = HostEnvironment::new([("HOME", &home)]);
    let start = |request: &LaunchRequest| launch(&spec(GOOD), request, &host).unwrap();

    assert_eq!(start(&request([])).cwd, home);
    let there = start(&request([("KERNEL_WORKING_DIR", &work)]));
    assert_eq!(there.cwd, work);
    assert!(!there.env.contains_key("HIMALIA_CLIENT_CWD"));
    let elsewhere = start(&request([("KERNEL_WORKING_DIR", "/client/only")]));
    assert_eq!(
        (elsewhere.cwd, elsewhere.env["HIMALIA_CLIENT_CWD"].as_str()),
        (home.clone(), "/client/only")
    );
    let mut both = request([("KERNEL_WORKING_DIR", &home)]);
    both.cwd = Some(work.clone());
    assert_eq!(start(&both).cwd, work);
    let mut sandboxed = both.clone();
    sandboxed.shares_files = false;
    sandboxed.fallback_cwd = Some("/session".into());
    assert_eq!(start(&sandboxed).cwd, "/session");
    assert_eq!(start(&sandboxed).env["HIMALIA_CLIENT_CWD"], work);
}

#[test]
fn bad_variables_are_refused() {
    let error = launch(&spec(GOOD), &request([("KERNEL_A", &"x".repeat(5000))]), &host()).unwrap_err();
    assert!(
        matches!(error, EngineError::BadRequest { field: "env", .. }),
        "{error}"
    );
}
