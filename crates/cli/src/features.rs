//! The parts of the program that a build may leave out, each a cargo feature.

/// The text of an error about a setting or a command whose part this build does not have.
pub fn missing(feature: &str) -> String {
    format!(
        "this build of himalia has no {feature}: `make build` makes one that has every part, or add the cargo feature {feature}"
    )
}
