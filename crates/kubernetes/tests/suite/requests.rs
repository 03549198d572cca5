//! The requests that the provisioner makes, one by one, and what it makes of each answer. The server is a closure: there is no network,
//! and time passes only while everything waits.

use std::sync::Arc;
use std::time::Duration;

use himalia_authority::Authority;
use himalia_kubernetes::{KubernetesConfig, KubernetesProvisioner, examine};
use himalia_provisioner::{Files, Provisioner, SandboxError};
use http::{Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::common::{NAMESPACE, spec};

/// A request, as the server receives it.
#[derive(Clone, Debug)]
struct Seen {
    /// Method and path.
    line: String,
    /// What follows `?`, decoded.
    query: String,
    body: Value,
    at: Instant,
}

/// A client whose requests are answered by `answer`, and what it has sent.
fn server(answer: impl Fn(&Seen) -> Response<Body> + Send + 'static) -> (Client, Arc<Mutex<Vec<Seen>>>) {
    let (service, mut handle) = tower_test::mock::pair::<Request<Body>, Response<Body>>();
    let all = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&all);
    tokio::spawn(async move {
        while let Some((request, respond)) = handle.next_request().await {
            let (head, body) = request.into_parts();
            let body = body.collect_bytes().await.unwrap();
            let one = Seen {
                line: format!("{} {}", head.method, head.uri.path()),
                query: decoded(head.uri.query().unwrap_or_default().trim_start_matches('&')),
                body: serde_json::from_slice(&body).unwrap_or_default(),
                at: Instant::now(),
            };
            seen.lock().push(one.clone());
            let response = answer(&one);
            if one.query.contains("watch=true") {
                // A watch that ended at once would be begun again and again, and the clock would stand still.
                tokio::spawn(async move {
                    tokio::time::sleep(WATCH_TIME).await;
                    respond.send_response(response);
                });
            } else {
                respond.send_response(response);
            }
        }
    });
    (Client::new(service, NAMESPACE), all)
}

fn decoded(query: &str) -> String {
    ["%2F", "%3D", "%2C"]
        .into_iter()
        .zip(["/", "=", ","])
        .fold(query.to_owned(), |query, (code, plain)| {
            query.replace(code, plain)
        })
}

fn provisioner(client: &Client) -> (KubernetesProvisioner, tempfile::TempDir) {
    let data = tempfile::tempdir().unwrap();
    let authority = Authority::open(&data.path().join("authority")).unwrap();
    let config = KubernetesConfig::new(NAMESPACE, "g1", "kernel:1", "agent:1");
    let made = KubernetesProvisioner::new(config, client.clone(), vec![authority]).unwrap();
    (made, data)
}

fn ok(body: &Value) -> Response<Body> {
    Response::new(Body::from(body.to_string().into_bytes()))
}

fn refused(code: u16, reason: &str, message: &str) -> Response<Body> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message});
    let mut response = ok(&status);
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    response
}

fn list(kind: &str, items: &[Value]) -> Response<Body> {
    ok(&json!({"kind": kind, "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": items}))
}

/// How long a watch waits for its answer.
const WATCH_TIME: Duration = Duration::from_secs(10);

const PODS: &str = "/api/v1/namespaces/kernels/pods";
const SECRETS: &str = "/api/v1/namespaces/kernels/secrets";
const CLAIMS: &str = "/api/v1/namespaces/kernels/persistentvolumeclaims";
const OURS: &str = "labelSelector=app.kubernetes.io/managed-by=himalia,himalia.internal/gateway=g1";

/// A pod that runs, made of the one that was sent.
fn running(sent: &Value) -> Value {
    let mut pod = sent.clone();
    pod["metadata"]["resourceVersion"] = json!("8");
    pod["spec"]["nodeName"] = json!("node-1");
    pod["status"] = json!({"phase": "Running", "podIP": "10.0.0.7", "containerStatuses": [
        {"name": "kernel", "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {}}}]});
    pod
}

/// A server on which pods run at once, with `other` before it.
fn cluster(
    other: impl Fn(&Seen) -> Option<Response<Body>> + Send + 'static,
) -> (Client, Arc<Mutex<Vec<Seen>>>) {
    server(move |seen| {
        if let Some(response) = other(seen) {
            return response;
        }
        let (method, path) = seen.line.split_once(' ').unwrap();
        match method {
            "POST" if path == PODS => ok(&running(&seen.body)),
            "POST" => ok(&seen.body),
            "DELETE" => ok(&json!({"kind": "Status", "apiVersion": "v1", "status": "Success"})),
            // It ends, and another one follows.
            "GET" if seen.query.contains("watch=true") => Response::new(Body::from(Vec::new())),
            "GET" if path == PODS => list("PodList", &[]),
            _ => list("List", &[]),
        }
    })
}

fn lines(seen: &Mutex<Vec<Seen>>) -> Vec<String> {
    let seen = seen.lock();
    let watch = |one: &&Seen| one.line != format!("GET {PODS}");
    seen.iter().filter(watch).map(|one| one.line.clone()).collect()
}

fn find(seen: &Mutex<Vec<Seen>>, line: &str) -> Seen {
    let all = seen.lock();
    all.iter()
        .find(|one| one.line == line)
        .unwrap_or_else(|| panic!("no {line} in {all:?}"))
        .clone()
}

#[tokio::test(start_paused = true)]
async fn a_start_and_a_stop_are_these_requests() {
    let (client, seen) = cluster(|_| None);
    let (provisioner, _data) = provisioner(&client);
    let handle = provisioner.start(spec()).await.unwrap();
    let name = format!("himalia-{}", handle.id);
    let (secret, pod) = (format!("{SECRETS}/{name}"), format!("{PODS}/{name}"));
    assert_eq!(
        lines(&seen),
        [
            format!("POST {SECRETS}"),
            format!("POST {PODS}"),
            format!("DELETE {secret}")
        ]
    );
    let made = find(&seen, &format!("POST {SECRETS}"));
    assert_eq!((&*made.query, &made.body["metadata"]["name"]), ("", &json!(name)));
    let files: Vec<&String> = made.body["data"].as_object().unwrap().keys().collect();
    assert_eq!(files, ["ca.crt", "key", "tls.crt", "tls.key"]);
    let made = find(&seen, &format!("POST {PODS}"));
    assert_eq!((&*made.query, &made.body["metadata"]["name"]), ("", &json!(name)));
    assert_eq!(
        made.body["metadata"]["ownerReferences"],
        Value::Null,
        "a gateway that ends must not end pods"
    );

    // The node says nothing of the end, so the pod is deleted twice: with its grace, and without.
    let stopped = provisioner.stop(handle.id, Duration::from_secs(3)).await;
    assert!(matches!(stopped, Err(SandboxError::Unkillable(_))), "{stopped:?}");
    let all = seen.lock();
    let deleted: Vec<&Value> = all
        .iter()
        .filter(|one| one.line == format!("DELETE {pod}"))
        .map(|one| &one.body["gracePeriodSeconds"])
        .collect();
    assert_eq!(deleted, [&json!(3), &json!(0)]);
}

#[tokio::test(start_paused = true)]
async fn pods_are_listed_and_watched_from_there_with_bookmarks() {
    let (client, seen) = cluster(|_| None);
    let (provisioner, _data) = provisioner(&client);
    provisioner.start(spec()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    let seen = seen.lock();
    let queries: Vec<&str> = seen
        .iter()
        .filter(|one| one.line == format!("GET {PODS}"))
        .map(|one| &*one.query)
        .collect();
    assert_eq!(queries[0], format!("{OURS}&limit=500"));
    let watch = format!("watch=true&timeoutSeconds=290&{OURS}&allowWatchBookmarks=true&resourceVersion=7");
    assert!(queries[1..].iter().all(|query| *query == watch), "{queries:?}");
    assert!(queries.len() > 2, "a watch that ends is followed by another one");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_too_old_is_followed_by_a_list() {
    let (client, seen) = cluster(|seen| {
        // The API server has accepted the watch then: the status is an event.
        let gone = json!({"type": "ERROR", "object": {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 410,
            "reason": "Expired", "message": "too old resource version"}});
        seen.query.contains("watch=true").then(|| ok(&gone))
    });
    let (provisioner, _data) = provisioner(&client);
    provisioner.start(spec()).await.unwrap();
    tokio::time::sleep(Duration::from_mins(1)).await;
    let lists = seen
        .lock()
        .iter()
        .filter(|one| one.query.ends_with("limit=500"))
        .count();
    assert!(lists > 1, "{lists}");
}

#[tokio::test(start_paused = true)]
async fn kept_files_are_one_claim_that_is_looked_for_by_its_name() {
    let (client, seen) = cluster(|_| None);
    let (provisioner, _data) = provisioner(&client);
    let mut wanted = spec();
    wanted.files = Files::Session("notes".to_owned());
    provisioner.start(wanted).await.unwrap();
    let claim = find(&seen, &format!("POST {CLAIMS}")).body;
    assert_eq!(
        claim["metadata"]["annotations"]["himalia.internal/files"],
        "notes"
    );
    let name = claim["metadata"]["name"].as_str().unwrap().to_owned();
    let pod = find(&seen, &format!("POST {PODS}")).body;
    let volumes = pod["spec"]["volumes"].as_array().unwrap();
    assert!(
        volumes
            .iter()
            .any(|one| one["persistentVolumeClaim"]["claimName"] == name),
        "{volumes:?}"
    );
    provisioner.remove_files("notes").await.unwrap();
    find(&seen, &format!("DELETE {CLAIMS}/{name}"));
}

/// What a list comes to when each attempt has this answer, and how often it was asked.
async fn listed(answer: impl Fn() -> Response<Body> + Send + 'static) -> (SandboxError, Vec<Instant>) {
    let (client, seen) = server(move |_| answer());
    let (provisioner, _data) = provisioner(&client);
    let error = provisioner.list().await.unwrap_err();
    let at = seen.lock().iter().map(|one| one.at).collect();
    (error, at)
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_said_once_and_not_tried_again() {
    for (code, reason, text) in [
        (401, "Unauthorized", "cannot list pods: no (401)"),
        (403, "Forbidden", "cannot list pods: the API server refuses: no"),
        (404, "NotFound", "cannot list pods: no (404)"),
        (410, "Expired", "cannot list pods: no (410)"),
        (422, "Invalid", "cannot list pods: no (422)"),
    ] {
        let (error, asked) = listed(move || refused(code, reason, "no")).await;
        assert_eq!(asked.len(), 1, "{code}");
        let SandboxError::Cluster { away, reason } = error else {
            panic!("{code}: {error}");
        };
        assert_eq!((away, &*reason), (false, text), "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_passes_is_tried_again_with_growing_pauses() {
    for (code, reason) in [
        (429, "TooManyRequests"),
        (500, "InternalError"),
        (502, "BadGateway"),
        (503, "ServiceUnavailable"),
        (504, "Timeout"),
    ] {
        let (error, asked) = listed(move || refused(code, reason, "busy")).await;
        let pauses: Vec<u128> = asked
            .windows(2)
            .map(|two| (two[1] - two[0]).as_millis())
            .collect();
        assert_eq!(pauses, [200, 400, 800, 1600, 3200, 5000, 5000], "{code}");
        assert!(
            matches!(error, SandboxError::Cluster { away: true, .. }),
            "{code}: {error}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_names_a_pause_is_not_asked_before() {
    let (error, asked) = listed(|| {
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 429, "reason": "TooManyRequests",
            "message": "busy", "details": {"retryAfterSeconds": 6}});
        let mut response = ok(&status);
        *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
        response.headers_mut().insert("retry-after", "6".parse().unwrap());
        response
    })
    .await;
    let pauses: Vec<u64> = asked.windows(2).map(|two| (two[1] - two[0]).as_secs()).collect();
    assert_eq!(pauses, [6, 6, 6]);
    assert!(
        matches!(error, SandboxError::Cluster { away: true, .. }),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_cut_is_an_error() {
    let (error, _) =
        listed(|| Response::new(Body::from(br#"{"kind": "PodList", "items": [{"#.to_vec()))).await;
    assert!(matches!(error, SandboxError::Cluster { .. }), "{error}");
    assert!(error.to_string().contains("cannot list pods"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_there_was_made_by_a_request_without_an_answer() {
    let made = Mutex::new(Value::Null);
    let (client, seen) = cluster(move |seen| match seen.line.split_once(' ').unwrap() {
        ("POST", PODS) => {
            *made.lock() = seen.body.clone();
            Some(refused(409, "AlreadyExists", "pods already exists"))
        }
        ("POST", SECRETS) => Some(refused(409, "AlreadyExists", "secrets already exists")),
        ("GET", path) if path.starts_with(&format!("{PODS}/")) => Some(ok(&running(&made.lock()))),
        _ => None,
    });
    let (provisioner, _data) = provisioner(&client);
    let handle = provisioner.start(spec()).await.unwrap();
    find(&seen, &format!("GET {PODS}/himalia-{}", handle.id));
}

#[tokio::test(start_paused = true)]
async fn a_start_that_is_refused_says_why_and_leaves_nothing() {
    let quota = "pods \"himalia-1\" is forbidden: exceeded quota: kernels";
    for (code, reason, message, text) in [
        (403, "Forbidden", quota, quota),
        (
            403,
            "Forbidden",
            "not allowed",
            "cannot create a pod: the API server refuses: not allowed",
        ),
        (
            422,
            "Invalid",
            "spec is wrong",
            "cannot create a pod: spec is wrong (422)",
        ),
    ] {
        let (client, seen) = cluster(move |seen| {
            (seen.line == format!("POST {PODS}")).then(|| refused(code, reason, message))
        });
        let (provisioner, _data) = provisioner(&client);
        let error = provisioner.start(spec()).await.unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
        assert_eq!(
            matches!(error, SandboxError::NotPlaced { code: "quota", .. }),
            text == quota,
            "{error}"
        );
        let deleted = seen
            .lock()
            .iter()
            .filter(|one| one.line.starts_with("DELETE "))
            .count();
        assert_eq!(deleted, 2, "the secret, and a pod that may be there");
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_of_pods_are_looked_at_and_one_that_is_gone_is_to_be_left() {
    for (code, leaves) in [(404, true), (403, false)] {
        let (client, seen) = cluster(move |seen| {
            seen.line
                .starts_with("GET /api/v1/nodes/")
                .then(|| refused(code, "", "no"))
        });
        let (provisioner, _data) = provisioner(&client);
        let handle = provisioner.start(spec()).await.unwrap();
        let leaving = provisioner.leaving(vec![handle.id]).await.unwrap();
        assert_eq!(!leaving.is_empty(), leaves, "{code}");
        let nodes = seen
            .lock()
            .iter()
            .filter(|one| one.line.starts_with("GET /api/v1/nodes/"))
            .count();
        assert_eq!(nodes, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn the_doctor_asks_for_each_permission_in_the_namespace() {
    let (client, seen) = server(|seen| {
        let allowed = seen.body["spec"]["resourceAttributes"]["resource"] != "secrets";
        match seen.line.split_once(' ').unwrap() {
            ("GET", "/version") => ok(
                &json!({"major": "1", "minor": "33", "gitVersion": "v1.33.0", "gitCommit": "", "gitTreeState": "",
                "buildDate": "", "goVersion": "", "compiler": "", "platform": ""}),
            ),
            ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews") => {
                let mut review = seen.body.clone();
                review["status"] = json!({"allowed": allowed});
                ok(&review)
            }
            ("POST", _) => refused(403, "Forbidden", "not allowed"),
            _ => list("List", &[]),
        }
    });
    let config = KubernetesConfig::new(NAMESPACE, "g1", "kernel:1", "agent:1");
    let checks = examine(&config, &client).await;
    let seen = seen.lock();
    let asked: Vec<String> = seen
        .iter()
        .filter(|one| one.line.ends_with("/selfsubjectaccessreviews"))
        .map(|one| {
            let about = &one.body["spec"]["resourceAttributes"];
            format!(
                "{} {}",
                about["verb"].as_str().unwrap(),
                about["resource"].as_str().unwrap()
            )
        })
        .collect();
    for needed in [
        "create pods",
        "delete pods",
        "get pods",
        "list pods",
        "watch pods",
        "create secrets",
        "get nodes",
    ] {
        assert!(
            asked.iter().any(|one| one == needed),
            "{needed} is not in {asked:?}"
        );
    }
    let pods = seen
        .iter()
        .find(|one| one.body["spec"]["resourceAttributes"]["resource"] == "pods")
        .unwrap();
    assert_eq!(pods.body["spec"]["resourceAttributes"]["namespace"], NAMESPACE);
    let permissions = checks.iter().find(|check| check.topic == "permissions").unwrap();
    assert!(
        permissions.text.contains("missing: create secrets"),
        "{permissions:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_probe_asks_for_next_to_nothing_and_says_what_is_in_its_way() {
    let no_node = "0/2 nodes are available: 2 Insufficient cpu.";
    let made = Arc::new(Mutex::new(Value::Null));
    let pod = Arc::clone(&made);
    let (client, _) = server(move |seen| match seen.line.split_once(' ').unwrap() {
        ("GET", "/version") => ok(
            &json!({"major": "1", "minor": "33", "gitVersion": "v1.33.0", "gitCommit": "", "gitTreeState": "",
            "buildDate": "", "goVersion": "", "compiler": "", "platform": ""}),
        ),
        ("POST", PODS) => {
            *pod.lock() = seen.body.clone();
            ok(&seen.body)
        }
        ("POST", _) => refused(403, "Forbidden", "not allowed"),
        ("GET", path) if path.starts_with(&format!("{PODS}/")) => {
            let mut pod = pod.lock().clone();
            pod["status"] = json!({"phase": "Pending", "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": no_node}]});
            ok(&pod)
        }
        ("DELETE", _) => ok(&json!({"kind": "Status", "apiVersion": "v1", "status": "Success"})),
        _ => list("List", &[]),
    });
    let config = KubernetesConfig::new(NAMESPACE, "g1", "kernel:1", "agent:1");
    let checks = examine(&config, &client).await;
    let isolation = checks.iter().find(|check| check.topic == "isolation").unwrap();
    assert!(isolation.text.contains("unschedulable"), "{isolation:?}");
    assert!(isolation.text.contains(no_node), "{isolation:?}");
    let made = made.lock();
    let asked = &made["spec"]["containers"][0]["resources"]["requests"];
    assert_eq!(
        (&asked["cpu"], &asked["memory"]),
        (&json!("10m"), &json!("33554432"))
    );
}
