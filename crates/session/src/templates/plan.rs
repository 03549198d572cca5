//! A start, settled: the template under the caller's wishes, and the provisioner that meets them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use himalia_model::{
    EngineConfig, EngineError, FilesMode, GivenVariables, KernelSpec, NotOffered, Origin, ProvisionerChoice,
    SandboxConfig, Session, SessionLimits, StartKernel, Template,
};
use himalia_sandbox::{
    Capabilities, Isolation, LimitChange, MAX_LABEL_BYTES, MAX_LABELS, Network, Provisioner, RootFiles,
};

use super::grants::Grants;
use super::{Chosen, limits};
use crate::Provisioners;

/// What this gateway has to give.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer<'a> {
    pub(crate) provisioners: &'a Provisioners,
    pub(crate) config: &'a EngineConfig,
}

/// Everything about a start that does not depend on the caller's variables.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The session that it will be; the provisioner adds what its sandbox is in fact.
    pub(crate) session: Session,
    pub(crate) spec: KernelSpec,
    pub(crate) provisioner: Arc<dyn Provisioner>,
    /// Runtime of the container engine; `None` is the provisioner's own.
    pub(crate) runtime: Option<String>,
    /// How long it lives at most.
    pub(crate) lifetime: Option<Duration>,
    /// Variables of the template.
    pub(crate) env: BTreeMap<String, String>,
    /// Modules that a zygote imports before its first fork.
    pub(crate) preload: Vec<String>,
    /// Who may share a zygote with it; `None`: no other session.
    pub(crate) trust_domain: Option<String>,
    /// Why no kernel of the template's pool will do, whatever its variables.
    pub(crate) unlike_pool: Option<String>,
}

impl Plan {
    /// What its provisioner can do.
    pub(crate) fn capabilities(&self) -> Capabilities {
        self.provisioner.capabilities()
    }

    /// Whether its kernels see the host's files at their own places.
    pub(crate) fn shares_files(&self) -> bool {
        self.capabilities().root == RootFiles::Host
    }

    /// What changes for a sandbox that was made with other limits.
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

    /// Whether its kernels run in a container, with files of an image.
    pub(crate) fn in_container(&self) -> bool {
        self.capabilities().root == RootFiles::Image
    }
}

/// The trust domain of all where there are no tenants.
const COMMON_DOMAIN: &str = "gateway";

/// Who may share a zygote with a kernel of this template and owner; `None`: nobody.
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
    chosen: Chosen,
    start: &StartKernel,
    owner: Option<&str>,
) -> Result<Plan, EngineError> {
    let Chosen { name, template, spec } = chosen;
    let isolation = start.isolation.unwrap_or_default().max(template.isolation);
    let network = start.network.clone().unwrap_or_else(|| template.network.clone());
    let image = start.image.clone().or_else(|| template.image.clone());
    let wants = Wants {
        choice: template.provisioner,
        isolation,
        network: &network,
        image: image.as_deref(),
        runtime: template.runtime.as_deref(),
        files: template.files,
    };
    let provisioner = Arc::clone(choose(offer.provisioners, &wants)?);
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
    let unlike_pool = unlike(&template, &limits, &wants, start, &*provisioner);
    let trust_domain = trust_domain(offer.config, &template, owner);
    // A kernel of `/api` is never started from its row.
    let given = match start.origin {
        Origin::V1 => GivenVariables::of(&start.env, &start.secrets),
        Origin::Jupyter => GivenVariables::default(),
    };
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
            image,
            files: template.files,
            given,
            ..SandboxConfig::default()
        },
        idle_timeout: duration("idle_timeout", template.idle_timeout, start.idle_timeout)?,
        labels: start.labels.clone(),
        ..Session::default()
    };
    Ok(Plan {
        session,
        lifetime: duration("lifetime", template.lifetime, start.lifetime)?,
        spec,
        provisioner,
        runtime: template.runtime,
        env: template.env,
        preload: template.preload,
        trust_domain,
        unlike_pool,
    })
}

/// What a provisioner is chosen by.
struct Wants<'a> {
    choice: ProvisionerChoice,
    isolation: Isolation,
    network: &'a Network,
    image: Option<&'a str>,
    runtime: Option<&'a str>,
    files: FilesMode,
}

fn choose<'a>(all: &'a Provisioners, wants: &Wants<'_>) -> Result<&'a Arc<dyn Provisioner>, EngineError> {
    let containers = wants.image.is_some()
        || wants.runtime.is_some()
        || wants.isolation > Isolation::Namespaces
        || *wants.network != Network::None;
    let (found, missing) = match wants.choice {
        ProvisionerChoice::Named(kind) => (all.of_kind(kind), format!("no provisioner {kind} is configured")),
        // With nobody to run containers the refusal says what is missing.
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
    if !can.images() && wants.image.is_some() {
        let reason = format!("provisioner {kind} runs no images");
        return Err(EngineError::not_offered(NotOffered::Image, "image", reason));
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

/// Less than the template's, or anything where that has none.
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
    start: &StartKernel,
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
    let stronger = start.isolation.is_some_and(|asked| asked > template.isolation);
    if stronger && template.provisioner == ProvisionerChoice::Auto && wants.isolation > Isolation::Namespaces
    {
        return Some("it asks for more isolation".to_owned());
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
mod tests {
    use himalia_sandbox::ProvisionerKind;

    use super::*;
    use crate::testing::StubProvisioner;

    struct Place {
        provisioners: Provisioners,
        config: EngineConfig,
    }

    fn place(levels: &[Isolation]) -> Place {
        let stub = |level: &Isolation| -> Arc<dyn Provisioner> { Arc::new(StubProvisioner::new(*level)) };
        let mut config = EngineConfig::new("/nowhere");
        config.images = vec!["known".to_owned()];
        config.networks = vec!["net".to_owned()];
        Place {
            provisioners: Provisioners::new(levels.iter().map(stub).collect()),
            config,
        }
    }

    impl Place {
        fn plan(&self, template: &Template, start: &StartKernel) -> Result<Plan, EngineError> {
            let offer = Offer {
                provisioners: &self.provisioners,
                config: &self.config,
            };
            let chosen = Chosen {
                name: "t".to_owned(),
                template: template.clone(),
                spec: KernelSpec {
                    name: "python3".to_owned(),
                    spec: himalia_model::KernelJson::default(),
                    resources: BTreeMap::new(),
                    dir: "/specs/python3".into(),
                    problem: None,
                },
            };
            plan(offer, chosen, start, Some("operator"))
        }

        fn level(&self, template: &Template, start: &StartKernel) -> Isolation {
            let plan = self.plan(template, start).unwrap();
            plan.provisioner.capabilities().isolation
        }

        fn refusal(&self, start: &StartKernel) -> (&'static str, &'static str) {
            match self.plan(&Template::default(), start).unwrap_err() {
                EngineError::NotOffered { code, field, .. } => (code.as_str(), field),
                other => panic!("{other}"),
            }
        }
    }

    fn image(name: &str) -> StartKernel {
        StartKernel {
            image: Some(name.to_owned()),
            ..StartKernel::default()
        }
    }

    fn network(name: &str) -> StartKernel {
        StartKernel {
            network: Some(Network::Open(name.to_owned())),
            ..StartKernel::default()
        }
    }

    fn level(isolation: Isolation) -> StartKernel {
        StartKernel {
            isolation: Some(isolation),
            ..StartKernel::default()
        }
    }

    /// A template that grants an image and a network.
    fn generous() -> Template {
        Template {
            images: vec!["known".to_owned()],
            networks: vec!["net".to_owned()],
            ..Template::default()
        }
    }

    #[test]
    fn the_wishes_choose_the_provisioner() {
        let place = place(&[Isolation::Namespaces, Isolation::Container]);
        let auto = generous();
        for (start, given) in [
            (StartKernel::default(), Isolation::Namespaces),
            (level(Isolation::Namespaces), Isolation::Namespaces),
            (level(Isolation::Container), Isolation::Container),
            (image("known"), Isolation::Container),
            (network("net"), Isolation::Container),
        ] {
            assert_eq!(place.level(&auto, &start), given);
        }
        // Without a grant what the gateway has is not to be had.
        for name in ["unknown", "known"] {
            assert_eq!(place.refusal(&image(name)), ("image_not_allowed", "image"));
        }
        for name in ["host", "net"] {
            assert_eq!(place.refusal(&network(name)), ("network_unsupported", "network"));
        }
        assert_eq!(
            place.refusal(&level(Isolation::Microvm)),
            ("isolation_unavailable", "isolation")
        );
    }

    #[test]
    fn without_containers_the_refusal_says_what_is_missing() {
        let place = place(&[Isolation::None]);
        assert_eq!(place.refusal(&network("net")), ("network_unsupported", "network"));
        assert_eq!(place.refusal(&image("known")), ("image_not_allowed", "image"));
        assert_eq!(
            place.refusal(&level(Isolation::Namespaces)),
            ("isolation_unavailable", "isolation")
        );
        let docker = Template {
            provisioner: ProvisionerChoice::Named(ProvisionerKind::Docker),
            ..Template::default()
        };
        let missing = place.plan(&docker, &StartKernel::default()).unwrap_err();
        assert_eq!(
            missing.to_string(),
            "provisioner: no provisioner docker is configured"
        );
    }

    #[test]
    fn what_the_provisioner_cannot_do_is_refused() {
        let named = Template {
            provisioner: ProvisionerChoice::Named(ProvisionerKind::Docker),
            files: FilesMode::Session,
            ..generous()
        };
        let refusal = |change: fn(&mut Capabilities), start: &StartKernel| {
            let stub = StubProvisioner::new(Isolation::Container).with(change);
            let place = Place {
                provisioners: Arc::new(stub).into(),
                ..place(&[])
            };
            match place.plan(&named, start) {
                Err(EngineError::NotOffered { field, .. }) => field,
                Err(other) => panic!("{other}"),
                Ok(_) => "",
            }
        };
        let plain = StartKernel::default();
        assert_eq!(refusal(|_| {}, &plain), "");
        assert_eq!(refusal(|can| can.kept_files = false, &plain), "files");
        assert_eq!(
            refusal(|can| can.root = RootFiles::Built, &image("known")),
            "image"
        );
        assert_eq!(refusal(|can| can.networks = false, &network("net")), "network");
    }

    #[test]
    fn a_session_of_its_own_kind_does_not_come_from_the_pool() {
        let place = place(&[Isolation::Namespaces, Isolation::Container]);
        let template = Template {
            idle_timeout: Some(Duration::from_mins(1)),
            ..generous()
        };
        let unlike = |start: &StartKernel| place.plan(&template, start).unwrap().unlike_pool;
        assert_eq!(unlike(&StartKernel::default()), None);
        assert!(unlike(&image("known")).unwrap().contains("image"));
        let mut start = StartKernel::default();
        start.limits.memory_bytes = Some(5);
        // The stub changes nothing of a sandbox that lives.
        assert_eq!(
            unlike(&start).as_deref(),
            Some("limits.memory_bytes is set when a sandbox starts")
        );
        // Time and the log are the gateway's own.
        let mut start = StartKernel::default();
        start.limits.output_bytes = Some(5);
        assert_eq!(unlike(&start), None);
        let mut start = StartKernel::default();
        start.limits.execution_ms = Some(5);
        start.idle_timeout = Some(Duration::from_secs(5));
        assert_eq!(unlike(&start), None);
        start.idle_timeout = Some(Duration::from_hours(1));
        assert!(place.plan(&template, &start).is_err());
    }

    #[test]
    fn tenants_share_no_zygote_unless_the_template_says_so() {
        let mut config = EngineConfig::new("/nowhere");
        let (plain, named) = (
            Template::default(),
            Template {
                trust_domain: Some("all".to_owned()),
                ..Template::default()
            },
        );
        let domain =
            |config: &EngineConfig, template: &Template, owner| trust_domain(config, template, owner);
        for owner in [None, Some("operator")] {
            assert_eq!(domain(&config, &plain, owner).as_deref(), Some("gateway"));
        }
        config
            .tenants
            .insert("acme".to_owned(), himalia_model::TenantLimits::default());
        let of = |owner| domain(&config, &plain, Some(owner)).unwrap();
        assert_ne!(of("acme"), of("other"));
        assert_ne!(of("acme"), of("operator"));
        // Whose a pooled kernel will be is not known yet.
        assert_eq!(domain(&config, &plain, None), None);
        for owner in [None, Some("acme"), Some("other")] {
            assert_eq!(domain(&config, &named, owner).as_deref(), Some("all"));
        }
    }
}
