//! Names of the variables that are in a kernel's process, so that its end can say what was lost.
//!
//! `himalia_kernel` tells with the reply to each execution which names it added and removed (metadata of `execute_reply`,
//! `himalia.variables`; see `docs/reference/kernel.md`). Other kernels tell nothing. A branch's kernel tells of what came after its fork.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Names that are kept of one process.
const MAX_NAMES: usize = 500;
/// UTF-8 bytes of a name; one that is longer is not kept.
const NAME_BYTES: usize = 200;

/// Variables that went with a kernel's process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LostVariables {
    /// Names in alphabetical order, at most 500.
    pub names: Vec<String>,
    /// If true, more variables may have been lost.
    pub truncated: bool,
}

/// Names of variables in the latest process and in the one before.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Names {
    now: Process,
    before: Process,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Process {
    /// 0 = none has told anything.
    incarnation: u32,
    names: BTreeSet<String>,
    truncated: bool,
}

#[derive(Deserialize)]
struct Metadata {
    himalia: Option<Note>,
}

#[derive(Deserialize)]
struct Note {
    variables: Option<Changes>,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Changes {
    added: Vec<String>,
    removed: Vec<String>,
    truncated: bool,
}

impl Names {
    /// Learns from the metadata of a reply to an execution in a process. What cannot be read tells nothing.
    pub(crate) fn replied(&mut self, incarnation: u32, metadata: &[u8]) {
        // Most kernels' metadata is not worth a parser.
        if !metadata.windows(9).any(|part| part == b"\"himalia\"") || incarnation < self.now.incarnation {
            return;
        }
        let Ok(Metadata { himalia: Some(note) }) = serde_json::from_slice(metadata) else {
            return;
        };
        let Some(changes) = note.variables else { return };
        if incarnation > self.now.incarnation {
            let next = Process {
                incarnation,
                ..Process::default()
            };
            self.before = std::mem::replace(&mut self.now, next);
        }
        let process = &mut self.now;
        for name in &changes.removed {
            process.names.remove(name);
        }
        process.truncated |= changes.truncated;
        for name in changes.added {
            if name.len() <= NAME_BYTES && process.names.len() < MAX_NAMES {
                process.names.insert(name);
            } else {
                process.truncated = true;
            }
        }
    }

    /// Variables of a process; `None` if it reported none.
    pub(crate) fn of(&self, incarnation: u32) -> Option<LostVariables> {
        let mut known = [&self.now, &self.before].into_iter();
        let process = known.find(|process| incarnation != 0 && process.incarnation == incarnation)?;
        Some(LostVariables {
            names: process.names.iter().cloned().collect(),
            truncated: process.truncated,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn told(names: &mut Names, incarnation: u32, variables: &Value) {
        let metadata = json!({"started": "x", "himalia": {"variables": variables, "files": {}}});
        names.replied(incarnation, metadata.to_string().as_bytes());
    }

    fn of(names: &Names, incarnation: u32) -> Option<(Vec<String>, bool)> {
        names.of(incarnation).map(|lost| (lost.names, lost.truncated))
    }

    #[test]
    fn a_process_has_what_was_added_and_not_removed() {
        let mut names = Names::default();
        assert_eq!(of(&names, 0), None);
        told(
            &mut names,
            1,
            &json!({"added": ["df", "a"], "changed": [], "removed": []}),
        );
        told(
            &mut names,
            1,
            &json!({"added": ["b"], "changed": ["df"], "removed": ["a"]}),
        );
        assert_eq!(of(&names, 1), Some((vec!["b".into(), "df".into()], false)));
        told(
            &mut names,
            2,
            &json!({"added": ["c"], "removed": [], "truncated": true}),
        );
        // Of the process before: late, or not for us.
        told(&mut names, 1, &json!({"added": ["late"]}));
        assert_eq!(of(&names, 1), Some((vec!["b".into(), "df".into()], false)));
        assert_eq!(of(&names, 2), Some((vec!["c".into()], true)));
        assert_eq!(of(&names, 3), None);
    }

    #[test]
    fn what_a_kernel_says_is_bounded_and_may_be_nonsense() {
        let mut names = Names::default();
        for bad in [
            "",
            "{",
            r#"{"himalia":1}"#,
            r#"{"himalia":{"variables":{"added":[1]}}}"#,
            "{}",
        ] {
            names.replied(1, bad.as_bytes());
            assert_eq!(of(&names, 1), None, "{bad}");
        }
        let many: Vec<String> = (0..1000).map(|n| format!("v{n}")).collect();
        told(&mut names, 1, &json!({"added": many}));
        told(&mut names, 1, &json!({"added": ["x".repeat(201)]}));
        let (kept, truncated) = of(&names, 1).unwrap();
        assert_eq!((kept.len(), truncated), (MAX_NAMES, true));
    }
}
