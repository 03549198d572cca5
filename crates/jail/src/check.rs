//! Validates a plan before anything is done.

use std::path::{Component, Path};

use himalia_jail::{Device, ExecPlan, Failure, Mount, Plan, Program, Resize, Step};

fn refuse(text: impl std::fmt::Display) -> Failure {
    Failure::new(Step::Plan, text)
}

/// Checks that a process with this effective user id may carry out the plan.
pub(crate) fn place(plan: &Plan, caller: u32) -> Result<(), Failure> {
    match plan.host_ids {
        None if caller == 0 => return Err(refuse("host_ids: root must give ids of its own to the sandbox")),
        Some(_) if caller != 0 => return Err(refuse("host_ids: only root may choose them")),
        Some(ids) if ids.uid == 0 || ids.gid == 0 => return Err(refuse("host_ids: must not be 0")),
        _ => {}
    }
    let mapped = |mount: &Mount| matches!(mount, Mount::Shared { owner: Some(_), .. });
    if caller != 0 && plan.mounts.iter().any(mapped) {
        return Err(refuse("owner: only root may map ids of mounts"));
    }
    if !(1..=64).contains(&plan.hostname.len()) {
        return Err(refuse("hostname: must have 1 to 64 bytes"));
    }
    let null = Mount::Device { device: Device::Null };
    if !plan.mounts.contains(&null) {
        return Err(refuse(
            "mounts: the device null is needed, it covers files of /proc",
        ));
    }
    plan.mounts.iter().try_for_each(mount)
}

fn mount(mount: &Mount) -> Result<(), Failure> {
    match mount {
        Mount::Bind { source, target, .. } => {
            if !source.is_absolute() {
                return Err(refuse(format_args!(
                    "source {}: must be absolute",
                    source.display()
                )));
            }
            path_inside(target)
        }
        Mount::Shared {
            base,
            subdirectory,
            target,
            owner,
            ..
        } => {
            let plain = subdirectory
                .components()
                .all(|part| matches!(part, Component::Normal(_)));
            if !base.is_absolute() || !plain {
                return Err(refuse(format_args!(
                    "base {} must be absolute, subdirectory {} relative without . and ..",
                    base.display(),
                    subdirectory.display()
                )));
            }
            if owner.is_some_and(|owner| owner.uid == 0 || owner.gid == 0) {
                return Err(refuse(format_args!("owner of {}: must not be 0", base.display())));
            }
            path_inside(target)
        }
        Mount::Tmpfs { target, mode, .. } => {
            if *mode > 0o7777 {
                return Err(refuse(format_args!("mode {mode:o} of {}", target.display())));
            }
            path_inside(target)
        }
        Mount::Symlink { target, .. } | Mount::File { target, .. } | Mount::Directory { target } => {
            path_inside(target)
        }
        Mount::Device { .. } | Mount::Pty => Ok(()),
    }
}

/// Checks that the targets can be in a sandbox.
pub(crate) fn resize(plan: &Resize) -> Result<(), Failure> {
    plan.tmpfs.iter().try_for_each(|size| path_inside(&size.target))
}

/// An absolute path in plain form, not the root and not in `/proc`.
fn path_inside(path: &Path) -> Result<(), Failure> {
    let plain = path.is_absolute()
        && path
            .components()
            .all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
        && path.file_name().is_some()
        && !path.starts_with("/proc");
    if plain {
        return Ok(());
    }
    Err(refuse(format_args!(
        "target {}: must be an absolute path without . and .., not the root and not in /proc",
        path.display()
    )))
}

/// Checks that the plan fits a caller with this effective user id and the descriptor for the answer.
pub(crate) fn exec(plan: &ExecPlan, caller: u32, report: i32) -> Result<(), Failure> {
    place(&plan.place, caller)?;
    let Program {
        argv, cwd, keep_fds, ..
    } = &plan.program;
    if !argv.first().is_some_and(|program| program.starts_with('/')) {
        return Err(refuse("program.argv: must begin with an absolute path"));
    }
    if !cwd.is_absolute() {
        return Err(refuse("program.cwd: must be absolute"));
    }
    if let Some(bad) = keep_fds.iter().find(|fd| **fd < 3 || **fd == report) {
        return Err(refuse(format_args!(
            "program.keep_fds: {bad} is a standard descriptor or the one for the answer"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(path: &str) -> bool {
        path_inside(Path::new(path)).is_err()
    }

    #[test]
    fn a_target_stays_inside() {
        for path in ["/usr", "/opt/a b/c", "/process"] {
            assert!(!refused(path), "{path}");
        }
        for path in [
            "",
            "/",
            "usr",
            "/a/../../etc",
            "/proc",
            "/proc/sys",
            "../x",
            "/..",
        ] {
            assert!(refused(path), "{path}");
        }
    }
}
