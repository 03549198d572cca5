use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use himalia_shim_protocol::STDERR_TAIL_BYTES;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;

/// The last 16 KiB that a process wrote to its standard output and error.
#[derive(Clone, Debug, Default)]
pub(super) struct Tail(Rc<RefCell<VecDeque<u8>>>);

impl Tail {
    /// Reads until every writer has closed its end. What falls out of the tail is forgotten; the pipe is always
    /// drained, so no process waits for it.
    pub(super) async fn follow(self, mut pipe: Receiver) {
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = pipe.read(&mut buffer).await {
            let mut kept = self.0.borrow_mut();
            kept.extend(buffer.iter().take(read));
            let excess = kept.len().saturating_sub(STDERR_TAIL_BYTES);
            kept.drain(..excess);
        }
    }

    /// The text; what is not UTF-8 is replaced.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(self.0.borrow_mut().make_contiguous()).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[tokio::test]
    async fn the_end_is_kept_and_everything_is_read() {
        let (read, mut write) = std::io::pipe().unwrap();
        let writer = std::thread::spawn(move || {
            for line in 0..100_000 {
                writeln!(write, "line {line}").unwrap();
            }
        });
        let tail = Tail::default();
        tail.clone()
            .follow(Receiver::from_owned_fd(read.into()).unwrap())
            .await;
        writer.join().unwrap();
        let text = tail.text();
        assert_eq!(text.len(), STDERR_TAIL_BYTES);
        assert!(text.ends_with("line 99999\n"));
    }
}
