//! Writes the fake kernel's messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use himalia_wire::{Parts, build};
use serde_json::Value;
use time::OffsetDateTime;

/// Makes messages with one session and a running number, cheaply: a benchmark measures what is behind it.
#[derive(Clone, Debug)]
pub(crate) struct Maker {
    session: Arc<str>,
    next: Arc<AtomicU64>,
}

impl Maker {
    pub(crate) fn new() -> Self {
        Self {
            session: uuid::Uuid::new_v4().to_string().into(),
            next: Arc::new(AtomicU64::new(0)),
        }
    }

    /// A message with JSON text as content. `parent` is a raw header, or empty bytes for none.
    pub(crate) fn raw(&self, msg_type: &str, parent: &Bytes, content: impl Into<Bytes>) -> Parts {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let date = build::timestamp(OffsetDateTime::now_utc());
        let session = &self.session;
        let header = format!(
            r#"{{"msg_id":"{session}_{number}","msg_type":"{msg_type}","username":"kernel","session":"{session}","date":"{date}","version":"5.4"}}"#
        );
        Parts {
            header: header.into(),
            parent_header: if parent.is_empty() {
                Bytes::from_static(b"{}")
            } else {
                parent.clone()
            },
            metadata: Bytes::from_static(b"{}"),
            content: content.into(),
            buffers: Vec::new(),
        }
    }

    pub(crate) fn message(&self, msg_type: &str, parent: &Bytes, content: &Value) -> Parts {
        self.raw(msg_type, parent, content.to_string())
    }
}
