//! The API over HTTP.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, Request, State};
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::store::{Refused, Store};

/// Between two bookmarks.
const BOOKMARK: Duration = Duration::from_millis(500);

#[derive(Clone)]
struct Api {
    store: Arc<Store>,
    stop: CancellationToken,
}

type Parameters = Query<HashMap<String, String>>;

pub(super) fn router(store: Arc<Store>, stop: CancellationToken) -> Router {
    let api = Api { store, stop };
    let one = get(read).delete(delete).patch(patch);
    Router::new()
        .route(
            "/version",
            get(|| async { axum::Json(json!({"major": "1", "minor": "33", "gitVersion": "v1.33.0"})) }),
        )
        .route(
            "/api/v1/namespaces/{namespace}/{resource}",
            get(list).post(create),
        )
        .route("/api/v1/namespaces/{namespace}/{resource}/{name}", one.clone())
        .route(
            "/apis/{group}/{version}/namespaces/{namespace}/{resource}",
            get(list_of_group),
        )
        .route("/api/v1/nodes/{name}", get(read_node))
        .route(
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            post(review),
        )
        .layer(middleware::from_fn_with_state(api.clone(), note))
        .with_state(api)
}

async fn note(State(api): State<Api>, request: Request, next: Next) -> Response {
    let line = format!("{} {}", request.method(), request.uri());
    match api.store.note_request(line) {
        Some(refused) => refused.into_response(),
        None => next.run(request).await,
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let Self(code, ..) = self;
        let status = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, axum::Json(status_of(&self))).into_response()
    }
}

fn status_of(Refused(code, reason, message): &Refused) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
        "reason": reason, "code": code})
}

fn kind_of(resource: &str) -> &'static str {
    match resource {
        "pods" => "Pod",
        "nodes" => "Node",
        "secrets" => "Secret",
        "persistentvolumeclaims" => "PersistentVolumeClaim",
        "resourcequotas" => "ResourceQuota",
        "networkpolicies" => "NetworkPolicy",
        _ => "Object",
    }
}

/// Whether an object has the labels of a selector of equalities.
fn selected(object: &Value, selector: Option<&String>) -> bool {
    let Some(selector) = selector else { return true };
    selector.split(',').all(|part| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        object["metadata"]["labels"][name].as_str() == Some(value.trim_start_matches('='))
    })
}

async fn list(
    State(api): State<Api>,
    Path((namespace, resource)): Path<(String, String)>,
    Query(parameters): Parameters,
) -> Response {
    if parameters
        .get("watch")
        .is_some_and(|watch| watch == "true" || watch == "1")
    {
        return watch(api, namespace, resource, &parameters);
    }
    let (version, items) = api.store.list(&resource, &namespace);
    let selector = parameters.get("labelSelector");
    let items: Vec<Value> = items
        .into_iter()
        .filter(|object| selected(object, selector))
        .collect();
    let kind = format!("{}List", kind_of(&resource));
    axum::Json(
        json!({"kind": kind, "apiVersion": "v1", "metadata": {"resourceVersion": version.to_string()},
        "items": items}),
    )
    .into_response()
}

async fn list_of_group(
    state: State<Api>,
    Path((_, _, namespace, resource)): Path<(String, String, String, String)>,
    parameters: Parameters,
) -> Response {
    list(state, Path((namespace, resource)), parameters).await
}

/// A line for each change, until the client goes, its time is up, or watches are broken.
fn watch(api: Api, namespace: String, resource: String, parameters: &HashMap<String, String>) -> Response {
    let number = |name: &str| parameters.get(name).and_then(|text| text.parse::<u64>().ok());
    let mut version = number("resourceVersion").unwrap_or_else(|| api.store.version());
    let end = tokio::time::Instant::now() + Duration::from_secs(number("timeoutSeconds").unwrap_or(290));
    let bookmarks = parameters
        .get("allowWatchBookmarks")
        .is_some_and(|allow| allow == "true");
    let selector = parameters.get("labelSelector").cloned();
    let mut changed = api.store.changed.subscribe();
    let breaks = changed.borrow().1;
    let (lines, sent) = tokio::sync::mpsc::channel::<Result<Bytes, Infallible>>(64);
    tokio::spawn(async move {
        loop {
            let changes = match api.store.since(&resource, &namespace, version) {
                Ok(changes) => changes,
                Err(refused) => {
                    let line = json!({"type": "ERROR", "object": status_of(&refused)});
                    let _ = lines.send(Ok(format!("{line}\n").into())).await;
                    return;
                }
            };
            version = version.max(
                api.store
                    .version()
                    .min(changes.last().map_or(version, |last| last.version)),
            );
            for change in changes {
                if !selected(&change.object, selector.as_ref()) {
                    continue;
                }
                let line = json!({"type": change.kind, "object": change.object});
                if lines.send(Ok(format!("{line}\n").into())).await.is_err() {
                    return;
                }
            }
            let next = tokio::select! {
                () = api.stop.cancelled() => return,
                () = tokio::time::sleep_until(end) => return,
                next = timeout(BOOKMARK, changed.changed()) => next,
            };
            match next {
                Ok(Err(_)) => return,
                Ok(Ok(())) if changed.borrow().1 != breaks => {
                    let _ = lines.send(Ok("{\"type\": \"MODI".into())).await;
                    return;
                }
                Err(_) if bookmarks => {
                    let latest = api.store.version();
                    if api
                        .store
                        .since(&resource, &namespace, version)
                        .is_ok_and(|since| since.is_empty())
                    {
                        version = version.max(latest);
                    }
                    let mark = json!({"type": "BOOKMARK", "object": {"kind": kind_of(&resource), "apiVersion": "v1",
                        "metadata": {"resourceVersion": version.to_string()},
                        "spec": {"containers": []}}});
                    if lines.send(Ok(format!("{mark}\n").into())).await.is_err() {
                        return;
                    }
                }
                Ok(Ok(())) | Err(_) => {}
            }
        }
    });
    let stream = futures_util::stream::unfold(sent, |mut sent| async move {
        let line = sent.recv().await?;
        Some((line, sent))
    });
    ([("content-type", "application/json")], Body::from_stream(stream)).into_response()
}

async fn create(
    State(api): State<Api>,
    Path((namespace, resource)): Path<(String, String)>,
    body: Bytes,
) -> Response {
    let Ok(mut object) = serde_json::from_slice::<Value>(&body) else {
        return Refused(400, "BadRequest", "no JSON".to_owned()).into_response();
    };
    object["kind"] = json!(kind_of(&resource));
    object["apiVersion"] = json!("v1");
    object["metadata"]["namespace"] = json!(namespace);
    object["metadata"]["uid"] = json!(uuid::Uuid::new_v4().to_string());
    object["metadata"]["creationTimestamp"] = json!(now());
    if resource == "pods" {
        object["status"] = json!({"phase": "Pending"});
    }
    match api.store.create(&resource, object) {
        Ok(made) => (StatusCode::CREATED, axum::Json(made)).into_response(),
        Err(refused) => refused.into_response(),
    }
}

async fn read(
    State(api): State<Api>,
    Path((namespace, resource, name)): Path<(String, String, String)>,
) -> Response {
    answer(api.store.get(&resource, &namespace, &name))
}

async fn read_node(State(api): State<Api>, Path(name): Path<String>) -> Response {
    answer(api.store.get("nodes", "", &name))
}

/// A pod with a grace is marked, and its node removes it; everything else is gone at once.
async fn delete(
    State(api): State<Api>,
    Path((namespace, resource, name)): Path<(String, String, String)>,
    Query(parameters): Parameters,
    body: Bytes,
) -> Response {
    let options: Value = serde_json::from_slice(&body).unwrap_or_default();
    let grace = options["gracePeriodSeconds"]
        .as_u64()
        .or_else(|| parameters.get("gracePeriodSeconds")?.parse().ok());
    if resource != "pods" || grace == Some(0) {
        return answer(api.store.remove(&resource, &namespace, &name));
    }
    answer(api.store.update(&resource, &namespace, &name, |mut pod| {
        if pod["metadata"].get("deletionTimestamp").is_none() {
            pod["metadata"]["deletionTimestamp"] = json!(now());
        }
        pod["metadata"]["deletionGracePeriodSeconds"] = json!(grace.unwrap_or(30));
        Ok(Some(pod))
    }))
}

async fn patch(
    State(api): State<Api>,
    Path((namespace, resource, name)): Path<(String, String, String)>,
    body: Bytes,
) -> Response {
    let Ok(patch) = serde_json::from_slice::<json_patch::Patch>(&body) else {
        return Refused(415, "UnsupportedMediaType", "only JSON patches".to_owned()).into_response();
    };
    answer(api.store.update(&resource, &namespace, &name, |mut object| {
        match json_patch::patch(&mut object, &patch) {
            Ok(()) => Ok(Some(object)),
            // As the API server has it, also for a `test` that fails.
            Err(error) => Err(Refused(422, "Invalid", error.to_string())),
        }
    }))
}

async fn review(State(api): State<Api>, body: Bytes) -> Response {
    let mut review: Value = serde_json::from_slice(&body).unwrap_or_default();
    review["kind"] = json!("SelfSubjectAccessReview");
    review["apiVersion"] = json!("authorization.k8s.io/v1");
    review["status"] = json!({"allowed": !api.store.denies_reviews()});
    (StatusCode::CREATED, axum::Json(review)).into_response()
}

fn answer(result: Result<Value, Refused>) -> Response {
    match result {
        Ok(object) => axum::Json(object).into_response(),
        Err(refused) => refused.into_response(),
    }
}

pub(super) fn now() -> String {
    let now = OffsetDateTime::now_utc().replace_nanosecond(0);
    now.unwrap_or(OffsetDateTime::UNIX_EPOCH)
        .format(&Rfc3339)
        .unwrap_or_default()
}
