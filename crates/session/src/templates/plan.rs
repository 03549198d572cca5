//! A start, settled: the template with what the caller requests, and the provisioner that provides it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use himalia_model::credential::{Intercept, placeholder};
use himalia_model::network::AllowList;
use himalia_model::{
    EngineConfig, EngineError, FilesMode, GivenVariables, KernelSpec, MountTemplate, NotOffered, Origin,
    ProvisionerChoice, SandboxConfig, Session, SessionLimits, SkillAccess, StartSession, Starter, Template,
    ToolPolicy,
};
use himalia_provisioner::{
    Capabilities, Isolation, LimitChange, MAX_LABEL_BYTES, MAX_LABELS, MountKind, Network, Provisioner,
    RootFiles,
};

use super::grants::Grants;
use super::{ChosenTemplate, limits};
use crate::Provisioners;

/// Features of this gateway.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer<'a> {
    pub(crate) provisioners: &'a Provisioners,
    pub(crate) config: &'a EngineConfig,
}

/// Settled properties of a start, all but the caller's variables.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The session that it will be; the provisioner adds what its sandbox is in fact.
    pub(crate) session: Session,
    pub(crate) spec: KernelSpec,
    pub(crate) provisioner: Arc<dyn Provisioner>,
    /// Runtime of the container engine; `None` is the provisioner's own.
    pub(crate) runtime: Option<String>,
    /// Longest life.
    pub(crate) lifetime: Option<Duration>,
    /// Variables of the template.
    pub(crate) env: BTreeMap<String, String>,
    /// Mounts from the operator.
    pub(crate) mounts: Vec<MountTemplate>,
    /// Modules that a zygote imports before its first fork.
    pub(crate) preload: Vec<String>,
    /// Sessions that may share a zygote with it; `None`: no other session.
    pub(crate) trust_domain: Option<String>,
    /// Reason why no kernel of the template's pool fits, whatever its variables.
    pub(crate) unlike_pool: Option<String>,
}

impl Plan {
    /// Capabilities of its provisioner.
    pub(crate) fn capabilities(&self) -> Capabilities {
        self.provisioner.capabilities()
    }

    /// True if its kernels see the host's files at their own places.
    pub(crate) fn shares_files(&self) -> bool {
        self.capabilities().root == RootFiles::Host
    }

    /// Changes for a sandbox that was made with other limits.
    pub(crate) fn change_from(&self, limits: &SessionLimits) -> LimitChange {
        LimitChange {
            from: limits::of_sandbox(limits),
            to: limits::of_sandbox(&self.session.sandbox.limits),
            runtime: self.runtime.clone(),
        }
    }

    /// When a session that was created at this time ends whatever it does, microseconds since 1970.
    pub(crate) fn expires_micros(&self, created_micros: u64) -> Option<u64> {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.lifetime
            .map(|time| created_micros.saturating_add(micros(time)))
    }

    /// True if its kernels run in a container, with files of an image.
    pub(crate) fn in_container(&self) -> bool {
        self.capabilities().root == RootFiles::Image
    }
}

/// The trust domain of all where there are no tenants.
const COMMON_DOMAIN: &str = "gateway";

/// Sessions that may share a zygote with a kernel of this template and owner; `None`: no other session.
pub(crate) fn trust_domain(
    config: &EngineConfig,
    template: &Template,
    owner: Option<&str>,
) -> Option<String> {
    match &template.trust_domain {
        Some(named) => Some(named.clone()),
        None if config.tenants.is_empty() => Some(COMMON_DOMAIN.to_owned()),
        None => owner.map(|owner| format!("tenant/{owner}")),
    }
}

/// Settles a start for an owner; `None`: it is not known yet whose the kernel will be.
///
/// # Errors
/// [`EngineError::NotOffered`] and [`EngineError::BadRequest`], naming the field.
pub(crate) fn plan(
    offer: Offer<'_>,
    chosen: ChosenTemplate,
    start: &StartSession,
    owner: Option<&str>,
) -> Result<Plan, EngineError> {
    let ChosenTemplate { name, template, spec } = chosen;
    let starter = start.starter.as_deref();
    let of_starter = starter.map_or(Isolation::None, |starter| starter.isolation);
    let asked = start.isolation.unwrap_or_default();
    let isolation = asked.max(template.isolation).max(of_starter);
    let network = match start.network.clone().unwrap_or_else(|| template.network.clone()) {
        // What is there is not known.
        Network::Open(_) if starter.is_some() => Network::None,
        network => network,
    };
    let mut allow = match network {
        Network::Allow => start.allow.clone().unwrap_or_else(|| template.allow.clone()),
        Network::None | Network::Open(_) => AllowList::default(),
    };
    let of_template = template.credentials.iter().map(|one| one.name.clone());
    let (mut credentials, intercept) = match network {
        Network::Allow => {
            let names = start.credentials.clone().unwrap_or_else(|| of_template.collect());
            (names, template.intercept.clone())
        }
        Network::None | Network::Open(_) => (Vec::new(), Intercept::None),
    };
    let is_open = matches!(network, Network::Open(_));
    let mut tools = ToolPolicy {
        tools: start
            .tools
            .clone()
            .unwrap_or_else(|| template.tools.tools.clone()),
        ..template.tools.clone()
    };
    let skills = match &start.skills {
        // Such a network has no door.
        _ if is_open || !template.skills => SkillAccess::None,
        Some(fewer) => fewer.clone(),
        None => SkillAccess::All,
    };
    let mut models = *template.models.clone();
    if let Some(fewer) = &start.models {
        models.models.retain(|name| fewer.contains(name));
    }
    let mut tree_limits = template.tree;
    if let Some(starter) = starter {
        allow = allow.common(&starter.allow);
        credentials.retain(|name| starter.credentials.contains(name));
        tools = tools.within(&starter.tools);
        models = models.within(&starter.models);
        tree_limits = tree_limits.within(starter.limits);
    }
    let image = start.image.clone().or_else(|| template.image.clone());
    let mounts = template
        .mounts
        .iter()
        .filter_map(|name| offer.config.mounts.get(name));
    let mounts: Vec<MountTemplate> = mounts.cloned().collect();
    let wants = Wants {
        choice: template.provisioner,
        isolation,
        network: &network,
        image: image.as_deref(),
        runtime: template.runtime.as_deref(),
        files: template.files,
        mounts: &mounts,
    };
    let provisioner = Arc::clone(choose(offer.provisioners, &wants)?);
    if let Some(starter) = starter {
        refuse_weaker(&wants, &*provisioner, starter)?;
    }
    refuse(&wants, &*provisioner)?;
    let grants = Grants {
        config: offer.config,
        name: &name,
        template: &template,
        owner,
    };
    grants.check(start)?;
    check_labels(&start.labels)?;
    let limits = limits::settle(&template, &start.limits)?;
    // That of what waits in a pool, too.
    let door = network == Network::None
        && (template.skills
            || !template.models.is_empty()
            || !template.tools.is_empty() && !offer.config.tool_servers.is_empty())
        && provisioner.capabilities().proxy;
    let fewer = !credentials
        .iter()
        .eq(template.credentials.iter().map(|one| &one.name));
    let unlike_pool = unlike(&template, &limits, &wants, &*provisioner)
        .or_else(|| fewer.then(|| "it has fewer credentials".to_owned()));
    let trust_domain = trust_domain(offer.config, &template, owner);
    // A kernel of `/api` is never started from its row.
    let given = match start.origin {
        Origin::V1 => GivenVariables::of(&start.env, &start.secrets),
        Origin::Jupyter => GivenVariables::default(),
    };
    let env = with_placeholders(&template, &credentials);
    let session = Session {
        owner: owner.unwrap_or_default().to_owned(),
        origin: start.origin,
        name: start.session_name.clone(),
        template: name,
        kernelspec: spec.name.clone(),
        provisioner: provisioner.kind().to_string(),
        sandbox: SandboxConfig {
            isolation,
            limits,
            network,
            allow,
            credentials,
            intercept,
            tools: if is_open { ToolPolicy::default() } else { tools },
            skills,
            models: if is_open { Box::default() } else { Box::new(models) },
            door,
            image,
            files: template.files,
            given,
            ..SandboxConfig::default()
        },
        idle_timeout: duration("idle_timeout", template.idle_timeout, start.idle_timeout)?,
        labels: start.labels.clone(),
        tree: starter.map(|starter| starter.place),
        tree_limits,
        ..Session::default()
    };
    Ok(Plan {
        session,
        lifetime: duration("lifetime", template.lifetime, start.lifetime)?,
        spec,
        provisioner,
        runtime: template.runtime,
        mounts,
        env,
        preload: template.preload,
        trust_domain,
        unlike_pool,
    })
}

/// The variables of a template, with placeholders for the credentials of these names.
pub(crate) fn with_placeholders(template: &Template, credentials: &[String]) -> BTreeMap<String, String> {
    let mut env = template.env.clone();
    let used = template
        .credentials
        .iter()
        .filter(|one| credentials.contains(&one.name));
    for credential in used {
        for variable in &credential.env {
            env.entry(variable.clone())
                .or_insert_with(|| placeholder(&credential.name));
        }
    }
    env
}

/// Criteria for a provisioner.
struct Wants<'a> {
    choice: ProvisionerChoice,
    isolation: Isolation,
    network: &'a Network,
    image: Option<&'a str>,
    runtime: Option<&'a str>,
    files: FilesMode,
    mounts: &'a [MountTemplate],
}

fn choose<'a>(all: &'a Provisioners, wants: &Wants<'_>) -> Result<&'a Arc<dyn Provisioner>, EngineError> {
    let containers = wants.image.is_some()
        || wants.runtime.is_some()
        || wants.isolation > Isolation::Namespaces
        || matches!(wants.network, Network::Open(_))
        || wants
            .mounts
            .iter()
            .any(|mount| mount.source.kind() != MountKind::Directory);
    let (found, missing) = match wants.choice {
        ProvisionerChoice::Named(kind) => (all.of_kind(kind), format!("no provisioner {kind} is configured")),
        // Without a provisioner of containers the refusal says what is missing.
        ProvisionerChoice::Auto => (
            all.with_images(containers),
            "no provisioner is configured".to_owned(),
        ),
    };
    found.ok_or_else(|| EngineError::not_offered(NotOffered::Provisioner, "provisioner", missing))
}

fn refuse(wants: &Wants<'_>, provisioner: &dyn Provisioner) -> Result<(), EngineError> {
    let (kind, can) = (provisioner.kind(), provisioner.capabilities());
    if !can.networks && matches!(wants.network, Network::Open(_)) {
        let reason = format!("provisioner {kind} gives no network; an open one needs docker");
        return Err(EngineError::not_offered(NotOffered::Network, "network", reason));
    }
    if !can.proxy && *wants.network == Network::Allow {
        let level = can.isolation;
        let reason = format!("a list of hosts cannot be enforced by provisioner {kind} at level {level}");
        return Err(EngineError::not_offered(NotOffered::Network, "network", reason));
    }
    if !can.images() && wants.image.is_some() {
        let reason = format!("provisioner {kind} runs no images");
        return Err(EngineError::not_offered(NotOffered::Image, "image", reason));
    }
    let missing = wants
        .mounts
        .iter()
        .find(|mount| !can.mounts.contains(&mount.source.kind()));
    if let Some(mount) = missing {
        let (level, what) = (can.isolation, mount.source.kind().as_str());
        let reason = format!(
            "{}: provisioner {kind} at level {level} mounts no {what}",
            mount.name
        );
        return Err(EngineError::not_offered(
            NotOffered::Provisioner,
            "mounts",
            reason,
        ));
    }
    if !can.kept_files && wants.files == FilesMode::Session {
        let reason = format!("provisioner {kind} keeps no files");
        return Err(EngineError::not_offered(NotOffered::Provisioner, "files", reason));
    }
    // The level of another runtime is known to the provisioner alone, which refuses too.
    let given = can.isolation;
    if wants.runtime.is_none() && given < wants.isolation {
        let wanted = wants.isolation;
        let reason = format!("{wanted} is asked for, provisioner {kind} gives {given}");
        return Err(EngineError::not_offered(
            NotOffered::Isolation,
            "isolation",
            reason,
        ));
    }
    Ok(())
}

/// Refuses a level of isolation that is less than that of the session whose code starts this one.
fn refuse_weaker(
    wants: &Wants<'_>,
    provisioner: &dyn Provisioner,
    starter: &Starter,
) -> Result<(), EngineError> {
    let given = provisioner.capabilities().isolation;
    // As in `refuse`: the provisioner, which knows the runtime, is asked for this level.
    if wants.runtime.is_some() || given >= starter.isolation {
        return Ok(());
    }
    let reason = format!(
        "it would be {given}, and the session whose code starts it has {}",
        starter.isolation
    );
    Err(EngineError::not_offered(
        NotOffered::Isolation,
        "isolation",
        reason,
    ))
}

/// A time that is asked for, or that of the template; not longer than that.
pub(crate) fn duration(
    field: &'static str,
    has: Option<Duration>,
    asked: Option<Duration>,
) -> Result<Option<Duration>, EngineError> {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let settled = limits::one(field, has.map(millis), None, asked.map(millis))?;
    Ok(settled.map(Duration::from_millis))
}

/// The first thing in which a session is unlike those that its template's pool holds, and that a sandbox cannot be given
/// while it lives.
fn unlike(
    template: &Template,
    limits: &SessionLimits,
    wants: &Wants<'_>,
    provisioner: &dyn Provisioner,
) -> Option<String> {
    let of_pool = limits::settle(template, &SessionLimits::default()).ok()?;
    if wants.image != template.image.as_deref() {
        return Some("it has an image of its own".to_owned());
    }
    if *wants.network != template.network {
        return Some("it has a network of its own".to_owned());
    }
    let change = LimitChange {
        from: limits::of_sandbox(&of_pool),
        to: limits::of_sandbox(limits),
        runtime: template.runtime.clone(),
    };
    if let Some(fixed) = provisioner.fixed_limit(&change) {
        return Some(format!("limits.{} {}", fixed.field, fixed.reason));
    }
    let stronger = wants.isolation > template.isolation.max(Isolation::Namespaces);
    // Another provisioner may have been chosen, or another runtime be needed.
    if stronger && (template.provisioner == ProvisionerChoice::Auto || template.runtime.is_some()) {
        return Some("it needs more isolation".to_owned());
    }
    None
}

pub(crate) fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), EngineError> {
    let bad = |reason: String| Err(EngineError::bad_request("labels", reason));
    if labels.len() > MAX_LABELS {
        return bad(format!("are {}, at most {MAX_LABELS} are allowed", labels.len()));
    }
    let fits =
        |(name, value): (&String, &String)| !name.is_empty() && name.len() + value.len() <= MAX_LABEL_BYTES;
    if !labels.iter().all(fits) {
        return bad(format!("name and value must have 1 to {MAX_LABEL_BYTES} bytes"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
