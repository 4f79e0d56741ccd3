//! The end of a conversation with a thread that listens until it is told, said whatever happens: a test that panics must not leave it waiting.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};

/// Says `over` to whoever listens here when it is dropped.
pub(crate) struct Over(pub(crate) SocketAddr);

impl Drop for Over {
    fn drop(&mut self) {
        if let Ok(mut listener) = TcpStream::connect(self.0) {
            let _gone_already = writeln!(listener, "over");
        }
    }
}
