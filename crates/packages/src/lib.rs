//! The index of packages that sessions see: `http://packages.internal/simple/` in a sandbox.
//!
//! The gateway asks the index that its operator names, and gives pages whose files have URLs of its own. A file is fetched once, and
//! kept under its digest ([`blobs`]), which the page of the index names; a session only reads. Where a file comes from is never said by
//! a session: its project is, and the page of that project says the rest.
//!
//! ```text
//! /simple/PROJECT/                     respond.rs -> index.rs -> page.rs (html.rs)
//! /files/PROJECT/SHA256/FILE[.metadata]           -> index.rs -> download.rs (room.rs) -> blobs.rs
//! both                                            -> fetch.rs -> Outbound (crate egress)
//! ```

mod blobs;
mod download;
mod fetch;
mod html;
mod index;
mod page;
mod respond;
mod room;
#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;
use std::sync::Arc;

use himalia_egress::{Outbound, Target};
use himalia_model::PackageIndex;
use url::Url;

use blobs::Blobs;
use download::Downloads;
use fetch::Fetch;
use index::Index;

/// Host name of the package index in sandboxes.
pub const NAME: &str = "packages.internal";

/// An index of packages for sessions.
#[derive(Debug)]
pub struct Packages {
    index: Index,
    downloads: Arc<Downloads>,
    settings: PackageIndex,
}

impl Packages {
    /// With files in this directory. Blocks on the disk.
    ///
    /// # Errors
    /// When the directory cannot be used, or the URL is not one.
    pub fn open(settings: &PackageIndex, dir: &Path, outbound: Outbound) -> io::Result<Self> {
        let invalid = |reason: String| io::Error::new(io::ErrorKind::InvalidInput, reason);
        let mut url = Url::parse(&settings.url).map_err(|error| invalid(error.to_string()))?;
        if !url.path().ends_with('/') {
            url.set_path(&format!("{}/", url.path()));
        }
        let fetch = Fetch::new(&url, outbound);
        // Where it is no more than that.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        let blobs = Blobs::open(dir, settings.cache_bytes)?;
        Ok(Self {
            index: Index::new(url, fetch),
            downloads: Arc::new(Downloads::new(blobs)),
            settings: settings.clone(),
        })
    }

    /// Target that the network rules of a session must permit.
    fn target(&self) -> Target {
        Target {
            host: self.settings.host.clone(),
            port: self.settings.port,
        }
    }
}
