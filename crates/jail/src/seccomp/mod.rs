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

/// The type of a socket without `SOCK_NONBLOCK` and `SOCK_CLOEXEC`, which have the same values on all architectures here.
const SOCKET_TYPE: u32 = !(libc::SOCK_NONBLOCK as u32 | libc::SOCK_CLOEXEC as u32);
/// Families, types and the usual protocol of a type, as the rules of `socket` name them.
const INET: u32 = libc::AF_INET as u32;
const INET6: u32 = libc::AF_INET6 as u32;
const STREAM: u32 = libc::SOCK_STREAM as u32;
const DATAGRAM: u32 = libc::SOCK_DGRAM as u32;
const USUAL: u32 = 0;

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

/// `socket` for a family, a type and a protocol.
const fn socket(family: u32, kind: u32, protocol: u32) -> [Comparison; 3] {
    let kind = Comparison {
        argument: 1,
        mask: SOCKET_TYPE,
        value: kind,
    };
    [equals(0, family), kind, equals(2, protocol)]
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
            // TCP, UDP and echo requests alone: for another protocol (SCTP, DCCP, MPTCP …) the host's kernel would load
            // a module.
            &socket(INET, STREAM, USUAL),
            &socket(INET, STREAM, libc::IPPROTO_TCP as u32),
            &socket(INET, DATAGRAM, USUAL),
            &socket(INET, DATAGRAM, libc::IPPROTO_UDP as u32),
            &socket(INET, DATAGRAM, libc::IPPROTO_ICMP as u32),
            &socket(INET6, STREAM, USUAL),
            &socket(INET6, STREAM, libc::IPPROTO_TCP as u32),
            &socket(INET6, DATAGRAM, USUAL),
            &socket(INET6, DATAGRAM, libc::IPPROTO_UDP as u32),
            &socket(INET6, DATAGRAM, libc::IPPROTO_ICMPV6 as u32),
            &[equals(0, libc::AF_NETLINK as u32), equals(2, NETLINK_ROUTE)],
        ],
    },
    Conditional {
        name: "socketpair",
        any_of: &[&[equals(0, libc::AF_UNIX as u32)]],
    },
];
