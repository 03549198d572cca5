use std::io;

/// A random number for file names and jitter.
pub(crate) fn random_u64() -> io::Result<u64> {
    getrandom::u64().map_err(|error| io::Error::other(error.to_string()))
}
