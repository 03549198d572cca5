//! What a person who looks on is shown, and what not.

use himalia_testkit::assert_eventually;
use himalia_testkit::gateway::Gateway;
use serde_json::{Value, json};

use crate::common::{Log, gateway, stream_text};

async fn session(gateway: &Gateway) -> Value {
    started(gateway, &json!({"template": "fake"})).await
}

async fn started(gateway: &Gateway, body: &Value) -> Value {
    let reply = gateway.http().post("/v1/sessions", Some(body)).await.unwrap();
    reply.expect(201).unwrap().json().unwrap()
}

#[tokio::test]
async fn whose_a_session_is_and_what_it_uses() {
    let gateway = gateway(&[]).await;
    let session = session(&gateway).await;
    assert_eq!(session["owner"], "operator");
    let id = session["id"].as_str().unwrap();
    let reply = gateway
        .http()
        .get(&format!("/v1/sessions/{id}/usage"))
        .await
        .unwrap();
    let usage = reply.expect(200).unwrap().json().unwrap();
    let number = |name: &str| usage[name].as_u64().unwrap();
    assert!(number("memory_bytes") > 1 << 20, "{usage}");
    assert!(number("processes") >= 2, "a shim and a kernel: {usage}");
    assert!(number("cpu_ms") < 3_600_000, "{usage}");
    let absent = gateway.http().get("/v1/sessions/absent/usage").await.unwrap();
    assert_eq!(absent.status, 404);
}

#[tokio::test]
async fn records_name_their_execution_and_have_no_password() {
    let gateway = gateway(&[]).await;
    let session = session(&gateway).await;
    let id = session["id"].as_str().unwrap();
    let code = "password Word?\nprint done";
    let body = json!({"code": code, "background": true, "allow_stdin": true});
    let path = format!("/v1/sessions/{id}/executions");
    let reply = gateway.http().post(&path, Some(&body)).await.unwrap();
    let reply = reply.expect(202).unwrap();
    let execution = reply.header("location").unwrap();
    let execution_id = execution.rsplit('/').next().unwrap();

    let mut log = Log::after(&gateway, id, 0).await;
    let is = |record: &Value, kind: &str| record["header"]["msg_type"] == kind;
    let mut seen = log.until(|record| is(record, "input_request")).await;
    let answer = json!({"value": "hunter2"});
    let reply = gateway
        .http()
        .post(&format!("{execution}/input"), Some(&answer))
        .await;
    reply.unwrap().expect(202).unwrap();
    seen.extend(log.until(|record| record["detail"]["event"] == "ended").await);

    let told = seen
        .iter()
        .filter_map(stream_text)
        .any(|text| text.contains("hunter2"));
    assert!(told, "the kernel has it, and printed it");
    let answers: Vec<_> = seen.iter().filter(|record| is(record, "input_reply")).collect();
    assert_eq!(answers.len(), 1);
    assert_eq!(
        answers[0]["content"],
        json!({"value": "", "status": "ok", "redacted": true})
    );
    let own = |record: &&Value| {
        record["event"] == "execution"
            || stream_text(record).is_some()
            || [
                "execute_request",
                "execute_input",
                "execute_reply",
                "input_request",
                "input_reply",
            ]
            .iter()
            .any(|kind| is(record, kind))
    };
    let own: Vec<_> = seen.iter().filter(own).collect();
    assert!(own.len() >= 9, "{own:?}");
    for record in own {
        assert_eq!(record["execution_id"], execution_id, "{record}");
    }
}

#[tokio::test]
async fn what_a_kernel_made_is_no_page_of_the_gateway() {
    let gateway = gateway(&[]).await;
    let work = tempfile::tempdir().unwrap();
    let session = started(&gateway, &json!({"template": "fake", "cwd": work.path()})).await;
    let id = session["id"].as_str().unwrap();
    let http = gateway.http();
    let body = json!({"code": "display image/png 8"});
    let path = format!("/v1/sessions/{id}/executions");
    let reply = http.post(&path, Some(&body)).await.unwrap();
    let result = reply.expect(200).unwrap().json().unwrap();
    let artifact = result["outputs"][0]["data"]["image/png"]["artifact"].as_str();
    let file = format!("/v1/sessions/{id}/files/a.html");
    let written = http.request("PUT", &file, &[], Some(b"<script>1</script>")).await;
    written.unwrap().expect(201).unwrap();
    for path in [
        format!("/v1/artifacts/{}", artifact.unwrap()),
        format!("/v1/sessions/{id}/notebook.ipynb"),
        format!("/v1/sessions/{id}/archive"),
        file,
    ] {
        let reply = http.get(&path).await.unwrap().expect(200).unwrap();
        for (name, wanted) in [
            ("content-security-policy", "sandbox; default-src 'none'"),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(reply.header(name), Some(wanted), "{path}: {name}");
        }
    }
}

#[tokio::test]
async fn the_link_that_is_printed_signs_in_once() {
    let gateway = gateway(&[]).await;
    assert_eventually!(gateway.log().contains("Ctrl-C stops"));
    let log = gateway.log();
    let page = gateway.http().anonymous().get("/").await.unwrap();
    assert_eq!(page.status, 200);
    let Some((_, code)) = log.split_once("#sign-in=") else {
        assert!(log.contains("viewer      not in this build"), "{log}");
        assert!(page.text().contains("make web"));
        return;
    };
    let body = json!({ "code": code.lines().next().unwrap() });
    for status in [204, 401] {
        let http = gateway.http().anonymous();
        let reply = http.post("/viewer/sign-in", Some(&body)).await.unwrap();
        assert_eq!(reply.status, status);
    }
}
