//! Bounds that keep one principal from taking too much from others.
//!
//! One object bounds it for all commands, whichever facade they come from:
//!
//! | what | bounded by |
//! |---|---|
//! | memory of answers that are held | `Shares`, of bytes |
//! | connections, clients of events, connections of sandboxes | `Shares`, of pieces |
//! | work that takes a processor or reads much of a log, kernels that start | `Turns`, queued fairly |
//! | requests, starts of kernels | `Rates`, a second |
//! | processor time of sandboxes | `CpuQuotas`, a day |
//! | bytes of sandboxes to and from the network | `TrafficQuotas`, a day |
//! | calls of tools, tokens and spend of models, characters that are returned | `DayQuotas`, a day |
//!
//! A refusal costs about as much as a small answer, so those of tenants are answered late: [`Budget::hold_back`].
//!
//! A tenant has a share of each, one of its callers at most three quarters of that, and a part of the whole is the operator's
//! alone. A refused caller learns when to come back: [`EngineError::OverBudget`], [`EngineError::Busy`].

mod cpu;
mod days;
mod pace;
mod rates;
mod shares;
mod traffic;
mod turns;

use std::sync::Arc;
use std::time::{Duration, Instant};

use cpu::CpuQuotas;
use days::DayQuotas;
use himalia_journal::Journal;
use himalia_model::{EngineConfig, EngineError, Principal};
use rates::Rates;
use shares::Shares;
use traffic::TrafficQuotas;
use turns::Turns;

pub use cpu::{CpuGate, begin_of, day_of};
pub use days::{DailyQuantity, DayAmounts, DayGate, DayHeld, DayOver};
pub use pace::{Pace, Reading, work};
pub use shares::{HeldShare, Places};
pub use traffic::TrafficGate;
pub use turns::Turn;

/// Bytes of answers that are held for all together, and the part of them that is the operator's.
const MEMORY_BYTES: u64 = 1 << 30;
const MEMORY_RESERVE: u64 = 256 << 20;
/// Clients of events of all together, and the part that is the operator's.
const STREAMS: u64 = 4096;
const STREAMS_RESERVE: u64 = 512;
/// Connections of sandboxes to the network, of all together, and the part that is the operator's.
const NETWORK_CONNECTIONS: u64 = 8192;
const NETWORK_RESERVE: u64 = 1024;
/// One in so many connections is the operator's.
const CONNECTIONS_RESERVE: u64 = 16;
/// Turns of tenants, at least, so that one tenant's do not keep another's from working.
const TURNS: usize = 2;
/// Time that a piece of work waits for its turn.
const TURN: Duration = Duration::from_secs(30);
/// A log of at most so many bytes is read without a turn.
const SMALL_LOG: u64 = 4 << 20;
/// Time that a refusal is held back.
const REFUSAL_PAUSE: Duration = Duration::from_millis(200);
/// An answer of at most so many bytes is made without a turn.
const SMALL_ANSWER: usize = 64 << 10;

/// The shares, queues and rates of all principals.
#[derive(Debug)]
pub struct Budget {
    memory: Arc<Shares>,
    connections: Arc<Shares>,
    streams: Arc<Shares>,
    turns: Arc<Turns>,
    coming_up: Arc<Turns>,
    requests: Rates,
    starts: Rates,
    refusals: Arc<Shares>,
    network: Arc<Shares>,
    cpu: CpuQuotas,
    traffic: TrafficQuotas,
    days: DayQuotas,
}

/// Usage, and refusals since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BudgetUse {
    /// The tenant, or `operator`.
    pub owner: String,
    /// Bytes of answers that are held now.
    pub memory_bytes: u64,
    /// The most that they were.
    pub memory_bytes_peak: u64,
    /// Connections that are open now.
    pub connections: u64,
    /// Clients of events now.
    pub streams: u64,
    /// Connections of sandboxes to the network now.
    pub network_connections: u64,
    pub turns: u64,
    /// Turns that are taken now.
    pub turns_now: u64,
    /// Refusals of each kind: memory, connections, streams, turns, requests, starts.
    pub refused: [u64; 6],
}

impl Budget {
    /// The shares of these settings.
    pub fn of(config: &EngineConfig) -> Self {
        let share = |of: fn(&himalia_model::Share) -> u64| {
            let own =
                |(name, limits): (&String, &himalia_model::TenantLimits)| (name.clone(), of(&limits.share));
            let own = config.tenants.iter().map(own).collect();
            (of(&himalia_model::Share::default()), own)
        };
        let connections = u64::from(config.max_connections);
        let turns = std::thread::available_parallelism()
            .map_or(TURNS, usize::from)
            .max(TURNS);
        Self {
            memory: Shares::new(
                "memory",
                "bytes of answers that are being sent",
                MEMORY_BYTES,
                MEMORY_RESERVE,
                share(|share| share.memory_bytes),
            ),
            connections: Shares::new(
                "connections",
                "connections",
                connections,
                connections / CONNECTIONS_RESERVE,
                share(|share| u64::from(share.connections)),
            ),
            streams: Shares::new(
                "streams",
                "clients of events",
                STREAMS,
                STREAMS_RESERVE,
                share(|share| u64::from(share.streams)),
            ),
            // One tenant leaves half of them to the others, and all leave one to the operator.
            turns: Turns::new("turns", "pieces of work", [turns + 1, turns, turns / 2]),
            // The operator's start at once.
            coming_up: Turns::new("starts", "starts of kernels", [usize::MAX, turns, turns / 2]),
            requests: Rates::new("requests", share(|share| u64::from(share.requests_per_second))),
            starts: Rates::new("starts", share(|share| u64::from(share.starts_per_second))),
            // One for each connection: on each only one request is answered at a time.
            refusals: Shares::new(
                "refusals",
                "refusals that are held back",
                u64::MAX,
                0,
                share(|share| u64::from(share.connections)),
            ),
            network: Shares::new(
                "network_connections",
                "connections to the network",
                NETWORK_CONNECTIONS,
                NETWORK_RESERVE,
                share(|share| u64::from(share.network_connections)),
            ),
            traffic: TrafficQuotas::new(
                &config.clock,
                config
                    .tenants
                    .iter()
                    .filter_map(|(owner, limits)| Some((owner, limits.network_per_day?))),
            ),
            days: DayQuotas::new(
                &config.clock,
                config.tenants.iter().map(|(owner, limits)| (owner, &limits.day)),
            ),
            cpu: CpuQuotas::new(
                &config.clock,
                config
                    .tenants
                    .iter()
                    .filter_map(|(owner, limits)| Some((owner, limits.cpu_per_day?))),
            ),
        }
    }

    /// Quota of processor time for an owner's sandboxes; `None` for an owner without a limit.
    pub fn cpu(&self, owner: &str) -> Option<&CpuGate> {
        self.cpu.of(owner)
    }

    /// The day now: days since 1970, UTC.
    pub fn today(&self) -> i64 {
        self.cpu.today()
    }

    /// The processor time that sandboxes have used on a day, by owner.
    pub fn set_cpu(&self, day: i64, used: &std::collections::BTreeMap<String, Duration>) {
        self.cpu.set(day, used);
    }

    /// Places for connections of the sandboxes of a principal to the network.
    pub fn network(&self, principal: &Principal) -> Places {
        Places::new(&self.network, principal)
    }

    /// Quota of network bytes for an owner's sandboxes; `None` for an owner without a limit.
    pub fn traffic(&self, owner: &str) -> Option<&TrafficGate> {
        self.traffic.of(owner)
    }

    /// The bytes that sandboxes have carried on a day, by owner.
    pub fn set_traffic(&self, day: i64, used: &std::collections::BTreeMap<String, u64>) {
        self.traffic.set(day, used);
    }

    /// Daily quota of an owner for one quantity; `None` for an owner without a limit.
    pub fn day(&self, owner: &str, what: DailyQuantity) -> Option<&DayGate> {
        self.days.of(owner, what)
    }

    /// Sets the usage of a day by owner over all replicas, and the part of the usage counted here that was stored since the last time.
    pub fn set_days(&self, day: i64, used: &DayAmounts, stored: &DayAmounts) {
        self.days.set(day, used, stored);
    }

    /// Connections and bytes of responses that the callers of an owner hold now, by their names.
    pub fn callers(&self, owner: &str) -> std::collections::BTreeMap<String, (u64, u64)> {
        let mut all: std::collections::BTreeMap<String, (u64, u64)> = self
            .connections
            .callers(owner)
            .into_iter()
            .map(|(caller, count)| (caller, (count, 0)))
            .collect();
        for (caller, bytes) in self.memory.callers(owner) {
            all.entry(caller).or_default().1 = bytes;
        }
        all
    }

    /// Memory for an answer of about so many bytes, as long as the guard lives.
    pub fn memory(&self, principal: &Principal, bytes: u64) -> Result<HeldShare, EngineError> {
        self.memory.take(principal, bytes)
    }

    pub fn connection(&self, principal: &Principal) -> Result<HeldShare, EngineError> {
        self.connections.take(principal, 1)
    }

    /// A client of events.
    pub fn stream(&self, principal: &Principal) -> Result<HeldShare, EngineError> {
        self.streams.take(principal, 1)
    }

    /// A client of events, with the turns for what it reads.
    pub fn paced_stream(&self, principal: &Principal) -> Result<Pace, EngineError> {
        let held = self.stream(principal)?;
        Ok(Pace::new(&self.turns, principal, held))
    }

    /// A turn for work that takes a processor. Waits at most 30 s.
    pub async fn turn(&self, principal: &Principal) -> Result<Turn, EngineError> {
        self.turns.next(principal, TURN).await
    }

    /// A turn for reading in a log, if it is a long one.
    pub async fn turn_for(&self, principal: &Principal, log: &Journal) -> Result<Option<Turn>, EngineError> {
        if log.disk_bytes() <= SMALL_LOG {
            return Ok(None);
        }
        self.turn(principal).await.map(Some)
    }

    /// A turn for making an answer of about so many bytes, if they are many.
    pub async fn turn_for_answer(
        &self,
        principal: &Principal,
        bytes: usize,
    ) -> Result<Option<Turn>, EngineError> {
        if bytes <= SMALL_ANSWER {
            return Ok(None);
        }
        self.turn(principal).await.map(Some)
    }

    /// The turns of reading in a log part by part, if it is a long one.
    pub async fn reading(&self, principal: &Principal, log: &Journal) -> Result<Reading, EngineError> {
        self.turn_for(principal, log).await.map(Reading::new)
    }

    /// One more request.
    pub fn request(&self, principal: &Principal) -> Result<(), EngineError> {
        self.requests.take(principal, Instant::now())
    }

    /// The turn for a kernel that starts. Waits at most 30 s; the operator does not.
    pub async fn coming_up(&self, principal: &Principal) -> Result<Turn, EngineError> {
        self.coming_up.next(principal, TURN).await
    }

    /// One more start of a kernel, as far as the rate goes.
    pub fn start(&self, principal: &Principal) -> Result<(), EngineError> {
        self.starts.take(principal, Instant::now())
    }

    /// Waits with a refusal that a limit is the reason of, so that who asks on without a wait is made to wait. At most as many of a
    /// tenant are held back as it may have connections; one more is answered at once. The operator's are answered at once.
    pub async fn hold_back(&self, principal: &Principal) {
        if principal.is_operator() {
            return;
        }
        if let Ok(_held) = self.refusals.take(principal, 1) {
            tokio::time::sleep(REFUSAL_PAUSE).await;
        }
    }

    /// Usage of each owner, by name.
    pub fn uses(&self) -> Vec<BudgetUse> {
        let mut all: std::collections::BTreeMap<String, BudgetUse> = std::collections::BTreeMap::new();
        let mut of = |owner: String, set: &dyn Fn(&mut BudgetUse)| set(all.entry(owner).or_default());
        for (owner, now, peak, refused) in self.memory.uses() {
            of(owner, &|it| {
                (it.memory_bytes, it.memory_bytes_peak, it.refused[0]) = (now, peak, refused);
            });
        }
        for (owner, now, _, refused) in self.connections.uses() {
            of(owner, &|it| (it.connections, it.refused[1]) = (now, refused));
        }
        for (owner, now, _, refused) in self.streams.uses() {
            of(owner, &|it| (it.streams, it.refused[2]) = (now, refused));
        }
        for (owner, now, ..) in self.network.uses() {
            of(owner, &|it| it.network_connections = now);
        }
        for (owner, now, given, refused) in self.turns.uses() {
            of(owner, &|it| {
                (it.turns_now, it.turns, it.refused[3]) = (now, given, refused);
            });
        }
        for (owner, refused) in self.requests.refused() {
            of(owner, &|it| it.refused[4] = refused);
        }
        let waited = self.coming_up.uses().into_iter();
        let waited = waited.map(|(owner, _, _, refused)| (owner, refused));
        for (owner, refused) in self.starts.refused().into_iter().chain(waited) {
            of(owner, &|it| it.refused[5] += refused);
        }
        let named = |(owner, it)| BudgetUse { owner, ..it };
        all.into_iter().map(named).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// Whether it is over without a wait.
    fn is_over(future: Pin<&mut impl Future<Output = ()>>) -> bool {
        future.poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    }

    #[tokio::test]
    async fn refusals_are_held_back_as_many_as_a_tenant_may_have_connections() {
        let mut config = EngineConfig::new("/nowhere");
        let mut limits = himalia_model::TenantLimits::default();
        limits.share.connections = 4;
        config.tenants.insert("evil".to_owned(), limits);
        let budget = Budget::of(&config);
        let of = |tenant| Principal::of_tenant(tenant, "x").unwrap();
        let (eve, ada, operator) = (of("evil"), of("acme"), Principal::operator());
        let begun = Instant::now();
        // Three quarters are one caller's.
        let mut held: Vec<_> = (0..3).map(|_| Box::pin(budget.hold_back(&eve))).collect();
        assert!(held.iter_mut().all(|held| !is_over(held.as_mut())));
        assert!(is_over(pin!(budget.hold_back(&eve))), "one more");
        assert!(!is_over(pin!(budget.hold_back(&ada))), "others have their own");
        assert!(is_over(pin!(budget.hold_back(&operator))));
        for held in held {
            held.await;
        }
        assert!(begun.elapsed() >= REFUSAL_PAUSE);
        // A caller that goes away makes room.
        let mut gone: Vec<_> = (0..3).map(|_| Box::pin(budget.hold_back(&eve))).collect();
        assert!(gone.iter_mut().all(|gone| !is_over(gone.as_mut())));
        drop(gone);
        assert!(!is_over(pin!(budget.hold_back(&eve))));
    }
}
