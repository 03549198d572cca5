//! `/v1/sessions`: kernels with the sandboxes around them.

use std::collections::{BTreeMap, HashMap};

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Uri};
use himalia_engine::{
    EngineError, ExecutionState, KernelId, MAX_LABELS, Principal, SessionChange, SessionId, SessionInfo,
    TimeChange,
};
use himalia_wire::build::timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::answers::{CreatedResponse, EitherResponse, Empty, NoStoreJson, ReplayedResponse, TaggedJson};
use super::input::{
    Cursor, HyphenatedId, Key, Limit, Members, PAGE_MOST, Parameters, Seconds, key_of, limit, or_empty, page,
    parameters, seconds,
};
use super::models::SandboxUsage;
use super::new_session::{NewSession, NoId, WantedNetwork};
use super::session_json::Session;
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;

/// The approximate bytes of one session in a list.
const SESSION_BYTES: usize = 1500;
/// All that have ended, at most.
const ENDED_BYTES: usize = 1000 * SESSION_BYTES;

/// A page of the list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SessionPage {
    sessions: Vec<ListedSession>,
    /// The cursor of the next page; null at the end.
    next: Option<String>,
    /// Names of the replicas of the gateway that did not respond: their sessions are missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unanswered: Vec<String>,
}

/// A session in a list.
#[derive(Debug, Serialize, JsonSchema)]
struct ListedSession {
    #[serde(flatten)]
    session: Session,
    /// Memory that its sandbox uses, measured within the last seconds; branches share it. Null if it is unknown, and for
    /// an ended session.
    memory_used_bytes: Option<u64>,
}

/// A query for sessions.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListSessionsQuery {
    /// `name=value`, or `name` for any value. Several must all be there.
    #[serde(default)]
    label: Vec<String>,
    /// Ended sessions whose logs are kept, instead of living ones; the latest end first.
    #[serde(default)]
    ended: bool,
    /// Only sessions in this state, or in one of several.
    #[serde(default)]
    state: Vec<ExecutionState>,
    /// Only sessions of this template.
    template: Option<String>,
    /// Only sessions of this owner: a tenant, or `operator`.
    owner: Option<String>,
    /// The `next` of the page before.
    cursor: Option<Cursor<LIST>>,
    /// Sessions of a page; default 1,000.
    limit: Option<Limit>,
}

/// The letter of its cursors.
const LIST: char = 's';

/// The key that orders the list: the start, or the end of sessions that have ended, the latest first. The same for the list of another
/// replica.
pub(crate) fn page_key(id: &str, created: &str, ended: Option<&str>) -> String {
    match ended {
        None => format!("{created} {id}"),
        Some(ended) => {
            // Backwards: the digits of a time become those that are missing to nine.
            let back = |char: char| match char.to_digit(10) {
                Some(digit) => char::from_digit(9 - digit, 10).unwrap_or(char),
                None => char,
            };
            let at: String = ended.chars().map(back).collect();
            format!("{at} {id}")
        }
    }
}

/// The `next` of a page whose last session has this key.
pub(crate) fn next_of(key: &str) -> String {
    Cursor::<LIST>::write(key)
}

/// The number of sessions that a query of the list requests.
pub(crate) fn page_size(uri: &Uri) -> usize {
    let wanted = parameters::<ListSessionsQuery>(uri).ok();
    limit(wanted.and_then(|wanted| wanted.limit), PAGE_MOST)
}

/// `GET /v1/sessions?label=`: those that live, those that the Jupyter API made included, in order of their start; with
/// `?ended=true` those that have ended.
pub(crate) async fn list(
    State(app): State<App>,
    Caller(principal): Caller,
    Parameters(wanted): Parameters<ListSessionsQuery>,
    headers: HeaderMap,
) -> Result<TaggedJson<SessionPage>, ApiError> {
    let ended = wanted.ended;
    let has = |info: &SessionInfo, label: &String| match label.split_once('=') {
        Some((name, value)) => info.session.labels.get(name).is_some_and(|has| has == value),
        None => info.session.labels.contains_key(label),
    };
    let has_all = |info: &SessionInfo| {
        let state = &info.kernel.execution_state;
        wanted.label.iter().all(|label| has(info, label))
            && (wanted.state.is_empty() || wanted.state.contains(state))
            && wanted
                .template
                .as_ref()
                .is_none_or(|one| info.session.template == *one)
            && wanted.owner.as_ref().is_none_or(|one| info.session.owner == *one)
    };
    let cut = |mut infos: Vec<SessionInfo>| {
        infos.retain(has_all);
        let key = |info: &SessionInfo| {
            let created = timestamp(info.session.created());
            let ended = info.end.map(|end| timestamp(end.at));
            page_key(&info.id().to_string(), &created, ended.as_deref())
        };
        infos.sort_by_cached_key(key);
        page(infos, wanted.cursor.as_ref(), limit(wanted.limit, PAGE_MOST), key)
    };
    let made = |(infos, next): (Vec<SessionInfo>, Option<String>), memory: &HashMap<SessionId, u64>| {
        let listed = |info: SessionInfo| ListedSession {
            memory_used_bytes: memory.get(&info.id()).copied(),
            session: info.into(),
        };
        let sessions = infos.into_iter().map(listed).collect();
        let unanswered = Vec::new();
        TaggedJson::json(
            &headers,
            &SessionPage {
                sessions,
                next,
                unanswered,
            },
        )
    };
    let engine = app.engine();
    if ended {
        // There may be many: they are looked up in the turn, too.
        let made = || {
            let infos = engine.ended_sessions(&principal)?;
            made(cut(infos), &HashMap::new())
        };
        return engine.answer_in_turn(&principal, ENDED_BYTES, made).await?;
    }
    let shown = cut(engine.session_infos(&principal)?);
    let ids: Vec<SessionId> = shown.0.iter().map(SessionInfo::id).collect();
    let memory = engine.session_memory(&principal, &ids).await?;
    let bytes = ids.len() * SESSION_BYTES;
    engine
        .answer_in_turn(&principal, bytes, || made(shown, &memory))
        .await?
}

/// `POST /v1/sessions`: 201 with the session when its process is up; 200 with the one that an earlier request with the same key
/// started.
pub(crate) async fn create(
    State(app): State<App>,
    Caller(principal): Caller,
    Key(header): Key,
    Members(wanted): Members<NewSession<HyphenatedId>>,
) -> Result<EitherResponse<CreatedResponse<Session>, ReplayedResponse<Session>>, ApiError> {
    let mut start = wanted.read()?;
    start.key = key_of(start.key, header)?;
    let (info, started) = match start.key {
        Some(_) => app.engine().put_session(&principal, start).await?,
        None => (app.engine().start_session(&principal, start).await?, true),
    };
    let path = format!("/v1/sessions/{}", info.kernel.id);
    let session = Session::from(info);
    Ok(if started {
        EitherResponse::One(CreatedResponse::at(&app, &path, session))
    } else {
        EitherResponse::Other(ReplayedResponse(session))
    })
}

/// `GET /v1/sessions/{id}`: also of one that has ended, by its id.
pub(crate) async fn show(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<TaggedJson<Session>, ApiError> {
    let info = app
        .engine()
        .session_info(&principal, first_kernel(&app, &principal, &id)?);
    TaggedJson::json(
        &headers,
        &Session::from(info.map_err(|error| of_session(error, &id))?),
    )
}

/// `GET /v1/sessions/{id}/usage`: of its sandbox, measured now. Branches share theirs.
pub(crate) async fn usage(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
) -> Result<NoStoreJson<SandboxUsage>, ApiError> {
    let session = session_id(&app, &principal, &id)?;
    let usage = app.engine().session_usage(&principal, session).await;
    let usage = usage.map_err(|error| of_session(error, &id))?;
    Ok(NoStoreJson(usage.into()))
}

/// `DELETE /v1/sessions/{id}`: 204 when its kernel is gone. The sandbox ends with its last session.
pub(crate) async fn end(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
) -> Result<Empty<204>, ApiError> {
    let kernel = first_kernel(&app, &principal, &id)?;
    let ended = app.engine().shutdown_kernel(&principal, kernel).await;
    ended.map_err(|error| of_session(error, &id))?;
    Ok(Empty)
}

/// `PUT /v1/sessions/{name}`: 201 with a new session of this name, or 200 with the one that has it. The members are those of
/// `POST`, without `id`; for a session that is there already only `template` counts, which must be its own (409).
pub(crate) async fn put(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(name): Path<String>,
    Members(wanted): Members<NewSession<NoId>>,
) -> Result<EitherResponse<CreatedResponse<Session>, Json<Session>>, ApiError> {
    if wanted.name.as_ref().is_some_and(|told| *told != name) {
        return Err(ApiError::bad_field(
            "name",
            "differs from the name in the address",
        ));
    }
    let mut start = wanted.read()?;
    if start.key.is_some() {
        let reason = "is not for PUT: the name is the key";
        return Err(ApiError::bad_field("idempotency_key", reason));
    }
    start.session_name = Some(name.clone());
    let (info, started) = app.engine().put_session(&principal, start).await?;
    let session = Session::from(info);
    Ok(if started {
        EitherResponse::One(CreatedResponse::at(
            &app,
            &format!("/v1/sessions/{name}"),
            session,
        ))
    } else {
        EitherResponse::Other(Json(session))
    })
}

/// Changes of a session; every member is optional.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SessionChange")]
pub(crate) struct ChangeSessionRequest {
    /// Labels with null are removed, others stay as they are.
    #[serde(default, deserialize_with = "or_empty")]
    #[schemars(
        with = "Option<BTreeMap<String, Option<String>>>",
        extend("maxProperties" = MAX_LABELS)
    )]
    labels: BTreeMap<String, Option<String>>,
    /// Seconds without activity after which it is ended; null: the value of the template.
    #[serde(default, deserialize_with = "span")]
    #[schemars(with = "Option<Seconds>")]
    idle_timeout_s: TimeChange,
    /// Seconds from now when it is ended; null: the value of the template.
    #[serde(default, deserialize_with = "span")]
    #[schemars(with = "Option<Seconds>")]
    lifetime_s: TimeChange,
    /// The network from now on, a part of the present one: `none`, or rules. Other connections are cut.
    network: Option<WantedNetwork>,
}

/// A time that is there, or null.
fn span<'de, D: Deserializer<'de>>(deserializer: D) -> Result<TimeChange, D::Error> {
    let time: Option<Seconds> = Option::deserialize(deserializer)?;
    Ok(time.map_or(TimeChange::Reset, |time| TimeChange::Set(seconds(time))))
}

/// `PATCH /v1/sessions/{id}`: 200 with the session as it is then.
pub(crate) async fn change(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    Members(wanted): Members<ChangeSessionRequest>,
) -> Result<Json<Session>, ApiError> {
    let session = session_id(&app, &principal, &id)?;
    let change = SessionChange {
        labels: wanted.labels,
        idle_timeout: wanted.idle_timeout_s,
        lifetime: wanted.lifetime_s,
        allow: wanted.network.map(WantedNetwork::narrower).transpose()?,
    };
    let info = app.engine().change_session(&principal, session, change).await;
    Ok(Json(info.map_err(|error| of_session(error, &id))?.into()))
}

/// `POST /v1/sessions/{id}/interrupt`: 204 when the interrupt is sent. The code may still continue.
pub(crate) async fn interrupt(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
) -> Result<Empty<204>, ApiError> {
    let kernel = first_kernel(&app, &principal, &id)?;
    let done = app.engine().interrupt_kernel(&principal, kernel).await;
    done.map_err(|error| of_session(error, &id))?;
    Ok(Empty)
}

/// `POST /v1/sessions/{id}/restart`: 200 with the session when its next process is up. Its variables are gone.
pub(crate) async fn restart(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
) -> Result<Json<Session>, ApiError> {
    let kernel = first_kernel(&app, &principal, &id)?;
    let done = app.engine().restart_kernel(&principal, kernel).await;
    done.map_err(|error| of_session(error, &id))?;
    let info = app.engine().session_info(&principal, kernel);
    Ok(Json(info.map_err(|error| of_session(error, &id))?.into()))
}

/// The session of a path: its id or its name.
pub(super) fn session_id(app: &App, principal: &Principal, text: &str) -> Result<SessionId, ApiError> {
    let found = app.engine().find_session(principal, text);
    found.map_err(|error| of_session(error, text))
}

/// The first kernel of the session of a path.
pub(super) fn first_kernel(app: &App, principal: &Principal, text: &str) -> Result<KernelId, ApiError> {
    session_id(app, principal, text).map(SessionId::first_kernel)
}

/// An error about a session, which the engine calls a kernel.
pub(super) fn of_session(error: EngineError, id: &str) -> ApiError {
    match error {
        EngineError::NotFound {
            what: "Kernel" | "Session",
            ..
        } => absent(id),
        other => other.into(),
    }
}

fn absent(id: &str) -> ApiError {
    let id: String = id.chars().take(64).flat_map(char::escape_debug).collect();
    ApiError::no_session(format!("Session does not exist: {id}"))
}
