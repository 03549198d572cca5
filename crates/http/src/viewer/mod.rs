//! The viewer: a page that any browser may load and that shows nothing by itself, and how a browser signs in.
//!
//! The program that builds the facade passes its files ([`Viewer`]), compressed. `assets/*` never change under one
//! name, and browsers keep them permanently; browsers revalidate all others by their tag.

mod base;
mod built;
mod encoding;
mod files;
mod grant;
mod policy;
mod sign_in;

pub(crate) use base::of as base_of;
pub use built::{Viewer, ViewerFile};
pub(crate) use files::{asset, frame_file, frame_page, icon, page};
pub(crate) use grant::grant;
pub(crate) use policy::restrict;
pub(crate) use sign_in::{sign_in, sign_out};
