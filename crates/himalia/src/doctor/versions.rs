//! Findings about programs and gateways of other versions than this program.

use std::cmp::Ordering;
use std::path::Path;

use super::finding::{Finding, Level};
use crate::version::{VERSION, compare};

/// A program that belongs to this one; `shown` is what its `--version` prints.
pub(super) fn program(topic: &'static str, path: &Path, shown: &str) -> Finding {
    let found = format!("{}, {shown}", path.display());
    let order = shown.split_whitespace().nth(1).and_then(compare);
    let (level, relation) = match order {
        Some(Ordering::Equal) => return Finding::new(Level::Good, topic, found),
        Some(Ordering::Greater) => (Level::Bad, "newer than"),
        Some(Ordering::Less) => (Level::Warn, "older than"),
        None => (Level::Warn, "another version than"),
    };
    let text = format!(
        "{found}\nit is {relation} this himalia {VERSION}: install all three programs of one release"
    );
    Finding::new(level, topic, text)
}

/// The gateway that runs, whose client this program is.
pub(super) fn gateway(version: &str) -> Finding {
    let topic = "gateway";
    let (level, text) = match compare(version) {
        Some(Ordering::Equal) => (Level::Good, format!("version {version} runs")),
        Some(Ordering::Less) => (
            Level::Warn,
            format!(
                "version {version} runs, older than this himalia {VERSION}: restart it with this version, or use the commands of {version}"
            ),
        ),
        Some(Ordering::Greater) => (
            Level::Warn,
            format!("version {version} runs, newer than this himalia {VERSION}: upgrade this program"),
        ),
        None => (
            Level::Warn,
            format!("it reports the version {version:?}, which is not three numbers"),
        ),
    };
    Finding::new(level, topic, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_program_is_an_error_and_an_older_one_a_warning() {
        let path = Path::new("/usr/bin/himalia-shim");
        let level = |shown: &str| program("himalia-shim", path, shown).level;
        assert_eq!(level(&format!("himalia-shim {VERSION}")), Level::Good);
        assert_eq!(level("himalia-shim 999.0.0"), Level::Bad);
        assert_eq!(level("himalia-shim 0.0.1"), Level::Warn);
        assert_eq!(level("nothing"), Level::Warn);
    }

    #[test]
    fn a_gateway_of_another_version_is_a_warning() {
        assert_eq!(gateway(VERSION).level, Level::Good);
        let old = gateway("0.0.1");
        assert_eq!(old.level, Level::Warn);
        assert!(old.text.contains("older than"), "{}", old.text);
        assert!(gateway("999.0.0").text.contains("upgrade this program"));
        assert_eq!(gateway("?").level, Level::Warn);
    }
}
