//! Network access of a session now, and of one of its connections.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use himalia_model::network::{Access, AllowList, Host};
use parking_lot::{Mutex, RwLock};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit, watch};
use tokio::time::sleep;

use crate::account::{Account, UnboundedAccount};
use crate::connect::connect;
use crate::credentials::{CredentialAccess, InterceptAuthority, Roots};
use crate::denial::{Denial, Target};
use crate::egress::Egress;
use crate::internal::InternalService;
use crate::meter::{Meter, MeteredStream, Reports};

/// Connections of one session that may be open at once.
pub const MAX_CONNECTIONS: usize = 256;
/// Requests of one session to services of the gateway that are answered at once; the next ones wait.
const MAX_SERVICE_REQUESTS: usize = 8;
/// Questions for credentials that one session may ask at once.
const LOOKING: usize = 4;
/// Bodies of one session that may be in memory at once, to be signed.
const SIGNING: usize = 2;
/// A connection on which nothing is sent or received for so long is cut.
const IDLE_TIME: Duration = Duration::from_mins(30);
/// Interval of checks for idle connections.
const IDLE_LOOK: Duration = Duration::from_mins(1);

/// Network access of one session, and the receiver of its records.
pub struct NetworkAccess {
    list: watch::Sender<Arc<AllowList>>,
    pub(crate) open: Semaphore,
    /// Requests to services of the gateway.
    services: Arc<Semaphore>,
    account: RwLock<Arc<dyn Account>>,
    credentials: RwLock<Option<Arc<CredentialAccess>>>,
    /// A service of the gateway for this session alone.
    own: OnceLock<Arc<dyn InternalService>>,
    /// Bodies that are read before their requests are signed.
    signing: Semaphore,
    /// Questions for credentials.
    looking: Semaphore,
    reports: Arc<dyn Reports>,
}

impl NetworkAccess {
    /// For a session with this list.
    pub fn new(list: AllowList, reports: Arc<dyn Reports>) -> Self {
        Self {
            list: watch::Sender::new(Arc::new(list)),
            open: Semaphore::new(MAX_CONNECTIONS),
            services: Arc::new(Semaphore::new(MAX_SERVICE_REQUESTS)),
            account: RwLock::new(Arc::new(UnboundedAccount)),
            credentials: RwLock::new(None),
            own: OnceLock::new(),
            signing: Semaphore::new(SIGNING),
            looking: Semaphore::new(LOOKING),
            reports,
        }
    }

    /// From now on it may use these credentials.
    pub fn set_credentials(&self, access: Option<CredentialAccess>) {
        *self.credentials.write() = access.map(Arc::new);
    }

    /// It has this service for itself, before those that all sessions share. Set once.
    pub fn set_own_service(&self, service: Arc<dyn InternalService>) {
        // The first one stays.
        let _ = self.own.set(service);
    }

    /// Sets the account of its connections from now on.
    pub fn set_account(&self, account: Arc<dyn Account>) {
        *self.account.write() = account;
    }

    /// Waits until it may ask a service of the gateway.
    pub(crate) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        // It is never closed.
        Arc::clone(&self.services).acquire_owned().await.ok()
    }

    /// Owner of the session: a tenant, or the operator.
    pub fn owner(&self) -> String {
        self.account.read().owner().to_owned()
    }

    pub(crate) fn account(&self) -> Arc<dyn Account> {
        Arc::clone(&self.account.read())
    }

    /// Refuses what the list does not allow now.
    ///
    /// # Errors
    /// A refusal that names the list.
    pub fn permits(&self, target: &Target, access: Access<'_>) -> Result<(), Denial> {
        let list = Arc::clone(&self.list.borrow());
        if list.permits(&target.host, target.port, access) {
            return Ok(());
        }
        // Another method would do.
        let method = match access {
            Access::Request(method) if list.permits(&target.host, target.port, Access::Http) => Some(method),
            _ => None,
        };
        Err(Denial::not_listed(target, method, &list))
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

/// Purpose of a connection that lasts.
#[derive(Clone, Debug)]
pub(crate) enum Purpose {
    Tunnel,
    Http,
    Request(String),
    /// HTTP in TLS that the gateway reads.
    SecureHost,
    /// A request in it, with this method.
    SecureRequest(String),
}

impl Purpose {
    fn access(&self) -> Access<'_> {
        match self {
            Self::Tunnel => Access::Tunnel,
            Self::Http | Self::SecureHost => Access::Http,
            Self::Request(method) | Self::SecureRequest(method) => Access::Request(method),
        }
    }
}

/// One connection of a client: everything that it reaches, it asks here.
pub(crate) struct Gate {
    egress: Arc<Egress>,
    access: Arc<NetworkAccess>,
    account: Arc<dyn Account>,
    /// The socket of the client, if it carries the bytes as they are.
    client: Option<OwnedFd>,
    /// Present destination.
    current: Mutex<Option<Current>>,
}

struct Current {
    target: Target,
    purpose: Purpose,
    meter: Arc<Meter>,
}

impl Gate {
    pub(crate) fn new(
        egress: Arc<Egress>,
        access: Arc<NetworkAccess>,
        account: Arc<dyn Account>,
        client: Option<OwnedFd>,
    ) -> Self {
        Self {
            egress,
            access,
            account,
            client,
            current: Mutex::new(None),
        }
    }

    /// Checks that the list permits this now.
    fn check(&self, target: &Target, purpose: &Purpose) -> Result<(), Denial> {
        self.access.permits(target, purpose.access())
    }

    /// The service of the gateway at a name, if there is one.
    pub(crate) fn service(&self, target: &Target) -> Option<Arc<dyn InternalService>> {
        let Host::Name(name) = &target.host else {
            return None;
        };
        let mut services = self.access.own.get().into_iter().chain(&self.egress.services);
        services.find(|service| service.is_at(name)).cloned()
    }

    /// The socket of the client, if it carries the bytes as they are.
    pub(crate) fn client(&self) -> Option<BorrowedFd<'_>> {
        self.client.as_ref().map(AsFd::as_fd)
    }

    pub(crate) fn access(&self) -> &Arc<NetworkAccess> {
        &self.access
    }

    /// True if the list permits this now.
    pub(crate) fn lists(&self, target: &Target, purpose: &Purpose) -> bool {
        self.check(target, purpose).is_ok()
    }

    pub(crate) fn credentials(&self) -> Option<Arc<CredentialAccess>> {
        self.access.credentials.read().clone()
    }

    /// Root certificates for hosts of credentials.
    pub(crate) fn roots(&self) -> Result<&Roots, Denial> {
        let roots = self.egress.roots.as_ref();
        roots.ok_or_else(|| {
            Denial::credential_unavailable("the gateway has no certificates to verify hosts by")
        })
    }

    /// Authority for certificates of hosts whose TLS is read.
    pub(crate) fn authority(&self) -> Option<&InterceptAuthority> {
        self.egress.authority.as_ref()
    }

    /// Waits until this session may ask for its credentials.
    pub(crate) async fn turn_to_look(&self) -> Option<SemaphorePermit<'_>> {
        // It is never closed.
        self.access.looking.acquire().await.ok()
    }

    /// Waits until a body of this session may be read into memory.
    pub(crate) async fn turn_to_sign(&self) -> Option<SemaphorePermit<'_>> {
        // It is never closed.
        self.access.signing.acquire().await.ok()
    }

    /// Connects to a host, if the session may.
    pub(crate) async fn connect(
        &self,
        target: &Target,
        purpose: Purpose,
    ) -> Result<MeteredStream<TcpStream>, Denial> {
        let meter = self.meter(target);
        let connected = async {
            self.check(target, &purpose)?;
            meter.check()?;
            let http = matches!(purpose, Purpose::Http | Purpose::Request(_));
            let connected = connect(&self.egress, target, http).await?;
            self.reaches(target, &purpose, &meter)?;
            Ok(connected)
        };
        match connected.await {
            Ok((stream, via)) => Ok(MeteredStream { stream, meter, via }),
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
        let (account, reports) = (Arc::clone(&self.account), Arc::clone(&self.access.reports));
        Arc::new(Meter::new(target.clone(), account, reports))
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
                () = sleep(self.account.longest().map_or(IDLE_LOOK, |longest| longest.min(IDLE_LOOK))) => {
                    if let Some(current) = &*self.current.lock()
                        && let Some(denial) = lasted(&current.meter)
                    {
                        current.meter.deny(&denial);
                        return;
                    }
                }
            }
        }
    }
}

/// Reason why a connection has lasted long enough, if it has.
fn lasted(meter: &Meter) -> Option<Denial> {
    if let Some(longest) = meter.longest().filter(|longest| meter.age() >= *longest) {
        return Some(Denial::limit(format_args!(
            "a connection lasts at most {} s",
            longest.as_secs()
        )));
    }
    let minutes = IDLE_TIME.as_secs() / 60;
    let idle = meter.idle() >= IDLE_TIME;
    idle.then(|| Denial::limit(format_args!("nothing was sent or received for {minutes} minutes")))
}
