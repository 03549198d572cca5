//! The provisioners of this gateway, and which of them a sandbox comes from.

use std::fmt::Debug;
use std::sync::Arc;

use himalia_model::ProvisionerInfo;
use himalia_provisioner::{BoxFuture, Isolation, Provisioner, ProvisionerKind, SandboxError, SandboxId};

/// Every provisioner of a gateway, the preferred one of each kind first. Several of one kind differ in their level: the
/// later ones are there so that sandboxes of an earlier configuration are taken over.
#[derive(Clone, Debug)]
pub struct Provisioners {
    all: Vec<Arc<dyn Provisioner>>,
    place: Option<String>,
    elsewhere: Option<Arc<dyn RemoteSandboxes>>,
}

/// The places where other replicas start sandboxes.
pub trait RemoteSandboxes: Debug + Send + Sync + 'static {
    /// True if sandboxes at a place can be reached from here. Blocks on the disk.
    fn reaches(&self, place: &str) -> bool;

    /// Provisioners that take over what is at a place, and start nothing there. Asked again, they are the same.
    fn provisioners<'a>(
        &'a self,
        place: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Arc<dyn Provisioner>>, SandboxError>>;
}

impl Provisioners {
    /// These, in order of preference.
    pub fn new(all: Vec<Arc<dyn Provisioner>>) -> Self {
        Self {
            all,
            place: None,
            elsewhere: None,
        }
    }

    /// Says where the sandboxes are that these start, for other replicas, and what can be reached of theirs. One that is at the same
    /// place can be reached.
    #[must_use]
    pub fn at(self, place: String, elsewhere: Option<Arc<dyn RemoteSandboxes>>) -> Self {
        Self {
            place: Some(place),
            elsewhere,
            ..self
        }
    }

    /// Place of their sandboxes.
    pub(crate) fn place(&self) -> Option<&str> {
        self.place.as_deref()
    }

    /// True if sandboxes at a place can be reached from here. Blocks on the disk.
    pub(crate) fn reaches(&self, place: &str) -> bool {
        self.place() == Some(place) || self.elsewhere.as_ref().is_some_and(|other| other.reaches(place))
    }

    /// The one that made a sandbox of this kind and level at a place; `None` where there is none, or the place cannot be reached.
    pub(crate) async fn maker_at(
        &self,
        place: Option<&str>,
        kind: &str,
        isolation: Isolation,
    ) -> Result<Option<Arc<dyn Provisioner>>, SandboxError> {
        let other = place.filter(|place| self.place() != Some(place));
        let (Some(place), Some(elsewhere)) = (other, &self.elsewhere) else {
            let here = other.is_none();
            return Ok(self.maker(kind, isolation).filter(|_| here).cloned());
        };
        if !elsewhere.reaches(place) {
            return Ok(None);
        }
        let there = Self::new(elsewhere.provisioners(place).await?);
        Ok(there.maker(kind, isolation).cloned())
    }

    /// The most preferred one.
    pub(crate) fn first(&self) -> Option<&Arc<dyn Provisioner>> {
        self.all.first()
    }

    /// Provisioners, for `doctor` and status pages.
    pub fn infos(&self) -> Vec<ProvisionerInfo> {
        let info = |one: &Arc<dyn Provisioner>| ProvisionerInfo {
            kind: one.kind().to_string(),
            isolation: one.capabilities().isolation,
            enforcement: one.limits(),
        };
        self.all.iter().map(info).collect()
    }

    /// The preferred one of a kind.
    pub(crate) fn of_kind(&self, kind: ProvisionerKind) -> Option<&Arc<dyn Provisioner>> {
        self.all.iter().find(|one| one.kind() == kind)
    }

    /// The most preferred one that runs images, or that runs none; the most preferred of all where there is none such.
    pub(crate) fn with_images(&self, images: bool) -> Option<&Arc<dyn Provisioner>> {
        let mut all = self.all.iter();
        all.find(|one| one.capabilities().images() == images)
            .or_else(|| self.all.first())
    }

    /// All, in order of preference.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &dyn Provisioner> {
        self.all.iter().map(AsRef::as_ref)
    }

    /// The one that made a sandbox of this kind, as records spell it, and level; of the kind alone where none has the level.
    pub(crate) fn maker(&self, kind: &str, isolation: Isolation) -> Option<&Arc<dyn Provisioner>> {
        let kind = kind.parse().ok()?;
        self.all
            .iter()
            .find(|one| one.kind() == kind && one.capabilities().isolation == isolation)
            .or_else(|| self.of_kind(kind))
    }

    /// Ends what earlier gateways left and no kernel needs, where the place of sandboxes is this gateway's own. Failures are logged.
    pub(crate) async fn sweep(&self, keep: &[SandboxId]) {
        for one in &self.all {
            match one.sweep(keep.to_vec()).await {
                Ok(swept) if swept.is_empty() => {}
                Ok(swept) => tracing::warn!(
                    kind = %one.kind(),
                    sandboxes = swept.len(),
                    "ended sandboxes that no kernel belongs to"
                ),
                Err(error) => tracing::error!(kind = %one.kind(), %error, "cannot sweep sandboxes"),
            }
        }
    }

    /// Ends what they have created in advance.
    pub(crate) async fn close(&self) {
        for one in &self.all {
            one.close().await;
        }
    }
}

impl<P: Provisioner> From<Arc<P>> for Provisioners {
    fn from(one: Arc<P>) -> Self {
        Self::new(vec![one])
    }
}

impl From<Arc<dyn Provisioner>> for Provisioners {
    fn from(one: Arc<dyn Provisioner>) -> Self {
        Self::new(vec![one])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::StubProvisioner;

    #[test]
    fn the_maker_has_the_kind_and_if_possible_the_level() {
        let stub = |level| -> Arc<dyn Provisioner> { Arc::new(StubProvisioner::new(level)) };
        let all = Provisioners::new(vec![
            stub(Isolation::Namespaces),
            stub(Isolation::None),
            stub(Isolation::Container),
        ]);
        let maker = |kind, level| all.maker(kind, level).map(|one| one.capabilities().isolation);
        assert_eq!(maker("local", Isolation::None), Some(Isolation::None));
        assert_eq!(maker("local", Isolation::Namespaces), Some(Isolation::Namespaces));
        assert_eq!(maker("docker", Isolation::Gvisor), Some(Isolation::Container));
        assert_eq!(maker("kubernetes", Isolation::None), None);
    }
}
