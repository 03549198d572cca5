use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;

use himalia_shim_protocol::STDERR_TAIL_BYTES;
use tokio::net::unix::pipe::Receiver;

/// The last 16 KiB that a process wrote to its standard output and error.
#[derive(Clone, Debug, Default)]
pub(super) struct Tail(Rc<SharedTail>);

#[derive(Debug, Default)]
struct SharedTail {
    kept: RefCell<VecDeque<u8>>,
    /// Until every writer has closed its end.
    pipe: RefCell<Option<Rc<Receiver>>>,
}

impl Tail {
    /// Reads until every writer has closed its end. What falls out of the tail is forgotten; the pipe is always
    /// drained, so no process waits for it.
    pub(super) fn follow(&self, pipe: Receiver) -> impl Future<Output = ()> + 'static {
        let pipe = Rc::new(pipe);
        *self.0.pipe.borrow_mut() = Some(Rc::clone(&pipe));
        let shared = Rc::clone(&self.0);
        async move {
            let mut buffer = [0; 4096];
            while pipe.readable().await.is_ok() {
                match pipe.try_read(&mut buffer) {
                    Ok(0) => break,
                    Ok(read) => shared.keep(buffer.iter().take(read)),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(_) => break,
                }
            }
            shared.pipe.borrow_mut().take_if(|last| Rc::ptr_eq(last, &pipe));
        }
    }

    /// Forgets the text up to now: what comes is of other code.
    pub(super) fn forget(&self) {
        self.0.catch_up();
        self.0.kept.borrow_mut().clear();
    }

    /// The text up to now; what is not UTF-8 is replaced.
    pub(super) fn text(&self) -> String {
        self.0.catch_up();
        String::from_utf8_lossy(self.0.kept.borrow_mut().make_contiguous()).into_owned()
    }
}

impl SharedTail {
    fn keep<'a>(&self, bytes: impl Iterator<Item = &'a u8>) {
        let mut kept = self.kept.borrow_mut();
        kept.extend(bytes);
        let excess = kept.len().saturating_sub(STDERR_TAIL_BYTES);
        kept.drain(..excess);
    }

    /// Takes what is in the pipe already: a process' last words may be there before its reader is woken. At most what
    /// a pipe holds, since another writer may be faster.
    fn catch_up(&self) {
        let pipe = self.pipe.borrow().clone();
        let mut buffer = [0; 4096];
        for _ in 0..16 {
            match pipe.as_ref().map(|pipe| rustix::io::read(pipe, &mut buffer)) {
                Some(Ok(read @ 1..)) => self.keep(buffer.iter().take(read)),
                _ => return,
            }
        }
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
        tail.follow(Receiver::from_owned_fd(read.into()).unwrap()).await;
        writer.join().unwrap();
        let text = tail.text();
        assert_eq!(text.len(), STDERR_TAIL_BYTES);
        assert!(text.ends_with("line 99999\n"));
    }

    #[tokio::test]
    async fn what_is_forgotten_is_no_last_word() {
        let (read, mut write) = std::io::pipe().unwrap();
        let tail = Tail::default();
        let following = tail.follow(Receiver::from_owned_fd(read.into()).unwrap());
        write.write_all(b"an old warning").unwrap();
        tail.forget();
        write.write_all(b"goodbye").unwrap();
        drop(write);
        following.await;
        assert_eq!(tail.text(), "goodbye");
    }

    #[tokio::test]
    async fn last_words_are_there_before_the_reader_ran() {
        let (read, mut write) = std::io::pipe().unwrap();
        write.write_all(b"goodbye").unwrap();
        let tail = Tail::default();
        let following = tail.follow(Receiver::from_owned_fd(read.into()).unwrap());
        assert_eq!(tail.text(), "goodbye");
        drop(write);
        following.await;
        assert_eq!(tail.text(), "goodbye");
    }
}
