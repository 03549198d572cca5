//! The viewer, compiled in as `make web` built it, and the link that signs a browser in.

use anyhow::Context as _;
use himalia_http::ViewerFile;

include!(concat!(env!("OUT_DIR"), "/viewer.rs"));

/// Bytes of randomness in the code of a link; written as twice as many hexadecimal digits.
const CODE_BYTES: usize = 16;

/// A code that signs in one browser.
pub(crate) fn sign_in_code() -> anyhow::Result<String> {
    let mut random = [0_u8; CODE_BYTES];
    getrandom::fill(&mut random).context("the random number generator failed: cannot make a sign-in link")?;
    Ok(hex::encode(random))
}
