//! The viewer: a page that anybody may load and that shows nothing by itself, and how a browser signs in.
//!
//! Its files are given by whoever builds the facade ([`Viewer`]), compressed. `assets/*` never change under one name and are kept
//! by browsers for good; all others are asked for again, by their tag.

mod base;
mod encoding;
mod files;
mod policy;
mod sign_in;

pub use files::{Viewer, ViewerFile};
pub(crate) use files::{asset, frame_file, frame_page, icon, page};
pub(crate) use sign_in::{sign_in, sign_out};
