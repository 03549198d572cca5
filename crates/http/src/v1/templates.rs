//! `GET /v1/templates`: what sessions can be started from, and what the caller may ask for.

use axum::extract::State;
use axum::http::HeaderMap;
use himalia_engine::{
    FilesMode, Isolation, KernelSpecs, MountTemplate, Network, Principal, ProvisionerChoice, SessionLimits,
    TemplateInfo,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::answers::TaggedJson;
use super::input::{ListQuery, Parameters};
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;

/// A page of the list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TemplatePage {
    templates: Vec<Template>,
    /// The template of a session that names none; null if there is none.
    default: Option<String>,
    /// The cursor of the next page; null at the end.
    next: Option<String>,
}

/// Something that sessions can be started from, as far as the caller may use it.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Template")]
struct Template {
    name: String,
    /// True for a kernelspec that the configuration has no template for.
    implicit: bool,
    kernelspec: String,
    /// The kernelspec's name for people.
    display_name: Option<String>,
    /// The kernelspec's language.
    language: Option<String>,
    /// One line if it is known that it cannot be started.
    problem: Option<String>,
    /// The minimum level of isolation. A session may ask for more.
    isolation: Isolation,
    /// `local` (also for the level `namespaces`), `docker`, `kubernetes`, or `auto`: chosen for each session.
    provisioner: String,
    /// The image of its sandboxes, if it names one.
    image: Option<String>,
    /// More images that the caller may request.
    images: Vec<String>,
    /// `none`, `allow` (a list of hosts), or the name of an open network.
    network: String,
    /// Names of credentials that its sessions may use.
    credentials: Vec<String>,
    /// Tools that its sessions may use: servers, and patterns of their tools.
    tools: Vec<String>,
    /// More networks that the caller may request. `none` is always possible.
    networks: Vec<String>,
    /// Limits of a session that asks for none. Null: no limit.
    limits: LimitValues,
    /// The maximum that a session may ask for. Null: no maximum.
    max_limits: LimitValues,
    /// Seconds without activity after which a session is ended, and the maximum that it may ask for. Null: no limit.
    idle_timeout_s: Option<u64>,
    /// Seconds after which a session is ended, and the maximum that it may ask for. Null: no limit.
    lifetime_s: Option<u64>,
    files: FilesMode,
    /// Directories that are mounted into its sandboxes, in addition to their own files.
    mounts: Vec<TemplateMount>,
    /// Modules that are imported before a session starts, in sandboxes that start from a zygote.
    preload: Vec<String>,
    /// True if kernels are kept ready, so that a start takes milliseconds.
    pooled: bool,
}

/// A directory that the operator shares with sandboxes.
#[derive(Debug, Serialize, JsonSchema)]
struct TemplateMount {
    name: String,
    /// The path in a sandbox.
    path: String,
    writable: bool,
    /// True if each tenant or caller has a part of its own.
    personal: bool,
}

impl From<&MountTemplate> for TemplateMount {
    fn from(mount: &MountTemplate) -> Self {
        Self {
            name: mount.name.clone(),
            path: mount.target.to_string_lossy().into_owned(),
            writable: !mount.read_only,
            personal: mount.is_personal(),
        }
    }
}

/// Limits of a session.
#[derive(Debug, Serialize, JsonSchema)]
struct LimitValues {
    memory_bytes: Option<u64>,
    pids: Option<u64>,
    cpu_millis: Option<u64>,
    disk_bytes: Option<u64>,
    tmp_bytes: Option<u64>,
    shm_bytes: Option<u64>,
    open_files: Option<u64>,
    output_bytes: Option<u64>,
    execution_ms: Option<u64>,
}

impl From<&SessionLimits> for LimitValues {
    fn from(limits: &SessionLimits) -> Self {
        Self {
            memory_bytes: limits.memory_bytes,
            pids: limits.pids.map(u64::from),
            cpu_millis: limits.cpu_millis.map(u64::from),
            disk_bytes: limits.disk_bytes,
            tmp_bytes: limits.tmp_bytes,
            shm_bytes: limits.shm_bytes,
            open_files: limits.open_files,
            output_bytes: limits.output_bytes,
            execution_ms: limits.execution_ms,
        }
    }
}

impl Template {
    fn new(info: TemplateInfo, specs: &KernelSpecs) -> Self {
        let max = LimitValues::from(&info.max_limits());
        let TemplateInfo {
            name,
            implicit,
            mounts,
            template,
        } = info;
        let kernelspec = template.kernelspec.unwrap_or_else(|| specs.default.clone());
        let spec = specs.specs.get(&kernelspec);
        let filled = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        Self {
            name,
            implicit,
            display_name: spec.and_then(|spec| filled(&spec.spec.display_name)),
            language: spec.and_then(|spec| filled(&spec.spec.language)),
            problem: match spec {
                Some(spec) => spec.problem.clone(),
                None => Some("its kernelspec does not exist".to_owned()),
            },
            kernelspec,
            isolation: template.isolation,
            provisioner: match template.provisioner {
                ProvisionerChoice::Auto => "auto".to_owned(),
                ProvisionerChoice::Named(kind) => kind.to_string(),
            },
            image: template.image,
            images: template.images,
            network: match template.network {
                Network::None => "none".to_owned(),
                Network::Allow => "allow".to_owned(),
                Network::Open(name) => name,
            },
            credentials: template.credentials.into_iter().map(|one| one.name).collect(),
            tools: template.tools.tools.into_iter().map(String::from).collect(),
            networks: template.networks,
            limits: LimitValues::from(&template.limits),
            max_limits: max,
            idle_timeout_s: template.idle_timeout.map(|time| time.as_secs()),
            lifetime_s: template.lifetime.map(|time| time.as_secs()),
            files: template.files,
            mounts: mounts.iter().map(TemplateMount::from).collect(),
            preload: template.preload,
            pooled: template.pool.size > 0,
        }
    }
}

/// The letter of its cursors.
const LIST: char = 'm';

/// `GET /v1/templates`, in the order of names.
pub(crate) async fn list(
    State(app): State<App>,
    Caller(principal): Caller,
    Parameters(wanted): Parameters<ListQuery<LIST>>,
    headers: HeaderMap,
) -> Result<TaggedJson<TemplatePage>, ApiError> {
    let (mut templates, specs) = all(&app, &principal).await?;
    templates.sort_by(|one, other| one.name.cmp(&other.name));
    let key = |template: &Template| template.name.clone();
    let (templates, next) = wanted.page(templates, key);
    let default = Some(specs.default).filter(|name| !name.is_empty());
    TaggedJson::json(
        &headers,
        &TemplatePage {
            templates,
            default,
            next,
        },
    )
}

async fn all(app: &App, principal: &Principal) -> Result<(Vec<Template>, KernelSpecs), ApiError> {
    let specs = app.engine().kernelspecs(principal).await?;
    let found = app.engine().templates(principal).await?;
    let templates = found.into_iter().map(|info| Template::new(info, &specs));
    Ok((templates.collect(), specs))
}
