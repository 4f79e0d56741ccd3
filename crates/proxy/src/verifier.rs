//! The write verifier that clients see: a pure function of the server's name and the server's own verifier.
//!
//! A client compares the verifiers of its WRITEs with that of its COMMIT. If the COMMIT reached another server, or the server
//! restarted in between, they differ, through whichever proxy they came, and the client sends its data again.

use midas_core::key::Key;
use midas_nfs::nfs3::Verifier;

/// What clients see instead of `own` of the server with this name.
pub(crate) fn composed(server: &str, own: Verifier) -> Verifier {
    Key::of(server.as_bytes()).child(u64::from_be_bytes(own)).0.to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_differs_by_server_and_by_restart_and_by_nothing_else() {
        let one = composed("a:2049", [1; 8]);
        assert_eq!(one, composed("a:2049", [1; 8]));
        assert_ne!(one, composed("b:2049", [1; 8]));
        assert_ne!(one, composed("a:2049", [2; 8]));
    }
}
