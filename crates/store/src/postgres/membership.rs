//! The membership of a process: it becomes a replica, and stays one.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use himalia_lease::{Next, Renewal, Term};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::connection::{Connector, Link};
use super::data_dir::{self, Membership};
use super::ready::ReadyCounts;
use crate::StoreError;
use crate::failure::Failure;
use crate::lease::{ReplicaLease, boot_micros};

/// The pause between two looks at the lease of an earlier process.
const RETRY: Duration = Duration::from_millis(250);
/// Beyond the end of an earlier process's lease, how long a start waits for it.
const SLACK: Duration = Duration::from_secs(1);

pub(super) const NEXT_EPOCH: &str = "
UPDATE himalia.meta SET value = (value::bigint + 1)::text WHERE key = 'gateway_epoch' RETURNING value::bigint";

/// Takes the name, if no living process has it, or if the one that had it is known to have ended: `$4`, or 0.
const JOIN: &str = "
INSERT INTO himalia.replicas AS r (name, epoch, address, lease_until)
VALUES ($1, $2, NULL, clock_timestamp() + make_interval(secs => $3))
ON CONFLICT (name) DO UPDATE SET epoch = excluded.epoch, address = NULL, ready = '{}', lease_until = excluded.lease_until
WHERE r.lease_until <= clock_timestamp() OR r.epoch = $4";

/// Seconds that the living process of a name still has.
const REMAINING: &str = "
SELECT greatest(0, extract(epoch FROM lease_until - clock_timestamp()))::float8 FROM himalia.replicas WHERE name = $1";

/// A lease that has ended is not renewed: another replica may be taking its kernels.
const RENEW: &str = "
UPDATE himalia.replicas SET lease_until = clock_timestamp() + make_interval(secs => $3), ready = $4::text::jsonb
WHERE name = $1 AND epoch = $2 AND lease_until > clock_timestamp()";

const LEAVE: &str = "
UPDATE himalia.replicas SET lease_until = '-infinity', address = NULL WHERE name = $1 AND epoch = $2";

const STORE_ID: &str = "SELECT value FROM himalia.meta WHERE key = 'store_id'";

/// Logs that a replica has on its disk alone.
const LOGS: &str = "
SELECT (SELECT count(*) FROM himalia.kernels AS k WHERE replica = $1
          AND NOT EXISTS (SELECT 1 FROM himalia.logs AS l WHERE l.name = k.session_dir))
     + (SELECT count(*) FROM himalia.ended_sessions AS e WHERE replica = $1 AND removed_micros IS NULL
          AND NOT EXISTS (SELECT 1 FROM himalia.logs AS l WHERE l.name = e.session_dir))";

pub(super) struct JoinRequest<'a> {
    pub(super) link: &'a Link,
    pub(super) name: &'a str,
    pub(super) data_dir: PathBuf,
    pub(super) lease: Duration,
    /// The database, for errors.
    pub(super) database: String,
}

/// A replica that has joined.
pub(super) struct ReplicaMembership {
    pub(super) epoch: u64,
    pub(super) lease: ReplicaLease,
}

impl JoinRequest<'_> {
    /// Waits until the lease of an earlier process of this name has ended, unless that process had this data directory, which its
    /// lock shows to be free.
    pub(super) async fn join(self) -> Result<ReplicaMembership, Failure> {
        let store_id: String = match self.link.query_opt(STORE_ID, &[]).await? {
            Some(row) => row.try_get(0)?,
            None => String::new(),
        };
        let known = data_dir::read(&self.data_dir)?;
        self.check(&store_id, known.as_ref()).await?;
        let before = known.map_or(0, |known| known.epoch);
        let before = i64::try_from(before).unwrap_or(0);
        let mut wait_until = None;
        loop {
            let asked = boot_micros();
            if let Some(epoch) = self.take_name(before).await? {
                let membership = Membership {
                    store_id,
                    replica: self.name.to_owned(),
                    epoch,
                };
                data_dir::write(&self.data_dir, &membership)?;
                let lease = ReplicaLease::for_term(Term::granted(asked, self.lease));
                return Ok(ReplicaMembership { epoch, lease });
            }
            let remaining: f64 = match self.link.query_opt(REMAINING, &[&self.name]).await? {
                Some(row) => row.try_get(0)?,
                None => 0.0,
            };
            let remaining = Duration::try_from_secs_f64(remaining).unwrap_or(Duration::MAX);
            let limit = *wait_until.get_or_insert_with(|| {
                tracing::info!(
                    replica = self.name,
                    seconds = remaining.as_secs(),
                    "waiting for the lease of an earlier process of this replica"
                );
                boot_micros().saturating_add(micros(remaining.saturating_add(SLACK)))
            });
            if boot_micros() > limit {
                return Err(StoreError::ReplicaInUse {
                    name: self.name.to_owned(),
                }
                .into());
            }
            sleep(RETRY).await;
        }
    }

    /// The logs of a replica are in its data directory, so neither may be exchanged for another.
    async fn check(&self, store_id: &str, known: Option<&Membership>) -> Result<(), Failure> {
        let wrong = |reason: String| {
            Err(StoreError::Mismatch {
                path: self.data_dir.clone(),
                reason,
            }
            .into())
        };
        match known {
            Some(known) if known.store_id != store_id => wrong(format!(
                "this data directory belongs to another database than {}",
                self.database
            )),
            Some(known) if known.replica != self.name => wrong(format!(
                "this data directory belongs to replica {}, not to {}; give each replica its own",
                known.replica, self.name
            )),
            Some(_) => Ok(()),
            None => {
                let row = self.link.query_opt(LOGS, &[&self.name]).await?;
                let logs: i64 = row.map_or(Ok(0), |row| row.try_get(0))?;
                if logs == 0 {
                    return Ok(());
                }
                wrong(format!(
                    "this data directory is new, but replica {} has the logs of {logs} sessions in another one; \
                     start it there, or give this one another --replica",
                    self.name
                ))
            }
        }
    }

    async fn take_name(&self, before: i64) -> Result<Option<u64>, Failure> {
        let row = self.link.query_opt(NEXT_EPOCH, &[]).await?;
        let epoch: i64 = row.map_or(Ok(0), |row| row.try_get(0))?;
        let seconds = self.lease.as_secs_f64();
        let joined = self
            .link
            .execute(JOIN, &[&self.name, &epoch, &seconds, &before])
            .await?;
        Ok((joined == 1).then(|| u64::try_from(epoch).unwrap_or(0)))
    }
}

/// Renews the lease of a replica, on a connection of its own, until it is asked to give it back.
pub(super) struct Heartbeat {
    pub(super) connector: Arc<Connector>,
    pub(super) name: String,
    pub(super) epoch: i64,
    /// When it is renewed.
    pub(super) beat: himalia_lease::Heartbeat,
    pub(super) lease: ReplicaLease,
    /// The counts that other replicas learn with each renewal.
    pub(super) ready: ReadyCounts,
}

impl Heartbeat {
    /// `stop` has whom to answer when the lease has been given back.
    pub(super) async fn run(self, link: Link, mut stop: oneshot::Receiver<oneshot::Sender<()>>) {
        let mut link = Some(link);
        let mut pause = self.beat.pause();
        loop {
            let stopped = tokio::select! {
                stopped = &mut stop => stopped,
                () = sleep(pause) => {
                    // Not longer than the lease is valid.
                    let renewal = match timeout(self.lease.left(), self.renew(&mut link)).await {
                        Ok(Ok(renewal)) => renewal,
                        Ok(Err(error)) => {
                            tracing::warn!(%error, "cannot renew the lease of this replica");
                            Renewal::Failed
                        }
                        Err(_) => Renewal::Failed,
                    };
                    if renewal == Renewal::Failed {
                        link = None;
                    }
                    match self.beat.after(renewal, self.lease.term(), boot_micros()) {
                        Next::Continue(term, next) => {
                            self.lease.renew(term);
                            pause = next;
                        }
                        Next::End(reason) => return self.lease.lose(reason),
                    }
                    continue;
                }
            };
            // Otherwise the store was dropped without being closed: the lease ends by itself.
            if let Ok(reply) = stopped {
                self.lease
                    .lose("this gateway has given its lease back".to_owned());
                if let Some(link) = &link {
                    let name: &str = &self.name;
                    let left = timeout(self.beat.lease(), link.execute(LEAVE, &[&name, &self.epoch])).await;
                    if !matches!(left, Ok(Ok(_))) {
                        tracing::warn!(
                            "the lease of this replica could not be given back; it ends by itself"
                        );
                    }
                }
                let _ = reply.send(());
            }
            return;
        }
    }

    async fn renew(&self, link: &mut Option<Link>) -> Result<Renewal, StoreError> {
        let live = match link.take().filter(|link| !link.is_closed()) {
            Some(live) => live,
            None => Link::new(self.connector.connect().await?),
        };
        // Before it is sent: the store counts from a later time.
        let asked = boot_micros();
        let name: &str = &self.name;
        let seconds = self.beat.lease().as_secs_f64();
        let ready = self.ready.text();
        let renewed = live.execute(RENEW, &[&name, &self.epoch, &seconds, &ready]).await;
        let renewed = renewed.map_err(StoreError::from)? == 1;
        *link = Some(live);
        Ok(if renewed {
            Renewal::Renewed(Term::granted(asked, self.beat.lease()))
        } else {
            Renewal::Refused
        })
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
