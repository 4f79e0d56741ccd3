//! The cluster's key: a file that every member has and nobody else can read.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// What every member of a cluster knows. Kept only as what is derived from it.
#[derive(Clone)]
pub struct Key {
    /// Signs greetings.
    pub(crate) greeting: [u8; 32],
    /// What keys of sessions are derived from.
    pub(crate) session: [u8; 32],
    /// What members know calls by.
    digests: [u8; 32],
}

impl Key {
    /// The key of these bytes; `None` if there are too few.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        (bytes.len() >= BYTES_MIN).then(|| Self {
            greeting: blake3::derive_key("midas-cluster 1: greetings", bytes),
            session: blake3::derive_key("midas-cluster 1: sessions", bytes),
            digests: blake3::derive_key("midas-cluster 1: digests", bytes),
        })
    }

    /// A key for digests that all members make alike and nobody else can aim at.
    pub const fn digests(&self) -> [u8; 32] {
        self.digests
    }

    /// The key in this file. One that others can read is no secret, and is refused.
    pub fn load(file: &Path) -> io::Result<Self> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", file.display()));
        let opened = File::open(file).map_err(named)?;
        let meta = opened.metadata().map_err(named)?;
        let wrong = |said: &str| named(io::Error::new(ErrorKind::InvalidData, said));
        if !meta.is_file() {
            return Err(wrong("the cluster's key must be a plain file"));
        }
        if meta.mode() & 0o077 != 0 {
            return Err(wrong("the cluster's key can be read by others than its owner; chmod 600"));
        }
        let mut bytes = Vec::new();
        opened.take(BYTES_MAX).read_to_end(&mut bytes).map_err(named)?;
        Self::new(bytes.trim_ascii_end()).ok_or_else(|| wrong("the cluster's key must have at least 32 bytes"))
    }

    /// Makes a file with a new key that its owner alone can read; one that exists is left alone.
    pub fn create(file: &Path) -> io::Result<()> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", file.display()));
        let mut made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file).map_err(named)?;
        let text = blake3::Hash::from_bytes(random()?).to_hex();
        made.write_all(format!("{text}\n").as_bytes()).and_then(|()| made.sync_all()).map_err(named)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// Bytes that nobody can guess.
pub(crate) fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    // The system gives up to 256 bytes whole.
    assert_eq!(got, N, "a short answer of the system");
    Ok(bytes)
}

const BYTES_MIN: usize = 32;
const BYTES_MAX: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use midas_lab::Scratch;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_is_made_once_and_refused_when_others_can_read_it_or_it_is_short() {
        let place = Scratch::new();
        let file = place.path().join("key");
        Key::create(&file).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        let key = Key::load(&file).unwrap();
        assert_eq!(Key::create(&file).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(Key::load(&file).unwrap().session, key.session, "and left alone");
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        assert!(Key::load(&file).unwrap_err().to_string().contains("chmod 600"));
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        fs::write(&file, "too short\n").unwrap();
        assert!(Key::load(&file).unwrap_err().to_string().contains("at least 32 bytes"));
    }
}
