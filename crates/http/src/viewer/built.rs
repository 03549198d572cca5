//! The viewer's files, as they were built.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read as _;
use std::sync::Arc;

use axum::body::Bytes;
use flate2::read::GzDecoder;

use super::encoding::Encoding;
use crate::etag;

/// A file of the viewer, compressed when it was built.
#[derive(Clone, Copy, Debug)]
pub struct ViewerFile {
    /// The path below the page, such as `assets/index-1a2b.js`.
    pub path: &'static str,
    /// The content as Brotli (RFC 7932).
    pub brotli: &'static [u8],
    /// The content as gzip (RFC 1952).
    pub gzip: &'static [u8],
}

/// The viewer. Without files its page says how to build it.
#[derive(Clone, Default)]
pub struct Viewer(pub(super) Arc<BTreeMap<&'static str, File>>);

pub(super) struct File {
    brotli: &'static [u8],
    gzip: &'static [u8],
    /// Hexadecimal digits, the same for the same content.
    pub(super) hash: String,
    pub(super) kind: String,
}

impl Viewer {
    /// The viewer with these files.
    pub fn new(files: &[ViewerFile]) -> Self {
        let file = |file: &ViewerFile| {
            let kind = mime_guess::from_path(file.path).first_or_octet_stream();
            let text = kind.type_() == "text";
            File {
                brotli: file.brotli,
                gzip: file.gzip,
                hash: etag::digest(file.gzip),
                kind: format!(
                    "{}{}",
                    kind.essence_str(),
                    if text { "; charset=utf-8" } else { "" }
                ),
            }
        };
        Self(Arc::new(files.iter().map(|f| (f.path, file(f))).collect()))
    }

    /// Checks whether there are no files.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Viewer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl File {
    /// The content in this form. Plain is for clients that take nothing else; it is unpacked for each of them.
    pub(super) fn content(&self, encoding: Encoding) -> std::io::Result<Bytes> {
        match encoding {
            Encoding::Brotli => Ok(Bytes::from_static(self.brotli)),
            Encoding::Gzip => Ok(Bytes::from_static(self.gzip)),
            Encoding::Plain => {
                let mut plain = Vec::new();
                GzDecoder::new(self.gzip).read_to_end(&mut plain)?;
                Ok(plain.into())
            }
        }
    }
}
