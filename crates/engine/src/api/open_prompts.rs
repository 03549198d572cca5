//! The list of what waits for an answer of a person, in pages: prompts of kernels, which these have, and steps of workflows, which are rows.
//!
//! The list of a principal who sees one owner is in the order of time. That of the operator is fair by owner: the first prompt of each owner
//! comes before the second one of any ([`PromptPlace::turn`], `prompt_turns.rs`). The key of a prompt in a list does not change while it is open.
//!
//! The snapshot of a kernel has the places of its prompts in the list, so that a page asks only the kernels whose prompts it shows.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};

use crate::access::Object;
use himalia_executions::{PromptInfo, PromptState};
use himalia_kernel::{Answer, Command};
use himalia_model::{Action, EngineError, KernelId, Principal};
use himalia_session::SessionKernel;
use time::OffsetDateTime;

use super::Commands;
use crate::access::authorise;
use crate::prompt_turns::Asking;

/// Bytes of texts and arguments of the prompts of a page. It has one at least.
pub const PROMPT_PAGE_BYTES: usize = 4 << 20;

/// A place in the list of prompts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PromptPlace {
    /// How many of its owner waited when it was asked, of its kind: steps, or prompts of kernels; 0 in the list of one owner.
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

/// The latest prompt of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatestPrompt {
    /// The kernel.
    pub kernel: KernelId,
    /// The tenant of its session, or the operator.
    pub owner: String,
    /// The number of its latest prompt; 0 if it had none.
    pub seq: u64,
}

impl Commands {
    pub(crate) fn latest_prompts(&self, principal: &Principal) -> Result<Vec<LatestPrompt>, EngineError> {
        // The gateway asks each second, which is no activity.
        authorise(principal, Action::Read, Object::Gateway)?;
        let kernels = self.inner.registry.all().into_iter();
        let kernels = kernels.filter(|handle| !handle.is_over() && principal.sees(&handle.session().owner));
        let latest = kernels.map(|handle| LatestPrompt {
            kernel: handle.id(),
            owner: handle.session().owner.clone(),
            seq: handle.snapshot.borrow().latest_prompt,
        });
        Ok(latest.collect())
    }

    pub(crate) async fn open_prompts(
        &self,
        principal: &Principal,
        after: Option<PromptPlace>,
        limit: usize,
    ) -> Result<PromptPage, EngineError> {
        self.allow(principal, Action::Read, Object::Gateway)?;
        let after = after.as_ref();
        let most = limit.saturating_add(1);
        let mut found = BTreeMap::new();
        for one in self.waiting_steps(principal, after, most).await? {
            found.insert(one.place(), Found::Step(Box::new(one)));
        }
        let kernels = if principal.is_operator() {
            self.prompt_turns.places(|| self.asking(principal))
        } else {
            let kernels = self.asking(principal);
            kernels.iter().flat_map(Asking::places).collect()
        };
        for (place, kernel) in kernels {
            if after.is_none_or(|after| place > *after) {
                found.insert(place, Found::Kernel(kernel));
            }
        }
        while found.len() > most {
            found.pop_last();
        }
        Ok(self.read_page(found, limit).await)
    }

    /// The kernels of which the principal sees open prompts.
    fn asking(&self, principal: &Principal) -> Vec<Asking> {
        let kernels = self.inner.registry.all_unordered().into_iter();
        let kernels = kernels.filter(|handle| !handle.is_over() && principal.sees(&handle.session().owner));
        let asking = kernels.map(|handle| Asking {
            kernel: handle.id(),
            owner: handle.session().owner.clone(),
            open: handle.snapshot.borrow().open_prompts.clone(),
        });
        asking.filter(|kernel| !kernel.open.is_empty()).collect()
    }

    /// Reads the prompts at these places. Only their kernels are asked, each of them once.
    async fn read_page(&self, found: BTreeMap<PromptPlace, Found>, limit: usize) -> PromptPage {
        let (mut prompts, mut bytes, mut last) = (Vec::new(), 0_usize, None);
        let shown: HashSet<String> = found.keys().map(|place| place.id.clone()).collect();
        let mut asked: HashMap<KernelId, HashMap<String, PromptInfo>> = HashMap::new();
        for (number, (place, one)) in found.into_iter().enumerate() {
            if number >= limit {
                return PromptPage { prompts, next: last };
            }
            let one = match one {
                Found::Step(one) => Some(*one),
                Found::Kernel(kernel) => {
                    let all = match asked.entry(kernel) {
                        Entry::Occupied(known) => known.into_mut(),
                        Entry::Vacant(new) => {
                            let open = match self.inner.registry.get(kernel) {
                                Some(handle) => open_of(&handle).await,
                                None => Vec::new(),
                            };
                            let named = open.into_iter().map(|prompt| (prompt.id.to_string(), prompt));
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
}

/// A prompt of a page, before its text is read.
enum Found {
    Step(Box<ListedPrompt>),
    Kernel(KernelId),
}

/// The prompts of a kernel that are open. One that has ended meanwhile asks nothing any more.
async fn open_of(handle: &SessionKernel) -> Vec<PromptInfo> {
    let kernel = handle.handle().id();
    let Some(Ok(Answer::Prompts(all))) = handle.order(Command::ListPrompts).await else {
        return Vec::new();
    };
    let all = all.into_iter().map(|status| PromptInfo::new(kernel, status));
    all.filter(|prompt| prompt.state == PromptState::Open).collect()
}
