//! Progress notifications: the latest line of output, at most one a second.

use std::time::Duration;

use himalia_engine::ExecutionEventKind;
use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};
use tokio::time::{Instant, timeout};

use crate::limits::{PROGRESS, PROGRESS_CHARS, SILENCE};

/// Bytes of output that are looked at for its last line.
const TAIL_BYTES: usize = 4096;

/// Progress notifications about one execution.
pub(crate) struct Progress {
    peer: Peer<RoleServer>,
    token: ProgressToken,
    started: Instant,
    told: Instant,
    line: LastLine,
    /// There is something new to tell.
    fresh: bool,
}

impl Progress {
    /// If the client gave a token.
    pub(crate) fn wanted(context: &RequestContext<RoleServer>) -> Option<Self> {
        let now = Instant::now();
        Some(Self {
            peer: context.peer.clone(),
            token: context.meta.get_progress_token()?,
            started: now,
            told: now,
            line: LastLine::default(),
            fresh: false,
        })
    }

    /// Looks at an event.
    pub(crate) fn see(&mut self, event: &ExecutionEventKind) {
        match event {
            ExecutionEventKind::Stdout { text } | ExecutionEventKind::Stderr { text } => self.line.add(text),
            ExecutionEventKind::Queued { position } => self.line.set(format!("waits behind {position}")),
            ExecutionEventKind::Started(_) => self.line.set("runs".into()),
            ExecutionEventKind::Stopping { .. } => self.line.set("is being interrupted".into()),
            ExecutionEventKind::Stuck(stuck) => self.line.set(stuck.hint.clone()),
            _ => return,
        }
        self.fresh = true;
    }

    /// When [`Self::tell`] is to be called.
    pub(crate) fn due(&self) -> Instant {
        self.told + if self.fresh { PROGRESS } else { SILENCE }
    }

    /// Tells the client. One that takes nothing for a second misses this one.
    pub(crate) async fn tell(&mut self) {
        let now = Instant::now();
        let elapsed = now.duration_since(self.started).as_secs_f64();
        let told = ProgressNotificationParam::new(self.token.clone(), elapsed).with_message(self.line.get());
        if let Ok(Err(error)) = timeout(Duration::from_secs(1), self.peer.notify_progress(told)).await {
            tracing::debug!(%error, "progress was not told");
        }
        (self.told, self.fresh) = (now, false);
    }
}

/// The last line that a terminal would show, of text with control characters.
#[derive(Debug, Default)]
struct LastLine(String);

impl LastLine {
    fn set(&mut self, text: String) {
        self.0 = text;
        self.0.push('\n');
    }

    fn add(&mut self, text: &str) {
        self.0.push_str(text);
        if let Some(excess) = self.0.len().checked_sub(TAIL_BYTES) {
            self.0.drain(..self.0.ceil_char_boundary(excess));
        }
    }

    fn get(&self) -> String {
        let lines = self.0.rsplit(['\n', '\r']).map(plain);
        let line = lines.into_iter().find(|line| !line.is_empty());
        line.unwrap_or_default().chars().take(PROGRESS_CHARS).collect()
    }
}

/// Without colours and other control characters.
fn plain(line: &str) -> String {
    let mut shown = String::new();
    let mut chars = line.chars();
    while let Some(char) = chars.next() {
        if char == '\u{1b}' {
            if chars.next() == Some('[') {
                chars.find(|char| ('@'..='~').contains(char));
            }
        } else if !char.is_control() {
            shown.push(char);
        }
    }
    shown.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last(texts: &[&str]) -> String {
        let mut line = LastLine::default();
        for text in texts {
            line.add(text);
        }
        line.get()
    }

    #[test]
    fn a_progress_bar_is_its_last_state() {
        assert_eq!(last(&["a\nb\n"]), "b");
        assert_eq!(last(&["10%|#  |\r", "20%|## |", "\r"]), "20%|## |");
        assert_eq!(last(&["\u{1b}[31mred", "der\u{1b}[0m\n\n"]), "redder");
        assert_eq!(last(&[]), "");
        assert_eq!(
            last(&["é".repeat(TAIL_BYTES).as_str()]).chars().count(),
            PROGRESS_CHARS
        );
    }
}
