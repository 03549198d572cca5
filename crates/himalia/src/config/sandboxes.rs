//! Settings of sandboxes: levels, the Docker engine, templates; checked against each other.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use himalia_engine::{PoolConfig, ProvisionerChoice, Template};
use himalia_provisioner::{Isolation, Network, ProvisionerKind};

use super::ConfigError;
use super::kubernetes::Kubernetes;
use super::templates::Reader;
use crate::settings::{
    DockerHost, DockerTable, GivenSettings, IsolationSetting, PoolTable, Seconds, Settings, TemplateTable,
};

/// The default image of sandboxes.
const IMAGE: &str = "himalia-kernel";
/// Most templates.
const MAX_TEMPLATES: usize = 64;

/// Settings of sandboxes.
#[derive(Clone, Debug)]
pub(crate) struct Sandboxes {
    pub(crate) isolation: IsolationSetting,
    /// Range that the operator has set.
    pub(crate) host_uids: Option<RangeInclusive<u32>>,
    /// The cluster whose pods are the sandboxes.
    pub(crate) kubernetes: Option<Kubernetes>,
    /// True if a setting needs the Docker engine.
    pub(crate) docker_wanted: bool,
    pub(crate) docker: Docker,
    pub(crate) defaults: Template,
    pub(crate) templates: BTreeMap<String, Template>,
}

/// The Docker engine's settings; where pods of a cluster are the sandboxes, what of them has the same names.
#[derive(Clone, Debug)]
pub(crate) struct Docker {
    /// The table of the file that they are from.
    pub(crate) table: &'static str,
    pub(crate) socket: PathBuf,
    /// The first is the default.
    pub(crate) images: Vec<String>,
    pub(crate) networks: Vec<String>,
    pub(crate) runtimes: BTreeMap<String, Isolation>,
    /// The default of `runtimes`.
    pub(crate) runtime: String,
}

impl Docker {
    /// Checks that networks and images that are granted to callers are some of `[docker]`. An error has the field and
    /// what is wrong with it.
    pub(super) fn check_grants(
        &self,
        networks: &[String],
        images: &[String],
    ) -> Result<(), (&'static str, String)> {
        if let Some(name) = networks.iter().find(|name| !self.networks.contains(name)) {
            let reason = format!("{name:?} is not in [{}] networks", self.table);
            return Err(("networks", reason));
        }
        if let Some(name) = images.iter().find(|name| !self.images.contains(name)) {
            let reason = format!("{name:?} is neither [{}] image nor in its images", self.table);
            return Err(("images", reason));
        }
        Ok(())
    }
}

impl Sandboxes {
    /// Checks the settings about sandboxes; they are taken out of `settings`.
    pub(super) fn check(settings: &mut Settings, listen: IpAddr) -> Result<Self, ConfigError> {
        let isolation = settings.isolation;
        if isolation == IsolationSetting::Level(Isolation::None) && !listen.to_canonical().is_loopback() {
            let reason = "none is for loopback addresses only: kernels could do all that this user may";
            return Err(ConfigError::new("isolation", reason));
        }
        let docker_said = settings.docker.is_some() || settings.docker_host.is_some();
        let kubernetes = settings.kubernetes.take().map(Kubernetes::check).transpose()?;
        if docker_said && kubernetes.is_some() {
            let reason = "give [kubernetes] or the settings of Docker, not both";
            return Err(ConfigError::new("kubernetes", reason));
        }
        let docker = match &kubernetes {
            Some(kubernetes) => kubernetes.offer(),
            None => docker(
                settings.docker.take().unwrap_or_default(),
                settings.docker_host.take(),
                isolation,
            )?,
        };
        let mut defaults = settings.defaults.take().unwrap_or_default();
        for (key, said) in [
            ("kernelspec", defaults.kernelspec.is_some()),
            ("pool", defaults.pool.is_some()),
        ] {
            if said {
                let reason = "is for single templates only";
                return Err(ConfigError::new(format!("defaults.{key}"), reason));
            }
        }
        if let IsolationSetting::Level(level) = isolation {
            let least = defaults.isolation.unwrap_or_default();
            defaults.isolation = Some(least.max(level));
        }
        let reader = Reader {
            docker: &docker,
            defaults: &defaults,
        };
        let named = settings.templates.take().unwrap_or_default();
        if named.len() > MAX_TEMPLATES {
            let reason = format!("are {}, at most {MAX_TEMPLATES} are possible", named.len());
            return Err(ConfigError::new("templates", reason));
        }
        let mut templates = BTreeMap::new();
        for (name, table) in named {
            let template = reader.template(&name, &table)?;
            if isolation == IsolationSetting::Level(Isolation::None)
                && template.isolation == Isolation::Namespaces
                && !wants_docker(&template)
            {
                let reason = "namespaces are wanted, and isolation = \"none\" gives less";
                return Err(ConfigError::new(format!("templates.{name}.isolation"), reason));
            }
            templates.insert(name, template);
        }
        let defaults = reader.defaults()?;
        let docker_wanted =
            kubernetes.is_none() && (docker_said || templates.values().chain([&defaults]).any(wants_docker));
        Ok(Self {
            isolation,
            host_uids: settings.host_uids.take().map(|uids| uids.0),
            kubernetes,
            docker_wanted,
            docker,
            defaults,
            templates,
        })
    }
}

/// Returns true if the template needs the Docker provisioner.
fn wants_docker(template: &Template) -> bool {
    template.provisioner == ProvisionerChoice::Named(ProvisionerKind::Docker)
        || template.image.is_some()
        || template.runtime.is_some()
        || matches!(template.network, Network::Open(_))
        || template.isolation > Isolation::Namespaces
}

fn docker(
    table: DockerTable,
    host: Option<DockerHost>,
    isolation: IsolationSetting,
) -> Result<Docker, ConfigError> {
    let runtimes = table.runtimes.unwrap_or_else(|| {
        BTreeMap::from([
            ("runc".to_owned(), Isolation::Container),
            ("runsc".to_owned(), Isolation::Gvisor),
        ])
    });
    if let Some((name, level)) = runtimes.iter().find(|(_, level)| **level < Isolation::Container) {
        let reason = format!("{level} must be container, gvisor or microvm");
        return Err(ConfigError::new(format!("docker.runtimes.{name}"), reason));
    }
    let least = match isolation {
        IsolationSetting::Level(level) => level,
        IsolationSetting::Auto => Isolation::None,
    };
    let Some(runtime) = weakest(&runtimes, least) else {
        let reason = format!("{least} is given by no runtime of [docker.runtimes]");
        return Err(ConfigError::new("isolation", reason));
    };
    let mut images = vec![table.image.unwrap_or_else(|| IMAGE.to_owned())];
    for image in table.images {
        if !images.contains(&image) {
            images.push(image);
        }
    }
    for (key, names) in [("images", &images), ("networks", &table.networks)] {
        if let Some(name) = names.iter().find(|name| !is_docker_name(name)) {
            let reason = format!("{name:?} must have letters, digits, '-', '_' and '.' only");
            return Err(ConfigError::new(format!("docker.{key}"), reason));
        }
    }
    if let Some(name) = table
        .networks
        .iter()
        .find(|name| ["none", "host", "bridge", "default"].contains(&name.as_str()))
    {
        let reason = format!(
            "{name:?} is a network of Docker itself; create one for kernels: docker network create NAME"
        );
        return Err(ConfigError::new("docker.networks", reason));
    }
    let host = host.or(table.host);
    Ok(Docker {
        table: "docker",
        socket: host.map_or_else(|| PathBuf::from("/var/run/docker.sock"), |host| host.0),
        images,
        networks: table.networks,
        runtimes,
        runtime,
    })
}

/// The weakest runtime of at least this level; of several the one with the first name.
pub(super) fn weakest(runtimes: &BTreeMap<String, Isolation>, least: Isolation) -> Option<String> {
    let enough = runtimes.iter().filter(|(_, level)| **level >= least);
    enough
        .min_by_key(|(_, level)| **level)
        .map(|(name, _)| name.clone())
}

/// Returns true if the engine accepts the text as a name. Colons, slashes and at signs belong to images.
fn is_docker_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:@".contains(&byte);
    text.len() <= 255
        && text.bytes().all(plain)
        && text
            .bytes()
            .next()
            .is_some_and(|byte| byte.is_ascii_alphanumeric())
}

impl GivenSettings {
    /// Adds what `himalia up` gives without being asked: one ready kernel with the usual modules. What is said in the
    /// file about the template wins.
    pub(crate) fn warm(&mut self) {
        const PRELOAD: [&str; 3] = ["numpy", "pandas", "matplotlib"];
        let name = "python3";
        let templates = self.templates.get_or_insert_default();
        let template: &mut TemplateTable = templates.entry(name.to_owned()).or_default();
        if template.kernelspec.as_deref().is_some_and(|spec| spec != name) {
            return;
        }
        let by_defaults = self
            .defaults
            .as_ref()
            .is_some_and(|table| table.preload.is_some());
        if template.preload.is_none() && !by_defaults {
            template.preload = Some(PRELOAD.map(str::to_owned).to_vec());
        }
        template.pool.get_or_insert_with(|| PoolTable {
            size: Some(1),
            ..PoolTable::default()
        });
    }
}

/// The pool's settings in the engine's terms.
pub(super) fn pool(key: &str, table: &PoolTable) -> Result<PoolConfig, ConfigError> {
    const MOST: u32 = 256;
    let size = table.size.unwrap_or(0);
    let max = table
        .max
        .unwrap_or_else(|| size.saturating_mul(2).min(MOST.max(size)));
    let bad = |field: &str, reason: String| Err(ConfigError::new(format!("{key}.{field}"), reason));
    if max > MOST || size > MOST {
        return bad("max", format!("is more than {MOST}"));
    }
    if max < size {
        return bad("max", format!("is less than size ({size})"));
    }
    let max_age = table
        .max_age
        .map_or(PoolConfig::default().max_age, Seconds::duration);
    if max_age.is_zero() {
        return bad("max_age", "must be at least one second".to_owned());
    }
    Ok(PoolConfig { size, max, max_age })
}
