//! A gateway that may be restarted while a command runs, also at another address.

use parking_lot::Mutex;

use super::http::Client;
use super::target::{self, Target};
use crate::args::gateway::GatewayArgs;

/// Address of a gateway, looked up again for each use.
#[derive(Debug)]
pub(super) struct Gateway {
    args: GatewayArgs,
    latest: Mutex<Option<(Target, Client)>>,
}

impl Gateway {
    pub(super) fn new(args: GatewayArgs) -> Self {
        Self {
            args,
            latest: Mutex::new(None),
        }
    }

    /// A client for where it is now: the one before, with its connections, if that has not changed.
    pub(super) fn client(&self) -> anyhow::Result<Client> {
        let target = target::find(&self.args)?;
        let mut latest = self.latest.lock();
        if let Some((known, client)) = &*latest
            && *known == target
        {
            return Ok(client.clone());
        }
        let client = Client::new(&target)?;
        *latest = Some((target, client.clone()));
        Ok(client)
    }
}
