//! The list of what waits for an answer of a person, in pages: prompts of kernels, which these have, and steps of workflows, which are rows.
//!
//! The list of a principal who sees one owner is in the order of time. That of the operator is fair by owner: the first prompt of each owner
//! comes before the second one of any ([`PromptPlace::turn`]).
//!
//! The snapshot of a kernel has the places of its prompts in the list, so that a page asks only the kernels whose prompts it shows.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use himalia_executions::{PromptId, PromptInfo, PromptState};
use himalia_kernel::{Answer, Command, OpenPrompt};
use himalia_model::{Action, EngineError, KernelId, Object, Principal, from_micros};
use himalia_session::SessionKernel;
use time::OffsetDateTime;

use super::Commands;

/// Bytes of texts and arguments of the prompts of a page. It has one at least.
pub const PROMPT_PAGE_BYTES: usize = 4 << 20;

/// A place in the list of prompts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PromptPlace {
    /// How many of its owner, or of its kernel, waited before it; 0 in the list of one owner.
    pub turn: u32,
    /// When it was asked.
    pub created: OffsetDateTime,
    /// Its id.
    pub id: String,
}

/// A prompt that waits.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedPrompt {
    /// The prompt.
    pub prompt: PromptInfo,
    /// [`PromptPlace::turn`].
    pub turn: u32,
}

/// A page of the list.
#[derive(Clone, Debug, PartialEq)]
pub struct PromptPage {
    /// In the order of their places.
    pub prompts: Vec<ListedPrompt>,
    /// The place of the last one, if there are more.
    pub next: Option<PromptPlace>,
}

impl ListedPrompt {
    fn place(&self) -> PromptPlace {
        PromptPlace {
            turn: self.turn,
            created: self.prompt.created,
            id: self.prompt.id.to_string(),
        }
    }

    /// Bytes of its text and its arguments.
    pub fn bytes(&self) -> usize {
        let arguments = self.prompt.arguments.as_ref();
        self.prompt.text.len() + arguments.map_or(0, |arguments| arguments.to_string().len())
    }
}

impl Commands {
    pub(crate) async fn open_prompts(
        &self,
        principal: &Principal,
        after: Option<PromptPlace>,
        limit: usize,
    ) -> Result<PromptPage, EngineError> {
        self.allow(principal, Action::Read, Object::Gateway)?;
        self.prompt_page(principal, after.as_ref(), limit).await
    }

    /// The same, by the gateway itself.
    pub(super) async fn prompt_page(
        &self,
        principal: &Principal,
        after: Option<&PromptPlace>,
        limit: usize,
    ) -> Result<PromptPage, EngineError> {
        let most = limit.saturating_add(1);
        let mut found = BTreeMap::new();
        for one in self.waiting_steps(principal, after, most).await? {
            found.insert(one.place(), Found::Step(Box::new(one)));
        }
        for handle in self.inner.registry.all() {
            if handle.is_over() || !principal.sees(&handle.session().owner) {
                continue;
            }
            let open = handle.snapshot.borrow().open_prompts.clone();
            for place in places(handle.id(), &open, principal.is_operator()) {
                if after.is_none_or(|after| place > *after) {
                    found.insert(place, Found::Kernel(Arc::clone(&handle)));
                }
            }
            while found.len() > most {
                found.pop_last();
            }
        }
        Ok(page(found, limit).await)
    }
}

/// A prompt of a page, before its text is read.
enum Found {
    Step(Box<ListedPrompt>),
    Kernel(Arc<SessionKernel>),
}

/// The places of the open prompts of a kernel, without asking it.
fn places(kernel: KernelId, open: &[OpenPrompt], turns: bool) -> impl Iterator<Item = PromptPlace> {
    open.iter().zip(0_u32..).map(move |(one, turn)| PromptPlace {
        turn: if turns { turn } else { 0 },
        created: from_micros(one.at_micros),
        id: PromptId { kernel, seq: one.seq }.to_string(),
    })
}

/// The prompts of a kernel that are open. One that has ended meanwhile asks nothing any more.
pub(super) async fn open_of(handle: &SessionKernel) -> Vec<PromptInfo> {
    let kernel = handle.handle().id();
    let Some(Ok(Answer::Prompts(all))) = handle.order(Command::ListPrompts).await else {
        return Vec::new();
    };
    let all = all.into_iter().map(|status| PromptInfo::new(kernel, status));
    all.filter(|prompt| prompt.state == PromptState::Open).collect()
}

/// Reads the prompts at these places. Only their kernels are asked, each of them once.
async fn page(found: BTreeMap<PromptPlace, Found>, limit: usize) -> PromptPage {
    let (mut prompts, mut bytes, mut last) = (Vec::new(), 0_usize, None);
    let shown: HashSet<String> = found.keys().map(|place| place.id.clone()).collect();
    let mut asked: HashMap<KernelId, HashMap<String, PromptInfo>> = HashMap::new();
    for (number, (place, one)) in found.into_iter().enumerate() {
        if number >= limit {
            return PromptPage { prompts, next: last };
        }
        let one = match one {
            Found::Step(one) => Some(*one),
            Found::Kernel(handle) => {
                let all = match asked.entry(handle.id()) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(new) => {
                        let open = open_of(&handle).await.into_iter();
                        let named = open.map(|prompt| (prompt.id.to_string(), prompt));
                        new.insert(named.filter(|(id, _)| shown.contains(id)).collect())
                    }
                };
                // It may have ended meanwhile.
                let prompt = all.remove(&place.id);
                prompt.map(|prompt| ListedPrompt {
                    prompt,
                    turn: place.turn,
                })
            }
        };
        if let Some(one) = one {
            bytes = bytes.saturating_add(one.bytes());
            if bytes > PROMPT_PAGE_BYTES && !prompts.is_empty() {
                return PromptPage { prompts, next: last };
            }
            prompts.push(one);
        }
        last = Some(place);
    }
    PromptPage { prompts, next: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_prompts_of_all_kernels_are_before_the_second_ones() {
        let (one, other) = (KernelId::random(), KernelId::random());
        let open = |times: &[u64]| -> Vec<OpenPrompt> {
            let all = times.iter().zip(1..);
            all.map(|(at_micros, seq)| OpenPrompt {
                seq,
                at_micros: *at_micros,
            })
            .collect()
        };
        let order = |turns: bool| -> Vec<u64> {
            let (first, second) = (open(&[1, 2, 5]), open(&[3, 4]));
            let first = places(one, &first, turns);
            let mut all: Vec<PromptPlace> = first.chain(places(other, &second, turns)).collect();
            all.sort();
            let micros = all
                .iter()
                .map(|place| place.created.unix_timestamp_nanos() / 1000);
            micros.map(|at| u64::try_from(at).unwrap_or_default()).collect()
        };
        assert_eq!(order(true), [1, 3, 2, 4, 5]);
        assert_eq!(order(false), [1, 2, 3, 4, 5]);
    }
}
