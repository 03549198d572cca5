//! What `POST /v1/sessions` and `PUT /v1/sessions/{name}` ask for.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use himalia_engine::{
    Isolation, KernelId, MAX_LABELS, MAX_NAME_CHARS, NAME_PATTERN, Network, Origin, Secrets, SessionLimits,
    StartKernel,
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{Deserializer, Error};

use super::input::{Hyphenated, Whole};
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
    /// The first directory of its kernel.
    cwd: Option<String>,
    limits: Option<WantedLimits>,
    /// The minimum level.
    isolation: Option<Isolation>,
    image: Option<String>,
    /// `none`, or the name of an open network.
    network: Option<String>,
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
pub(super) fn or_empty<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl NewSession<Hyphenated> {
    /// For the engine.
    pub(super) fn read(self) -> Result<StartKernel, ApiError> {
        let id = self.id.map(|Hyphenated(id)| id);
        self.with(id)
    }
}

impl NewSession<NoId> {
    /// For the engine.
    pub(super) fn read(self) -> Result<StartKernel, ApiError> {
        self.with(None)
    }
}

impl<I> NewSession<I> {
    fn with(self, id: Option<KernelId>) -> Result<StartKernel, ApiError> {
        variables::check("env", &self.env)?;
        variables::check("secrets", &self.secrets)?;
        Ok(StartKernel {
            name: filled(self.template),
            id,
            cwd: filled(self.cwd),
            env: self.env,
            secrets: Secrets(self.secrets),
            origin: Origin::V1,
            isolation: self.isolation,
            limits: self.limits.map(WantedLimits::read).unwrap_or_default(),
            image: filled(self.image),
            network: filled(self.network).map(|name| match name.as_str() {
                "none" => Network::None,
                _ => Network::Open(name),
            }),
            idle_timeout: self.idle_timeout_s.map(seconds),
            lifetime: self.lifetime_s.map(seconds),
            labels: self.labels,
            session_name: self.name,
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
