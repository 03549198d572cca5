//! The client of the API server.

use std::path::Path;
use std::time::Duration;

use himalia_provisioner::SandboxError;
use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};

/// Time for a connection to the API server.
const CONNECT_TIME: Duration = Duration::from_secs(5);

/// A client by this kubeconfig; without one by the account of the pod that this process is in, or else by `KUBECONFIG` and
/// `~/.kube/config`. Nothing is called yet.
///
/// # Errors
/// [`SandboxError::Cluster`] when the settings are unusable.
pub async fn connect(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Client, SandboxError> {
    let failed = |reason: String| SandboxError::Cluster { away: false, reason };
    let options = KubeConfigOptions {
        context: context.map(str::to_owned),
        ..KubeConfigOptions::default()
    };
    let config = match (kubeconfig, context) {
        (Some(path), _) => {
            let read = Kubeconfig::read_from(path);
            let read = read.map_err(|error| failed(format!("{}: {error}", path.display())))?;
            Config::from_custom_kubeconfig(read, &options).await
        }
        (None, Some(_)) => Config::from_kubeconfig(&options).await,
        (None, None) => {
            let inferred = Config::infer().await;
            let mut config =
                inferred.map_err(|error| failed(format!("no cluster is configured: {error}")))?;
            config.connect_timeout = Some(CONNECT_TIME);
            return Client::try_from(config).map_err(|error| failed(error.to_string()));
        }
    };
    let mut config = config.map_err(|error| failed(format!("kubeconfig: {error}")))?;
    config.connect_timeout = Some(CONNECT_TIME);
    Client::try_from(config).map_err(|error| failed(error.to_string()))
}
