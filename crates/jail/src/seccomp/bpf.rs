//! The list as a BPF program.

use std::collections::BTreeMap;
use std::str::FromStr;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, sock_filter,
};

use super::lists::{ABSENT, ALLOWED, ALLOWED_X86_64};
use super::{CONDITIONAL, Conditional};

/// Instruction codes of classic BPF (`linux/bpf_common.h`): load a word of the call's data, jump if equal, jump if
/// greater, return a constant.
const LOAD: u16 = 0x20;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_GREATER: u16 = 0x25;
const RETURN: u16 = 0x06;
/// Offset of the call's number in its data (`struct seccomp_data`).
const NUMBER_OFFSET: u32 = 0;

/// Architectures that the list is kept for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Arch {
    /// x86-64; its 32-bit forms are not allowed.
    X86_64,
    /// 64-bit ARM.
    Aarch64,
}

impl Arch {
    /// The one that this program was compiled for.
    #[cfg(target_arch = "x86_64")]
    pub const HOST: Self = Self::X86_64;
    /// The one that this program was compiled for.
    #[cfg(target_arch = "aarch64")]
    pub const HOST: Self = Self::Aarch64;

    /// The number of a system call.
    fn number(self, name: &'static str) -> Result<u32, FilterError> {
        let id = match self {
            // The list has libseccomp's name, which is this one on both.
            Self::Aarch64 if name == "newfstatat" => Some(syscalls::aarch64::Sysno::fstatat.id()),
            Self::X86_64 => syscalls::x86_64::Sysno::from_str(name)
                .map(|number| number.id())
                .ok(),
            Self::Aarch64 => syscalls::aarch64::Sysno::from_str(name)
                .map(|number| number.id())
                .ok(),
        };
        id.and_then(|id| u32::try_from(id).ok())
            .ok_or(FilterError::Unknown { name, arch: self })
    }

    fn target(self) -> TargetArch {
        match self {
            Self::X86_64 => TargetArch::x86_64,
            Self::Aarch64 => TargetArch::aarch64,
        }
    }
}

/// Reason why there is no filter: a mistake in the list.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    /// A name that the architecture does not have.
    #[error("{arch:?} has no system call {name}")]
    Unknown {
        name: &'static str,
        /// The architecture.
        arch: Arch,
    },
    /// The compiler refuses.
    #[error(transparent)]
    Compile(#[from] seccompiler::BackendError),
}

/// A compiled filter.
#[derive(Clone, Debug)]
pub struct Filter(BpfProgram);

impl Filter {
    /// Sets `no_new_privs` and puts the calling thread under the filter, for ever and with all its descendants.
    pub fn load(&self) -> Result<(), seccompiler::Error> {
        seccompiler::apply_filter(&self.0)
    }

    /// The program as an array of `struct sock_filter`, in the byte order of this machine.
    pub fn to_bytes(&self) -> Vec<u8> {
        let instruction = |it: &sock_filter| {
            let ([c0, c1], [k0, k1, k2, k3]) = (it.code.to_ne_bytes(), it.k.to_ne_bytes());
            [c0, c1, it.jt, it.jf, k0, k1, k2, k3]
        };
        self.0.iter().flat_map(instruction).collect()
    }
}

/// Compiles the list for `arch`.
pub fn filter(arch: Arch) -> Result<Filter, FilterError> {
    let own: &[&str] = match arch {
        Arch::X86_64 => ALLOWED_X86_64,
        Arch::Aarch64 => &[],
    };
    let mut rules = BTreeMap::new();
    for name in ALLOWED.iter().chain(own) {
        rules.insert(i64::from(arch.number(name)?), Vec::new());
    }
    for conditional in CONDITIONAL {
        rules.insert(
            i64::from(arch.number(conditional.name)?),
            alternatives(conditional)?,
        );
    }
    let absent = ABSENT.iter().map(|name| arch.number(name));
    let absent = absent.collect::<Result<Vec<u32>, _>>()?;
    let last_known = rules
        .keys()
        .filter_map(|number| u32::try_from(*number).ok())
        .max();

    let mut program = absence(&absent, last_known.unwrap_or(0));
    let allowed = SeccompFilter::new(
        rules,
        SeccompAction::Errno(libc::EPERM.unsigned_abs()),
        SeccompAction::Allow,
        arch.target(),
    )?;
    // It begins with a check of the architecture and loads what it needs, so it can stand behind anything.
    program.extend(BpfProgram::try_from(allowed)?);
    Ok(Filter(program))
}

fn alternatives(conditional: &Conditional) -> Result<Vec<SeccompRule>, FilterError> {
    let rule = |all: &&[super::Comparison]| {
        let conditions = all.iter().map(|it| {
            let operator = SeccompCmpOp::MaskedEq(u64::from(it.mask));
            SeccompCondition::new(
                it.argument,
                SeccompCmpArgLen::Dword,
                operator,
                u64::from(it.value),
            )
        });
        SeccompRule::new(conditions.collect::<Result<_, _>>()?)
    };
    let rules = conditional.any_of.iter().map(rule);
    Ok(rules.collect::<Result<_, _>>()?)
}

/// Answers `ENOSYS` to the calls `absent` and to all above `last_known`; others are allowed. The compiler knows one refusal
/// per program, so these few lines come from here. Calls of x32 are far above, and absent too.
fn absence(absent: &[u32], last_known: u32) -> BpfProgram {
    let instruction = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    let refusal = instruction(
        RETURN,
        0,
        0,
        libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs(),
    );
    let mut program = vec![
        instruction(LOAD, 0, 0, NUMBER_OFFSET),
        instruction(JUMP_GREATER, 0, 1, last_known),
        refusal.clone(),
    ];
    for number in absent {
        program.extend([instruction(JUMP_EQUAL, 0, 1, *number), refusal.clone()]);
    }
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_call_of_each_architecture_that_it_is_listed_for() {
        for arch in [Arch::X86_64, Arch::Aarch64] {
            filter(arch).unwrap();
        }
        for name in ALLOWED_X86_64 {
            assert!(
                Arch::Aarch64.number(name).is_err(),
                "{name} is there on both, so it belongs into the common list"
            );
        }
        assert!(Arch::X86_64.number("no_such_call").is_err());
    }

    /// `AUDIT_ARCH_*` of `linux/audit.h`.
    const AUDIT_X86_64: u32 = 0xc000_003e;
    const AUDIT_AARCH64: u32 = 0xc000_00b7;

    /// What the kernel makes of a call under the filter: the program run as `linux/bpf_common.h` describes it.
    fn verdict(filter: &Filter, audit: u32, number: u32, arguments: [u64; 6]) -> u32 {
        let mut data = [number, audit, 0, 0].map(u32::to_ne_bytes).concat();
        data.extend(arguments.iter().flat_map(|argument| argument.to_ne_bytes()));
        let (mut at, mut value) = (0, 0_u32);
        loop {
            let sock_filter { code, jt, jf, k } = filter.0[at].clone();
            let mut jump = 0;
            let either = |taken: bool| usize::from(if taken { jt } else { jf });
            match code {
                0x20 => {
                    let bytes = &data[k as usize..k as usize + 4];
                    value = u32::from_ne_bytes(bytes.try_into().unwrap());
                }
                0x54 => value &= k,
                0x05 => jump = k as usize,
                0x15 => jump = either(value == k),
                0x25 => jump = either(value > k),
                0x35 => jump = either(value >= k),
                0x06 => return k,
                other => panic!("instruction {other:#x}"),
            }
            at += 1 + jump;
        }
    }

    #[test]
    fn each_architecture_has_its_own_numbers_and_kills_calls_of_the_other() {
        const KILL: &[u32] = &[libc::SECCOMP_RET_KILL_THREAD, libc::SECCOMP_RET_KILL_PROCESS];
        let refused = |errno: i32| libc::SECCOMP_RET_ERRNO | errno.unsigned_abs();
        for (arch, audit, other) in [
            (Arch::X86_64, AUDIT_X86_64, AUDIT_AARCH64),
            (Arch::Aarch64, AUDIT_AARCH64, AUDIT_X86_64),
        ] {
            let filter = filter(arch).unwrap();
            let call = |name, first: u64| {
                verdict(&filter, audit, arch.number(name).unwrap(), [first, 0, 0, 0, 0, 0])
            };
            for name in ["read", "execve", "futex", "mmap", "newfstatat"] {
                assert_eq!(call(name, 0), libc::SECCOMP_RET_ALLOW, "{arch:?} {name}");
                let number = arch.number(name).unwrap();
                let foreign = verdict(&filter, other, number, [0; 6]);
                assert!(KILL.contains(&foreign), "{arch:?} {name}: {foreign:#x}");
            }
            for name in ["mount", "bpf", "ptrace", "keyctl", "unshare", "init_module"] {
                assert_eq!(call(name, 0), refused(libc::EPERM), "{arch:?} {name}");
            }
            for name in ABSENT {
                assert_eq!(call(name, 0), refused(libc::ENOSYS), "{arch:?} {name}");
            }
            assert_eq!(verdict(&filter, audit, 100_000, [0; 6]), refused(libc::ENOSYS));
            // Threads are made, namespaces are not.
            assert_eq!(call("clone", 0x003d_0f00), libc::SECCOMP_RET_ALLOW);
            assert_eq!(call("clone", 0x1000_0000), refused(libc::EPERM));
            let unix = u64::from(libc::AF_UNIX.unsigned_abs());
            let packet = u64::from(libc::AF_PACKET.unsigned_abs());
            assert_eq!(call("socket", unix), libc::SECCOMP_RET_ALLOW);
            assert_eq!(call("socket", packet), refused(libc::EPERM));
        }
    }

    #[test]
    fn nothing_is_listed_twice() {
        let conditional = CONDITIONAL.iter().map(|it| &it.name);
        let mut all: Vec<&&str> = ALLOWED
            .iter()
            .chain(ALLOWED_X86_64)
            .chain(ABSENT)
            .chain(conditional)
            .collect();
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn instructions_have_the_layout_that_the_kernel_reads() {
        let bytes = filter(Arch::HOST).unwrap().to_bytes();
        assert_eq!(bytes.len() % 8, 0);
        assert!(bytes.len() / 8 <= 4096, "the kernel takes 4096 instructions");
        // Load the word at 0: code 0x20, no jumps, k = 0.
        assert_eq!(bytes[..8], [0x20, 0, 0, 0, 0, 0, 0, 0]);
    }
}
