//! Work directory of a branch: its parent's directory, or a copy of it.

use std::path::{Path, PathBuf};

use himalia_shim_protocol::{ForkFailure, KernelSpec};

use super::refusal::{Refusal, refusal};
use crate::kernel::Kernel;
use crate::link::Link;
use crate::shim::Shim;
use crate::work_dir::{self, BRANCHES, CopyError, CopySummary, WorkCopy};

/// Work directory of the parent.
pub(super) struct ParentFiles {
    /// Directory to copy.
    root: PathBuf,
    /// The directory of all copies.
    base: PathBuf,
    /// The parent's working directory at this moment.
    pub(super) cwd: PathBuf,
}

impl ParentFiles {
    pub(super) fn of(shim: &Shim, link: &Link, parent: &Kernel, spec: &KernelSpec) -> Self {
        let started_in = PathBuf::from(&spec.cwd);
        let now = parent
            .pid()
            .and_then(|pid| std::fs::read_link(format!("/proc/{pid}/cwd")).ok());
        let cwd = now
            .filter(|cwd| cwd.is_dir())
            .unwrap_or_else(|| started_in.clone());
        let copy = link.files().map(AsRef::as_ref);
        let root = work_dir::root(&shim.options, copy, &started_in);
        let base = copy.map_or_else(|| root.join(BRANCHES), |copy| copy.base().to_owned());
        Self { root, base, cwd }
    }

    /// The counterpart of the parent's working directory in a copy.
    pub(super) fn inside(&self, copy: &WorkCopy) -> String {
        let inside = self
            .cwd
            .strip_prefix(&self.root)
            .map(|rest| copy.path().join(rest));
        let inside = inside.ok().filter(|dir| dir.is_dir());
        path_text(inside.as_deref().unwrap_or(copy.path()).components().as_path())
    }

    /// The variable with the home of the branch: its own directory, where that of the parent is the parent's.
    pub(super) fn home(&self, parent: &KernelSpec, copy: &WorkCopy) -> Option<(String, String)> {
        const HOME: &str = "HOME";
        let home = parent.env.get(HOME)?;
        (Path::new(home) == self.root).then(|| (HOME.to_owned(), path_text(copy.path())))
    }

    pub(super) async fn copy(
        &self,
        shim: &Shim,
        number: u32,
        max_bytes: u64,
    ) -> Result<(WorkCopy, CopySummary), Refusal> {
        let _turn = shim.copying.acquire().await;
        let copy = WorkCopy::new(self.base.clone(), &number.to_string());
        let (from, to) = (self.root.clone(), copy.path().to_owned());
        let cancel = std::sync::Arc::clone(&shim.cancel);
        let copied = tokio::task::spawn_blocking(move || work_dir::copy(&from, &to, max_bytes, &cancel))
            .await
            .map_err(|error| refusal(ForkFailure::CopyFailed, error.to_string()))?;
        let error = match copied {
            Ok(copied) => return Ok((copy, copied)),
            Err(error) => error,
        };
        copy.remove().await;
        let code = match error {
            CopyError::TooLarge(_) => ForkFailure::FilesTooLarge,
            CopyError::Failed { .. } | CopyError::Cancelled => ForkFailure::CopyFailed,
        };
        Err(refusal(code, error.to_string()))
    }
}

pub(super) fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
