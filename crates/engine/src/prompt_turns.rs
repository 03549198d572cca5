//! The turns of open prompts of kernels in the operator's list: how many of their owner were open before.
//!
//! A prompt keeps its turn as long as it is open, whatever becomes of those before it. So the key by which pages are ordered does not change
//! while prompts are answered, and a page continues behind the last one without a gap. An owner has at most n prompts of kernels with a turn
//! below n: a prompt gets turn n only while n others are open.

use std::collections::HashMap;

use himalia_executions::PromptId;
use himalia_kernel::OpenPrompt;
use himalia_model::{KernelId, from_micros};
use parking_lot::Mutex;

use crate::api::PromptPlace;

pub(crate) struct Asking {
    pub(crate) kernel: KernelId,
    pub(crate) owner: String,
    pub(crate) open: Vec<OpenPrompt>,
}

impl Asking {
    /// The places of its prompts in a list that has no turns.
    pub(crate) fn places(&self) -> impl Iterator<Item = (PromptPlace, KernelId)> {
        let ids = self.ids();
        ids.map(|(at_micros, id)| (place(0, at_micros, id), self.kernel))
    }

    fn ids(&self) -> impl Iterator<Item = (u64, PromptId)> {
        let id = |seq| PromptId {
            kernel: self.kernel,
            seq,
        };
        self.open.iter().map(move |one| (one.at_micros, id(one.seq)))
    }
}

fn place(turn: u32, at_micros: u64, id: PromptId) -> PromptPlace {
    PromptPlace {
        turn,
        created: from_micros(at_micros),
        id: id.to_string(),
    }
}

/// The turns of the prompts that were open when the list was last read.
#[derive(Debug, Default)]
pub(crate) struct PromptTurns(Mutex<HashMap<PromptId, u32>>);

impl PromptTurns {
    /// The places of all open prompts. `read` is called once, and not at the same time by another call, so that a prompt that was seen open is
    /// not seen for the first time again.
    pub(crate) fn places(&self, read: impl FnOnce() -> Vec<Asking>) -> Vec<(PromptPlace, KernelId)> {
        let mut known = self.0.lock();
        let kernels = read();
        let all = kernels.iter().flat_map(|one| {
            let owner = one.owner.as_str();
            one.ids()
                .map(move |(at_micros, id)| (at_micros, id.kernel, id.seq, owner))
        });
        let mut all: Vec<(u64, KernelId, u64, &str)> = all.collect();
        all.sort_unstable();
        let (mut open, mut turns) = (HashMap::<&str, u32>::new(), HashMap::with_capacity(all.len()));
        for (_, kernel, seq, owner) in &all {
            let id = PromptId {
                kernel: *kernel,
                seq: *seq,
            };
            if let Some(turn) = known.get(&id) {
                turns.insert(id, *turn);
                *open.entry(owner).or_default() += 1;
            }
        }
        let placed = all.into_iter().map(|(at_micros, kernel, seq, owner)| {
            let id = PromptId { kernel, seq };
            let turn = *turns.entry(id).or_insert_with(|| {
                let before = open.entry(owner).or_default();
                let turn = *before;
                *before = before.saturating_add(1);
                turn
            });
            (place(turn, at_micros, id), kernel)
        });
        let placed = placed.collect();
        *known = turns;
        placed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kernels of owners, with the times of their prompts.
    fn asking(kernels: &[(KernelId, &str, &[u64])]) -> Vec<Asking> {
        let open = |times: &[u64]| {
            times
                .iter()
                .map(|at| OpenPrompt {
                    seq: *at,
                    at_micros: *at,
                })
                .collect()
        };
        let all = kernels.iter();
        all.map(|(kernel, owner, times)| Asking {
            kernel: *kernel,
            owner: (*owner).to_owned(),
            open: open(times),
        })
        .collect()
    }

    /// Times and turns, in the order of the list.
    fn order(turns: &PromptTurns, kernels: &[(KernelId, &str, &[u64])]) -> Vec<(u64, u32)> {
        let mut all = turns.places(|| asking(kernels));
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        let micros =
            |place: &PromptPlace| u64::try_from(place.created.unix_timestamp_nanos() / 1000).unwrap_or(0);
        all.iter().map(|(place, _)| (micros(place), place.turn)).collect()
    }

    #[test]
    fn the_first_prompts_of_all_owners_are_before_the_second_ones() {
        let [a, b, c] = [0; 3].map(|_| KernelId::random());
        let kernels: &[(KernelId, &str, &[u64])] =
            &[(a, "eve", &[1, 4]), (b, "eve", &[2, 5]), (c, "ada", &[3, 6])];
        let wanted = [(1, 0), (3, 0), (2, 1), (6, 1), (4, 2), (5, 3)];
        assert_eq!(order(&PromptTurns::default(), kernels), wanted);
    }

    #[test]
    fn a_prompt_keeps_its_turn_when_those_before_it_end() {
        let [a, b] = [0; 2].map(|_| KernelId::random());
        let turns = PromptTurns::default();
        order(&turns, &[(a, "eve", &[1, 2, 3]), (b, "eve", &[4])]);
        assert_eq!(
            order(&turns, &[(a, "eve", &[3]), (b, "eve", &[4])]),
            [(3, 2), (4, 3)]
        );
        // A new one: two of its owner are open.
        assert_eq!(
            order(&turns, &[(a, "eve", &[3, 7]), (b, "eve", &[4])]),
            [(3, 2), (7, 2), (4, 3)]
        );
        // None is remembered that has ended.
        order(&turns, &[]);
        assert_eq!(order(&turns, &[(b, "eve", &[4])]), [(4, 0)]);
    }
}
