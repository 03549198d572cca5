//! The prompts to a person that an execution waits for.

use himalia_journal::Record;
use himalia_kernel::{PromptRecord, PromptStatus};
use himalia_model::KernelId;

use crate::PromptInfo;

/// Open prompts.
#[derive(Clone, Debug, Default)]
pub(super) struct Prompts(Vec<PromptStatus>);

impl Prompts {
    /// A record of one. What it is now, if the record can be read.
    pub(super) fn add(&mut self, kernel: KernelId, execution: u64, record: &Record) -> Option<PromptInfo> {
        let status = match serde_json::from_slice(&record.body).ok()? {
            PromptRecord::Asked { prompt } => {
                let status = PromptStatus::open(record.seq, record.at_micros, Some(execution), prompt);
                self.0.push(status.clone());
                status
            }
            PromptRecord::Ended { prompt, end } => {
                let at = self.0.iter().position(|status| status.seq == prompt)?;
                let mut status = self.0.remove(at);
                (status.end, status.prompt.arguments) = (Some(end), None);
                status
            }
            PromptRecord::Used { .. } | PromptRecord::Unknown => return None,
        };
        Some(PromptInfo::new(kernel, status))
    }

    /// True if one is open.
    pub(super) fn wait(&self) -> bool {
        !self.0.is_empty()
    }

    pub(super) fn open(&self, kernel: KernelId) -> Vec<PromptInfo> {
        let all = self.0.iter().cloned();
        all.map(|status| PromptInfo::new(kernel, status)).collect()
    }
}
