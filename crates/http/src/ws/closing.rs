//! The last of a connection.

use std::time::Duration;

use tokio::io::AsyncRead;
use tokio::time::timeout;

use super::{Outbox, Reader};
use crate::socket::WriteHalf;

/// Time for the end of a connection: the rest of the frame that is being written, the close frame, the client's answer.
pub(crate) const CLOSING_TIME: Duration = Duration::from_secs(2);

/// Writes what is left, a close frame at its end. If the close is `ours`, waits for the peer's answer.
pub(crate) async fn closing_handshake<R: AsyncRead + Unpin>(
    outbox: &mut Outbox,
    socket: &WriteHalf,
    reader: &mut Reader<R>,
    ours: bool,
) {
    let rest = async {
        if outbox.flush(socket, CLOSING_TIME).await.is_ok() && ours {
            if reader.has_refused() {
                // The peer's answer cannot be distinguished from the rest of what was refused, and a peer waits for the
                // server to close the connection (RFC 6455 §7.1.1): it learns that nothing more comes.
                socket.end();
            }
            // Unread input would turn the close into a reset, which destroys what is on its way to the client.
            reader.drain().await;
        }
    };
    let _ = timeout(CLOSING_TIME, rest).await;
    socket.say_goodbye();
}
