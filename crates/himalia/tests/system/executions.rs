//! Executions over HTTP: the forms of the answer, what is refused, and a gateway that is killed.

use std::fs;
use std::process::{Command, Stdio};

use himalia_testkit::gateway::{Gateway, TOKEN};
use himalia_testkit::http::Response;
use himalia_testkit::{assert_eventually, binaries};
use serde_json::{Value, json};

use crate::common::{assert_clean, gateway};

async fn session(gateway: &Gateway) -> String {
    let reply = gateway
        .http()
        .post("/v1/sessions", Some(&json!({"template": "fake"})))
        .await
        .unwrap();
    let session = reply.expect(201).unwrap().json().unwrap();
    session["id"].as_str().unwrap().to_owned()
}

async fn post(gateway: &Gateway, session: &str, body: &Value) -> Response {
    let path = format!("/v1/sessions/{session}/executions");
    gateway.http().post(&path, Some(body)).await.unwrap()
}

async fn run(gateway: &Gateway, session: &str, code: &str) -> Value {
    let reply = post(gateway, session, &json!({ "code": code })).await;
    reply.expect(200).unwrap().json().unwrap()
}

/// Posts code in the background and gives its path.
async fn begin(gateway: &Gateway, session: &str, code: &str) -> String {
    let reply = post(gateway, session, &json!({"code": code, "background": true}))
        .await
        .expect(202)
        .unwrap();
    reply.header("location").unwrap().to_owned()
}

async fn show(gateway: &Gateway, path: &str) -> Value {
    gateway
        .http()
        .get(path)
        .await
        .unwrap()
        .expect(200)
        .unwrap()
        .json()
        .unwrap()
}

/// A problem by its status, code and whether it is worth another try.
fn problem(reply: &Response) -> (u16, String, bool) {
    let body = reply.json().unwrap();
    assert_eq!(reply.header("content-type"), Some("application/problem+json"));
    (
        reply.status,
        body["code"].as_str().unwrap().into(),
        body["retryable"].as_bool().unwrap(),
    )
}

#[tokio::test]
async fn a_caller_waits_or_streams_or_comes_back_later() {
    let gateway = gateway(&[]).await;
    let id = session(&gateway).await;
    let reply = post(&gateway, &id, &json!({"code": "print hello\nresult 42"}))
        .await
        .expect(200)
        .unwrap();
    let result = reply.json().unwrap();
    let path = reply.header("location").unwrap();
    assert_eq!(path, format!("/v1/executions/{}", result["id"].as_str().unwrap()));
    for (pointer, wanted) in [
        ("/session", json!(id)),
        ("/status", json!("ok")),
        ("/text", json!("hello\n")),
        ("/truncated", Value::Null),
        (
            "/outputs/0",
            json!({"output_type": "execute_result", "data": {"text/plain": "42"}}),
        ),
        ("/kernel", json!({"incarnation": 1, "replaced": null})),
        ("/execution_count", json!(1)),
        ("/error", Value::Null),
        ("/variables", Value::Null),
    ] {
        assert_eq!(result.pointer(pointer), Some(&wanted), "{pointer} of {result:#}");
    }
    let mut shown = show(&gateway, path).await;
    let members = shown.as_object_mut().unwrap();
    assert_eq!(members.remove("returned_chars"), Some(json!(0)));
    let provenance = members.remove("provenance").unwrap();
    assert_eq!(provenance["kernelspec"], "fake");
    assert_eq!(shown, result);
    let page = show(&gateway, &format!("{path}/output?cursor=1&limit=3")).await;
    assert_eq!(
        page,
        json!({"text": "ell", "offset": 1, "next": 4, "bytes_total": 6, "complete": true})
    );

    let mut events = gateway
        .http()
        .events(&format!("{path}/events"), None)
        .await
        .unwrap();
    let (mut seen, mut second) = (Vec::new(), None);
    while seen.last().is_none_or(|event| event != "done") {
        let event = events.next().await.unwrap();
        let data: Value = serde_json::from_str(&event.data).unwrap();
        let seq = event.id.unwrap();
        assert_eq!(
            (data["seq"].to_string(), &data["event"]),
            (seq.clone(), &json!(event.event))
        );
        if seen.len() == 1 {
            second = seq.parse().ok();
        }
        if event.event == "done" {
            assert_eq!(data["result"], result);
        }
        seen.push(event.event);
    }
    assert_eq!(seen, ["queued", "started", "stdout", "result", "done"]);
    assert!(events.next().await.is_err(), "the stream ends");
    let mut events = gateway
        .http()
        .events(&format!("{path}/events"), second)
        .await
        .unwrap();
    assert_eq!(events.next().await.unwrap().event, "stdout");

    let body = json!({"code": "eprint oh"}).to_string();
    let path = format!("/v1/sessions/{id}/executions");
    let headers = [
        ("accept", "application/x-ndjson"),
        ("content-type", "application/json"),
    ];
    let reply = gateway
        .http()
        .request("POST", &path, &headers, Some(body.as_bytes()))
        .await
        .unwrap();
    assert_eq!(reply.header("content-type"), Some("application/x-ndjson"));
    let lines: Vec<Value> = reply
        .text()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let words: Vec<&Value> = lines.iter().map(|line| &line["event"]).collect();
    assert_eq!(words, ["queued", "started", "stderr", "done"]);

    let list = show(&gateway, &path).await;
    let titles: Vec<&Value> = list["executions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["title"])
        .collect();
    assert_eq!(titles, ["print hello", "eprint oh"]);
    gateway
        .http()
        .delete(&format!("/v1/sessions/{id}"))
        .await
        .unwrap()
        .expect(204)
        .unwrap();
    assert_clean(&gateway).await;
}

#[tokio::test]
async fn what_is_refused_says_why_and_whether_to_try_again() {
    let gateway = gateway(&[]).await;
    let id = session(&gateway).await;
    for (body, detail) in [
        (json!({}), "code: is missing"),
        (json!({"code": "x", "timeout": 3}), "timeout: unknown field"),
        (
            json!({"code": "x", "text_chars": 1_000_001}),
            "text_chars: must be 0 to 1000000",
        ),
        (
            json!({"code": "x", "timeout_s": 0}),
            "timeout_s: must be more than 0",
        ),
        (
            json!({"code": "x".repeat((1 << 20) + 1)}),
            "code: is longer than 1048576 bytes",
        ),
    ] {
        let reply = post(&gateway, &id, &body).await;
        assert_eq!(problem(&reply), (400, "bad_request".into(), false));
        assert_eq!(reply.json().unwrap()["detail"], detail);
    }
    // This kernel is not one of ours.
    for scope in [json!({"cwd": "/tmp"}), json!({"env": {"A": "b"}})] {
        let mut body = json!({"code": "print x"});
        for (name, value) in scope.as_object().unwrap() {
            body[name] = value.clone();
        }
        let reply = post(&gateway, &id, &body).await;
        assert_eq!(problem(&reply), (501, "unsupported".into(), false));
    }
    for path in [
        "/v1/executions/x".to_owned(),
        format!("/v1/executions/exe_{}_1", id.replace('-', "")),
        format!("/v1/executions/exe_{}_99999", id.replace('-', "")),
        format!("/v1/artifacts/{}", "0".repeat(64)),
        "/v1/artifacts/..%2f..%2fhimalia.db".to_owned(),
    ] {
        let reply = gateway.http().get(&path).await.unwrap();
        let code = if path.contains("executions") {
            "execution_not_found"
        } else {
            "artifact_not_found"
        };
        assert_eq!(problem(&reply), (404, code.into(), false), "{path}");
    }
    let body = json!({"code": "print x", "idempotency_key": "k"});
    let first = post(&gateway, &id, &body).await.expect(200).unwrap();
    let again = post(&gateway, &id, &body).await.expect(200).unwrap();
    assert_eq!(
        (
            first.header("idempotency-replayed"),
            again.header("idempotency-replayed")
        ),
        (None, Some("true"))
    );
    assert_eq!(first.json().unwrap(), again.json().unwrap());
    let other = post(&gateway, &id, &json!({"code": "print y", "idempotency_key": "k"})).await;
    assert_eq!(problem(&other), (422, "idempotency_key_reused".into(), false));
    let path = format!("{}/input", first.header("location").unwrap());
    let input = gateway
        .http()
        .post(&path, Some(&json!({"value": "x"})))
        .await
        .unwrap();
    assert_eq!(problem(&input), (409, "conflict".into(), false));

    let running = begin(&gateway, &id, "hang").await;
    for _ in 0..64 {
        begin(&gateway, &id, "print x").await;
    }
    let reply = post(&gateway, &id, &json!({"code": "print x", "background": true})).await;
    assert_eq!(problem(&reply), (429, "queue_full".into(), true));
    assert_eq!(reply.header("retry-after"), Some("1"));
    let stopped = gateway
        .http()
        .post(&format!("{running}/interrupt"), None)
        .await
        .unwrap()
        .expect(202)
        .unwrap();
    assert_eq!(stopped.json().unwrap(), json!({"stopping": true}));
    assert_eventually!(
        show(&gateway, &running).await["status"] == "interrupted",
        "it continues"
    );
    assert_eq!(run(&gateway, &id, "exit 3").await["status"], "kernel_died");
    let reply = post(
        &gateway,
        &id,
        &json!({"code": "print x", "expect_incarnation": 1}),
    )
    .await;
    assert_eq!(problem(&reply), (409, "kernel_restarted".into(), false));
    assert_eq!(reply.json().unwrap()["incarnation"], 2);
}

/// Starts code that no interrupt ends, before the file `gate` exists.
async fn stubborn(gateway: &Gateway, session: &str, members: &Value) -> Response {
    let gate = gateway.file("gate");
    let mut body = json!({"code": format!("ignore-sigint\nwait-file {}\nprint end", gate.display())});
    for (name, value) in members.as_object().unwrap() {
        body[name] = value.clone();
    }
    post(gateway, session, &body).await
}

#[tokio::test]
async fn every_wait_has_an_end_whatever_the_code_does() {
    let gateway = gateway(&[]).await;
    let id = session(&gateway).await;
    let wanted = json!({"timeout_s": 0.1, "wait_s": 0.5});
    let reply = stubborn(&gateway, &id, &wanted).await.expect(202).unwrap();
    let path = reply.header("location").unwrap().to_owned();
    assert_eq!(reply.json().unwrap()["status"], "running");
    assert_eq!(reply.json().unwrap()["detached"], false);
    // What waits behind it is answered for in its own time.
    let behind = json!({"code": "print next", "timeout_s": 0.1, "wait_s": 0.2});
    let behind = post(&gateway, &id, &behind).await.expect(202).unwrap();
    assert_eq!(behind.json().unwrap()["status"], "queued");
    // A wait for what runs already ends, too.
    let shown = show(&gateway, &format!("{path}?wait_s=0.1")).await;
    assert_eq!(shown["status"], "running");
    for (query, detail) in [
        ("wait_s=601", "wait_s: must be 0 to 600 seconds"),
        ("wait_s=x", "wait_s: expected a number"),
    ] {
        let reply = gateway.http().get(&format!("{path}?{query}")).await.unwrap();
        assert_eq!(problem(&reply), (400, "bad_request".into(), false));
        assert_eq!(reply.json().unwrap()["detail"], detail);
    }
    fs::write(gateway.file("gate"), "").unwrap();
    let ended = show(&gateway, &format!("{path}?wait_s=600")).await;
    assert_eq!(
        (&ended["status"], &ended["text"]),
        (&json!("timeout"), &json!("end\n")),
        "it reached its timeout"
    );
    let next = behind.header("location").unwrap();
    let next = show(&gateway, &format!("{next}?wait_s=600")).await;
    assert_eq!(next["status"], "ok", "its own time begins with its work");
}

#[tokio::test]
async fn a_wait_ends_with_a_question() {
    let gateway = gateway(&[]).await;
    let id = session(&gateway).await;
    let body = json!({"code": "input name?", "allow_stdin": true, "background": true});
    let taken = post(&gateway, &id, &body).await.expect(202).unwrap();
    let path = taken.header("location").unwrap();
    let asked = show(&gateway, &format!("{path}?wait_s=600")).await;
    assert_eq!(asked["input"]["prompt"], "name?");
    let (path_of_input, answer) = (format!("{path}/input"), json!({"value": "ada"}));
    let answered = gateway.http().post(&path_of_input, Some(&answer)).await;
    answered.unwrap().expect(202).unwrap();
    let ended = show(&gateway, &format!("{path}?wait_s=600")).await;
    assert_eq!(ended["text"], "input: ada\n");
}

#[tokio::test]
async fn a_retry_in_another_form_is_the_same_execution() {
    let gateway = gateway(&[]).await;
    let id = session(&gateway).await;
    let path = format!("/v1/sessions/{id}/executions");
    let mut seen = Vec::new();
    for (accept, more) in [
        ("application/json", json!({})),
        ("application/json", json!({"background": true})),
        ("application/json", json!({"wait_s": 7})),
        ("application/json", json!({"text_chars": 50})),
        ("text/event-stream", json!({})),
        ("application/x-ndjson", json!({})),
    ] {
        let mut body = json!({"code": "print once", "idempotency_key": "k"});
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let headers = [("accept", accept), ("content-type", "application/json")];
        let body = body.to_string();
        let http = gateway.http();
        let reply = http
            .request("POST", &path, &headers, Some(body.as_bytes()))
            .await
            .unwrap();
        assert!(
            matches!(reply.status, 200 | 202),
            "{accept} {more}: {}",
            reply.text()
        );
        seen.push(reply.header("location").unwrap().to_owned());
    }
    seen.dedup();
    assert_eq!(seen.len(), 1);
    assert_eq!(
        show(&gateway, &path).await["executions"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[tokio::test]
async fn artifacts_cannot_harm_who_looks_at_them() {
    let gateway = gateway(&[]).await;
    let id = session(&gateway).await;
    let result = run(&gateway, &id, "display image/png 8\ndisplay text/html 5000").await;
    for (at, kind, shown) in [(0, "image/png", true), (1, "text/html", false)] {
        let artifact = result["outputs"][at]["data"][kind]["artifact"].as_str().unwrap();
        let path = format!("/v1/artifacts/{}", artifact.strip_prefix("sha256:").unwrap());
        let reply = gateway.http().get(&path).await.unwrap().expect(200).unwrap();
        assert_eq!(reply.header("content-type"), Some(kind));
        assert!(
            reply
                .header("content-security-policy")
                .unwrap()
                .starts_with("sandbox; default-src 'none'")
        );
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(
            reply.header("content-disposition"),
            (!shown).then_some("attachment")
        );
        assert_eq!(gateway.http().anonymous().get(&path).await.unwrap().status, 401);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_of_the_gateway_loses_nothing() {
    let mut gateway = gateway(&[]).await;
    let id = session(&gateway).await;
    let (ran, gate) = (gateway.file("ran"), gateway.file("gate"));
    let code = format!(
        "append {} x\ncount 3000 40\nwait-file {}\nprint end",
        ran.display(),
        gate.display()
    );
    let path = begin(&gateway, &id, &code).await;
    let next = begin(&gateway, &id, "print next").await;
    let mut events = gateway
        .http()
        .events(&format!("{path}/events"), None)
        .await
        .unwrap();
    let (mut text, mut last) = (String::new(), 0);
    while text.len() < 20_000 {
        let event = events.next().await.unwrap();
        let data: Value = serde_json::from_str(&event.data).unwrap();
        text.push_str(data["text"].as_str().unwrap_or_default());
        last = data["seq"].as_u64().unwrap();
    }
    gateway.kill().await.unwrap();
    gateway.start().await.unwrap();
    fs::write(&gate, "").unwrap();
    let mut events = gateway
        .http()
        .events(&format!("{path}/events"), Some(last))
        .await
        .unwrap();
    let result = loop {
        let event = events.next().await.unwrap();
        let data: Value = serde_json::from_str(&event.data).unwrap();
        text.push_str(data["text"].as_str().unwrap_or_default());
        if event.event == "done" {
            break data["result"].clone();
        }
    };
    let whole = show(&gateway, &format!("{path}/output?limit=1048576")).await;
    assert_eq!(
        whole["text"].as_str().unwrap(),
        text,
        "every event once, in order"
    );
    assert_eq!(text.lines().count(), 3001);
    assert_eq!(
        (&result["status"], &result["kernel"]["incarnation"]),
        (&json!("ok"), &json!(1))
    );
    assert_eq!(fs::read_to_string(&ran).unwrap(), "x\n", "it ran once");
    assert_eventually!(
        show(&gateway, &next).await["text"] == "next\n",
        "what waited was lost"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_shows_what_the_code_prints_and_how_it_ends() {
    let gateway = gateway(&[]).await;
    let id = session(&gateway).await;
    let exec = |args: &[&str], stdin: &str| {
        let mut command = Command::new(binaries::path("himalia").unwrap());
        command.args([
            "exec",
            "--url",
            &format!("http://{}", gateway.address()),
            "--token",
            TOKEN,
        ]);
        command
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let stdin = stdin.to_owned();
        tokio::task::spawn_blocking(move || {
            use std::io::Write as _;
            let mut child = command.spawn().unwrap();
            child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
            let output = child.wait_with_output().unwrap();
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
            (
                output.status.code().unwrap(),
                text(output.stdout),
                text(output.stderr),
            )
        })
    };
    let ran = exec(&[&id, "print hello\neprint oh\nresult 42"], "")
        .await
        .unwrap();
    assert_eq!(ran, (0, "hello\n42\n".into(), "oh\n".into()));
    let (code, out, err) = exec(&[&id, "-"], "print a\nerror ValueError no").await.unwrap();
    assert_eq!((code, out.as_str()), (1, "a\n"));
    assert!(err.contains("ValueError: no"), "{err}");
    let (code, out, err) = exec(&[&id, "--max-failures", "1", "print x"], "").await.unwrap();
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(
        err.contains("have failed") && err.contains("(failure_limit)"),
        "{err}"
    );
    let (code, out, err) = exec(&[&id, "--max-failures", "2", "print x"], "").await.unwrap();
    assert_eq!((code, out.as_str()), (0, "x\n"), "{err}");
    let (code, _, err) = exec(&[&id, "--timeout", "1s", "hang"], "").await.unwrap();
    assert_eq!(code, 124, "{err}");
    let (code, out, _) = exec(&[&id, "--json", "print x"], "").await.unwrap();
    let result: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &result["text"]), (0, &json!("x\n")));
    let (code, _, err) = exec(&[&id, "exit 3"], "").await.unwrap();
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("exit(3)"), "{err}");
}
