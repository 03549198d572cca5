//! The object store.

mod url;

use std::sync::Arc;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use object_store::path::Path as Key;
use object_store::{Error as StoreError, ObjectStore, ObjectStoreExt as _};
use sha2::{Digest as _, Sha256};

pub use url::ObjectStoreUrl;

/// Reason why an object could not be written, read or removed.
#[derive(Debug, thiserror::Error)]
#[error("object store: {0}")]
pub struct ObjectsError(String);

impl From<StoreError> for ObjectsError {
    fn from(error: StoreError) -> Self {
        Self(error.to_string())
    }
}

/// Objects that all replicas share.
#[derive(Clone, Debug)]
pub struct Objects {
    store: Arc<dyn ObjectStore>,
}

impl Objects {
    /// The object store at a URL. The directory of `file://` is made if it is missing. Blocks on the disk, and connects to nothing.
    ///
    /// # Errors
    /// What is wrong with the directory, or missing in the environment.
    pub fn open(url: &ObjectStoreUrl) -> Result<Self, String> {
        Ok(Self { store: url.open()? })
    }

    /// Writes an object and removes it. A store that does not answer is no failure: it may be back when it is needed.
    ///
    /// # Errors
    /// The store answers that there is no such bucket, or that the credentials do not allow this.
    pub async fn try_out(&self, replica: &str) -> Result<(), ObjectsError> {
        let name = Key::from(format!("tried/{replica}"));
        let tried = match self.store.put(&name, Bytes::from_static(b"himalia").into()).await {
            Ok(_) => self.store.delete(&name).await,
            Err(error) => Err(error),
        };
        match tried {
            Ok(()) => Ok(()),
            Err(
                error @ (StoreError::NotFound { .. }
                | StoreError::PermissionDenied { .. }
                | StoreError::Unauthenticated { .. }
                | StoreError::NotSupported { .. }
                | StoreError::NotImplemented { .. }),
            ) => Err(error.into()),
            Err(error) => {
                tracing::warn!(%error, "the object store does not answer; logs wait for it");
                Ok(())
            }
        }
    }

    /// Writes content of a log that begins at a record, and gives its name.
    pub(crate) async fn put(&self, log: &str, at: u64, bytes: Bytes) -> Result<String, ObjectsError> {
        let hash = hex::encode(Sha256::digest(&bytes));
        let name = format!("{log}/{at:020}-{hash}");
        self.store.put(&Key::from(&*name), bytes.into()).await?;
        Ok(name)
    }

    /// Reads an object, and checks its hash.
    pub(crate) async fn get(&self, name: &str) -> Result<Bytes, ObjectsError> {
        let bytes = self.store.get(&Key::from(name)).await?.bytes().await?;
        let hash = hex::encode(Sha256::digest(&bytes));
        if name.ends_with(&hash) {
            Ok(bytes)
        } else {
            Err(ObjectsError(format!("{name} has other content than was written")))
        }
    }

    /// Removes an object; one that is not there is removed.
    pub(crate) async fn delete(&self, name: &str) -> Result<(), ObjectsError> {
        self.delete_at(&Key::from(name)).await
    }

    /// Removes all objects of a log.
    pub(crate) async fn delete_all(&self, log: &str) -> Result<(), ObjectsError> {
        let found: Vec<_> = self.store.list(Some(&Key::from(log))).try_collect().await?;
        for object in found {
            self.delete_at(&object.location).await?;
        }
        Ok(())
    }

    async fn delete_at(&self, key: &Key) -> Result<(), ObjectsError> {
        match self.store.delete(key).await {
            Ok(()) | Err(StoreError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_object_is_there_until_it_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("file://{}/objects", dir.path().display());
        let objects = Objects::open(&url.parse().unwrap()).unwrap();
        let one = objects
            .put("kernels/a", 1, Bytes::from_static(b"one"))
            .await
            .unwrap();
        let two = objects
            .put("kernels/a", 2, Bytes::from_static(b"two"))
            .await
            .unwrap();
        let other = objects
            .put("kernels/b", 1, Bytes::from_static(b"one"))
            .await
            .unwrap();
        assert_eq!(&objects.get(&one).await.unwrap()[..], b"one");
        objects.delete(&one).await.unwrap();
        objects.delete(&one).await.unwrap();
        assert!(objects.get(&one).await.is_err());
        objects.delete_all("kernels/a").await.unwrap();
        assert!(objects.get(&two).await.is_err());
        let path = dir.path().join("objects").join(&other);
        std::fs::write(path, "changed").unwrap();
        let error = objects.get(&other).await.unwrap_err().to_string();
        assert!(error.contains("other content"), "{error}");
    }
}
