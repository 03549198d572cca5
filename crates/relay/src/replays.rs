//! Detects statements that were used before.
//!
//! A replica numbers the statements of one run. Requests pass each other on their way, so the last [`WINDOW`] numbers of
//! a run are remembered one by one, and an older one counts as used.

use std::collections::HashMap;

use crate::statement::STALE;

/// Numbers of one run that may pass each other.
const WINDOW: u64 = 8192;
const WORDS: usize = (WINDOW / 64) as usize;
/// Runs of peers that are remembered: that many replicas at once.
const RUNS: usize = 256;

/// The statements that were used, at most 1 KiB for each of 256 runs.
#[derive(Debug, Default)]
pub(crate) struct Replays(HashMap<u128, Run>);

#[derive(Debug)]
struct Run {
    /// The highest number so far.
    top: u64,
    /// The numbers of the window, each at its remainder.
    used: Box<[u64; WORDS]>,
    /// When a statement was last used, milliseconds.
    at: u64,
}

impl Replays {
    /// Marks a number of a run as used, and returns true if it was new. `now` in milliseconds.
    pub(crate) fn is_new(&mut self, run: u128, number: u64, now: u64) -> bool {
        if !self.0.contains_key(&run) && self.0.len() >= RUNS {
            // What a forgotten run may have left on its way is stale by now.
            let stale = 2 * u64::try_from(STALE.as_millis()).unwrap_or(u64::MAX / 2);
            self.0.retain(|_, run| now.saturating_sub(run.at) <= stale);
            if self.0.len() >= RUNS {
                return false;
            }
        }
        let run = self.0.entry(run).or_insert_with(|| Run {
            top: 0,
            used: Box::new([0; WORDS]),
            at: now,
        });
        run.at = run.at.max(now);
        run.use_number(number)
    }
}

impl Run {
    fn use_number(&mut self, number: u64) -> bool {
        if number == 0 || number.saturating_add(WINDOW) <= self.top {
            return false;
        }
        if number > self.top {
            // What lies between was not used yet.
            if number - self.top >= WINDOW {
                self.used.fill(0);
            } else {
                for between in self.top + 1..number {
                    self.set(between, false);
                }
            }
            self.top = number;
            self.set(number, true);
            return true;
        }
        if self.is_set(number) {
            return false;
        }
        self.set(number, true);
        true
    }

    fn set(&mut self, number: u64, used: bool) {
        let (word, bit) = place(number);
        if let Some(word) = self.used.get_mut(word) {
            *word = if used { *word | bit } else { *word & !bit };
        }
    }

    fn is_set(&self, number: u64) -> bool {
        let (word, bit) = place(number);
        self.used.get(word).is_none_or(|word| word & bit != 0)
    }
}

fn place(number: u64) -> (usize, u64) {
    let at = number % WINDOW;
    (usize::try_from(at / 64).unwrap_or(0), 1 << (at % 64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn runs_are_bounded_and_stale_ones_go() {
        let mut replays = Replays::default();
        for run in 0..RUNS as u128 {
            assert!(replays.is_new(run, 1, 0));
        }
        assert!(!replays.is_new(RUNS as u128, 1, 1000));
        assert!(replays.is_new(RUNS as u128, 1, 121_000));
        assert_eq!(replays.0.len(), 1);
    }

    proptest! {
        /// Against a set of all numbers: nothing is taken twice, and what is within the window is taken once.
        #[test]
        fn each_number_counts_once(numbers in prop::collection::vec(1u64..30_000, 1..2000)) {
            let mut replays = Replays::default();
            let (mut seen, mut top) = (HashSet::new(), 0);
            for number in numbers {
                let new = replays.is_new(1, number, 0);
                let within = number + WINDOW > top;
                prop_assert_eq!(new, within && !seen.contains(&number));
                if new {
                    seen.insert(number);
                    top = top.max(number);
                }
            }
        }
    }
}
