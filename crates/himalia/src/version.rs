//! The version of this program, and whether another one is newer.

use std::cmp::Ordering;

pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit from which a release was built.
const COMMIT: Option<&str> = option_env!("HIMALIA_COMMIT");

/// Each feature, and whether it is in this program.
const FEATURES: [(&str, bool); 6] = [
    ("connect", cfg!(feature = "connect")),
    ("docker", cfg!(feature = "docker")),
    ("facades", cfg!(feature = "facades")),
    ("kubernetes", cfg!(feature = "kubernetes")),
    ("object-store", cfg!(feature = "object-store")),
    ("otlp", cfg!(feature = "otlp")),
];

/// The text of `--version`, after the name of the program.
pub(crate) fn long() -> String {
    let commit = COMMIT.filter(|commit| !commit.is_empty());
    let features: Vec<&str> = FEATURES
        .iter()
        .filter_map(|(name, included)| included.then_some(*name))
        .collect();
    let features = match &*features {
        [] => "none".to_owned(),
        features => features.join(", "),
    };
    format!(
        "{VERSION}\ncommit: {}\nfeatures: {features}",
        commit.unwrap_or("not recorded; `make build` records it")
    )
}

/// Compares a version with the one of this program; `None` if it is not three numbers, perhaps with a suffix.
pub(crate) fn compare(other: &str) -> Option<Ordering> {
    Some(numbers(other)?.cmp(&numbers(VERSION)?))
}

fn numbers(version: &str) -> Option<[u64; 3]> {
    let release = version.split(['-', '+']).next()?;
    let mut parts = release.split('.').map(|part| part.parse().ok());
    let numbers = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_version_commit_and_features() {
        let text = long();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], VERSION);
        assert!(lines[1].starts_with("commit: "), "{text}");
        assert!(lines[2].starts_with("features: "), "{text}");
        assert_eq!(lines[2].contains("docker"), cfg!(feature = "docker"));
    }

    #[test]
    fn the_features_are_those_of_the_manifest() {
        let manifest: toml::Table = toml::from_str(include_str!("../Cargo.toml")).unwrap();
        let full: Vec<&str> = manifest["features"]["full"]
            .as_array()
            .unwrap()
            .iter()
            .map(|name| name.as_str().unwrap())
            .collect();
        assert_eq!(full, FEATURES.map(|(name, _)| name));
    }

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert_eq!(compare(VERSION), Some(Ordering::Equal));
        assert_eq!(compare("999.0.0-rc.1"), Some(Ordering::Greater));
        assert_eq!(compare("0.0.10"), Some(Ordering::Less));
        assert_eq!(numbers("0.10.0").cmp(&numbers("0.9.9")), Ordering::Greater);
        for other in ["", "1", "1.2", "1.2.3.4", "a.b.c"] {
            assert_eq!(compare(other), None, "{other}");
        }
    }
}
