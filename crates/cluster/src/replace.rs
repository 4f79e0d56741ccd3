//! How files that must be whole are written.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// The whole file or the old one, also after a loss of power.
pub fn replace(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut aside = file.to_owned().into_os_string();
    aside.push(".new");
    let mut new = File::create(&aside)?;
    new.write_all(bytes)?;
    new.sync_all()?;
    fs::rename(&aside, file)?;
    file.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
}
