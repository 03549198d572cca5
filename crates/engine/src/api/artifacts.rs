//! Artifacts: images and other large values of executions, beside the logs of their sessions.

use std::path::PathBuf;

use crate::access::Object;
use himalia_executions::{ArtifactInfo, ArtifactStore, ExecutionId, StoredArtifact};
use himalia_model::{Action, EngineError, KernelId, Principal};

use super::Commands;

impl Commands {
    pub(crate) async fn artifact(
        &self,
        principal: &Principal,
        sha256: &str,
    ) -> Result<StoredArtifact, EngineError> {
        self.allow(principal, Action::Read, Object::Gateway)?;
        check(sha256)?;
        let all = self.inner.registry.all_unordered();
        let mut logs: Vec<PathBuf> = all
            .into_iter()
            .filter(|handle| principal.sees(&handle.session().owner) && self.has_log(handle))
            .map(|handle| handle.journal.dir().to_owned())
            .collect();
        let kept = self.inner.ended.kept_of(|owner| principal.sees(owner));
        logs.extend(
            kept.into_iter()
                .map(|row| self.inner.config.data_dir.join(row.session_dir)),
        );
        self.artifact_of(principal, logs, sha256).await
    }

    pub(crate) async fn execution_artifact(
        &self,
        principal: &Principal,
        id: ExecutionId,
        sha256: &str,
    ) -> Result<StoredArtifact, EngineError> {
        self.allow(principal, Action::Read, Object::Kernel(id.kernel))?;
        check(sha256)?;
        let log = self.log(principal, id.kernel).map_err(|error| match error {
            EngineError::NotFound { .. } => EngineError::no_execution(&id.to_string()),
            other => other,
        })?;
        let dir = log.journal().dir().to_owned();
        self.artifact_of(principal, vec![dir], sha256).await
    }

    pub(crate) async fn artifacts(
        &self,
        principal: &Principal,
        kernel: KernelId,
    ) -> Result<Vec<ArtifactInfo>, EngineError> {
        self.allow(principal, Action::Read, Object::Kernel(kernel))?;
        let log = self.log(principal, kernel)?;
        let store = ArtifactStore::beside(log.journal().dir());
        let turn = self.inner.budget.turn(principal).await?;
        let listed = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            store.list()
        });
        listed
            .await
            .map_err(|error| EngineError::internal("listing artifacts", error))
    }

    /// The artifact beside one of these logs.
    async fn artifact_of(
        &self,
        principal: &Principal,
        logs: Vec<PathBuf>,
        sha256: &str,
    ) -> Result<StoredArtifact, EngineError> {
        let name = sha256.to_owned();
        // Directories of many files are looked through.
        let turn = self.inner.budget.turn(principal).await?;
        let found = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            logs.iter().find_map(|log| ArtifactStore::beside(log).get(&name))
        });
        let found = found
            .await
            .map_err(|error| EngineError::internal("reading an artifact", error))?;
        found.ok_or_else(|| unknown(sha256))
    }
}

fn unknown(sha256: &str) -> EngineError {
    EngineError::NotFound {
        what: "Artifact",
        id: sha256.chars().take(64).collect(),
    }
}

/// Refuses what is no hash, as one that is unknown.
fn check(sha256: &str) -> Result<(), EngineError> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if sha256.len() == 64 && sha256.bytes().all(is_digit) {
        return Ok(());
    }
    Err(unknown(sha256))
}
