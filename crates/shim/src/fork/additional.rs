//! A link for an additional kernel: like a branch's, but its kernel is still to be started on it.

use std::rc::Rc;

use himalia_shim_protocol::AddLink;

use super::socket_name::SocketName;
use crate::link::Link;
use crate::shim::Shim;

/// The link, which does not dial yet, or one line that says why there is none. It works with the files of `beside`.
pub(crate) fn add_link(shim: &Rc<Shim>, beside: &Link, order: &AddLink) -> Result<Rc<Link>, String> {
    if shim.is_ending() || beside.is_closing() {
        return Err("the sandbox is ending".to_owned());
    }
    let name = SocketName::reserve(shim, &order.socket).map_err(|refusal| refusal.reason)?;
    let number = shim.next_branch();
    let files = beside.files().cloned();
    let link = Link::new(Rc::clone(shim), order.socket.clone(), Some(number), files);
    name.keep();
    Ok(link)
}
