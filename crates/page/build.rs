//! Writes down what `make web` built, as a table of bytes; none if it was not built. Never builds it: cargo needs no node.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web");
    println!("cargo::rerun-if-changed=build.rs");
    let built = web.join("dist");
    let mut files = Vec::new();
    if built.is_dir() {
        gather(&built, &mut files)?;
        println!("cargo::rerun-if-changed={}", built.display());
    } else {
        // Cargo looks at what is there: the directory that it will appear in.
        println!("cargo::rerun-if-changed={}", web.display());
    }
    files.sort();
    let rows: String = files.iter().map(|file| row(&built, file)).collect();
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo sets OUT_DIR"))?;
    fs::write(Path::new(&out).join("files.rs"), format!("&[\n{rows}]\n"))
}

fn gather(directory: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() { gather(&path, files)? } else { files.push(path.canonicalize()?) }
    }
    Ok(())
}

fn row(built: &Path, file: &Path) -> String {
    let root = built.canonicalize().unwrap_or_else(|_| built.to_owned());
    let path = file.strip_prefix(root).unwrap_or(file).to_string_lossy().replace('\\', "/");
    let (kind, file) = (content_type(&path), file.to_string_lossy());
    format!("    File {{ path: {path:?}, content_type: {kind:?}, bytes: include_bytes!({file:?}) }},\n")
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, end)| end) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        _ => "application/octet-stream",
    }
}
