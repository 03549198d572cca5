//! Logs that no kernel has.

use std::collections::HashSet;
use std::path::Path;

/// Removes the directories in `dir` whose names are not in `known`: logs of kernels that waited in a pool, or whose start
/// was under way, when the gateway was killed. Blocks on the disk. Only before the first kernel is started.
pub(crate) fn remove_unknown_logs(dir: &Path, known: &HashSet<String>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_known = entry
            .file_name()
            .to_str()
            .is_some_and(|name| known.contains(name));
        if is_known || !path.is_dir() {
            continue;
        }
        if let Err(error) = std::fs::remove_dir_all(&path) {
            tracing::warn!(path = %path.display(), %error, "cannot remove a log that no kernel has");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_logs_of_rows_stay() {
        let root = tempfile::tempdir().unwrap();
        for name in ["a", "b"] {
            std::fs::create_dir(root.path().join(name)).unwrap();
            std::fs::write(root.path().join(name).join("1.seg"), "x").unwrap();
        }
        remove_unknown_logs(root.path(), &["a".to_owned()].into());
        let left: Vec<_> = std::fs::read_dir(root.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(left, ["a"]);
    }
}
