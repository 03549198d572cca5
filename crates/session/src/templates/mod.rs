//! Templates: from a name and a caller's request to everything that a start needs to know.
//!
//! A name is a template of the configuration, or else a kernelspec, which is a template of its own with the
//! configuration's defaults. A caller may ask for less than the template gives, and for more only up to its `max`.

pub(crate) mod binds;
mod check;
mod grants;
pub(crate) mod java;
mod limits;
mod mounts;
pub(crate) mod packages;
mod plan;
pub(crate) mod programs;
mod sandbox_spec;

use std::collections::BTreeMap;

use himalia_kernelspecs::Catalog;
use himalia_model::{EngineConfig, EngineError, KernelSpec, MountTemplate, Origin, Template, TemplateInfo};

pub(crate) use check::check;
pub(crate) use mounts::check_sources;
pub(crate) use plan::{Offer, Plan, check_labels, duration, plan, trust_domain, with_placeholders};
pub(crate) use sandbox_spec::{env_dir, sandbox_spec, warm_zygote, zygote_spec};

/// The templates of a configuration.
#[derive(Clone, Debug)]
pub struct Templates {
    named: BTreeMap<String, Template>,
    defaults: Template,
    mounts: BTreeMap<String, MountTemplate>,
}

/// A template with the kernelspec that it names.
#[derive(Clone, Debug)]
pub(crate) struct ChosenTemplate {
    pub(crate) name: String,
    pub(crate) template: Template,
    pub(crate) spec: KernelSpec,
}

impl Templates {
    pub(crate) fn of(config: &EngineConfig) -> Self {
        Self {
            named: config.templates.clone(),
            defaults: config.defaults.clone(),
            mounts: config.mounts.clone(),
        }
    }

    fn mounts(&self, template: &Template) -> Vec<MountTemplate> {
        let named = template.mounts.iter().filter_map(|name| self.mounts.get(name));
        named.cloned().collect()
    }

    /// The templates that have a name of their own and a pool.
    pub(crate) fn pooled(&self) -> impl Iterator<Item = (&String, &Template)> {
        self.named.iter().filter(|(_, template)| template.pool.size > 0)
    }

    /// Names of the templates that want modules loaded in advance.
    pub(crate) fn preloading(&self) -> impl Iterator<Item = &String> {
        let wants = |(_, template): &(&String, &Template)| !template.preload.is_empty();
        self.named.iter().filter(wants).map(|(name, _)| name)
    }

    /// The template for a start: the named one, or the default kernelspec's.
    ///
    /// # Errors
    /// [`EngineError::NoSuchKernelspec`], or [`EngineError::NoSuchTemplate`] for `/v1`.
    pub(crate) async fn choose(
        &self,
        catalog: &Catalog,
        name: Option<&str>,
        origin: Origin,
    ) -> Result<ChosenTemplate, EngineError> {
        let name = name.filter(|name| !name.is_empty());
        if let Some((name, template)) = name.and_then(|name| self.named.get_key_value(name)) {
            let spec = catalog.get_or_default(template.kernelspec.as_deref()).await?;
            return Ok(ChosenTemplate {
                name: name.clone(),
                template: template.clone(),
                spec,
            });
        }
        let spec = match catalog.get_or_default(name).await {
            Err(EngineError::NoSuchKernelspec { name }) if origin == Origin::V1 => {
                return Err(self.no_such(catalog, name).await);
            }
            found => found?,
        };
        // A template that has the name of the default kernelspec is its template.
        let template = self.named.get(&spec.name).filter(|_| name.is_none());
        Ok(ChosenTemplate {
            name: spec.name.clone(),
            template: template.unwrap_or(&self.defaults).clone(),
            spec,
        })
    }

    /// The error for a name that no template and no kernelspec has.
    pub async fn no_such(&self, catalog: &Catalog, name: String) -> EngineError {
        let all = self.list(catalog).await.unwrap_or_default();
        let there = all.into_iter().map(|one| one.name).collect();
        EngineError::NoSuchTemplate { name, there }
    }

    /// All of them: those with a name, then those of kernelspecs.
    pub async fn list(&self, catalog: &Catalog) -> Result<Vec<TemplateInfo>, EngineError> {
        let named = self.named.iter().map(|(name, template)| TemplateInfo {
            name: name.clone(),
            implicit: false,
            mounts: self.mounts(template),
            template: template.clone(),
        });
        let specs = catalog.list().await?;
        let implicit = specs
            .specs
            .keys()
            .filter(|name| !self.named.contains_key(*name))
            .map(|name| TemplateInfo {
                name: name.clone(),
                implicit: true,
                mounts: self.mounts(&self.defaults),
                template: Template {
                    kernelspec: Some(name.clone()),
                    ..self.defaults.clone()
                },
            });
        Ok(named.chain(implicit).collect())
    }
}
