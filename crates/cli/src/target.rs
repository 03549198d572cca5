//! Finds the address of the gateway and its token.

use std::path::PathBuf;

use anyhow::{Context as _, bail};

use crate::address::Address;
use crate::args::gateway::GatewayArgs;
use crate::paths;
use crate::token;
use crate::values::Secret;

/// A gateway and how to get in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) url: String,
    pub(crate) token: Secret,
    /// Certificates of the CAs that an `https` URL is checked against; the system's without it.
    pub(crate) ca: Option<PathBuf>,
}

/// From the arguments, else from the data directory. A token that is found there goes to the address that is found there
/// and to no other.
pub(crate) fn find(args: &GatewayArgs) -> anyhow::Result<Target> {
    let said = said_token(args)?;
    if let Some(url) = args.url.clone() {
        let Some(token) = said else {
            bail!("a token is needed for {url}: --token-file FILE, HIMALIA_TOKEN_FILE or HIMALIA_TOKEN");
        };
        return Ok(Target {
            url,
            token,
            ca: args.ca.clone(),
        });
    }
    let data_dir = paths::data_dir(args.data_dir.clone())?;
    let address = Address::read(&data_dir).with_context(|| {
        format!(
            "no gateway has said its address in {}: give --url, or the --data-dir of one that runs",
            data_dir.display()
        )
    })?;
    let token = match (said, address.token_file) {
        (Some(token), _) => token,
        (None, Some(file)) => token::read(&file)?,
        (None, None) => {
            bail!("the gateway's token was given to it alone: --token-file FILE or HIMALIA_TOKEN")
        }
    };
    Ok(Target {
        url: address.url,
        token,
        ca: args.ca.clone(),
    })
}

/// A flag or a variable.
fn said_token(args: &GatewayArgs) -> anyhow::Result<Option<Secret>> {
    match (&args.token, &args.token_file) {
        (Some(_), Some(_)) => bail!("give --token or --token-file, not both"),
        (Some(token), None) => Ok(Some(token.clone())),
        (None, Some(file)) => Ok(Some(token::read(file)?)),
        (None, None) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn args(url: Option<&str>, token: Option<&str>, data_dir: &Path) -> GatewayArgs {
        GatewayArgs {
            url: url.map(str::to_owned),
            token: token.map(|token| Secret(token.to_owned())),
            token_file: None,
            ca: None,
            data_dir: Some(data_dir.to_owned()),
            json: false,
        }
    }

    #[test]
    fn a_found_token_goes_to_the_found_address_only() {
        let data = tempfile::tempdir().unwrap();
        let file = data.path().join("token");
        std::fs::write(&file, "canary").unwrap();
        let error = find(&args(None, None, data.path())).unwrap_err().to_string();
        assert!(error.contains("--url"), "{error}");
        let address = |url: &str, token_file| Address {
            url: url.to_owned(),
            token_file,
        };
        let found = address("http://127.0.0.1:1/", Some(file));
        found.write(data.path()).unwrap();
        let found = find(&args(None, None, data.path())).unwrap();
        assert_eq!(
            (found.url.as_str(), found.token.0.as_str()),
            ("http://127.0.0.1:1/", "canary")
        );
        let error = find(&args(Some("http://h:1/"), None, data.path())).unwrap_err();
        assert!(error.to_string().contains("a token is needed"), "{error}");
        let found = find(&args(Some("http://h:1/"), Some("mine"), data.path())).unwrap();
        assert_eq!(
            (found.url.as_str(), found.token.0.as_str()),
            ("http://h:1/", "mine")
        );
        address("http://127.0.0.1:2/", None).write(data.path()).unwrap();
        assert!(find(&args(None, None, data.path())).is_err());
        Address::remove(data.path());
        assert!(find(&args(None, Some("mine"), data.path())).is_err());
    }
}
