//! The plan of a start: template and request become a session, a provisioner and a command line.

use std::collections::BTreeMap;
use std::sync::Arc;

use himalia_kernelspecs::{Launch, LaunchRequest, launch};
use himalia_model::{EngineError, KernelSpec, Secrets, StartSession};

use crate::SessionManager;
use crate::templates::{Offer, Plan, plan, warm_zygote};

impl SessionManager {
    /// Plans what a start asks for; without an owner it is not known yet whose the kernel will be.
    pub(crate) async fn plan(&self, start: &StartSession, owner: Option<&str>) -> Result<Plan, EngineError> {
        let chosen = self
            .templates
            .choose(&self.catalog, start.name.as_deref(), start.origin)
            .await?;
        let offer = Offer {
            provisioners: &self.provisioners,
            config: &self.config,
        };
        plan(offer, chosen, start, owner)
    }

    pub(crate) fn launch(
        &self,
        plan: &Plan,
        env: BTreeMap<String, String>,
        cwd: Option<String>,
    ) -> Result<Launch, EngineError> {
        let request = LaunchRequest {
            env,
            cwd,
            template_env: plan.env.clone(),
            shares_files: plan.shares_files(),
            in_container: plan.in_container(),
            ..LaunchRequest::default()
        };
        launch(&plan.spec, &request, self.catalog.host())
    }

    /// Plan of a template without an owner.
    pub(crate) async fn plan_of_template(&self, template: &str) -> Result<(Plan, Launch), EngineError> {
        let start = StartSession {
            name: Some(template.to_owned()),
            ..StartSession::default()
        };
        let plan = self.plan(&start, None).await?;
        let launch = self.launch(&plan, BTreeMap::new(), None)?;
        Ok((plan, launch))
    }

    /// Gets the zygote of a template ready, so that its first session need not start cold.
    pub(crate) async fn warm_template(self: Arc<Self>, template: String) {
        match self.plan_of_template(&template).await {
            Ok((plan, launch)) => warm_zygote(&plan, &launch, self.catalog.host()).await,
            Err(error) => tracing::warn!(template, %error, "cannot load the modules of a template early"),
        }
    }
}

/// The variables of a start, secret ones included.
pub(crate) fn with_secrets(
    env: &BTreeMap<String, String>,
    secrets: &Secrets,
) -> Result<BTreeMap<String, String>, EngineError> {
    let mut env = env.clone();
    for (name, value) in &secrets.0 {
        if env.insert(name.clone(), value.clone()).is_some() {
            let shown: String = name.chars().take(64).collect();
            return Err(EngineError::bad_request(
                "secrets",
                format!("{shown:?} is in env too"),
            ));
        }
    }
    Ok(env)
}

/// `metadata.cull_idle_timeout` of a kernelspec, seconds.
pub(crate) fn cull_timeout(spec: &KernelSpec) -> Option<f64> {
    spec.spec
        .metadata
        .get("cull_idle_timeout")
        .and_then(serde_json::Value::as_f64)
}
