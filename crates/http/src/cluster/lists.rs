//! What all replicas are asked for at once.

use std::collections::HashSet;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::Response;
use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use himalia_engine::{EngineError, PeerSessions, Principal, RunPlace};
use himalia_relay::{HEADER, Peer};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::time::timeout;

use super::forward::{Trip, received};
use super::served_at::MergedList;
use super::{Cluster, caller};
use crate::app::App;
use crate::error::ApiError;
use crate::etag;
use crate::facades::e2b;
use crate::v1::sessions::{next_of, page_key, page_size};
use crate::v1::{prompts, runs};

/// How long a peer may take for its part.
const PART_TIME: Duration = Duration::from_secs(2);
/// Bytes of the part of one replica.
const PART_BYTES: usize = 64 << 20;
/// The replicas whose part is missing.
const UNANSWERED: HeaderName = HeaderName::from_static("x-himalia-unanswered");

/// The part of one replica.
struct Part {
    bytes: Vec<u8>,
    /// What it has beside its page, in a header: only the lists of E2B's API do.
    has_more: bool,
}

impl Part {
    fn new(headers: &HeaderMap, bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            has_more: headers.contains_key(e2b::NEXT),
        }
    }
}

/// One list of the parts of all replicas. A part that is missing is said: of `/v1/sessions`, `/v1/prompts`, `/v1/runs` and `/api/status` in a
/// header, and of the former three in the list too. A Jupyter list without it is refused, since clients take an absent kernel for
/// culled.
pub(super) async fn unite(
    app: &App,
    cluster: &Cluster,
    principal: &Principal,
    list: MergedList,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let peers = cluster.directory.peers().await?;
    if peers.is_empty() {
        return Ok(next.run(request).await);
    }
    let mut trip = Trip::new(app, request).await?;
    trip.method = Method::GET;
    let (asked, uri) = (trip.headers.clone(), trip.uri.clone());
    for name in [header::IF_NONE_MATCH, header::ACCEPT_ENCODING] {
        trip.headers.remove(name);
    }
    let caller = caller(principal)?;
    let asking = ask(cluster, &peers, principal, &caller, &trip);
    let (own, (parts, unanswered)) = tokio::join!(next.run(trip.local()), asking);
    if own.status() != StatusCode::OK {
        return Ok(own);
    }
    let (own, body) = own.into_parts();
    let body = to_bytes(body, PART_BYTES)
        .await
        .map_err(|_| ApiError::internal("reading a list"))?;
    let mut all = vec![Part::new(&own.headers, body.to_vec())];
    all.extend(parts);
    if matches!(list, MergedList::Jupyter | MergedList::Sandboxes) && !unanswered.is_empty() {
        let reason = format!("replicas do not respond: {}", unanswered.join(", "));
        return Err(EngineError::unavailable(reason).into());
    }
    let bytes = all.iter().map(|part| part.bytes.len()).sum();
    let made = || united(list, (&asked, &uri), &all, &unanswered);
    let mut response = app.engine().answer_in_turn(principal, bytes, made).await??;
    if !unanswered.is_empty()
        && let Ok(names) = HeaderValue::from_str(&unanswered.join(", "))
    {
        response.headers_mut().insert(UNANSWERED, names);
    }
    Ok(response)
}

/// Serves a request that shows sessions of all replicas with what the others say of theirs ([`PeerSessions`]).
pub(super) async fn with_peers(
    app: &App,
    cluster: &Cluster,
    principal: &Principal,
    mut request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let peers = cluster.directory.peers().await?;
    if !peers.is_empty() {
        let mut listing = Request::new(Body::empty());
        *listing.uri_mut() = Uri::from_static("/v1/sessions");
        let trip = Trip::new(app, listing).await?;
        let caller = caller(principal)?;
        let (parts, unanswered) = ask(cluster, &peers, principal, &caller, &trip).await;
        let mut sessions = Vec::new();
        for part in &parts {
            for session in read::<SessionPage<'_>>(&part.bytes)?.sessions {
                sessions.push(read(session.get().as_bytes())?);
            }
        }
        request
            .extensions_mut()
            .insert(PeerSessions { sessions, unanswered });
    }
    Ok(next.run(request).await)
}

/// The parts of all peers, and the replicas whose part is missing.
async fn ask(
    cluster: &Cluster,
    peers: &[Peer],
    principal: &Principal,
    caller: &str,
    trip: &Trip,
) -> (Vec<Part>, Vec<String>) {
    let asking = peers
        .iter()
        .map(|peer| part(cluster, peer, principal, caller, trip));
    let (mut parts, mut unanswered) = (Vec::new(), Vec::new());
    for part in join_all(asking).await {
        match part {
            Ok(part) => parts.push(part),
            Err(replica) => unanswered.push(replica),
        }
    }
    (parts, unanswered)
}

/// `Err` names the replica.
async fn part(
    cluster: &Cluster,
    peer: &Peer,
    principal: &Principal,
    caller: &str,
    trip: &Trip,
) -> Result<Part, String> {
    let asking = async {
        let response = cluster.send(peer, principal, caller, trip.outgoing()).await;
        let response = response.map_err(|error| error.to_string())?;
        if response.status() != StatusCode::OK {
            return Err(response.status().to_string());
        }
        let (response, body) = response.into_parts();
        let bytes = to_bytes(Body::new(body), PART_BYTES).await;
        bytes
            .map(|bytes| Part::new(&response.headers, bytes.into()))
            .map_err(|error| error.to_string())
    };
    let asked = timeout(PART_TIME, asking).await;
    asked
        .unwrap_or_else(|_| Err("no answer in time".into()))
        .map_err(|reason| {
            tracing::warn!(replica = peer.replica, reason, "a replica has no part in a list");
            peer.replica.clone()
        })
}

fn united(
    list: MergedList,
    (asked, uri): (&HeaderMap, &Uri),
    parts: &[Part],
    unanswered: &[String],
) -> Result<Response, ApiError> {
    match list {
        MergedList::Jupyter => {
            let mut all = Vec::new();
            for part in parts {
                all.extend(read::<Vec<&RawValue>>(&part.bytes)?);
            }
            etag::json(asked, &once(all))
        }
        MergedList::Sessions => {
            let (mut all, mut more, limit) = (Vec::new(), false, page_size(uri));
            for part in parts {
                let part = read::<SessionPage<'_>>(&part.bytes)?;
                more |= part.next.is_some();
                all.extend(part.sessions);
            }
            let mut sessions = once(all);
            sessions.sort_by_cached_key(|session| order(session));
            // Each part has a page: what comes after the last one that is shown is on the next page of all.
            more |= sessions.len() > limit;
            sessions.truncate(limit);
            let last = sessions.last().filter(|_| more).map(|last| next_of(&order(last)));
            let unanswered = unanswered.to_vec();
            let united = SessionPage {
                sessions,
                next: last,
                unanswered,
            };
            etag::json(asked, &united)
        }
        MergedList::Prompts => {
            let (mut all, mut end) = (Vec::new(), None);
            for part in parts {
                let part = read::<PromptList<'_>>(&part.bytes)?;
                let ends = part.next.as_deref().and_then(prompts::key_of);
                end = [end, ends].into_iter().flatten().min();
                all.extend(part.prompts);
            }
            // Each replica has those of the steps of workflows.
            let (mut prompts, limit) = (once(all), prompts::page_size(uri));
            // A part can end before its limit. What others have behind that place is on the next page, together with the rest of that part.
            prompts.retain(|prompt| end.as_ref().is_none_or(|end| prompt_order(prompt) <= *end));
            prompts.sort_by_cached_key(|prompt| prompt_order(prompt));
            if prompts.len() > limit {
                prompts.truncate(limit);
                end = prompts.last().map(|last| prompt_order(last));
            }
            let next = end.as_deref().map(prompts::next_of);
            prompts.sort_by_cached_key(|prompt| order(prompt));
            let unanswered = unanswered.to_vec();
            let united = PromptList {
                prompts,
                next,
                unanswered,
            };
            etag::json(asked, &united)
        }
        MergedList::Runs => {
            let (mut all, mut end) = (Vec::new(), None);
            for part in parts {
                let part = read::<RunList<'_>>(&part.bytes)?;
                all.extend(part.runs);
                // What comes after the end of a part with a next page is on a later page of all.
                end = end.max(part.next.as_deref().and_then(runs::place_of_next));
            }
            // Each replica has the rows of workflows and triggers.
            let mut placed: Vec<(RunPlace, &RawValue)> = once(all)
                .into_iter()
                .filter_map(|run| Some((run_place(run)?, run)))
                .filter(|(place, _)| end.as_ref().is_none_or(|end| place >= end))
                .collect();
            placed.sort_unstable_by(|(one, _), (other, _)| other.cmp(one));
            let limit = runs::page_size(uri);
            if placed.len() > limit {
                placed.truncate(limit);
                end = placed.last().map(|(place, _)| place.clone());
            }
            let united = RunList {
                runs: placed.into_iter().map(|(_, run)| run).collect(),
                next: end.as_ref().map(runs::next_of),
                unanswered: unanswered.to_vec(),
            };
            etag::json(asked, &united)
        }
        MergedList::Sandboxes => {
            let parts = parts.iter().map(|part| (part.bytes.as_slice(), part.has_more));
            e2b::united(uri, parts)
        }
        MergedList::Status => {
            let statuses: Result<Vec<Status>, _> = parts.iter().map(|part| read(&part.bytes)).collect();
            etag::json(asked, &sum(&statuses?))
        }
    }
}

fn read<'a, T: Deserialize<'a>>(part: &'a [u8]) -> Result<T, ApiError> {
    serde_json::from_slice(part).map_err(|_| ApiError::internal("reading the list of a replica"))
}

/// As `v1::sessions::SessionPage`.
#[derive(Serialize, Deserialize)]
struct SessionPage<'a> {
    #[serde(borrow)]
    sessions: Vec<&'a RawValue>,
    next: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unanswered: Vec<String>,
}

/// As `v1::prompts::OpenPrompts`.
#[derive(Serialize, Deserialize)]
struct PromptList<'a> {
    #[serde(borrow)]
    prompts: Vec<&'a RawValue>,
    #[serde(default)]
    next: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unanswered: Vec<String>,
}

/// As `v1::runs::RunPage`.
#[derive(Serialize, Deserialize)]
struct RunList<'a> {
    #[serde(borrow)]
    runs: Vec<&'a RawValue>,
    next: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unanswered: Vec<String>,
}

/// What a list is ordered by, and what it has once.
#[derive(Deserialize)]
struct Listed {
    id: String,
    created: Option<String>,
    ended: Option<String>,
    #[serde(default)]
    turn: u32,
}

/// What the sessions of a list are ordered by.
fn order(session: &RawValue) -> String {
    let Ok(listed) = serde_json::from_str::<Listed>(session.get()) else {
        return String::new();
    };
    page_key(
        &listed.id,
        &listed.created.unwrap_or_default(),
        listed.ended.as_deref(),
    )
}

/// The key by which the pages of prompts are ordered.
fn prompt_order(prompt: &RawValue) -> String {
    let Ok(listed) = serde_json::from_str::<Listed>(prompt.get()) else {
        return String::new();
    };
    prompts::page_key(listed.turn, &listed.created.unwrap_or_default(), &listed.id)
}

/// The place of a run in the list.
fn run_place(run: &RawValue) -> Option<RunPlace> {
    let listed: Listed = serde_json::from_str(run.get()).ok()?;
    let created = OffsetDateTime::parse(&listed.created?, &Rfc3339).ok()?;
    Some(RunPlace {
        created_micros: i64::try_from(created.unix_timestamp_nanos() / 1000).ok()?,
        id: listed.id,
    })
}

/// What has just moved is at two replicas.
fn once(all: Vec<&RawValue>) -> Vec<&RawValue> {
    let mut seen = HashSet::new();
    all.into_iter()
        .filter(|one| serde_json::from_str::<Listed>(one.get()).is_ok_and(|listed| seen.insert(listed.id)))
        .collect()
}

/// As `GET /api/status` has it.
#[derive(Deserialize)]
struct Status {
    connections: u64,
    kernels: u64,
    last_activity: String,
    started: String,
}

/// Of all replicas: since the first start, until the latest activity.
fn sum(statuses: &[Status]) -> Value {
    json!({
        "connections": statuses.iter().map(|status| status.connections).sum::<u64>(),
        "kernels": statuses.iter().map(|status| status.kernels).sum::<u64>(),
        "last_activity": statuses.iter().map(|status| &status.last_activity).max(),
        "started": statuses.iter().map(|status| &status.started).min(),
    })
}

/// This replica's answer, or else that of the first other one that has what is asked for: artifacts, and logs of ended
/// sessions.
pub(super) async fn first(
    app: &App,
    cluster: &Cluster,
    principal: &Principal,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let trip = Trip::new(app, request).await?;
    let own = next.run(trip.local()).await;
    if own.status() != StatusCode::NOT_FOUND {
        return Ok(own);
    }
    let (peers, caller) = (cluster.directory.peers().await?, caller(principal)?);
    let mut asking: FuturesUnordered<_> = peers
        .iter()
        .map(|peer| timeout(PART_TIME, cluster.send(peer, principal, &caller, trip.outgoing())))
        .collect();
    while let Some(answer) = asking.next().await {
        if let Ok(Ok(response)) = answer
            && !response.headers().contains_key(HEADER)
            && response.status() != StatusCode::NOT_FOUND
        {
            return Ok(received(response));
        }
    }
    Ok(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain() -> Uri {
        Uri::from_static("/")
    }

    fn part(bytes: &[u8]) -> Part {
        Part::new(&HeaderMap::new(), bytes.to_vec())
    }

    async fn text(response: Response) -> String {
        let bytes = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn lists_are_one_and_have_each_thing_once() {
        let parts = [
            br#"[{"id":"a","x":1},{"id":"b"}]"#.as_slice(),
            br#"[{"id":"b"},{"id":"c"}]"#,
        ];
        let parts = parts.map(part);
        let response = united(MergedList::Jupyter, (&HeaderMap::new(), &plain()), &parts, &[]).unwrap();
        assert_eq!(
            text(response).await,
            r#"[{"id":"a","x":1},{"id":"b"},{"id":"c"}]"#
        );
    }

    #[tokio::test]
    async fn sessions_are_in_order_of_their_start() {
        let parts = [
            br#"{"sessions":[{"id":"a","created":"2026-01-03"}]}"#.as_slice(),
            br#"{"sessions":[{"id":"b","created":"2026-01-01"},{"id":"c","created":"2026-01-05"}]}"#,
        ];
        let parts = parts.map(part);
        let response = united(
            MergedList::Sessions,
            (&HeaderMap::new(), &plain()),
            &parts,
            &["r2".into()],
        )
        .unwrap();
        let all: Value = serde_json::from_str(&text(response).await).unwrap();
        let ids: Vec<_> = all["sessions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["id"].clone())
            .collect();
        assert_eq!(
            (json!(ids), &all["unanswered"]),
            (json!(["b", "a", "c"]), &json!(["r2"]))
        );
        assert_eq!(all["next"], Value::Null);
        // A page of all is no longer than one of them, and what is cut off is on the next one.
        let response = united(
            MergedList::Sessions,
            (&HeaderMap::new(), &Uri::from_static("/?limit=2")),
            &parts,
            &[],
        )
        .unwrap();
        let page: Value = serde_json::from_str(&text(response).await).unwrap();
        assert_eq!(page["sessions"].as_array().unwrap().len(), 2);
        assert_eq!(page["next"], next_of("2026-01-03 a"));
        let ended = [
            br#"{"sessions":[{"id":"a","created":"1","ended":"2"}]}"#,
            br#"{"sessions":[{"id":"b","created":"1","ended":"3"}]}"#,
        ];
        let ended = ended.map(|bytes| part(bytes));
        let response = united(MergedList::Sessions, (&HeaderMap::new(), &plain()), &ended, &[]).unwrap();
        let all = text(response).await;
        assert!(
            all.find("\"b\"") < all.find("\"a\"") && !all.contains("unanswered"),
            "{all}"
        );
    }

    #[tokio::test]
    async fn prompts_are_in_order_and_those_of_steps_are_there_once() {
        let parts = [
            br#"{"prompts":[{"id":"prm_b","created":"2026-01-02"},{"id":"prs_c","created":"2026-01-03"}]}"#
                .as_slice(),
            br#"{"prompts":[{"id":"prm_a","created":"2026-01-01"},{"id":"prs_c","created":"2026-01-03"}]}"#,
        ];
        let parts = parts.map(part);
        let asked = (&HeaderMap::new(), &plain());
        let response = united(MergedList::Prompts, asked, &parts, &["r3".into()]).unwrap();
        let all: Value = serde_json::from_str(&text(response).await).unwrap();
        let ids: Vec<_> = all["prompts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["id"].clone())
            .collect();
        assert_eq!(json!(ids), json!(["prm_a", "prm_b", "prs_c"]));
        assert_eq!((&all["unanswered"], &all["next"]), (&json!(["r3"]), &Value::Null));
    }

    /// The page of the parts: ids, and the key of `next`.
    async fn page_of(parts: &[Value], query: &'static str) -> (Vec<String>, Option<String>) {
        let parts: Vec<_> = parts.iter().map(|one| part(one.to_string().as_bytes())).collect();
        let asked = (&HeaderMap::new(), &Uri::from_static(query));
        let response = united(MergedList::Prompts, asked, &parts, &[]).unwrap();
        let all: Value = serde_json::from_str(&text(response).await).unwrap();
        let ids = all["prompts"].as_array().unwrap().iter();
        let ids = ids.map(|one| one["id"].as_str().unwrap().to_owned()).collect();
        (ids, all["next"].as_str().and_then(prompts::key_of))
    }

    #[tokio::test]
    async fn a_page_of_prompts_ends_where_one_of_its_parts_does() {
        let one = |id: &str, day: u8| json!({ "id": id, "created": format!("2026-01-0{day}") });
        let next = prompts::next_of("0000000000 2026-01-02 prm_c");
        let full = json!({ "prompts": [one("prm_a", 1), one("prm_c", 2)], "next": next });
        let other = json!({ "prompts": [one("prm_b", 1), one("prm_d", 3)] });
        // The first part has more, which may be before what the second one has.
        let wanted = ["prm_a", "prm_b", "prm_c"].map(str::to_owned).to_vec();
        let end = |key: &str| Some(format!("0000000000 2026-01-0{key}"));
        let parts = [full.clone(), other.clone()];
        assert_eq!(
            page_of(&parts, "/?limit=9").await,
            (wanted.clone(), end("2 prm_c"))
        );
        assert_eq!(
            page_of(&parts, "/?limit=2").await,
            (wanted[..2].to_vec(), end("1 prm_b"))
        );
        // All of its page have ended meanwhile.
        let ended = json!({ "prompts": [], "next": prompts::next_of("0000000000 2026-01-01 prm_a") });
        assert_eq!(
            page_of(&[ended, other.clone()], "/?limit=9").await,
            (vec![], end("1 prm_a"))
        );
        let ids = ["prm_b", "prm_d"].map(str::to_owned).to_vec();
        assert_eq!(page_of(&[other], "/?limit=9").await, (ids, None));
    }

    #[tokio::test]
    async fn a_page_of_prompts_has_low_turns_first_and_is_in_order_of_time() {
        let parts = [
            br#"{"prompts":[{"id":"prm_b","created":"2026-01-02","turn":1},{"id":"prm_c","created":"2026-01-04"}]}"#
                .as_slice(),
            br#"{"prompts":[{"id":"prm_a","created":"2026-01-01","turn":2},{"id":"prm_d","created":"2026-01-05"}]}"#,
        ];
        let parts = parts.map(part);
        let asked = (&HeaderMap::new(), &Uri::from_static("/?limit=3"));
        let response = united(MergedList::Prompts, asked, &parts, &[]).unwrap();
        let all: Value = serde_json::from_str(&text(response).await).unwrap();
        let ids: Vec<_> = all["prompts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["id"].clone())
            .collect();
        assert_eq!(json!(ids), json!(["prm_b", "prm_c", "prm_d"]));
        assert_eq!(all["next"], prompts::next_of("0000000001 2026-01-02 prm_b"));
    }

    #[tokio::test]
    async fn runs_are_merged_up_to_the_end_of_the_shortest_part() {
        let run = |at: u32, id: &str| json!({"id": id, "created": format!("2026-01-01T00:00:00.{at:06}Z")});
        let place =
            |at: u32, id: &str| run_place(&serde_json::value::to_raw_value(&run(at, id)).unwrap()).unwrap();
        let cursor = |at, id| runs::next_of(&place(at, id));
        let merged = async |parts: &[Value], query: &'static str| {
            let parts: Vec<Part> = parts.iter().map(|one| part(one.to_string().as_bytes())).collect();
            let asked = (&HeaderMap::new(), &Uri::from_static(query));
            let response = united(MergedList::Runs, asked, &parts, &["r3".into()]).unwrap();
            let all: Value = serde_json::from_str(&text(response).await).unwrap();
            assert_eq!(all["unanswered"], json!(["r3"]));
            let ids = all["runs"]
                .as_array()
                .unwrap()
                .iter()
                .map(|one| one["id"].clone());
            (ids.collect::<Value>(), all["next"].clone())
        };
        let whole = json!({"runs": [run(9, "c"), run(5, "row"), run(1, "a")], "next": null});
        let other = json!({"runs": [run(7, "b"), run(5, "row")], "next": null});
        let found = merged(&[whole.clone(), other.clone()], "/v1/runs").await;
        assert_eq!(found, (json!(["c", "b", "row", "a"]), Value::Null));
        let found = merged(&[whole.clone(), other], "/v1/runs?limit=2").await;
        assert_eq!(found, (json!(["c", "b"]), json!(cursor(7, "b"))));
        // Between 5 and 1 the second one may have more.
        let more = json!({"runs": [run(7, "b"), run(5, "row")], "next": cursor(5, "row")});
        let found = merged(&[whole.clone(), more], "/v1/runs").await;
        assert_eq!(found, (json!(["c", "b", "row"]), json!(cursor(5, "row"))));
        // A page that the filters have left empty has a next one all the same.
        let empty = json!({"runs": [], "next": cursor(8, "x")});
        let found = merged(&[whole, empty], "/v1/runs?status=failed").await;
        assert_eq!(found, (json!(["c"]), json!(cursor(8, "x"))));
    }

    #[test]
    fn statuses_are_summed() {
        let status = |connections, last: &str, started: &str| Status {
            connections,
            kernels: 2,
            last_activity: last.into(),
            started: started.into(),
        };
        assert_eq!(
            sum(&[status(1, "b", "d"), status(2, "c", "a")]),
            json!({"connections": 3, "kernels": 4, "last_activity": "c", "started": "a"})
        );
    }
}
