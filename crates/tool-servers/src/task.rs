//! The task of one server, which owns its state: it connects, lists, watches, and connects anew.

use std::sync::Arc;
use std::time::Duration;

use himalia_backoff::{Backoff, jittered};
use himalia_model::Clock;
use himalia_upstream::clip;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::listing::Listing;
use crate::mcp::Signals;
use crate::state::{ServerState, View};
use crate::upstream::{Attempt, Reach, Upstream};

/// Intervals of the task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// The pause after the first failure, and the longest one.
    pub(crate) backoff: (Duration, Duration),
    /// Longest time to connect and to list.
    pub(crate) open: Duration,
    /// From one list to the next, if nothing says that it has changed.
    pub(crate) refresh: Duration,
    /// The longest one, if the server says for how long its list is good (`ttlMs`).
    pub(crate) longest_refresh: Duration,
    /// From a list to one that the server asks for, at least.
    pub(crate) changed: Duration,
    /// From one look whether the server is there to the next.
    pub(crate) health: Duration,
    /// From one look whether a server that has failed has another token to the next.
    pub(crate) token: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            backoff: (Duration::from_secs(1), Duration::from_mins(1)),
            open: Duration::from_secs(90),
            refresh: Duration::from_mins(10),
            longest_refresh: Duration::from_hours(1),
            changed: Duration::from_secs(5),
            health: Duration::from_mins(1),
            token: Duration::from_secs(2),
        }
    }
}

/// A random part, from 0 to 1; 1 if the random number generator fails.
fn chance() -> f64 {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).map_or(1.0, |()| {
        f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX)
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PauseEnd {
    Whole,
    NewToken,
}

/// The state of a server, and what changes it.
pub(crate) struct Task {
    pub(crate) reach: Reach,
    pub(crate) clock: Clock,
    pub(crate) timing: Timing,
    /// The turns of all servers to have their lists read.
    pub(crate) lists: Arc<Semaphore>,
    pub(crate) view: watch::Sender<View>,
}

impl Task {
    /// Runs until it is dropped.
    pub(crate) async fn run(self) {
        let mut backoff = Backoff::new(self.timing.backoff.0, self.timing.backoff.1);
        let (mut attempt, mut failed_since) = (Attempt::default(), None);
        let mut last_reason = String::new();
        loop {
            // What an earlier connection still says is not about this one.
            let signals = Arc::new(Signals::default());
            let opened = Upstream::open(&self.reach, &signals, attempt);
            let opened = timeout(self.timing.open, opened).await;
            let opened = opened
                .unwrap_or_else(|_| Err(format!("did not answer within {} s", self.timing.open.as_secs())));
            let reason = match opened {
                Ok((upstream, listing)) => {
                    failed_since = None;
                    attempt = Attempt {
                        failed: 0,
                        is_sessionless: upstream.is_sessionless(),
                    };
                    let upstream = Arc::new(upstream);
                    let refresh = self.refresh_of(&listing);
                    self.ready(&upstream, listing).await;
                    let reason = self.watch(&upstream, &signals, refresh, &mut backoff).await;
                    // Calls in progress keep it until they end.
                    self.view.send_modify(|view| view.upstream = None);
                    reason
                }
                Err(reason) => reason,
            };
            let missing_grant = self.reach.http.missing_grant();
            // Without a grant nothing was sent, and so nothing is known of the server.
            attempt.failed += usize::from(missing_grant.is_none());
            let pause = jittered(backoff.pause(), chance());
            let now = self.clock.stored_micros();
            let since = *failed_since.get_or_insert(now);
            let pause_micros = i64::try_from(pause.as_micros()).unwrap_or(i64::MAX);
            let reason = clip(&reason);
            if missing_grant.is_none() || reason != last_reason {
                tracing::warn!(server = self.reach.config.name, %reason, pause_s = pause.as_secs_f32(), "a server of tools cannot be used");
            }
            last_reason.clone_from(&reason);
            self.view.send_modify(|view| {
                view.upstream = None;
                view.state = ServerState::Failed {
                    reason,
                    missing_grant,
                    since_micros: since,
                    next_attempt_micros: now.saturating_add(pause_micros),
                };
            });
            if self.paused(pause).await == PauseEnd::NewToken {
                backoff.reset();
            }
        }
    }

    /// Waits for the next attempt: for so long, or until there is another token than the server has seen, as after the grant of a person.
    async fn paused(&self, pause: Duration) -> PauseEnd {
        let end = Instant::now() + pause;
        loop {
            let look = Instant::now() + self.timing.token;
            if look >= end {
                sleep_until(end).await;
                return PauseEnd::Whole;
            }
            sleep_until(look).await;
            if self.reach.http.has_new_token().await {
                return PauseEnd::NewToken;
            }
        }
    }

    /// Time from a list to the next one.
    fn refresh_of(&self, listing: &Listing) -> Duration {
        listing.fresh().map_or(self.timing.refresh, |fresh| {
            fresh.clamp(self.timing.changed, self.timing.longest_refresh)
        })
    }

    /// Publishes a list. What stays as it was stays the same for its readers.
    async fn ready(&self, upstream: &Arc<Upstream>, listing: Listing) {
        let config = Arc::clone(&self.reach.config);
        let turn = Arc::clone(&self.lists).acquire_owned().await;
        // Thousands of schemas take a while.
        let made = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            listing.into_tools(&config.name, &config.description)
        });
        let Ok((tools, left_out)) = made.await else {
            tracing::error!(server = self.reach.config.name, "its list of tools was not read");
            return;
        };
        tracing::info!(
            server = self.reach.config.name,
            tools = tools.tools().len(),
            left_out = left_out.count,
            "a server of tools is ready"
        );
        let now = self.clock.stored_micros();
        self.view.send_modify(|view| {
            let since_micros = match view.state {
                ServerState::Ready { since_micros, .. } => since_micros,
                _ => now,
            };
            view.state = ServerState::Ready {
                since_micros,
                tools: tools.tools().len(),
                left_out,
            };
            view.tools = Some(Arc::new(tools));
            view.upstream = Some(Arc::clone(upstream));
        });
    }

    /// Looks after a server that is ready. Gives why it is so no longer.
    async fn watch(
        &self,
        upstream: &Arc<Upstream>,
        signals: &Arc<Signals>,
        refresh: Duration,
        backoff: &mut Backoff,
    ) -> String {
        let mut upstream = Arc::clone(upstream);
        let mut refresh = Instant::now() + refresh;
        let mut health = Instant::now() + self.timing.health;
        loop {
            let must_list = tokio::select! {
                () = signals.lost.notified() => return signals.why_lost(),
                () = signals.suspected.notified() => false,
                () = signals.changed.notified() => {
                    // A server that changes all the time is not asked all the time.
                    sleep(self.timing.changed).await;
                    true
                }
                () = sleep_until(health) => false,
                () = sleep_until(refresh) => true,
            };
            let looked = match (&*upstream, must_list) {
                (Upstream::Mcp(mcp), false) => mcp.alive().await.map(|()| None),
                (Upstream::Mcp(mcp), true) => mcp
                    .list()
                    .await
                    .map(|listing| Some((Arc::clone(&upstream), listing))),
                // It has no connection that could be lost: each call says for itself whether the server is there.
                (Upstream::OpenApi(_), false) => Ok(None),
                (Upstream::OpenApi(_), true) => {
                    let opened = Upstream::open(&self.reach, signals, Attempt::default()).await;
                    let opened = opened.inspect_err(|reason| {
                        // What was read before stays true of the server, wherever its description is now.
                        tracing::warn!(server = self.reach.config.name, %reason, "its description was not read again");
                    });
                    refresh = Instant::now() + self.timing.refresh;
                    Ok(opened.ok().map(|(opened, listing)| (Arc::new(opened), listing)))
                }
            };
            match looked {
                Ok(listed) => {
                    if let Some((listed, listing)) = listed {
                        let next = self.refresh_of(&listing);
                        self.ready(&listed, listing).await;
                        upstream = listed;
                        refresh = Instant::now() + next;
                    }
                    backoff.reset();
                    health = Instant::now() + self.timing.health;
                }
                Err(reason) => return reason,
            }
        }
    }
}
