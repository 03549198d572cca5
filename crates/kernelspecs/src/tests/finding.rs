use super::*;

#[test]
fn the_first_of_a_name_wins_and_names_have_no_case() {
    let place = TestFiles::new();
    place
        .file("own/Python3/kernel.json", &GOOD.replace("\"A\"", "\"own\""))
        .file(
            "user/kernels/python3/kernel.json",
            &GOOD.replace("\"A\"", "\"user\""),
        )
        .file("user/kernels/ir/kernel.json", GOOD)
        .file("user/kernels/no kernel/kernel.json", GOOD)
        .file("user/kernels/empty/readme", "")
        .file("user/kernels/stray", "");
    let user = place.text("user");
    let found = place
        .search(
            &["own", "missing"],
            HostEnvironment::new([("JUPYTER_DATA_DIR", &user)]),
        )
        .run();
    let ours: Vec<_> = names(&found)
        .into_iter()
        .filter(|name| found.specs[*name].dir.starts_with(place.dir.path()))
        .collect();
    assert_eq!(ours, ["ir", "python3"]);
    assert_eq!(found.specs["python3"].spec.display_name, "own");
    assert_eq!(found.specs["python3"].problem, None);
    assert_eq!(found.default, "python3");
}

#[test]
fn a_broken_kernelspec_is_listed_with_its_problem_and_breaks_nothing() {
    let long = format!("{{\"argv\": [\"{}\"]}}", "x".repeat(2 << 20));
    let cases = [
        (
            "{\"argv\": [",
            "kernel.json is not valid JSON: EOF while parsing a list at line 1 column 10",
        ),
        ("[]", "kernel.json is not a JSON object"),
        ("{}", "argv is missing or empty"),
        (r#"{"argv": []}"#, "argv is missing or empty"),
        (r#"{"argv": "python"}"#, "argv is not an array of strings"),
        (r#"{"argv": ["a", 1]}"#, "argv is not an array of strings"),
        (r#"{"argv": ["/bin/sh"]}"#, "argv has no {connection_file}"),
        (
            r#"{"argv": ["/nonexistent/r", "{connection_file}"]}"#,
            "argv[0] /nonexistent/r not found",
        ),
        (
            r#"{"argv": ["no-such-program", "{connection_file}"]}"#,
            "argv[0] \"no-such-program\" is not on PATH",
        ),
        (
            r#"{"argv": ["/bin/sh", "{connection_file}"], "env": {"A": 1}}"#,
            "env: A is not a string",
        ),
        (
            r#"{"argv": ["/bin/sh", "{connection_file}"], "env": []}"#,
            "env is not an object",
        ),
        (
            r#"{"argv": ["/bin/sh", "{connection_file}"], "metadata": 3}"#,
            "metadata is not an object",
        ),
        (
            r#"{"argv": ["/bin/sh", "{connection_file}"], "language": 3}"#,
            "language is not a string",
        ),
        (
            r#"{"argv": ["/bin/sh", "{connection_file}"], "interrupt_mode": "x"}"#,
            "interrupt_mode \"x\" is neither signal nor message",
        ),
        (&long, "kernel.json has more than 1048576 bytes"),
    ];
    let place = TestFiles::new();
    place.file("k/good/kernel.json", GOOD);
    for (n, (json, _)) in cases.iter().enumerate() {
        place.file(&format!("k/broken{n}/kernel.json"), json);
    }
    fs::create_dir_all(place.path("k/directory/kernel.json")).unwrap();
    let mut search = place.search(&["k"], HostEnvironment::default());
    search.everywhere = false;
    let found = search.run();
    assert_eq!(found.specs.len(), cases.len() + 2);
    assert_eq!(found.default, "good");
    assert_eq!(found.specs["good"].problem, None);
    for (n, (_, problem)) in cases.iter().enumerate() {
        let spec = &found.specs[&format!("broken{n}")];
        assert_eq!(spec.problem.as_deref(), Some(*problem));
        // What JupyterLab wants of every kernelspec is there.
        assert!(!spec.spec.display_name.is_empty());
    }
    assert_eq!(
        found.specs["directory"].problem.as_deref(),
        Some("kernel.json is not a file")
    );
}

#[test]
fn unknown_fields_are_kept() {
    let read = spec(
        r#"{"argv": ["/bin/sh", "{connection_file}"], "display_name": "A", "language": "sh", "interrupt_mode": "message",
            "env": {"B": "${PATH}"}, "metadata": {"debugger": true}, "kernel_protocol_version": "5.5", "x": {"y": 1.50}}"#,
    );
    assert_eq!(read.problem, None);
    assert_eq!(read.spec.interrupt_mode, InterruptMode::Message);
    let json = serde_json::to_value(&read.spec).unwrap();
    assert_eq!(json["kernel_protocol_version"], "5.5");
    assert_eq!(json["x"]["y"], 1.5);
    assert_eq!(json["metadata"]["debugger"], true);
    assert_eq!(json["env"]["B"], "${PATH}");
}

#[test]
fn conda_environments_with_kernels_are_found() {
    let place = TestFiles::new();
    let json = r#"{"argv": ["python", "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "Python 3", "language": "python"}"#;
    for env in [
        "conda",
        "conda/envs/Data Science",
        "elsewhere/Data Science",
        "conda/envs/broken",
    ] {
        place.file(&format!("{env}/share/jupyter/kernels/python3/kernel.json"), json);
        place.program(&format!("{env}/bin/python"));
    }
    fs::remove_file(place.path("conda/envs/broken/bin/python")).unwrap();
    // An environment without kernels, and one that is gone.
    place
        .program("conda/envs/plain/bin/python")
        .file("conda/condabin/conda", "");
    let lines = [
        place.text("elsewhere/Data Science"),
        place.text("gone"),
        place.text("conda"),
        "relative".into(),
    ];
    place.file("home/.conda/environments.txt", &lines.join("\n"));
    let host = HostEnvironment::new([
        ("HOME", &place.text("home")),
        ("CONDA_EXE", &place.text("conda/bin/conda")),
    ]);
    let found = place.search(&[], host.clone()).run();
    let conda: Vec<_> = names(&found)
        .into_iter()
        .filter(|name| name.starts_with("conda-env-"))
        .collect();
    assert_eq!(conda.len(), 3, "{conda:?}");
    assert!(conda.contains(&"conda-env-base-python3") && conda.contains(&"conda-env-data-science-python3"));
    // The second of a name carries a mark of its place; a client's stored choice stays valid.
    let other = conda
        .iter()
        .find(|name| name.len() == "conda-env-data-science-01234567-python3".len());
    let other = &found.specs[*other.unwrap()];
    assert!(other.dir.starts_with(place.path("elsewhere")));

    let spec = &found.specs["conda-env-data-science-python3"];
    assert_eq!(spec.problem, None);
    assert_eq!(spec.spec.display_name, "Python 3 [conda env:Data Science]");
    let request = LaunchRequest {
        shares_files: true,
        ..LaunchRequest::default()
    };
    let launch = launch(spec, &request, &host).unwrap();
    let prefix = place.text("conda/envs/Data Science");
    assert_eq!(launch.argv[0], format!("{prefix}/bin/python"));
    assert!(
        launch.env["PATH"].starts_with(&format!("{prefix}/bin:/")),
        "{}",
        launch.env["PATH"]
    );
    assert_eq!(launch.env["CONDA_PREFIX"], prefix);
    assert_eq!(launch.env["CONDA_DEFAULT_ENV"], "Data Science");
}

#[test]
fn only_allowed_names_are_shown() {
    let place = TestFiles::new();
    place.file("k/a/kernel.json", GOOD).file("k/b/kernel.json", GOOD);
    let mut search = place.search(&["k"], HostEnvironment::default());
    search.allowed = vec!["B".into(), "missing".into()];
    let found = search.run();
    assert_eq!(names(&found), ["b"]);
    assert_eq!(found.default, "b");
}

#[tokio::test]
async fn a_new_kernelspec_is_found_and_files_are_served() {
    let place = TestFiles::new();
    place
        .file("k/a/kernel.json", GOOD)
        .file("k/a/logo-64x64.png", "png")
        .file("secret", "s");
    let mut search = place.search(&["k"], HostEnvironment::default());
    search.everywhere = false;
    let catalog = Catalog::new(search);
    let listed = catalog.list().await.unwrap();
    assert_eq!(names(&listed), ["a"]);
    assert_eq!(listed.specs["a"].resources["logo-64x64"], "logo-64x64.png");
    // Within its time the same search is used.
    assert!(std::sync::Arc::ptr_eq(&listed, &catalog.list().await.unwrap()));
    assert_eq!(catalog.get("A").await.unwrap().name, "a");
    assert_eq!(catalog.get_or_default(None).await.unwrap().name, "a");
    for name in ["", "..", "../a", "missing", "ä"] {
        let error = catalog.get(name).await.unwrap_err();
        assert!(matches!(error, EngineError::NoSuchKernelspec { .. }), "{error}");
    }
    assert_eq!(
        &catalog.file("a", "logo-64x64.png").await.unwrap().bytes[..],
        b"png"
    );
    for file in ["../../secret", "missing", ""] {
        let error = catalog.file("a", file).await.unwrap_err();
        assert!(matches!(error, EngineError::NotFound { .. }), "{error}");
    }
    assert!(matches!(
        catalog.file("b", "x").await,
        Err(EngineError::NoSuchKernelspec { .. })
    ));
}

#[tokio::test]
async fn a_name_that_appears_is_found_within_a_second() {
    let place = TestFiles::new();
    place.file("k/a/kernel.json", GOOD);
    let mut search = place.search(&["k"], HostEnvironment::default());
    search.everywhere = false;
    let catalog = Catalog::new(search);
    assert!(catalog.get("b").await.is_err());
    place.file("k/b/kernel.json", GOOD);
    let begun = std::time::Instant::now();
    while catalog.get("b").await.is_err() {
        assert!(begun.elapsed() < super::super::catalog::FRESH);
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[test]
fn nothing_at_all_is_not_an_error() {
    let search = Search {
        default: "Python3".into(),
        ..Search::default()
    };
    let found = search.run();
    assert!(found.specs.is_empty());
    assert_eq!(found.default, "python3");
    assert!(super::super::read::read("x", Path::new("/nonexistent"), "").is_none());
}
