//! Why a kernel died whose sandbox ended.

use himalia_sandbox::ExitCause;

/// Signal 6 on Linux, whatever the architecture.
const SIGABRT: i32 = 6;

/// The cause of death of a kernel whose shim has ended: an abort is the shim finding no memory for what the kernel sent.
pub(crate) fn death_cause(cause: ExitCause) -> String {
    match cause {
        ExitCause::Signaled(SIGABRT) => "protocol_abort: the kernel sent what no message can be".to_owned(),
        ExitCause::OutOfMemory => "oom".to_owned(),
        other => format!("sandbox_lost: {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aborted_shim_is_the_kernels_doing() {
        assert!(death_cause(ExitCause::Signaled(6)).starts_with("protocol_abort"));
        assert_eq!(death_cause(ExitCause::Signaled(9)), "sandbox_lost: signal(9)");
        assert_eq!(death_cause(ExitCause::OutOfMemory), "oom");
    }
}
