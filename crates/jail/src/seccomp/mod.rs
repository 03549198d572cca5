//! The system calls that a sandbox may make: one list, as a BPF program ([`bpf`]) and as a profile for container engines
//! ([`docker_profile`]).
//!
//! What is not on the list fails with `EPERM`; a few calls, and all that are newer than the list, fail with `ENOSYS`, so
//! that libraries fall back to older ones. A call for another architecture kills the process.

mod bpf;
mod docker;
mod lists;

pub use bpf::{Arch, Filter, FilterError, filter};
pub use docker::docker_profile;

/// Flags of `clone` that make namespaces.
const NAMESPACE_FLAGS: u32 = 0x7e02_0000;
/// `AF_NETLINK` is allowed for this protocol only: `getifaddrs` asks it for addresses, and libzmq aborts without.
const NETLINK_ROUTE: u32 = 0;

/// A call that is allowed if one of some conditions on its arguments holds.
struct Conditional {
    name: &'static str,
    /// All comparisons of one of these must hold.
    any_of: &'static [&'static [Comparison]],
}

/// `argument & mask == value`, on the low 32 bits: the kernel reads these arguments as 32 bits wide.
struct Comparison {
    argument: u8,
    mask: u32,
    value: u32,
}

const fn equals(argument: u8, value: u32) -> Comparison {
    Comparison {
        argument,
        mask: u32::MAX,
        value,
    }
}

const CONDITIONAL: &[Conditional] = &[
    Conditional {
        name: "clone",
        any_of: &[&[Comparison {
            argument: 0,
            mask: NAMESPACE_FLAGS,
            value: 0,
        }]],
    },
    Conditional {
        // The default (PER_LINUX), and the query.
        name: "personality",
        any_of: &[&[equals(0, 0)], &[equals(0, u32::MAX)]],
    },
    Conditional {
        name: "socket",
        any_of: &[
            &[equals(0, libc::AF_UNIX as u32)],
            &[equals(0, libc::AF_INET as u32)],
            &[equals(0, libc::AF_INET6 as u32)],
            &[equals(0, libc::AF_NETLINK as u32), equals(2, NETLINK_ROUTE)],
        ],
    },
    Conditional {
        name: "socketpair",
        any_of: &[&[equals(0, libc::AF_UNIX as u32)]],
    },
];
