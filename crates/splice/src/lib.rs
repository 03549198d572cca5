//! Carries bytes from one socket to another. Much of it goes through a pipe by splice(2), so that it is not copied into this process:
//! that is for connections with many bytes, since a pipe costs more than a short connection.

mod pipe;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::fcntl_dupfd_cloexec;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use pipe::Pipe;

/// Carried through a buffer before a pipe is made.
const BUFFERED_BYTES: u64 = 256 << 10;
const BUFFER_BYTES: usize = 64 << 10;

/// Two sockets of this process, for [`carry`] in one direction.
#[derive(Debug)]
pub struct Sockets {
    from: OwnedFd,
    to: OwnedFd,
}

impl Sockets {
    /// From one to the other. `None` if one is not a socket of the kernel alone, as a TLS connection, or there are no descriptors.
    pub fn new(from: Option<BorrowedFd<'_>>, to: Option<BorrowedFd<'_>>) -> Option<Self> {
        let again = |fd: BorrowedFd<'_>| fcntl_dupfd_cloexec(fd, 0).ok();
        Some(Self {
            from: again(from?)?,
            to: again(to?)?,
        })
    }
}

/// Carries bytes to the end of `from`, and passes that on. `sockets` are those of both, which hold no bytes of their own. `carried` gets
/// the size of each piece, and its error is the end.
///
/// # Errors
/// When one of them breaks.
pub async fn carry<R, W>(
    from: &mut R,
    to: &mut W,
    sockets: Option<Sockets>,
    mut carried: impl FnMut(usize) -> io::Result<()>,
) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut buffer = vec![0; BUFFER_BYTES];
    let (mut sockets, mut sum) = (sockets, 0);
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..read]).await?;
        carried(read)?;
        sum += read as u64;
        if sum < BUFFERED_BYTES {
            continue;
        }
        if let Some(sockets) = sockets.take() {
            to.flush().await?;
            let Ok(mut pipe) = Pipe::new() else { continue };
            buffer.clear();
            buffer.shrink_to_fit();
            let ended = pipe.carry(sockets.from, sockets.to, &mut carried).await?;
            if ended {
                return to.shutdown().await;
            }
            // This kernel cannot do it with these sockets.
            buffer.resize(BUFFER_BYTES, 0);
        }
    }
}
