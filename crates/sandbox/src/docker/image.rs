//! Images: the parts that a sandbox uses, and the reasons to refuse one.

use std::collections::BTreeMap;

use super::client::{CallError, Client};
use crate::SandboxError;

/// Variables of an image that are taken over. A hostile image is not our case, an unwieldy one is.
const MAX_VARIABLES: usize = 256;
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Properties of an image that a sandbox needs.
#[derive(Clone, Debug, Default)]
pub(super) struct Image {
    /// Digest. Containers are started by it, so that they use exactly the inspected image.
    pub(super) id: String,
    /// Environment variables of the image.
    pub(super) env: BTreeMap<String, String>,
}

/// Looks an image up.
///
/// # Errors
/// [`SandboxError::ImageMissing`]; [`SandboxError::BadSpec`] when it declares volumes, as those would be places on the
/// host's disk that no limit covers.
pub(super) async fn look_up(client: &Client, name: &str) -> Result<Image, SandboxError> {
    let found = client.call(async |docker| docker.inspect_image(name).await).await;
    let found = found.map_err(|error| match error {
        CallError::NotFound(_) => SandboxError::ImageMissing {
            image: name.to_owned(),
        },
        other => client.error("image", other),
    })?;
    let config = found.config.unwrap_or_default();
    if let Some(volume) = config.volumes.unwrap_or_default().first() {
        return Err(SandboxError::BadSpec {
            field: "image",
            reason: format!("{name} declares the volume {volume}, which no limit would cover"),
        });
    }
    Ok(Image {
        id: found.id.unwrap_or_else(|| name.to_owned()),
        env: variables(config.env.unwrap_or_default()),
    })
}

/// The variables of an image or a container, `PATH` always among them.
pub(super) fn variables(env: Vec<String>) -> BTreeMap<String, String> {
    let pairs = env.into_iter().take(MAX_VARIABLES).filter_map(|entry| {
        let (name, value) = entry.split_once('=')?;
        (!name.is_empty()).then(|| (name.to_owned(), value.to_owned()))
    });
    let mut env: BTreeMap<_, _> = pairs.collect();
    env.entry("PATH".to_owned()).or_insert_with(|| PATH.to_owned());
    env
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_split_at_the_first_sign() {
        let env = variables(vec!["A=b=c".to_owned(), "=x".to_owned(), "B".to_owned()]);
        assert_eq!(env["A"], "b=c");
        assert_eq!(env["PATH"], PATH);
        assert_eq!(env.len(), 2);
    }
}
