//! The pipe between two sockets.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::task::consume_budget;

/// Capacity of a pipe, if the kernel permits it to an ordinary user.
const PIPE_BYTES: usize = 256 << 10;

/// An empty pipe.
#[derive(Debug)]
pub(crate) struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

impl Pipe {
    pub(crate) fn new() -> io::Result<Self> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // A smaller one works too.
        let _ = fcntl_setpipe_size(&write, PIPE_BYTES);
        Ok(Self { read, write })
    }

    /// Carries bytes to the end of `from`; then true. False: the kernel does not splice these sockets, and no byte is lost.
    pub(crate) async fn carry(
        &mut self,
        from: OwnedFd,
        to: OwnedFd,
        carried: &mut impl FnMut(usize) -> io::Result<()>,
    ) -> io::Result<bool> {
        let (from, to) = (watched(from)?, watched(to)?);
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        loop {
            let into = || Ok(splice(&from, None, &self.write, None, PIPE_BYTES, flags)?);
            let count = match from.async_io(Interest::READABLE, into).await {
                Ok(0) => return Ok(true),
                Ok(count) => count,
                Err(error) if is_unsupported(&error) => return Ok(false),
                Err(error) => return Err(error),
            };
            let mut left = count;
            while left > 0 {
                let out = || Ok(splice(&self.read, None, &to, None, left, flags)?);
                match to.async_io(Interest::WRITABLE, out).await {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(moved) => left -= moved,
                    Err(error) if is_unsupported(&error) => {
                        self.empty(&to, left).await?;
                        carried(count)?;
                        return Ok(false);
                    }
                    Err(error) => return Err(error),
                }
            }
            carried(count)?;
            // Two sockets that are always ready leave room to others.
            consume_budget().await;
        }
    }

    /// Writes what is in it in the usual way.
    async fn empty(&mut self, to: &UnixStream, bytes: usize) -> io::Result<()> {
        let mut held = vec![0; bytes];
        let mut filled = 0;
        while filled < bytes {
            filled += rustix::io::read(&self.read, &mut held[filled..])?;
        }
        let mut rest = &held[..];
        while !rest.is_empty() {
            let write = || Ok(rustix::io::write(to, rest)?);
            let written = to.async_io(Interest::WRITABLE, write).await?;
            rest = &rest[written..];
        }
        Ok(())
    }
}

/// A socket whose readiness the runtime watches. Of whichever kind it is, nothing is done with it but splice(2) and write(2).
fn watched(socket: OwnedFd) -> io::Result<UnixStream> {
    let socket = std::os::unix::net::UnixStream::from(socket);
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket)
}

fn is_unsupported(error: &io::Error) -> bool {
    let known = [Errno::INVAL, Errno::NOSYS, Errno::OPNOTSUPP];
    error
        .raw_os_error()
        .is_some_and(|code| known.iter().any(|errno| errno.raw_os_error() == code))
}
