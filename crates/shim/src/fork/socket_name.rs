//! The name of a branch's socket.

use std::rc::Rc;

use himalia_shim_protocol::{Fork, ForkFailure};

use super::refusal::{Refusal, refusal};
use crate::shim::Shim;

/// The name of a branch's socket, given back unless the branch comes to be.
pub(super) struct SocketName<'a> {
    shim: &'a Rc<Shim>,
    name: Option<String>,
}

impl<'a> SocketName<'a> {
    pub(super) fn reserve(shim: &'a Rc<Shim>, name: &str) -> Result<Self, Refusal> {
        if !Fork::check_socket(name) {
            return Err(refusal(
                ForkFailure::BadRequest,
                "socket is not the name of a branch's socket",
            ));
        }
        if shim.is_full() {
            return Err(refusal(ForkFailure::Busy, "the sandbox has too many links"));
        }
        if !shim.reserve_name(name) {
            return Err(refusal(
                ForkFailure::BadRequest,
                format!("{name} belongs to another link"),
            ));
        }
        let name = Some(name.to_owned());
        Ok(Self { shim, name })
    }

    pub(super) fn keep(mut self) {
        self.name = None;
    }
}

impl Drop for SocketName<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            self.shim.release_name(name);
        }
    }
}
