//! Usage and budget of all calls of one tree of executions. At its top is an execution; it is all of the tree where no session starts another one.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use himalia_model::{KernelId, LlmCap, LlmLimits, ModelUse, Prices, Spend};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use crate::request::Estimate;

/// Trees that are known. Of more, those are forgotten that have not called for the longest time, and have no call in progress.
pub const MAX_TREES: usize = 4096;

/// Root of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TreeId {
    pub kernel: KernelId,
    /// Execution or thread that is the root.
    pub runs: Runs,
}

/// Sources of calls in a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Runs {
    /// A native execution, by the number of its first record.
    Execution(u64),
    /// A request of a client, by epoch and number.
    Request(u64, u64),
    /// A thread that an earlier execution has started.
    Nothing,
}

#[derive(Default)]
pub struct Trees(Mutex<TreeTable>);

#[derive(Default)]
struct TreeTable {
    trees: HashMap<TreeId, (Arc<Tree>, u64)>,
    /// Counts uses.
    now: u64,
}

struct Tree {
    used: Mutex<TreeUsage>,
    /// Calls at once. The first call says how many.
    turns: Arc<Semaphore>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct TreeUsage {
    calls: u64,
    tokens: u64,
    spend: Spend,
    /// Tokens that are reserved for calls in progress.
    held_tokens: u64,
    held_spend: Spend,
}

/// The place of a call that is in progress. When it is dropped before it is settled, the call has taken what it might.
pub struct TreeReservation {
    tree: Arc<Tree>,
    tokens: u64,
    spend: Spend,
    settled: bool,
    _turn: OwnedSemaphorePermit,
}

impl Trees {
    /// A place for a call that may take so much, once less than the permitted number of calls are in progress; at the latest at the
    /// deadline.
    ///
    /// # Errors
    /// The cap that it would exceed. Nothing of it counts.
    pub async fn hold(
        &self,
        id: TreeId,
        limits: &LlmLimits,
        estimate: Estimate,
        prices: Option<Prices>,
        deadline: Instant,
    ) -> Result<TreeReservation, LlmCap> {
        let tree = self.tree(id, limits);
        let turn = timeout_at(deadline, Arc::clone(&tree.turns).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else {
            let parallel = f64::from(limits.parallel);
            return Err(LlmCap {
                name: "model_parallel",
                used: parallel,
                allowed: parallel,
            });
        };
        let tokens = estimate.input_tokens.saturating_add(estimate.output_tokens);
        let spend = prices.map_or_else(Spend::default, |prices| {
            prices.spend(estimate.input_tokens, estimate.output_tokens)
        });
        tree.used.lock().take(limits, tokens, spend)?;
        Ok(TreeReservation {
            tree,
            tokens,
            spend,
            settled: false,
            _turn: turn,
        })
    }

    fn tree(&self, id: TreeId, limits: &LlmLimits) -> Arc<Tree> {
        let known = &mut *self.0.lock();
        known.now += 1;
        if let Some((tree, used)) = known.trees.get_mut(&id) {
            *used = known.now;
            return Arc::clone(tree);
        }
        if known.trees.len() >= MAX_TREES {
            known.forget();
        }
        let tree = Arc::new(Tree {
            used: Mutex::default(),
            turns: Arc::new(Semaphore::new(limits.parallel as usize)),
        });
        known.trees.insert(id, (Arc::clone(&tree), known.now));
        tree
    }
}

impl TreeTable {
    /// Forgets the older half of those without a call in progress.
    fn forget(&mut self) {
        let idle = |tree: &Arc<Tree>| Arc::strong_count(tree) == 1;
        let mut used: Vec<u64> = self
            .trees
            .values()
            .filter(|(tree, _)| idle(tree))
            .map(|(_, used)| *used)
            .collect();
        used.sort_unstable();
        if let Some(middle) = used.get(used.len() / 2).copied() {
            self.trees.retain(|_, (tree, used)| !idle(tree) || *used > middle);
        }
    }
}

impl TreeUsage {
    /// One call more, which may take so much.
    fn take(&mut self, limits: &LlmLimits, tokens: u64, spend: Spend) -> Result<(), LlmCap> {
        let cap = |name, used, allowed| Err(LlmCap { name, used, allowed });
        if self.calls >= limits.calls {
            return cap("model_calls", shown(self.calls), shown(limits.calls));
        }
        let used = self.tokens.saturating_add(self.held_tokens);
        // One that takes nothing that is known is one too many as well, when all is used.
        if used >= limits.tokens || used.saturating_add(tokens) > limits.tokens {
            return cap("model_tokens", shown(used), shown(limits.tokens));
        }
        let spent = self.spend.plus(self.held_spend);
        if let Some(most) = limits.spend
            && (spent >= most || spent.plus(spend) > most)
        {
            return cap("model_spend", spent.units(), most.units());
        }
        self.calls += 1;
        self.held_tokens = self.held_tokens.saturating_add(tokens);
        self.held_spend = self.held_spend.plus(spend);
        Ok(())
    }

    fn settle(&mut self, held: (u64, Spend), took: (u64, Spend)) {
        self.held_tokens = self.held_tokens.saturating_sub(held.0);
        self.held_spend = self.held_spend.minus(held.1);
        self.tokens = self.tokens.saturating_add(took.0);
        self.spend = self.spend.plus(took.1);
    }
}

#[expect(clippy::cast_precision_loss, reason = "a count is shown, not counted with")]
fn shown(count: u64) -> f64 {
    count as f64
}

impl TreeReservation {
    /// Replaces the reservation of a call by its usage.
    pub fn settle(mut self, took: &ModelUse) {
        self.settled = true;
        let mut used = self.tree.used.lock();
        used.settle((self.tokens, self.spend), (took.tokens(), took.spend));
    }
}

impl Drop for TreeReservation {
    fn drop(&mut self) {
        if !self.settled {
            let held = (self.tokens, self.spend);
            self.tree.used.lock().settle(held, held);
        }
    }
}

impl fmt::Debug for TreeReservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Held({} tokens, {})", self.tokens, self.spend)
    }
}

impl fmt::Debug for Trees {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Trees({})", self.0.lock().trees.len())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SOON: Duration = Duration::from_secs(1);

    fn id(number: u64) -> TreeId {
        TreeId {
            kernel: KernelId::random(),
            runs: Runs::Execution(number),
        }
    }

    fn took(input_tokens: u64, nanos: u64) -> ModelUse {
        ModelUse {
            input_tokens,
            spend: Spend::of_nanos(nanos),
            ..ModelUse::default()
        }
    }

    async fn hold(
        trees: &Trees,
        id: TreeId,
        limits: &LlmLimits,
        tokens: u64,
    ) -> Result<TreeReservation, &'static str> {
        let estimate = Estimate {
            input_tokens: tokens,
            output_tokens: 0,
        };
        let held = trees
            .hold(id, limits, estimate, None, Instant::now() + SOON)
            .await;
        held.map_err(|cap| cap.name)
    }

    #[tokio::test(start_paused = true)]
    async fn calls_in_progress_count_with_what_they_may_take() {
        let (trees, id) = (Trees::default(), id(1));
        let limits = LlmLimits {
            tokens: 100,
            calls: 4,
            ..LlmLimits::default()
        };
        let first = hold(&trees, id, &limits, 60).await.unwrap();
        assert_eq!(hold(&trees, id, &limits, 60).await.unwrap_err(), "model_tokens");
        first.settle(&took(30, 0));
        let second = hold(&trees, id, &limits, 60).await.unwrap();
        // Whether it was done is not known.
        drop(second);
        assert_eq!(hold(&trees, id, &limits, 11).await.unwrap_err(), "model_tokens");
        hold(&trees, id, &limits, 10).await.unwrap().settle(&took(9, 0));
        hold(&trees, id, &limits, 1).await.unwrap().settle(&took(0, 0));
        // Those that were refused are not among the four.
        assert_eq!(hold(&trees, id, &limits, 1).await.unwrap_err(), "model_calls");
        assert!(hold(&trees, self::id(2), &limits, 1).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn spend_is_capped_where_there_are_prices() {
        let (trees, id) = (Trees::default(), id(1));
        let limits = LlmLimits {
            spend: Some(Spend::of_nanos(10)),
            ..LlmLimits::default()
        };
        hold(&trees, id, &limits, 1).await.unwrap().settle(&took(1, 10));
        assert_eq!(hold(&trees, id, &limits, 1).await.unwrap_err(), "model_spend");
    }

    #[tokio::test(start_paused = true)]
    async fn more_calls_than_at_once_wait() {
        let (trees, id) = (Trees::default(), id(1));
        let limits = LlmLimits {
            parallel: 1,
            ..LlmLimits::default()
        };
        let first = hold(&trees, id, &limits, 1).await.unwrap();
        assert_eq!(hold(&trees, id, &limits, 1).await.unwrap_err(), "model_parallel");
        let (second, ()) = tokio::join!(hold(&trees, id, &limits, 1), async { first.settle(&took(1, 0)) });
        assert!(second.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn trees_that_have_not_called_for_long_are_forgotten() {
        let trees = Trees::default();
        let limits = LlmLimits {
            calls: 1,
            ..LlmLimits::default()
        };
        let (busy, latest) = (id(0), id(1));
        let held = hold(&trees, busy, &limits, 1).await.unwrap();
        for number in 2..MAX_TREES as u64 {
            hold(&trees, id(number), &limits, 1)
                .await
                .unwrap()
                .settle(&took(1, 0));
        }
        hold(&trees, latest, &limits, 1)
            .await
            .unwrap()
            .settle(&took(1, 0));
        assert_eq!(trees.0.lock().trees.len(), MAX_TREES);
        hold(&trees, id(0), &limits, 1).await.unwrap().settle(&took(1, 0));
        assert!(trees.0.lock().trees.len() <= MAX_TREES / 2 + 2);
        for known in [busy, latest] {
            assert_eq!(hold(&trees, known, &limits, 1).await.unwrap_err(), "model_calls");
        }
        drop(held);
    }
}
