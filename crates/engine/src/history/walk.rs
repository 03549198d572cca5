//! Reads a log from its beginning to where it ends now.

use himalia_journal::{Journal, Read};

use super::cells::{Cells, Detail};
use crate::EngineError;

/// Records and bytes that are read at a time.
const RECORDS: usize = 1024;
const BYTES: usize = 4 << 20;

/// All executions in a log. Blocks on the disk.
pub(crate) fn walk(journal: &Journal, detail: Detail) -> Result<Cells, EngineError> {
    let head = journal.head();
    let mut cells = Cells::new(detail);
    let mut cursor = journal.cursor(0);
    loop {
        let read = cursor.read(RECORDS, BYTES);
        match read.map_err(|error| EngineError::internal("reading a kernel's log", error))? {
            Read::UpToDate => return Ok(cells),
            Read::Gap { .. } => cells.gaps += 1,
            Read::Records(records) => {
                for record in &records {
                    cells.record(record);
                }
                // What is written meanwhile is not waited for.
                if records.last().is_some_and(|record| record.seq >= head) {
                    return Ok(cells);
                }
            }
        }
    }
}
