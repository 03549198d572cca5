//! Records of connections to the network, written and read.

use himalia_journal::Record;

use super::core::Core;
use super::executions::records::owner_of;
use super::meta::event_body;
use super::network::NetworkRecord;

impl Core {
    /// Writes that a connection has ended, as a part of the native execution that was sent, if there is one.
    pub(super) fn note_connection(&mut self, record: &NetworkRecord) {
        let owner = self.executions.sent().map_or(0, owner_of);
        self.network.add(record);
        self.changed = true;
        self.log().network(owner, event_body(record));
    }

    /// One that is in the journal.
    pub(super) fn fold_connection(&mut self, record: &Record) {
        if let Ok(record) = serde_json::from_slice(&record.body) {
            self.network.add(&record);
        }
    }
}
