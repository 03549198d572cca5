//! Reads a log from a place on to where it ends now.

use himalia_budget::Reading;
use himalia_journal::{Cursor, Journal, Read, may_block};
use himalia_model::EngineError;

use super::cells::{Cells, Detail};

/// Records and bytes that are read at a time.
const RECORDS: usize = 1024;
const BYTES: usize = 1 << 20;

/// History of a log, as far as it was read.
#[derive(Debug)]
pub struct CachedHistory {
    cells: Cells,
    /// The latest record that was read.
    seq: u64,
}

impl CachedHistory {
    /// Creates a history of which nothing was read yet.
    pub fn new(detail: Detail) -> Self {
        Self {
            cells: Cells::new(detail),
            seq: 0,
        }
    }

    /// Reads what there is now and was not read yet. May be given up at any time: what was read stays.
    pub async fn read_on(&mut self, journal: &Journal, reading: &mut Reading) -> Result<(), EngineError> {
        let head = journal.head();
        let mut cursor = journal.cursor(self.seq);
        // What is written meanwhile is not waited for.
        while self.seq < head {
            may_block(|| self.read(&mut cursor))?;
            reading.go_on().await?;
        }
        Ok(())
    }

    fn read(&mut self, cursor: &mut Cursor) -> Result<(), EngineError> {
        let read = cursor.read(RECORDS, BYTES);
        match read.map_err(|error| EngineError::internal("reading a kernel's log", error))? {
            Read::UpToDate => {}
            Read::Gap { .. } => self.cells.gaps += 1,
            Read::Records(records) => records.iter().for_each(|record| self.cells.record(record)),
        }
        self.seq = cursor.position();
        Ok(())
    }

    /// Cells that were read so far.
    pub fn cells(&self) -> &Cells {
        &self.cells
    }

    /// The same, to say that the kernel has ended.
    pub fn cells_mut(&mut self) -> &mut Cells {
        &mut self.cells
    }

    /// The latest record that was read.
    pub fn seq(&self) -> u64 {
        self.seq
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use himalia_journal::{NewRecord, Options};
    use himalia_kernel::{RecordKind, RecordMeta, RequestKind, owner_of_client};
    use himalia_wire::{Channel, build, v1};
    use serde_json::{Value, json};

    use super::*;

    const OUTPUT: usize = 100_000;

    fn put(journal: &Journal, kind: RecordKind, request: u64, channel: Channel, what: &(&str, Value)) {
        let meta = RecordMeta {
            owner: owner_of_client(1),
            channel: Some(channel),
            request,
            word: match kind {
                RecordKind::Request => RequestKind::Execute as u32,
                _ => 0,
            },
            ..RecordMeta::default()
        };
        let body: Bytes = v1::encode(channel, &build::message("k", what.0, None, &what.1));
        let record = NewRecord {
            kind: kind as u8,
            meta: meta.encode(),
            body,
        };
        journal.append(&record).unwrap();
    }

    fn run(journal: &Journal, numbers: std::ops::Range<u64>) {
        for number in numbers {
            let code = json!({ "code": format!("cell {number}") });
            let asked = ("execute_request", code);
            put(journal, RecordKind::Request, number, Channel::Shell, &asked);
            let printed = json!({ "name": "stdout", "text": "x".repeat(OUTPUT) });
            let printed = ("stream", printed);
            put(journal, RecordKind::Message, number, Channel::Iopub, &printed);
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_next_question_reads_what_is_new() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options {
            tail_bytes: 256 << 10,
            ..Options::default()
        };
        let (journal, _) = Journal::open(dir.path(), options).unwrap();
        let (mut past, mut reading) = (CachedHistory::new(Detail::Code), Reading::free());
        run(&journal, 1..101);
        past.read_on(&journal, &mut reading).await.unwrap();
        assert!(journal.read_bytes() >= 100 * OUTPUT as u64);
        for next in 101..104 {
            let before = journal.read_bytes();
            past.read_on(&journal, &mut reading).await.unwrap();
            assert_eq!(journal.read_bytes(), before, "there was nothing new");
            run(&journal, next..next + 1);
            past.read_on(&journal, &mut reading).await.unwrap();
            let read = journal.read_bytes() - before;
            assert!((100_000..200_000).contains(&read), "{read} bytes for one cell");
        }
        let (ran, _) = past.cells().in_order();
        let codes: Vec<&str> = ran.iter().map(|ran| ran.code.as_str()).collect();
        let wanted: Vec<String> = (1..104).map(|number| format!("cell {number}")).collect();
        assert_eq!(codes, wanted);
        assert!(past.cells().weight() < 1 << 20, "outputs are not kept");
    }
}
