//! Writes the seeds into the corpus: `cargo run --manifest-path fuzz/Cargo.toml --bin seed -- fuzz/corpus`.

use std::{env, fs, io, path::Path};

fn main() -> io::Result<()> {
    let corpus = env::args().nth(1).ok_or_else(|| io::Error::other("where to? give the corpus directory"))?;
    for seed in midas_fuzz::seeds::all() {
        let directory = Path::new(&corpus).join(seed.target);
        fs::create_dir_all(&directory)?;
        fs::write(directory.join(seed.name), seed.bytes)?;
    }
    Ok(())
}
