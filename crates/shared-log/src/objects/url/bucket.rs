//! The clients of the services that have buckets.

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::{BackoffConfig, ObjectStore, RetryConfig};

use super::Service;

/// The time in which the client repeats a request; its caller repeats it after that.
const RETRY_TIME: Duration = Duration::from_secs(10);

/// The client of a bucket, with the settings of the environment.
pub(super) fn open(service: Service, name: &str) -> Result<Arc<dyn ObjectStore>, String> {
    client(service, name).map_err(|error| error.to_string())
}

fn client(service: Service, name: &str) -> object_store::Result<Arc<dyn ObjectStore>> {
    // The client takes the provider of the process.
    himalia_tls::install_provider();
    let retry = RetryConfig {
        backoff: BackoffConfig::default(),
        max_retries: 3,
        retry_timeout: RETRY_TIME,
    };
    Ok(match service {
        Service::S3 => Arc::new(
            AmazonS3Builder::from_env()
                .with_bucket_name(name)
                .with_retry(retry)
                .build()?,
        ),
        Service::Google => Arc::new(
            GoogleCloudStorageBuilder::from_env()
                .with_bucket_name(name)
                .with_retry(retry)
                .build()?,
        ),
        Service::Azure => Arc::new(
            MicrosoftAzureBuilder::from_env()
                .with_container_name(name)
                .with_retry(retry)
                .build()?,
        ),
    })
}
