//! Drops the privileges of a sandbox's first process before it runs foreign code.

use himalia_jail::{Failure, Resource, Rlimit, SANDBOX_ID, Step};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::{Gid, Uid, setrlimit, umask};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_capabilities_secure_bits, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};

use crate::failure::AtStep;
use crate::sys;

/// New files are not writable for others.
const UMASK: u32 = 0o022;

/// An empty keyring, and the file mode mask.
pub(crate) fn forget_caller() -> Result<(), Failure> {
    umask(Mode::from_raw_mode(UMASK));
    match sys::leave_keyring() {
        // A Linux without keyrings has none to leave.
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => Ok(()),
        other => other.at(Step::Keyring, "keyctl"),
    }
}

pub(crate) fn limit(rlimits: &[Rlimit]) -> Result<(), Failure> {
    for limit in rlimits {
        let wanted = rustix::process::Rlimit {
            current: limit.soft,
            maximum: limit.hard,
        };
        setrlimit(kind(limit.resource), wanted).at(Step::Rlimits, format_args!("{:?}", limit.resource))?;
    }
    Ok(())
}

fn kind(resource: Resource) -> rustix::process::Resource {
    use rustix::process::Resource as Kind;
    match resource {
        Resource::As => Kind::As,
        Resource::Core => Kind::Core,
        Resource::Cpu => Kind::Cpu,
        Resource::Data => Kind::Data,
        Resource::Fsize => Kind::Fsize,
        Resource::Memlock => Kind::Memlock,
        Resource::Nofile => Kind::Nofile,
        Resource::Nproc => Kind::Nproc,
        Resource::Stack => Kind::Stack,
    }
}

/// Becomes the sandbox's user without a capability, and without a way to one. `setgroups`: whether the user namespace
/// allows to leave groups.
pub(crate) fn become_sandbox_user(setgroups: bool) -> Result<(), Failure> {
    // Capabilities beyond those that this crate knows exist on a newer Linux.
    for number in 0..64 {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        match remove_capability_from_bounding_set(capability) {
            Ok(()) => {}
            Err(Errno::INVAL) => break,
            Err(error) => return Err(error).at(Step::Capabilities, format_args!("capability {number}")),
        }
    }
    clear_ambient_capability_set().at(Step::Capabilities, "ambient set")?;
    // No capability ever follows from being user 0 or from changing to another, and no process can change that back.
    let locked = CapabilitiesSecureBits::all() & !CapabilitiesSecureBits::KEEP_CAPS;
    set_capabilities_secure_bits(locked & CapabilitiesSecureBits::from_bits_retain(0xff))
        .at(Step::Capabilities, "secure bits")?;

    if setgroups {
        set_thread_groups(&[]).at(Step::Identity, "setgroups")?;
    }
    let (uid, gid) = (Uid::from_raw(SANDBOX_ID), Gid::from_raw(SANDBOX_ID));
    set_thread_res_gid(gid, gid, gid).at(Step::Identity, "setresgid")?;
    set_thread_res_uid(uid, uid, uid).at(Step::Identity, "setresuid")?;
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, none).at(Step::Capabilities, "capset")
}
