//! What a session may reach now, and what one of its connections reaches.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use himalia_model::network::{Access, AllowList};
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::time::sleep;

use crate::connect::connect;
use crate::denial::{Denial, Target};
use crate::meter::{Meter, Metered, Reports};
use crate::serve::Egress;

/// Connections of one session that may be open at once.
pub const MAX_CONNECTIONS: usize = 256;
/// A connection on which nothing is sent or received for so long is cut.
const IDLE_TIME: Duration = Duration::from_mins(30);
/// How often that is looked at.
const IDLE_LOOK: Duration = Duration::from_mins(1);

/// What one session may reach, and who learns what it did.
pub struct NetworkAccess {
    list: watch::Sender<Arc<AllowList>>,
    pub(crate) open: Semaphore,
    reports: Arc<dyn Reports>,
}

impl NetworkAccess {
    /// For a session with this list.
    pub fn new(list: AllowList, reports: Arc<dyn Reports>) -> Self {
        Self {
            list: watch::Sender::new(Arc::new(list)),
            open: Semaphore::new(MAX_CONNECTIONS),
            reports,
        }
    }

    /// Another list holds from now on. Connections that it does not allow are cut.
    pub fn set(&self, list: &AllowList) {
        self.list.send_if_modified(|held| {
            let changes = **held != *list;
            if changes {
                *held = Arc::new(list.clone());
            }
            changes
        });
    }
}

impl fmt::Debug for NetworkAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NetworkAccess").field(&self.list.borrow()).finish()
    }
}

/// What is done with a host, for a connection that lasts.
#[derive(Clone, Debug)]
pub(crate) enum Purpose {
    Tunnel,
    Http,
    Request(String),
}

impl Purpose {
    fn access(&self) -> Access<'_> {
        match self {
            Self::Tunnel => Access::Tunnel,
            Self::Http => Access::Http,
            Self::Request(method) => Access::Request(method),
        }
    }

    fn method(&self) -> Option<&str> {
        match self {
            Self::Request(method) => Some(method),
            Self::Tunnel | Self::Http => None,
        }
    }
}

/// One connection of a client: everything that it reaches, it asks here.
pub(crate) struct Gate {
    egress: Arc<Egress>,
    access: Arc<NetworkAccess>,
    /// What it reaches at present.
    current: Mutex<Option<Current>>,
}

struct Current {
    target: Target,
    purpose: Purpose,
    meter: Arc<Meter>,
}

impl Gate {
    pub(crate) fn new(egress: Arc<Egress>, access: Arc<NetworkAccess>) -> Self {
        Self {
            egress,
            access,
            current: Mutex::new(None),
        }
    }

    /// Whether the list allows this now.
    fn check(&self, target: &Target, purpose: &Purpose) -> Result<(), Denial> {
        let list = Arc::clone(&self.access.list.borrow());
        if list.permits(&target.host, target.port, purpose.access()) {
            return Ok(());
        }
        // Another method would do.
        let method = purpose
            .method()
            .filter(|_| list.permits(&target.host, target.port, Access::Http));
        Err(Denial::not_listed(target, method, &list))
    }

    /// Connects to a host, if the session may.
    pub(crate) async fn connect(
        &self,
        target: &Target,
        purpose: Purpose,
    ) -> Result<Metered<TcpStream>, Denial> {
        let meter = self.meter(target);
        let connected = async {
            self.check(target, &purpose)?;
            let http = !matches!(purpose, Purpose::Tunnel);
            let connected = connect(&self.egress, target, http).await?;
            self.reaches(target, &purpose, &meter)?;
            Ok(connected)
        };
        match connected.await {
            Ok((stream, via)) => Ok(Metered { stream, meter, via }),
            Err(denial) => {
                meter.deny(&denial);
                Err(denial)
            }
        }
    }

    /// Another request on a connection that it has.
    pub(crate) fn again(&self, target: &Target, purpose: &Purpose, meter: &Arc<Meter>) -> Result<(), Denial> {
        if let Err(denial) = self.check(target, purpose) {
            self.refused(target, &denial);
            return Err(denial);
        }
        self.reaches(target, purpose, meter)
    }

    /// Notes a refusal.
    pub(crate) fn refused(&self, target: &Target, denial: &Denial) {
        self.meter(target).deny(denial);
    }

    /// Counts a new connection.
    pub(crate) fn meter(&self, target: &Target) -> Arc<Meter> {
        Arc::new(Meter::new(target.clone(), Arc::clone(&self.access.reports)))
    }

    /// From now on [`Self::cut`] watches it. The list may have changed since it was looked at.
    fn reaches(&self, target: &Target, purpose: &Purpose, meter: &Arc<Meter>) -> Result<(), Denial> {
        let current = Current {
            target: target.clone(),
            purpose: purpose.clone(),
            meter: Arc::clone(meter),
        };
        *self.current.lock() = Some(current);
        self.check(target, purpose)
    }

    /// Waits until the list no longer allows what it reaches, or nothing has moved for too long.
    pub(crate) async fn cut(&self) {
        let mut list = self.access.list.subscribe();
        loop {
            // Also a change between the check of a connection and now.
            list.borrow_and_update();
            if let Some(current) = &*self.current.lock()
                && let Err(denial) = self.check(&current.target, &current.purpose)
            {
                current.meter.deny(&denial);
                return;
            }
            tokio::select! {
                changed = list.changed() => if changed.is_err() { return },
                () = sleep(IDLE_LOOK) => {
                    if let Some(current) = &*self.current.lock()
                        && current.meter.idle() >= IDLE_TIME
                    {
                        let minutes = IDLE_TIME.as_secs() / 60;
                        current.meter.deny(&Denial::limit(format_args!("nothing was sent or received for {minutes} minutes")));
                        return;
                    }
                }
            }
        }
    }
}
