//! Definitions of workflows that were read lately. An address stands for one content, so that one is read and checked once for all runs.

use std::collections::VecDeque;
use std::sync::Arc;

use himalia_workflows::Workflow;
use parking_lot::Mutex;

const KEPT: usize = 64;
/// Bytes of them together, as JSON.
const KEPT_BYTES: usize = 8 << 20;

/// The latest one that was used is the last.
#[derive(Debug, Default)]
pub(super) struct Definitions(Mutex<VecDeque<KeptDefinition>>);

#[derive(Debug)]
struct KeptDefinition {
    workflow: Arc<Workflow>,
    bytes: usize,
}

impl Definitions {
    pub(super) fn get(&self, digest: &str) -> Option<Arc<Workflow>> {
        let mut kept = self.0.lock();
        let at = kept.iter().position(|one| one.workflow.digest() == digest)?;
        let found = kept.remove(at)?;
        let workflow = Arc::clone(&found.workflow);
        kept.push_back(found);
        Some(workflow)
    }

    pub(super) fn put(&self, workflow: Arc<Workflow>, bytes: usize) {
        let mut kept = self.0.lock();
        if kept.iter().any(|one| one.workflow.digest() == workflow.digest()) {
            return;
        }
        kept.push_back(KeptDefinition { workflow, bytes });
        while kept.len() > KEPT || kept.iter().map(|one| one.bytes).sum::<usize>() > KEPT_BYTES {
            kept.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::records;
    use super::*;

    fn workflow(name: &str) -> Arc<Workflow> {
        let definition = json!({
            "name": name, "version": "1.0.0", "description": "d", "inputs": { "type": "object" },
            "steps": [{ "id": "ask", "approval": { "text": "?" } }],
        });
        Arc::new(records::workflow(&definition.to_string()).unwrap())
    }

    #[test]
    fn as_many_as_may_are_kept_the_latest_ones() {
        let definitions = Definitions::default();
        let all: Vec<_> = (0..=KEPT).map(|n| workflow(&format!("w{n}"))).collect();
        for one in &all[..KEPT] {
            definitions.put(Arc::clone(one), 1);
        }
        assert!(definitions.get(all[0].digest()).is_some(), "it is the latest now");
        definitions.put(Arc::clone(&all[KEPT]), 1);
        let kept = |at: usize| definitions.get(all[at].digest()).is_some();
        assert!(kept(0) && !kept(1) && kept(2) && kept(KEPT));
        definitions.put(Arc::clone(&all[1]), KEPT_BYTES);
        assert!(kept(1) && !kept(0) && !kept(KEPT), "by bytes, too");
    }
}
