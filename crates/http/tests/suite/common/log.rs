//! What a gateway logs.

use std::io::Write;
use std::sync::{Arc, Mutex};

/// The log of this process, from when it was made.
#[derive(Clone, Debug)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// A process has one such log: one test of a file, and no other, looks at it.
    pub fn of_this_process(level: tracing::Level) -> Self {
        let log = Self(Arc::default());
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(level)
            .with_ansi(false)
            .with_writer(move || writer.clone());
        tracing::subscriber::set_global_default(subscriber.finish()).unwrap();
        log
    }

    /// What was logged so far.
    pub fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
