//! The dashboard's files, as `make web` built them before this program was compiled; none if it did not.
//!
//! A crate of its own, so that a new page does not compile the daemon anew, and so that `cargo build` needs no node.

/// A file of the page.
#[derive(Clone, Copy, Debug)]
pub struct File {
    /// Below the page's address, without a slash in front: `index.html`, `assets/..`.
    pub path: &'static str,
    /// What it is, in HTTP's words.
    pub content_type: &'static str,
    /// What is in it.
    pub bytes: &'static [u8],
}

/// All of them, by path; empty if the page was not built.
pub const fn files() -> &'static [File] {
    FILES
}

const FILES: &[File] = include!(concat!(env!("OUT_DIR"), "/files.rs"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_is_there_is_whole_and_small() {
        let Some(index) = files().iter().find(|file| file.path == "index.html") else {
            assert!(files().is_empty(), "parts of a page without its beginning");
            return;
        };
        let text = std::str::from_utf8(index.bytes).expect("HTML is text");
        let parts: Vec<&File> = files().iter().filter(|file| file.path != "index.html").collect();
        assert!(parts.iter().any(|part| part.content_type.starts_with("text/javascript")), "no code");
        for part in parts {
            assert!(part.path.starts_with("assets/"), "{} is kept by browsers for ever, and is not hashed", part.path);
            let named = text.contains(part.path);
            assert!(named, "{} is not asked for by the page", part.path);
        }
        let all: usize = files().iter().map(|file| file.bytes.len()).sum();
        assert!(all < 300 << 10, "{all} bytes");
    }
}
