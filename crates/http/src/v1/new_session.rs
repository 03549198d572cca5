//! Bodies of `POST /v1/sessions` and `PUT /v1/sessions/{name}`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use himalia_engine::{
    AllowList, Isolation, KernelId, MAX_LABELS, MAX_NAME_CHARS, MAX_START_KEY_BYTES, NAME_PATTERN, Network,
    Origin, Secrets, SessionLimits, StartSession, ToolPattern,
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use super::input::{HyphenatedId, Seconds, Text, Whole, or_empty, seconds};
use crate::error::ApiError;
use crate::variables;

const MOST_U32: u64 = u32::MAX as u64;

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
    /// `none`, the name of an open network, `allow` for all hosts that the template allows, or a part of them.
    network: Option<WantedNetwork>,
    /// Names of credentials that it may use, from the credentials of the template. Default: all of them.
    credentials: Option<Vec<String>>,
    /// Tools that it may use, from the tools of the template. Default: all of them.
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

/// Requested limits. Absent limits have the value of the template.
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
    /// Some of the hosts that the template allows.
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
