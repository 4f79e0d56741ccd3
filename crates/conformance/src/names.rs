//! Which handle a symbol stands for.

use midas_nfs::nfs3::{Call, DirOp, FileHandle};
use std::collections::BTreeMap;

/// Handles by symbol, in the order in which they were bound.
#[derive(Debug)]
pub(crate) struct Names {
    handles: BTreeMap<&'static str, Bound>,
}

#[derive(Debug)]
struct Bound {
    order: usize,
    handle: Vec<u8>,
}

impl Names {
    /// The export's root, the fresh directory, and handles that no server gave.
    pub(crate) fn new(root: &[u8], work: &[u8]) -> Self {
        let mut names = Self { handles: BTreeMap::new() };
        let extended = [root, &[0]].concat();
        let forged: [(&'static str, &[u8]); 8] = [
            ("root", root),
            ("work", work),
            ("no bytes", &[]),
            ("4 bytes", &[7; 4]),
            ("28 bytes", &[7; 28]),
            ("64 bytes", &[7; 64]),
            ("root cut short", &root[..root.len() - 1]),
            // A longer handle than the protocol allows could not be sent.
            ("root and a byte", &extended[..extended.len().min(FileHandle::LONGEST)]),
        ];
        for (symbol, handle) in forged {
            names.bind(symbol, handle);
        }
        names
    }

    pub(crate) fn bind(&mut self, symbol: &'static str, handle: &[u8]) {
        let order = self.handles.len();
        let before = self.handles.insert(symbol, Bound { order, handle: handle.to_vec() });
        assert!(before.is_none(), "two steps bind {symbol}");
    }

    /// The symbol of a handle: the oldest, where there are several.
    pub(crate) fn symbol(&self, handle: &[u8]) -> Option<&'static str> {
        let same = self.handles.iter().filter(|(_, bound)| bound.handle == handle);
        same.min_by_key(|(_, bound)| bound.order).map(|(symbol, _)| *symbol)
    }

    /// The handle of a symbol, given in a handle's place.
    pub(crate) fn handle(&self, symbol: FileHandle<'_>) -> FileHandle<'_> {
        let text = std::str::from_utf8(symbol.bytes()).expect("symbols are text");
        let Some(bound) = self.handles.get(text) else { panic!("no step bound {text}") };
        FileHandle::new(&bound.handle).expect("it came as a handle")
    }

    /// The call with handles for its symbols.
    pub(crate) fn resolve<'a>(&'a self, call: &Call<'a>) -> Call<'a> {
        let mut call = *call;
        for handle in handles_mut(&mut call) {
            *handle = self.handle(*handle);
        }
        call
    }
}

/// Every handle of a call with the part that it plays.
pub(crate) fn roles<'a>(call: &Call<'a>) -> Vec<(&'static str, FileHandle<'a>)> {
    let mut call = *call;
    let names = role_names(&call);
    names.iter().copied().zip(handles_mut(&mut call).into_iter().map(|handle| *handle)).collect()
}

fn role_names(call: &Call<'_>) -> &'static [&'static str] {
    match call {
        Call::Null => &[],
        Call::Getattr { .. }
        | Call::Setattr { .. }
        | Call::Access { .. }
        | Call::Fsstat { .. }
        | Call::Fsinfo { .. }
        | Call::Pathconf { .. } => &["object"],
        Call::Readlink { .. } => &["link"],
        Call::Read { .. } | Call::Write { .. } | Call::Commit { .. } => &["file"],
        Call::Lookup { .. }
        | Call::Create { .. }
        | Call::Mkdir { .. }
        | Call::Symlink { .. }
        | Call::Mknod { .. }
        | Call::Remove { .. }
        | Call::Rmdir { .. }
        | Call::Readdir { .. }
        | Call::Readdirplus { .. } => &["dir"],
        Call::Rename { .. } => &["from", "to"],
        Call::Link { .. } => &["file", "dir"],
    }
}

fn handles_mut<'c, 'a>(call: &'c mut Call<'a>) -> Vec<&'c mut FileHandle<'a>> {
    match call {
        Call::Null => vec![],
        Call::Getattr { object: handle }
        | Call::Setattr { object: handle, .. }
        | Call::Access { object: handle, .. }
        | Call::Readlink { symlink: handle }
        | Call::Read { file: handle, .. }
        | Call::Write { file: handle, .. }
        | Call::Commit { file: handle, .. }
        | Call::Readdir { dir: handle, .. }
        | Call::Readdirplus { dir: handle, .. }
        | Call::Fsstat { fsroot: handle }
        | Call::Fsinfo { fsroot: handle }
        | Call::Pathconf { object: handle }
        | Call::Lookup { what: DirOp { dir: handle, .. } }
        | Call::Create { place: DirOp { dir: handle, .. }, .. }
        | Call::Mkdir { place: DirOp { dir: handle, .. }, .. }
        | Call::Symlink { place: DirOp { dir: handle, .. }, .. }
        | Call::Mknod { place: DirOp { dir: handle, .. }, .. }
        | Call::Remove { object: DirOp { dir: handle, .. } }
        | Call::Rmdir { object: DirOp { dir: handle, .. } } => vec![handle],
        Call::Rename { from: DirOp { dir: from, .. }, to: DirOp { dir: to, .. } } => vec![from, to],
        Call::Link { file, link: DirOp { dir, .. } } => vec![file, dir],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::{getattr, h, rename};

    #[test]
    fn every_symbol_of_a_call_becomes_its_handle() {
        let mut names = Names::new(b"the root", b"the work");
        names.bind("twin", b"the work");
        let call = names.resolve(&rename("work", b"a", "root", b"b"));
        let handles: Vec<_> = roles(&call).iter().map(|(role, handle)| (*role, handle.bytes())).collect();
        assert_eq!(handles, [("from", b"the work".as_slice()), ("to", b"the root")]);
        assert_eq!(names.symbol(b"the work"), Some("work"), "the oldest name wins");
        assert_eq!(names.symbol(b"another"), None);
        assert_eq!(names.handle(h("root cut short")).bytes(), b"the roo");
    }

    #[test]
    #[should_panic(expected = "no step bound nobody")]
    fn a_symbol_that_no_step_bound_is_an_error_of_the_script() {
        let _ = Names::new(b"r", b"w").resolve(&getattr("nobody"));
    }
}
