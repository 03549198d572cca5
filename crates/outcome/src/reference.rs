//! Reads what stands in an output for a value that became an artifact.

use serde_json::{Map, Value};

/// Media types of images that clients show, the best first: one of each output.
pub const IMAGE_KINDS: [&str; 4] = ["image/png", "image/jpeg", "image/webp", "image/gif"];

/// The place of an artifact in an output. A kernel can write the same: what it names need not be there, nor have that length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArtifactReference<'a> {
    /// The media type under which the output has it.
    pub kind: &'a str,
    /// The hexadecimal digits of its hash, if it is one.
    pub sha256: &'a str,
    /// Length in bytes.
    pub bytes: u64,
    /// Width and height of an image whose header could be read, in pixels.
    pub size: Option<(u64, u64)>,
}

impl<'a> ArtifactReference<'a> {
    /// Reads the reference of one representation of an output; `None` for a value that is in the output itself.
    pub fn read(kind: &'a str, value: &'a Value) -> Option<Self> {
        Some(Self {
            kind,
            sha256: value.get("artifact")?.as_str()?.strip_prefix("sha256:")?,
            bytes: value.get("bytes")?.as_u64()?,
            size: value["width"].as_u64().zip(value["height"].as_u64()),
        })
    }

    /// The image of an output that is shown, if it has one.
    pub fn best_image(data: &'a Map<String, Value>) -> Option<Self> {
        IMAGE_KINDS
            .into_iter()
            .find_map(|kind| Self::read(kind, data.get(kind)?))
    }

    /// Itself if it has at most so many pixels on a side, or else its `preview`, the smaller copy that the kernel has made, if that has.
    pub fn within(self, preview: Option<&'a Value>, pixels: u64) -> Option<Self> {
        if !exceeds(self.size, pixels) {
            return Some(self);
        }
        let copy = Self::read("image/png", preview?)?;
        (!exceeds(copy.size, pixels)).then_some(copy)
    }
}

/// Returns true if an image of this width and height has more than so many pixels on a side.
pub fn exceeds(size: Option<(u64, u64)>, pixels: u64) -> bool {
    size.is_some_and(|(width, height)| width.max(height) > pixels)
}

/// The kind of an image that clients show, by how it begins, and its width and height in pixels.
pub fn image_of(content: &[u8]) -> Option<(&'static str, Option<(u64, u64)>)> {
    let is_webp = content.starts_with(b"RIFF") && content.get(8..12) == Some(b"WEBP");
    let kind = match content {
        [0x89, b'P', b'N', b'G', ..] => "image/png",
        [0xff, 0xd8, 0xff, ..] => "image/jpeg",
        [b'G', b'I', b'F', b'8', ..] => "image/gif",
        _ if is_webp => "image/webp",
        _ => return None,
    };
    let size = imagesize::blob_size(content)
        .ok()
        .filter(|size| size.width > 0 && size.height > 0);
    Some((kind, size.map(|size| (size.width as u64, size.height as u64))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_reference_has_a_hash_and_a_length() {
        let value = json!({"artifact": "sha256:ab", "bytes": 3, "width": 4});
        let expected = ArtifactReference {
            kind: "image/png",
            sha256: "ab",
            bytes: 3,
            size: None,
        };
        assert_eq!(ArtifactReference::read("image/png", &value), Some(expected));
        for own in [
            json!("text"),
            json!({"artifact": "x", "bytes": 1}),
            json!({"artifact": "sha256:ab"}),
        ] {
            assert_eq!(ArtifactReference::read("image/png", &own), None, "{own}");
        }
    }

    #[test]
    fn the_best_image_is_the_first_of_the_list() {
        let image = json!({"artifact": "sha256:ab", "bytes": 3, "width": 4, "height": 5});
        let data = json!({"image/gif": image, "image/jpeg": image, "image/png": "inline"});
        let best = ArtifactReference::best_image(data.as_object().unwrap()).unwrap();
        assert_eq!((best.kind, best.size), ("image/jpeg", Some((4, 5))));
        assert_eq!(ArtifactReference::best_image(&Map::new()), None);
    }

    #[test]
    fn an_image_is_bounded_by_its_longer_side() {
        assert!(!exceeds(None, 2000) && !exceeds(Some((2000, 2000)), 2000));
        assert!(exceeds(Some((8576, 351)), 2000) && exceeds(Some((351, 2001)), 2000));
    }

    #[test]
    fn an_image_that_is_too_large_has_a_smaller_copy_or_none() {
        let image = |sha256, width| json!({"artifact": sha256, "bytes": 3, "width": width, "height": 5});
        let (large, preview) = (image("sha256:aa", 3000), image("sha256:bb", 1000));
        let large = ArtifactReference::read("image/jpeg", &large).unwrap();
        let shown = |preview, pixels| large.within(preview, pixels).map(|one| (one.kind, one.sha256));
        assert_eq!(shown(Some(&preview), 3000), Some(("image/jpeg", "aa")));
        assert_eq!(shown(Some(&preview), 2000), Some(("image/png", "bb")));
        assert_eq!(shown(Some(&preview), 999), None);
        assert_eq!(shown(None, 2000), None);
    }

    #[test]
    fn an_image_is_known_by_how_it_begins() {
        let gif = b"GIF89a\x03\x00\x02\x00rest";
        assert_eq!(image_of(gif), Some(("image/gif", Some((3, 2)))));
        assert_eq!(image_of(b"\x89PNG"), Some(("image/png", None)));
        let empty = [&b"\x89PNG"[..], &[0; 100]].concat();
        assert_eq!(image_of(&empty), Some(("image/png", None)));
        assert_eq!(image_of(b"a,b\n1,2\n"), None);
        assert_eq!(image_of(b""), None);
    }
}
