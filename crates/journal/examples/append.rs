//! What an append costs: `cargo run --release -p himalia-journal --example append [directory]`.
#![allow(clippy::print_stdout, reason = "the figures are the output")]

use std::error::Error;
use std::time::Instant;

use bytes::Bytes;
use himalia_journal::{Journal, Meta, NewRecord, Options};

/// Body length, records, records per batch.
const ROWS: [(usize, u32, usize); 5] = [
    (600, 200_000, 1),
    (600, 200_000, 16),
    (8_000, 50_000, 1),
    (8_000, 50_000, 16),
    (1_000_000, 500, 1),
];

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::args_os()
        .nth(1)
        .map_or_else(std::env::temp_dir, Into::into);
    let dir = dir.join(format!("himalia-append-{}", std::process::id()));
    for (bytes, records, batch) in ROWS {
        let options = Options {
            quota_bytes: 128 << 20,
            ..Options::default()
        };
        let (journal, _) = Journal::open(&dir, options)?;
        let record = NewRecord {
            kind: 1,
            meta: Meta::default(),
            body: Bytes::from(vec![7; bytes]),
        };
        let batch = vec![record; batch];
        let watcher = journal.subscribe();
        let started = Instant::now();
        for _ in 0..records / u32::try_from(batch.len())? {
            journal.append_batch(&batch)?;
            if journal.roll_due() {
                journal.roll(b"state")?;
            }
        }
        let each = started.elapsed().as_secs_f64() * 1e6 / f64::from(records);
        println!(
            "{bytes:>8} B, batches of {:>2}: {each:>7.2} us per record",
            batch.len()
        );
        drop((journal, watcher));
        std::fs::remove_dir_all(&dir)?;
    }
    Ok(())
}
