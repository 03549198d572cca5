//! Kept files: a claim for each name.

use std::collections::BTreeMap;
use std::time::SystemTime;

use himalia_provisioner::{Limits, MountSource, SandboxError, SharedMount};
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, ListParams, PostParams};

use crate::error::{call, code, failed};
use crate::inner::Inner;
use crate::names::{FILES, age, maker};
use crate::pod;

/// Size of a claim whose session has no limit.
const CLAIM_BYTES: u64 = 1 << 30;

/// The claim for these files, made if it is missing. Its size is that of the first session.
pub(crate) async fn ensure(inner: &Inner, name: &str, limits: &Limits) -> Result<String, SandboxError> {
    let claim = inner.names.claim(name);
    let mut annotations = inner.names.made_by();
    annotations.insert(FILES.to_owned(), name.to_owned());
    let object = PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(claim.clone()),
            labels: Some(inner.names.labels()),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
            storage_class_name: inner.config.storage_class.clone(),
            resources: Some(VolumeResourceRequirements {
                requests: Some(BTreeMap::from([(
                    "storage".to_owned(),
                    pod::bytes(limits.disk_bytes.unwrap_or(CLAIM_BYTES)),
                )])),
                limits: None,
            }),
            ..PersistentVolumeClaimSpec::default()
        }),
        status: None,
    };
    let (claims, params) = (inner.claims(), PostParams::default());
    let made = call("create a claim", async || {
        match claims.create(&params, &object).await {
            Err(error) if code(&error) != Some(409) => Err(error),
            _ => Ok(()),
        }
    });
    made.await.map_err(|error| failed("create a claim", &error))?;
    Ok(claim)
}

/// Deletes the claim for these files; the cluster waits until no pod uses it.
pub(crate) async fn remove(inner: &Inner, name: &str) -> Result<(), SandboxError> {
    let (claims, claim) = (inner.claims(), inner.names.claim(name));
    let deleted = call("delete a claim", async || {
        match claims.delete(&claim, &DeleteParams::default()).await {
            Err(error) if code(&error) != Some(404) => Err(error),
            _ => Ok(()),
        }
    });
    deleted.await.map_err(|error| failed("delete a claim", &error))
}

/// Refuses mounts of claims that the namespace does not have.
pub(crate) async fn check_claims(inner: &Inner, mounts: &[SharedMount]) -> Result<(), SandboxError> {
    if mounts.is_empty() {
        return Ok(());
    }
    let (claims, params) = (inner.claims(), ListParams::default());
    let all = call("list claims", async || claims.list_metadata(&params).await).await;
    let all = all.map_err(|error| failed("list claims", &error))?;
    for mount in mounts {
        let MountSource::Claim { claim, .. } = &mount.source else {
            continue;
        };
        let is_there = all
            .items
            .iter()
            .any(|one| one.metadata.name.as_ref() == Some(claim));
        if !is_there {
            return Err(SandboxError::BadSpec {
                field: "mounts",
                reason: format!("{}: the namespace has no claim {claim:?}", mount.name),
            });
        }
    }
    Ok(())
}

/// The names of all kept files of this gateway, but those that another replica has just made: their session may be about to
/// have a row.
pub(crate) async fn names(inner: &Inner) -> Result<Vec<String>, SandboxError> {
    let (claims, params) = (
        inner.claims(),
        ListParams::default().labels(&inner.names.selector()),
    );
    let all = call("list claims", async || claims.list(&params).await).await;
    let all = all.map_err(|error| failed("list claims", &error))?;
    let (own, now) = (inner.names.replica.as_deref(), SystemTime::now());
    let young = inner.config.start_deadline + inner.config.reap_after;
    let name = |claim: PersistentVolumeClaim| {
        let is_others = maker(&claim.metadata).is_some_and(|maker| Some(maker) != own);
        if is_others && age(&claim.metadata, now) < young {
            return None;
        }
        let deleted = claim.metadata.deletion_timestamp.is_some();
        claim.metadata.annotations?.remove(FILES).filter(|_| !deleted)
    };
    Ok(all.items.into_iter().filter_map(name).collect())
}
