//! JSON of sessions: what `POST /v1/sessions` and `PUT /v1/sessions/{name}` ask for, and what every route shows.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use himalia_engine::{
    AllowList, ExecutionId, ExecutionState, FilesMode, Isolation, KernelId, MAX_LABELS, MAX_NAME_CHARS,
    MAX_START_KEY_BYTES, NAME_PATTERN, Network, Origin, Secrets, SessionId, SessionInfo, SessionLimits,
    StartPath, StartSession, ToolPattern, TreePlace,
};
use himalia_wire::build::timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::input::{HyphenatedId, Text, Whole};
use super::models::{Limits, UnresponsiveKernel};
use crate::error::ApiError;
use crate::variables;

/// Ten years.
const LONGEST_S: u64 = 10 * 366 * 86_400;
const MOST_U32: u64 = u32::MAX as u64;

/// A time in seconds.
pub(crate) type Seconds = Whole<1, LONGEST_S>;
type Small = Whole<1, MOST_U32>;
type Positive = Whole<1, { u64::MAX }>;

/// The requested session; every member is optional.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, bound(deserialize = "I: Deserialize<'de>"))]
#[schemars(rename = "NewSessionWith{I}")]
pub(crate) struct NewSession<I> {
    /// Name of a template or a kernelspec.
    template: Option<String>,
    /// A chosen id, so that a repeated request creates no second session.
    id: Option<I>,
    /// Unique among living sessions of its owner.
    #[schemars(extend("pattern" = NAME_PATTERN, "maxLength" = MAX_NAME_CHARS))]
    pub(super) name: Option<String>,
    /// Environment variables of its processes.
    #[serde(default, deserialize_with = "or_empty")]
    #[schemars(with = "Option<BTreeMap<String, String>>", extend("maxProperties" = variables::COUNT))]
    env: BTreeMap<String, String>,
    /// Environment variables that are neither shown nor stored.
    #[serde(default, deserialize_with = "or_empty")]
    #[schemars(with = "Option<BTreeMap<String, String>>", extend("maxProperties" = variables::COUNT))]
    secrets: BTreeMap<String, String>,
    /// A repeated request with this key is the same session, as long as it lives. Only for `POST`: the name of a `PUT` is its key.
    idempotency_key: Option<Text<1, MAX_START_KEY_BYTES>>,
    /// The first directory of its kernel.
    cwd: Option<String>,
    limits: Option<WantedLimits>,
    /// The minimum level.
    isolation: Option<Isolation>,
    image: Option<String>,
    /// `none`, the name of an open network, `allow` for what the template allows, or a part of that.
    network: Option<WantedNetwork>,
    /// Names of credentials that it may use: some of those of the template. Default: all of them.
    credentials: Option<Vec<String>>,
    /// Tools that it may use: some of those of the template. Default: all of them.
    #[schemars(with = "Option<Vec<String>>")]
    tools: Option<Vec<ToolPattern>>,
    /// Seconds without activity after which it is ended.
    idle_timeout_s: Option<Seconds>,
    /// Seconds after its start when it is ended.
    lifetime_s: Option<Seconds>,
    /// Labels of the caller.
    #[serde(default, deserialize_with = "or_empty")]
    #[schemars(with = "Option<BTreeMap<String, String>>", extend("maxProperties" = MAX_LABELS))]
    labels: BTreeMap<String, String>,
}

/// Requested limits; absent ones are those of the template.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WantedLimits {
    memory_bytes: Option<Positive>,
    pids: Option<Small>,
    cpu_millis: Option<Small>,
    disk_bytes: Option<Positive>,
    tmp_bytes: Option<Positive>,
    shm_bytes: Option<Positive>,
    open_files: Option<Positive>,
    output_bytes: Option<Positive>,
    execution_ms: Option<Positive>,
}

/// A requested network.
#[derive(Debug, JsonSchema)]
#[schemars(untagged)]
pub(crate) enum WantedNetwork {
    /// The name of a network.
    Name(String),
    /// Hosts that can be reached through the gateway.
    #[schemars(with = "NetworkList")]
    List(AllowList),
}

/// Hosts that can be reached through the gateway.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NetworkList {
    /// Part of what the template allows.
    allow: AllowList,
}

impl<'de> Deserialize<'de> for WantedNetwork {
    /// Unlike a derived form, an error says what is wrong with a rule.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = WantedNetwork;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a network, or an object with allow")
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<WantedNetwork, E> {
                Ok(WantedNetwork::Name(name.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<WantedNetwork, A::Error> {
                let NetworkList { allow } = NetworkList::deserialize(MapAccessDeserializer::new(map))?;
                Ok(WantedNetwork::List(allow))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

impl WantedNetwork {
    /// For a session that has a list.
    pub(super) fn narrower(self) -> Result<AllowList, ApiError> {
        match self {
            Self::List(allow) => Ok(allow),
            Self::Name(name) if name == "none" => Ok(AllowList::default()),
            Self::Name(_) => Err(ApiError::bad_field(
                "network",
                "of a session can only be changed to none, or to an object with allow",
            )),
        }
    }
}

fn named_network(name: String) -> Network {
    match name.as_str() {
        "none" => Network::None,
        "allow" => Network::Allow,
        _ => Network::Open(name),
    }
}

/// In place of an id where the address has a name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoId;

impl<'de> Deserialize<'de> for NoId {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(D::Error::custom("cannot be used for a named session"))
    }
}

impl JsonSchema for NoId {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "NoId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "null" })
    }
}

/// Null is as good as absent.
pub(in crate::v1) fn or_empty<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl NewSession<HyphenatedId> {
    /// For the engine.
    pub(super) fn read(self) -> Result<StartSession, ApiError> {
        let id = self.id.map(|HyphenatedId(id)| id);
        self.with(id)
    }
}

impl NewSession<NoId> {
    /// For the engine.
    pub(super) fn read(self) -> Result<StartSession, ApiError> {
        self.with(None)
    }
}

impl<I> NewSession<I> {
    fn with(self, id: Option<KernelId>) -> Result<StartSession, ApiError> {
        variables::check("env", &self.env)?;
        variables::check("secrets", &self.secrets)?;
        let (network, allow) = match self.network {
            Some(WantedNetwork::List(allow)) => (Some(Network::Allow), Some(allow)),
            Some(WantedNetwork::Name(name)) => (filled(Some(name)).map(named_network), None),
            None => (None, None),
        };
        Ok(StartSession {
            name: filled(self.template),
            id,
            cwd: filled(self.cwd),
            env: self.env,
            secrets: Secrets(self.secrets),
            origin: Origin::V1,
            isolation: self.isolation,
            limits: self.limits.map(WantedLimits::read).unwrap_or_default(),
            image: filled(self.image),
            network,
            allow,
            credentials: self.credentials,
            tools: self.tools,
            idle_timeout: self.idle_timeout_s.map(seconds),
            lifetime: self.lifetime_s.map(seconds),
            labels: self.labels,
            session_name: self.name,
            key: self.idempotency_key.map(|Text(key)| key),
            models: None,
            skills: None,
            once: None,
            starter: None,
        })
    }
}

impl WantedLimits {
    fn read(self) -> SessionLimits {
        let plain = |limit: Option<Positive>| limit.map(|Whole(number)| number);
        let small = |limit: Option<Small>| limit.and_then(|Whole(number)| u32::try_from(number).ok());
        SessionLimits {
            memory_bytes: plain(self.memory_bytes),
            pids: small(self.pids),
            cpu_millis: small(self.cpu_millis),
            disk_bytes: plain(self.disk_bytes),
            tmp_bytes: plain(self.tmp_bytes),
            shm_bytes: plain(self.shm_bytes),
            open_files: plain(self.open_files),
            output_bytes: plain(self.output_bytes),
            execution_ms: plain(self.execution_ms),
        }
    }
}

/// An empty text counts as absent.
fn filled(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

/// The time.
pub(super) fn seconds(Whole(seconds): Seconds) -> Duration {
    Duration::from_secs(seconds)
}

/// The place of a session that code of another session has started.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SessionTree")]
struct Tree {
    /// The session at the top, which a client has started.
    root: SessionId,
    /// The execution there whose code, through sessions between, has started this one; null: there was none.
    #[schemars(with = "Option<String>")]
    root_execution: Option<ExecutionId>,
    /// The session whose code has started this one.
    parent: SessionId,
    /// Sessions above it, from 1.
    depth: u32,
}

impl From<TreePlace> for Tree {
    fn from(place: TreePlace) -> Self {
        Self {
            root: place.root,
            root_execution: place.root_execution.map(|seq| ExecutionId {
                kernel: place.root.first_kernel(),
                seq,
            }),
            parent: place.parent,
            depth: place.depth,
        }
    }
}

/// A session: a kernel and its sandbox.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Session {
    /// Also the id of its first kernel: every route of a kernel accepts it.
    id: KernelId,
    /// The name that its owner gave it; while it lives, every route of a session accepts it in place of the id.
    name: Option<String>,
    /// The tenant that owns it, or `operator`.
    owner: String,
    kernelspec: String,
    template: String,
    state: ExecutionState,
    /// Counts kernel processes, from 1. If it changes, the variables are gone.
    incarnation: u32,
    /// The reason for its state: a cause of death such as `oom`, of its end such as `idle_culled`, or null.
    reason: Option<String>,
    /// Set if its process runs and does not respond; null if it responds, or is only busy.
    unresponsive: Option<UnresponsiveKernel>,
    origin: Origin,
    isolation: Isolation,
    limits: Limits,
    /// Maximum memory of the sandbox, including file systems in memory; null: no limit.
    memory_total_bytes: Option<u64>,
    provisioner: String,
    /// `none`, `allow`, or the name of an open network.
    network: String,
    /// With `allow`: what it may reach.
    allow: AllowList,
    /// Names of the credentials that it may use.
    credentials: Vec<String>,
    /// Tools that it may use: servers, and patterns of their tools.
    tools: Vec<String>,
    image: Option<String>,
    files: FilesMode,
    cwd: String,
    /// `pool`, `zygote`, `cold` or `fork`.
    started_by: StartPath,
    /// The reason why it was not taken from the pool of its template, or null.
    start_reason: Option<String>,
    start_ms: u64,
    parent: Option<SessionId>,
    /// The place in a tree, if code of another session has started it, or null.
    tree: Option<Tree>,
    connections: u32,
    #[schemars(extend("format" = "date-time"))]
    created: String,
    #[schemars(extend("format" = "date-time"))]
    last_activity: String,
    idle_timeout_s: Option<u64>,
    #[schemars(extend("format" = "date-time"))]
    expires: Option<String>,
    /// Time of its end; null while it lives.
    #[schemars(extend("format" = "date-time"))]
    ended: Option<String>,
    /// When its log is removed at the latest; null while it lives.
    #[schemars(extend("format" = "date-time"))]
    kept_until: Option<String>,
    labels: BTreeMap<String, String>,
}

impl From<SessionInfo> for Session {
    fn from(info: SessionInfo) -> Self {
        let SessionInfo { session, kernel, end } = info;
        let memory_total_bytes = session.memory_total();
        let (created, expires) = (session.created(), session.expires());
        let sandbox = session.sandbox;
        Self {
            id: kernel.id,
            name: session.name,
            owner: session.owner,
            kernelspec: session.kernelspec,
            template: session.template,
            state: kernel.execution_state,
            incarnation: kernel.incarnation,
            reason: kernel.reason.filter(|reason| !reason.is_empty()),
            unresponsive: kernel.unresponsive.map(UnresponsiveKernel::from),
            origin: session.origin,
            isolation: sandbox.isolation,
            memory_total_bytes,
            limits: Limits::new(&sandbox.limits, sandbox.enforcement, sandbox.isolation),
            provisioner: session.provisioner,
            network: match sandbox.network {
                Network::None => "none".to_owned(),
                Network::Allow => "allow".to_owned(),
                Network::Open(name) => name,
            },
            allow: sandbox.allow,
            credentials: sandbox.credentials,
            tools: sandbox.tools.tools.into_iter().map(String::from).collect(),
            image: sandbox.image,
            files: sandbox.files,
            cwd: session.cwd,
            started_by: session.start_path,
            start_reason: session.start_reason,
            start_ms: session.start_ms,
            parent: session.parent,
            tree: session.tree.map(Tree::from),
            connections: kernel.connections,
            created: timestamp(created),
            last_activity: timestamp(kernel.last_activity),
            idle_timeout_s: session.idle_timeout.as_ref().map(Duration::as_secs),
            expires: expires.map(timestamp),
            ended: end.map(|end| timestamp(end.at)),
            kept_until: end.map(|end| timestamp(end.kept_until)),
            labels: session.labels,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use himalia_engine::{Enforcement, KernelModel, LimitReport, SandboxConfig};
    use serde_json::{Value, json};
    use time::macros::datetime;

    #[test]
    fn a_session_shows_each_limit_with_who_enforces_it() {
        let created = datetime!(2026-01-02 03:04:05 UTC);
        let session = Session::from(SessionInfo {
            kernel: KernelModel {
                id: "11111111-2222-3333-4444-555555555555".parse().unwrap(),
                name: "python3".into(),
                last_activity: created,
                execution_state: ExecutionState::Dead,
                connections: 0,
                unresponsive: None,
                reason: Some("oom".into()),
                incarnation: 2,
            },
            session: himalia_engine::Session {
                owner: "operator".into(),
                origin: Origin::V1,
                name: Some("eda".into()),
                created_micros: 1,
                template: "small".into(),
                kernelspec: "python3".into(),
                provisioner: "local".into(),
                sandbox: SandboxConfig {
                    isolation: Isolation::Namespaces,
                    limits: SessionLimits {
                        memory_bytes: Some(5),
                        tmp_bytes: Some(6),
                        ..SessionLimits::default()
                    },
                    enforcement: LimitReport {
                        memory: Enforcement::Watched,
                        pids: Enforcement::Cgroup,
                        ..LimitReport::default()
                    },
                    network: Network::Open("lab".into()),
                    ..SandboxConfig::default()
                },
                cwd: "/session".into(),
                start_path: StartPath::Zygote,
                start_ms: 9,
                idle_timeout: Some(Duration::from_mins(1)),
                expires_micros: Some(1_767_323_045_000_000),
                tree: Some(TreePlace {
                    root: "11111111-2222-3333-4444-666666666666".parse().unwrap(),
                    root_execution: Some(7),
                    parent: "11111111-2222-3333-4444-777777777777".parse().unwrap(),
                    depth: 2,
                }),
                ..himalia_engine::Session::default()
            },
            end: None,
        });
        let shown = serde_json::to_value(session).unwrap();
        for (pointer, wanted) in [
            ("/state", json!("dead")),
            ("/reason", json!("oom")),
            ("/incarnation", json!(2)),
            ("/origin", json!("v1")),
            ("/isolation", json!("namespaces")),
            (
                "/limits/memory_bytes",
                json!({"value": 5, "enforcement": "watched"}),
            ),
            ("/limits/pids", json!({"value": null, "enforcement": "cgroup"})),
            ("/limits/tmp_bytes", json!({"value": 6, "enforcement": "hard"})),
            ("/network", json!("lab")),
            ("/files", json!("ephemeral")),
            ("/started_by", json!("zygote")),
            ("/idle_timeout_s", json!(60)),
            ("/expires", json!("2026-01-02T03:04:05.000000Z")),
            ("/parent", Value::Null),
            ("/tree/depth", json!(2)),
            ("/tree/root", json!("11111111-2222-3333-4444-666666666666")),
            (
                "/tree/root_execution",
                json!("exe_11111111222233334444666666666666_7"),
            ),
            ("/ended", Value::Null),
            ("/name", json!("eda")),
            ("/owner", json!("operator")),
        ] {
            assert_eq!(shown.pointer(pointer), Some(&wanted), "{pointer}");
        }
    }
}
