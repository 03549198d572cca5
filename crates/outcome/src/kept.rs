//! Files that an execution wrote in order to be kept: a message for each, whose buffer is the content.

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};
use sha2::{Digest, Sha256};

use crate::bundle::Artifact;
use crate::unseen::Sight;

/// Files of one execution.
pub const MAX_ARTIFACT_FILES: usize = 64;
/// Characters of a name.
const NAME_CHARS: usize = 400;
/// Characters of a media type.
const TYPE_CHARS: usize = 100;
/// Type of an artifact without a valid type.
const UNKNOWN_TYPE: &str = "application/octet-stream";

/// A file that is kept with the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ArtifactFile {
    /// Path below the directory of artifacts.
    pub name: String,
    /// Guessed by its name.
    pub media_type: String,
    /// Length in bytes.
    pub bytes: u64,
    /// `sha256:` and 64 hexadecimal digits.
    pub artifact: String,
}

/// Files that were to be kept, and are not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OmittedArtifacts {
    /// The first ones.
    pub files: Vec<OmittedArtifact>,
    /// Number of further files.
    pub more: u64,
    /// The kernel did not look at all files: there may be others.
    pub truncated: bool,
}

impl OmittedArtifacts {
    /// With names that can be shown.
    pub(crate) fn cleaned(mut self) -> Self {
        for file in &mut self.files {
            (file.name, file.reason) = (clean(&file.name), clean(&file.reason));
        }
        self
    }
}

/// A file that was to be kept, and is not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OmittedArtifact {
    /// Path below the directory of artifacts.
    pub name: String,
    /// Length in bytes.
    pub bytes: u64,
    /// `too_large`, `too_many`, `same_name` (as one in the other directory) or `unreadable`.
    pub reason: String,
}

/// The files of one execution.
#[derive(Clone, Debug, Default)]
pub(crate) struct ArtifactFiles {
    kept: Vec<ArtifactFile>,
    /// Number of artifacts above the limit, which kernels of ours do not send.
    beyond: u64,
}

impl ArtifactFiles {
    /// One more; one of the same name takes the place of the one before. What exceeds the number is not kept.
    pub(crate) fn add(
        &mut self,
        content: &Map<String, Json>,
        buffers: &[Bytes],
        artifacts: &mut Vec<Artifact>,
    ) {
        let text = |name: &str| content.get(name).and_then(Json::as_str).unwrap_or_default();
        let name = clean(text("name"));
        let Some(bytes) = buffers.first().filter(|_| !name.is_empty()) else {
            return;
        };
        self.kept.retain(|known| known.name != name);
        if self.kept.len() >= MAX_ARTIFACT_FILES {
            self.beyond += 1;
            return;
        }
        let media_type = media_type(text("media_type"));
        let sha256 = hex::encode(Sha256::digest(bytes));
        self.kept.push(ArtifactFile {
            name,
            media_type: media_type.to_owned(),
            bytes: bytes.len() as u64,
            artifact: format!("sha256:{sha256}"),
        });
        artifacts.push(Artifact {
            sha256,
            media_type: media_type.to_owned(),
            content: bytes.clone(),
        });
    }

    pub(crate) fn shown(&self) -> Vec<ArtifactFile> {
        self.kept.clone()
    }

    /// Sum of the artifacts that the kernel left out, and of the ones left out here.
    pub(crate) fn omitted(&self, said: Option<&OmittedArtifacts>) -> Option<OmittedArtifacts> {
        let mut omitted = said.cloned();
        if self.beyond > 0 {
            omitted.get_or_insert_default().more += self.beyond;
        }
        omitted
    }

    /// Approximate memory, in bytes.
    pub(crate) fn weight(&self) -> usize {
        let texts = |one: &ArtifactFile| one.name.len() + one.media_type.len() + one.artifact.len();
        self.kept
            .iter()
            .map(|one| size_of::<ArtifactFile>() + texts(one))
            .sum()
    }
}

/// A name that can be shown on one line.
fn clean(name: &str) -> String {
    let mut sight = Sight::default();
    let shown = |one: char| if sight.shows(one) { one } else { '\u{fffd}' };
    name.chars().take(NAME_CHARS).map(shown).collect()
}

/// A media type without parameters, or that of unknown content.
fn media_type(said: &str) -> &str {
    let plain = |part: &str| {
        let safe = |byte: u8| byte.is_ascii_alphanumeric() || b".+-".contains(&byte);
        !part.is_empty() && part.bytes().all(safe)
    };
    match said.split_once('/') {
        Some((kind, of)) if said.len() <= TYPE_CHARS && plain(kind) && plain(of) => said,
        _ => UNKNOWN_TYPE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn add(files: &mut ArtifactFiles, name: &str, kind: &str, content: &'static [u8]) -> Vec<Artifact> {
        let mut artifacts = Vec::new();
        let said = json!({"name": name, "media_type": kind});
        files.add(
            said.as_object().unwrap(),
            &[Bytes::from_static(content)],
            &mut artifacts,
        );
        artifacts
    }

    #[test]
    fn a_file_is_kept_under_its_hash_and_listed_by_its_name() {
        let mut files = ArtifactFiles::default();
        assert_eq!(add(&mut files, "a.csv", "text/csv", b"1,2").len(), 1);
        let kept = add(&mut files, "a.csv", "text/csv", b"3,4");
        let file = files.shown().pop().unwrap();
        assert_eq!((files.shown().len(), file.bytes), (1, 3));
        assert_eq!(files.omitted(None), None);
        assert_eq!(file.artifact, format!("sha256:{}", kept[0].sha256));
        assert_eq!(&kept[0].content[..], b"3,4");
    }

    #[test]
    fn what_a_kernel_says_is_bounded() {
        let mut files = ArtifactFiles::default();
        add(&mut files, &format!("a\nb{}", "x".repeat(1000)), "a b/c\n", b"");
        let file = &files.shown()[0];
        assert_eq!(
            (file.name.chars().count(), &*file.media_type),
            (NAME_CHARS, UNKNOWN_TYPE)
        );
        assert!(file.name.starts_with("a\u{fffd}b"));
        for n in 0..2 * MAX_ARTIFACT_FILES {
            add(&mut files, &n.to_string(), "text/plain", b"");
        }
        assert_eq!(files.shown().len(), MAX_ARTIFACT_FILES);
        let omitted = files.omitted(None).unwrap();
        assert_eq!(
            (omitted.files.len(), omitted.more),
            (0, MAX_ARTIFACT_FILES as u64 + 1)
        );
        // Without a name, or without a content, there is no file.
        let mut none = ArtifactFiles::default();
        assert!(add(&mut none, "", "text/plain", b"").is_empty());
        none.add(&Map::new(), &[], &mut Vec::new());
        assert!(none.shown().is_empty());
    }
}
