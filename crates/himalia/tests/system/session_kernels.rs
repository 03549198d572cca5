//! Additional kernels of a session over HTTP, and over a kill of the gateway.

use himalia_testkit::assert_eventually;
use himalia_testkit::gateway::Gateway;
use himalia_testkit::http::Response;
use serde_json::{Value, json};

use crate::common::{assert_clean, delete, gateway, process, until_gone, until_state};

async fn post(gateway: &Gateway, path: &str, body: &Value) -> Response {
    gateway.http().post(path, Some(body)).await.unwrap()
}

async fn get(gateway: &Gateway, path: &str) -> Value {
    let reply = gateway.http().get(path).await.unwrap();
    reply.expect(200).unwrap().json().unwrap()
}

async fn remove(gateway: &Gateway, path: &str) -> u16 {
    gateway.http().delete(path).await.unwrap().status
}

fn id(shown: &Value) -> String {
    shown["id"].as_str().unwrap().to_owned()
}

async fn session(gateway: &Gateway) -> String {
    let reply = post(gateway, "/v1/sessions", &json!({"template": "fake"})).await;
    id(&reply.expect(201).unwrap().json().unwrap())
}

async fn add(gateway: &Gateway, session: &str) -> Value {
    let reply = post(gateway, &format!("/v1/sessions/{session}/kernels"), &json!({}))
        .await
        .expect(201)
        .unwrap();
    let kernel = reply.json().unwrap();
    let location = format!("/v1/sessions/{session}/kernels/{}", id(&kernel));
    assert_eq!(reply.header("location"), Some(location.as_str()));
    kernel
}

/// Runs code and gives its text; without a kernel in the first one.
async fn run(gateway: &Gateway, session: &str, kernel: Option<&str>, code: &str) -> String {
    let mut body = json!({ "code": code });
    if let Some(kernel) = kernel {
        body["kernel"] = kernel.into();
    }
    let reply = post(gateway, &format!("/v1/sessions/{session}/executions"), &body).await;
    let result = reply.expect(200).unwrap().json().unwrap();
    assert_eq!(result["status"], "ok", "{result:#}");
    result["text"].as_str().unwrap().trim().to_owned()
}

fn problem(reply: &Response) -> (u16, String) {
    let body = reply.json().unwrap();
    (reply.status, body["code"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_further_kernel_is_used_beside_the_first() {
    let gateway = gateway(&["--retention", "1h"]).await;
    let (first, other) = (session(&gateway).await, session(&gateway).await);
    let base = format!("/v1/sessions/{first}/kernels");
    let second = add(&gateway, &first).await;
    for (pointer, wanted) in [
        ("/session", json!(first)),
        ("/first", json!(false)),
        ("/kernelspec", json!("fake")),
        ("/incarnation", json!(1)),
        ("/started_by", json!("cold")),
    ] {
        assert_eq!(second.pointer(pointer), Some(&wanted), "{pointer} of {second:#}");
    }
    let second = id(&second);
    run(&gateway, &first, None, "set x 1").await;
    run(&gateway, &first, Some(&second), "set x 2").await;
    assert_eq!(run(&gateway, &first, Some(&first), "get x").await, "1");
    assert_eq!(run(&gateway, &first, Some(&second), "get x").await, "2");

    // Which of them are shown where.
    let kernels = get(&gateway, &base).await;
    let shown: Vec<_> = kernels["kernels"].as_array().unwrap().iter().map(id).collect();
    assert_eq!(shown, [first.clone(), second.clone()]);
    let sessions = get(&gateway, "/v1/sessions").await;
    assert_eq!(sessions["sessions"].as_array().unwrap().len(), 2);
    let all = get(&gateway, "/api/kernels").await;
    assert_eq!(all.as_array().unwrap().len(), 3);
    let listed = |query: String| {
        let path = format!("/v1/sessions/{first}/executions{query}");
        let gateway = &gateway;
        async move { get(gateway, &path).await["executions"].as_array().unwrap().len() }
    };
    assert_eq!(listed(String::new()).await, 2);
    assert_eq!(listed(format!("?kernel={second}")).await, 2);
    let history = format!("/v1/sessions/{first}/history?kernel={second}");
    assert_eq!(get(&gateway, &history).await["history"][0]["code"], "set x 2");

    // A Jupyter client attaches, and does not end it.
    let mut socket = gateway.connect(&second).await.unwrap();
    assert_eq!(socket.execute("get x").await.unwrap().stdout(), "2\n");
    delete(&gateway, &second).await;
    assert_eq!(socket.execute("get x").await.unwrap().stdout(), "2\n");

    // What runs in one is interrupted there; a restart is of the one.
    let hang = json!({"code": "hang", "kernel": second, "background": true});
    let path = format!("/v1/sessions/{first}/executions");
    let taken = post(&gateway, &path, &hang).await.expect(202).unwrap();
    until_state(&gateway, &second, "busy").await;
    assert_eq!(run(&gateway, &first, None, "get x").await, "1");
    let interrupt = format!("{base}/{second}/interrupt");
    gateway
        .http()
        .post(&interrupt, None)
        .await
        .unwrap()
        .expect(204)
        .unwrap();
    let taken = taken.header("location").unwrap().to_owned();
    assert_eventually!(get(&gateway, &taken).await["status"] == "interrupted");
    let restart = format!("{base}/{second}/restart");
    let again = gateway
        .http()
        .post(&restart, None)
        .await
        .unwrap()
        .expect(200)
        .unwrap();
    assert_eq!(again.json().unwrap()["incarnation"], 2);
    assert_eq!(run(&gateway, &first, None, "get x").await, "1");

    // Who is asked for where it is not.
    for (session, kernel) in [(&other, &second), (&first, &other), (&first, &"x".to_owned())] {
        let base = format!("/v1/sessions/{session}");
        let body = json!({"code": "print no", "kernel": kernel});
        let reply = post(&gateway, &format!("{base}/executions"), &body).await;
        assert_eq!(problem(&reply), (404, "kernel_not_found".to_owned()));
        for path in [
            format!("{base}/kernels/{kernel}"),
            format!("{base}/variables?kernel={kernel}"),
            format!("{base}/events?kernel={kernel}"),
        ] {
            assert_eq!(gateway.http().get(&path).await.unwrap().status, 404, "{path}");
        }
        assert_eq!(remove(&gateway, &format!("{base}/kernels/{kernel}")).await, 404);
    }
    assert_eq!(
        gateway
            .http()
            .get(&format!("/v1/sessions/{second}"))
            .await
            .unwrap()
            .status,
        404
    );
    let reply = gateway.http().delete(&format!("{base}/{first}")).await.unwrap();
    assert_eq!(problem(&reply), (409, "conflict".to_owned()));
    for (body, wanted) in [
        (json!({"kernelspec": "none"}), (404, "kernelspec_not_found")),
        (
            json!({"kernelspec": "fake", "cwd": "/no/such"}),
            (400, "bad_request"),
        ),
        (json!({"template": "fake"}), (400, "bad_request")),
    ] {
        let (status, code) = problem(&post(&gateway, &base, &body).await);
        assert_eq!((status, code.as_str()), wanted, "{body}");
    }

    drop(socket);
    assert_eq!(remove(&gateway, &format!("{base}/{second}")).await, 204);
    until_gone(&gateway, &second).await;
    // Its executions are kept like those of a session.
    assert_eq!(get(&gateway, &taken).await["status"], "interrupted");
    for id in [first, other] {
        assert_eq!(remove(&gateway, &format!("/v1/sessions/{id}")).await, 204);
    }
    assert!(gateway.processes().is_empty());
}

#[tokio::test]
async fn a_killed_gateway_finds_all_kernels_again() {
    let mut gateway = gateway(&[]).await;
    let first = session(&gateway).await;
    let second = id(&add(&gateway, &first).await);
    run(&gateway, &first, None, "set x 1").await;
    run(&gateway, &first, Some(&second), "set x 2").await;
    let gate = gateway.file("gate");
    let body = json!({
        "code": format!("wait-file {}\nget x", gate.display()), "kernel": second, "background": true,
    });
    let path = format!("/v1/sessions/{first}/executions");
    let taken = post(&gateway, &path, &body).await.expect(202).unwrap();
    let taken = taken.header("location").unwrap().to_owned();
    until_state(&gateway, &second, "busy").await;
    gateway.crash().await.unwrap();
    std::fs::write(&gate, "").unwrap();
    until_state(&gateway, &first, "idle").await;
    assert_eventually!(get(&gateway, &taken).await["status"] == "ok");
    assert_eq!(get(&gateway, &taken).await["text"], "2\n");
    assert_eq!(run(&gateway, &first, None, "get x").await, "1");
    assert_eq!(run(&gateway, &first, Some(&second), "get x").await, "2");
    let sessions = get(&gateway, "/v1/sessions").await;
    assert_eq!(sessions["sessions"].as_array().unwrap().len(), 1);

    // The next one is in the same sandbox; the shim is one.
    let third = id(&add(&gateway, &first).await);
    assert_eq!(run(&gateway, &first, Some(&third), "print on").await, "on");
    process(&gateway, "--gateway-dir");
    assert_eq!(remove(&gateway, &format!("/v1/sessions/{first}")).await, 204);
    assert_clean(&gateway).await;
}
