//! Address of an object store: a URL, with settings of its service from the environment.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use object_store::path::Path as Key;
use object_store::prefix::PrefixStore;

#[cfg_attr(not(feature = "object-store"), path = "url/bucket_absent.rs")]
mod bucket;

/// The address of an object store, which has no credentials in it: `file:///directory`, `s3://bucket/prefix`, `gs://bucket/prefix` or
/// `az://container/prefix`. Credentials, endpoint and region are in the variables of the environment that the services' own tools use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectStoreUrl(Location);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Location {
    Directory(PathBuf),
    Bucket {
        service: Service,
        name: String,
        /// Without slashes at its ends; empty: the whole bucket.
        prefix: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Service {
    S3,
    Google,
    Azure,
}

impl Service {
    const ALL: [(&'static str, Self); 3] = [("s3", Self::S3), ("gs", Self::Google), ("az", Self::Azure)];

    const fn scheme(self) -> &'static str {
        match self {
            Self::S3 => "s3",
            Self::Google => "gs",
            Self::Azure => "az",
        }
    }
}

impl FromStr for ObjectStoreUrl {
    type Err = String;

    fn from_str(url: &str) -> Result<Self, String> {
        let wrong = || {
            "must be an address such as file:///srv/himalia, s3://bucket/prefix, gs://bucket/prefix or az://container/prefix"
                .to_owned()
        };
        let (scheme, rest) = url.split_once("://").ok_or_else(wrong)?;
        if scheme == "file" {
            let path = PathBuf::from(rest);
            let is_directory = path.is_absolute() && path.parent().is_some();
            return is_directory
                .then_some(Self(Location::Directory(path)))
                .ok_or_else(wrong);
        }
        let known = Service::ALL.into_iter().find(|(known, _)| *known == scheme);
        let (_, service) = known.ok_or_else(wrong)?;
        let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_name) {
            // What is given may be a password.
            return Err(
                "has no name of a bucket after ://; credentials and endpoints are given in the environment"
                    .to_owned(),
            );
        }
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
        let is_part =
            |part: &str| !part.is_empty() && part != ".." && part != "." && part.bytes().all(is_name);
        if !prefix.is_empty() && !prefix.split('/').all(is_part) {
            return Err(format!(
                "{prefix:?} is not a valid prefix: its parts have letters, digits, '-', '.' and '_'"
            ));
        }
        Ok(Self(Location::Bucket {
            service,
            name: name.to_owned(),
            prefix: prefix.to_owned(),
        }))
    }
}

impl fmt::Display for ObjectStoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Location::Directory(path) => write!(f, "file://{}", path.display()),
            Location::Bucket {
                service,
                name,
                prefix,
            } => {
                write!(f, "{}://{name}", service.scheme())?;
                if prefix.is_empty() {
                    Ok(())
                } else {
                    write!(f, "/{prefix}")
                }
            }
        }
    }
}

impl ObjectStoreUrl {
    /// The client of the store. A directory is made if it is missing, which blocks on the disk.
    ///
    /// # Errors
    /// What is wrong with the directory, or missing in the environment.
    pub(super) fn open(&self) -> Result<Arc<dyn ObjectStore>, String> {
        match &self.0 {
            Location::Directory(path) => directory(path),
            Location::Bucket {
                service,
                name,
                prefix,
            } => {
                let store = bucket::open(*service, name)?;
                Ok(if prefix.is_empty() {
                    store
                } else {
                    Arc::new(PrefixStore::new(store, Key::from(&**prefix)))
                })
            }
        }
    }
}

fn directory(path: &Path) -> Result<Arc<dyn ObjectStore>, String> {
    let failed = |error: &dyn fmt::Display| format!("{}: {error}", path.display());
    std::fs::create_dir_all(path).map_err(|error| failed(&error))?;
    let store = LocalFileSystem::new_with_prefix(path).map_err(|error| failed(&error))?;
    Ok(Arc::new(store.with_automatic_cleanup(true).with_fsync(true)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_a_directory_or_a_bucket() {
        for (url, shown) in [
            ("file:///srv/himalia", "file:///srv/himalia"),
            ("s3://bucket", "s3://bucket"),
            ("s3://bucket/", "s3://bucket"),
            ("s3://my.bucket-1/a/b/", "s3://my.bucket-1/a/b"),
            ("gs://bucket/a", "gs://bucket/a"),
            ("az://container/a", "az://container/a"),
        ] {
            let parsed: ObjectStoreUrl = url.parse().unwrap();
            assert_eq!(parsed.to_string(), shown);
            assert_eq!(parsed, shown.parse().unwrap());
        }
    }

    #[test]
    fn an_address_that_is_none_is_refused() {
        for (bad, expected) in [
            ("", "must be an address"),
            ("/directory", "must be an address"),
            ("file://", "must be an address"),
            ("file:///", "must be an address"),
            ("file://relative/x", "must be an address"),
            ("ftp://bucket/x", "must be an address"),
            ("s3://", "no name of a bucket"),
            ("s3://key:secret@bucket/x", "credentials and endpoints"),
            ("s3://bucket/a//b", "is not a valid prefix"),
            ("s3://bucket/../b", "is not a valid prefix"),
            ("s3://bucket/a b", "is not a valid prefix"),
        ] {
            let error = bad.parse::<ObjectStoreUrl>().unwrap_err();
            assert!(error.contains(expected), "{bad}: {error}");
        }
    }
}
