//! The list of what waits for an answer of a person, in pages: prompts of kernels, which these have, and steps of workflows, which are rows.
//!
//! The list of a principal who sees one owner is in the order of time. That of the operator is fair by owner: the first prompt of each owner
//! comes before the second one of any ([`PromptPlace::turn`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use himalia_executions::{PromptInfo, PromptState};
use himalia_kernel::{Answer, Command};
use himalia_model::{Action, EngineError, Object, Principal};
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

    fn bytes(&self) -> usize {
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
            found.insert(one.place(), one);
        }
        for handle in self.asking(principal) {
            let open = open_of(&handle).await;
            for (prompt, place) in open.into_iter().zip(0_u32..) {
                let turn = if principal.is_operator() { place } else { 0 };
                let one = ListedPrompt { prompt, turn };
                let place = one.place();
                if after.is_none_or(|after| place > *after) {
                    found.insert(place, one);
                }
            }
            while found.len() > most {
                found.pop_last();
            }
        }
        Ok(page(found, limit))
    }

    /// The kernels that the principal sees and on whose behalf a person is asked.
    fn asking(&self, principal: &Principal) -> Vec<Arc<SessionKernel>> {
        let mut all = self.inner.registry.all();
        all.retain(|handle| {
            let asks = handle.snapshot.borrow().open_prompts > 0;
            asks && !handle.is_over() && principal.sees(&handle.session().owner)
        });
        all
    }
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

fn page(found: BTreeMap<PromptPlace, ListedPrompt>, limit: usize) -> PromptPage {
    let (mut prompts, mut bytes, mut last) = (Vec::new(), 0_usize, None);
    for (place, one) in found {
        bytes = bytes.saturating_add(one.bytes());
        if prompts.len() >= limit || (bytes > PROMPT_PAGE_BYTES && !prompts.is_empty()) {
            return PromptPage { prompts, next: last };
        }
        prompts.push(one);
        last = Some(place);
    }
    PromptPage { prompts, next: None }
}
