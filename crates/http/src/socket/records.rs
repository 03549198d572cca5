//! TLS after an upgrade: plain bytes in, records out, and which plain bytes are in which record.
//!
//! A peer can use a record only as a whole. So a plain byte counts as acknowledged when the last byte of its record is.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Read as _, Write as _};

use bytes::{Buf as _, BytesMut};
use tokio_rustls::rustls::ServerConnection;

/// Plain bytes that become records at once, and are held as such until TCP takes them.
const AT_ONCE: usize = 64 << 10;

/// The state of one connection.
#[derive(Debug)]
pub(super) struct Records {
    session: ServerConnection,
    /// Records that TCP has not taken.
    waiting: BytesMut,
    /// Bytes of records that TCP has taken.
    sent: u64,
    /// Plain bytes that became records.
    plain: u64,
    /// Plain bytes whose records are acknowledged.
    acknowledged: u64,
    /// (end in the stream of records, end in the stream of plain bytes) of records that are not known to be acknowledged. At most as
    /// many as fit into the send buffer of the socket and `waiting`.
    marks: VecDeque<(u64, u64)>,
}

impl Records {
    pub(super) fn new(mut session: ServerConnection) -> Self {
        // What becomes records is taken out at once.
        session.set_buffer_limit(None);
        let mut records = Self {
            session,
            waiting: BytesMut::new(),
            sent: 0,
            plain: 0,
            acknowledged: 0,
            marks: VecDeque::new(),
        };
        records.collect();
        records
    }

    /// Plain bytes that were received. [`io::ErrorKind::WouldBlock`]: none are there; 0: the peer has ended.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.session.reader().read(buffer) {
            // A connection that ends without a goodbye of TLS ends as plain TCP does: the protocol above has its own.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
            other => other,
        }
    }

    /// Takes in what `tcp` has received; 0: its end.
    pub(super) fn receive(&mut self, tcp: &mut impl io::Read) -> io::Result<usize> {
        let read = self.session.read_tls(tcp)?;
        let done = self.session.process_new_packets();
        // An alert, or the answer to a new key.
        self.collect();
        done.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(read)
    }

    /// Hands records to `tcp` until it takes no more ([`io::ErrorKind::WouldBlock`]).
    pub(super) fn send(&mut self, mut tcp: impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<()> {
        while !self.waiting.is_empty() {
            let taken = tcp(&self.waiting)?;
            if taken == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.waiting.advance(taken);
            self.sent += taken as u64;
        }
        Ok(())
    }

    /// Makes records of some of these bytes; how many.
    pub(super) fn seal(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut taken = 0;
        for slice in slices {
            let part = slice.get(..slice.len().min(AT_ONCE - taken)).unwrap_or_default();
            self.session.writer().write_all(part)?;
            taken += part.len();
            if taken == AT_ONCE {
                break;
            }
        }
        self.collect();
        self.plain += taken as u64;
        self.marks
            .push_back((self.sent + self.waiting.len() as u64, self.plain));
        Ok(taken)
    }

    /// Says goodbye.
    pub(super) fn close(&mut self) {
        self.session.send_close_notify();
        self.collect();
    }

    /// Plain bytes that the peer cannot use yet, when this many bytes of its socket are not acknowledged.
    pub(super) fn unacknowledged(&mut self, of_socket: u64) -> u64 {
        let acknowledged = self.sent.saturating_sub(of_socket);
        while let Some((end, plain)) = self.marks.front().copied()
            && end <= acknowledged
        {
            self.acknowledged = plain;
            self.marks.pop_front();
        }
        self.plain - self.acknowledged
    }

    fn collect(&mut self) {
        struct BufferWriter<'a>(&'a mut BytesMut);
        impl io::Write for BufferWriter<'_> {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.extend_from_slice(bytes);
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        while self.session.wants_write() {
            // Memory takes all.
            if self
                .session
                .write_tls(&mut BufferWriter(&mut self.waiting))
                .is_err()
            {
                return;
            }
        }
    }
}
