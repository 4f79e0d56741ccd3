//! Whose an object is, by what was seen of it.

use super::*;

fn whose(pools: &[usize]) -> Whose {
    let place = |(number, pool): (usize, &usize)| {
        let path = format!("/{number}");
        Place { pool: *pool, source: path.clone(), path, name: number as u32 }
    };
    Whose::new(pools.iter().enumerate().map(place).collect(), None)
}

fn shown(object: &'static [u8], kind: Kind, only: bool) -> Shown<'static> {
    Shown { only, ..Shown::made(FileHandle::new(object).unwrap(), kind) }
}

fn dir(handle: &'static [u8]) -> FileHandle<'static> {
    FileHandle::new(handle).unwrap()
}

#[test]
fn one_export_owns_every_handle_and_several_are_told_apart_by_what_was_learned() {
    assert_eq!(whose(&[0]).of(b"handle"), Some(Owner::Export(0)));
    let whose = whose(&[0, 0]);
    assert_eq!(whose.of(b"handle"), None);
    whose.learn(Owner::Export(1), dir(b"root"), shown(b"handle", Kind::File, true));
    assert_eq!(whose.of(b"handle"), Some(Owner::Export(1)));
}

#[test]
fn a_root_belongs_to_one_export_alone_whatever_other_exports_show() {
    let whose = whose(&[0, 0]);
    assert_eq!((whose.claim(b"root", (1, 7), 1), whose.claim(b"root", (1, 7), 1)), (Ok(()), Ok(())));
    assert_eq!(whose.claim(b"root", (1, 7), 0), Err(1));
    whose.learn(Owner::Export(0), dir(b"top"), shown(b"root", Kind::Directory, true));
    assert_eq!(whose.of(b"root"), Some(Owner::Export(1)));
    let again = Shown { id: Some((1, 7)), ..shown(b"alias", Kind::Directory, true) };
    whose.learn(Owner::Export(0), dir(b"top"), again);
    assert_eq!(whose.of(b"alias"), Some(Owner::Export(1)), "another handle of the same directory");
}

#[test]
fn a_file_with_names_below_two_exports_is_both_s_and_one_with_one_name_is_one_s() {
    let whose = whose(&[0, 0, 1]);
    whose.learn(Owner::Export(0), dir(b"a"), shown(b"file", Kind::File, true));
    whose.learn(Owner::Export(1), dir(b"b"), shown(b"file", Kind::File, false));
    let both = Owner::Several { pool: 0, exports: 0b11 };
    assert_eq!(whose.of(b"file"), Some(both));
    assert_eq!(whose.common(Owner::Export(1), both), Some(Owner::Export(1)));
    assert_eq!(whose.common(Owner::Export(2), both), None);
    assert_eq!(whose.common(Owner::Export(0), Owner::Export(1)), None);
    whose.learn(Owner::Export(1), dir(b"b"), shown(b"file", Kind::File, true));
    assert_eq!(whose.of(b"file"), Some(Owner::Export(1)), "its other name is gone");
    whose.learn(Owner::Export(1), dir(b"b"), shown(b"new", Kind::File, false));
    assert_eq!(whose.of(b"new"), None, "its other names were not asked for");
    assert_eq!(whose.partly(b"new"), Some(Owner::Export(1)));
}

#[test]
fn what_lies_below_a_directory_that_was_moved_to_another_export_moves_with_it() {
    let whose = whose(&[0, 0]);
    assert_eq!((whose.claim(b"r0", (1, 1), 0), whose.claim(b"r1", (1, 2), 1)), (Ok(()), Ok(())));
    whose.learn(Owner::Export(0), dir(b"r0"), shown(b"dir", Kind::Directory, true));
    whose.learn(Owner::Export(0), dir(b"dir"), shown(b"file", Kind::File, true));
    assert_eq!(whose.of(b"file"), Some(Owner::Export(0)));
    whose.learn(Owner::Export(1), dir(b"r1"), shown(b"dir", Kind::Directory, true));
    assert_eq!((whose.of(b"dir"), whose.of(b"file")), (Some(Owner::Export(1)), Some(Owner::Export(1))));
}

#[test]
fn names_that_were_not_asked_for_are_still_not_known_when_a_file_is_seen_again() {
    let whose = whose(&[0, 0]);
    for _ in 0..2 {
        whose.learn(Owner::Export(0), dir(b"a"), shown(b"file", Kind::File, false));
        assert_eq!(whose.of(b"file"), None);
    }
    whose.found(b"file", Kind::File, Owner::Several { pool: 0, exports: 0b11 });
    whose.learn(Owner::Export(0), dir(b"a"), shown(b"file", Kind::File, false));
    assert_eq!(whose.of(b"file"), Some(Owner::Several { pool: 0, exports: 0b11 }));
}

#[test]
fn a_reply_that_does_not_say_what_an_object_is_changes_nothing_that_is_known() {
    let whose = whose(&[0, 0]);
    whose.learn(Owner::Export(0), dir(b"a"), shown(b"dir", Kind::Directory, true));
    whose.learn(Owner::Export(1), dir(b"b"), Shown::found(dir(b"dir"), None));
    assert_eq!(whose.of(b"dir"), Some(Owner::Export(0)));
    assert_eq!(whose.objects.get(whose.objects.digest(b"dir")).unwrap().kind, Kind::Directory);
    whose.learn(Owner::Export(1), dir(b"b"), Shown::found(dir(b"new"), None));
    assert_eq!((whose.of(b"new"), whose.partly(b"new")), (None, Some(Owner::Export(1))));
}

#[test]
fn what_another_member_has_seen_takes_the_place_of_what_is_known_here() {
    let whose = whose(&[0, 0]);
    whose.learn(Owner::Export(0), dir(b"a"), shown(b"file", Kind::File, true));
    whose.heard(b"file", b"b", 1, false);
    assert_eq!((whose.of(b"file"), whose.partly(b"file")), (None, Some(Owner::Export(0))));
    whose.heard(b"file", b"b", 1, true);
    assert_eq!(whose.of(b"file"), Some(Owner::Export(1)));
    whose.heard(b"file", b"c", 1, false);
    assert_eq!(whose.of(b"file"), Some(Owner::Export(1)), "another name below the same export");
    whose.heard(b"unknown", b"b", 1, true);
    assert_eq!(whose.of(b"unknown"), None);
}

#[test]
fn a_file_with_several_names_does_not_follow_one_of_their_directories() {
    let whose = whose(&[0, 0]);
    assert_eq!((whose.claim(b"r0", (1, 1), 0), whose.claim(b"r1", (1, 2), 1)), (Ok(()), Ok(())));
    whose.learn(Owner::Export(0), dir(b"r0"), shown(b"dir", Kind::Directory, true));
    whose.learn(Owner::Export(0), dir(b"r0"), shown(b"file", Kind::File, true));
    whose.learn(Owner::Export(0), dir(b"dir"), shown(b"file", Kind::File, false));
    assert_eq!(whose.of(b"file"), Some(Owner::Export(0)));
    whose.learn(Owner::Export(1), dir(b"r1"), shown(b"dir", Kind::Directory, true));
    assert_eq!(whose.of(b"file"), None, "its other name may have stayed where it was");
    assert_eq!(whose.partly(b"file"), Some(Owner::Export(1)), "this one has moved");
}

fn at(dir: &'static [u8], name: &'static [u8]) -> DirOp<'static> {
    DirOp { dir: self::dir(dir), name }
}

/// A file of two names, one below each export.
fn linked() -> Whose {
    let whose = whose(&[0, 0]);
    assert_eq!((whose.claim(b"r0", (1, 1), 0), whose.claim(b"r1", (1, 2), 1)), (Ok(()), Ok(())));
    whose.learn(Owner::Export(0), dir(b"r0"), shown(b"file", Kind::File, true).named(b"a"));
    let link = Shown { links: Some(2), ..shown(b"file", Kind::File, false).named(b"b") };
    whose.learn(Owner::Export(1), dir(b"r1"), link);
    assert_eq!(whose.of(b"file"), Some(Owner::Several { pool: 0, exports: 0b11 }));
    whose
}

#[test]
fn a_file_that_loses_a_name_is_asked_for_again_and_no_longer_that_export_s() {
    let whose = linked();
    whose.removed(&at(b"r1", b"other"));
    assert_eq!(whose.of(b"file"), Some(Owner::Several { pool: 0, exports: 0b11 }));
    whose.removed(&at(b"r1", b"b"));
    assert_eq!((whose.of(b"file"), whose.partly(b"file")), (None, Some(Owner::Export(0))));
    let whose = linked();
    let third = Shown { links: Some(4), ..shown(b"file", Kind::File, false).named(b"c") };
    whose.learn(Owner::Export(1), dir(b"r1"), third);
    whose.removed(&at(b"r1", b"b"));
    let both = Some(Owner::Several { pool: 0, exports: 0b11 });
    assert_eq!((whose.of(b"file"), whose.partly(b"file")), (None, both), "one name was never seen");
    let whose = linked();
    whose.renamed(Owner::Export(1), &at(b"r1", b"new"), &at(b"r1", b"b"));
    assert_eq!((whose.of(b"file"), whose.partly(b"file")), (None, Some(Owner::Export(0))), "its place was taken");
}

#[test]
fn what_is_renamed_stands_in_its_new_directory() {
    let whose = linked();
    whose.learn(Owner::Export(0), dir(b"r0"), shown(b"dir", Kind::Directory, true).named(b"dir"));
    whose.learn(Owner::Export(0), dir(b"r0"), shown(b"one", Kind::File, true).named(b"one"));
    whose.renamed(Owner::Export(0), &at(b"r0", b"one"), &at(b"dir", b"two"));
    let parent = |handle: &[u8]| whose.objects.get(whose.objects.digest(handle)).unwrap().parent;
    assert_eq!((parent(b"one"), whose.of(b"one")), (whose.objects.digest(b"dir"), Some(Owner::Export(0))));
    whose.learn(Owner::Export(1), dir(b"r1"), shown(b"dir", Kind::Directory, true));
    assert_eq!(whose.of(b"one"), Some(Owner::Export(1)), "it moves with its new directory");
    whose.renamed(Owner::Export(1), &at(b"dir", b"two"), &at(b"dir", b"three"));
    whose.renamed(Owner::Export(1), &at(b"dir", b"three"), &at(b"r1", b"one"));
    assert_eq!(parent(b"one"), whose.objects.digest(b"r1"));
    // Two names of one file: nothing happens.
    whose.renamed(Owner::Export(0), &at(b"r0", b"a"), &at(b"r1", b"b"));
    assert_eq!(whose.objects.names.link(whose.objects.digest(b"file"), |_| {}).seen.len(), 2);
}

#[test]
fn another_handle_of_an_inner_root_keeps_its_owner_when_it_is_renamed_in_the_outer_export() {
    let whose = whose(&[0, 0]);
    assert_eq!((whose.claim(b"r0", (1, 1), 0), whose.claim(b"r1", (1, 2), 1)), (Ok(()), Ok(())));
    let alias = Shown { id: Some((1, 2)), ..shown(b"alias", Kind::Directory, true) };
    whose.learn(Owner::Export(0), dir(b"r0"), alias.named(b"a"));
    whose.learn(Owner::Export(0), dir(b"r0"), shown(b"dir", Kind::Directory, true).named(b"dir"));
    whose.renamed(Owner::Export(0), &at(b"r0", b"a"), &at(b"dir", b"b"));
    assert_eq!(whose.of(b"alias"), Some(Owner::Export(1)));
    // Something else moves, and what is known is looked at again.
    whose.learn(Owner::Export(1), dir(b"r1"), shown(b"dir", Kind::Directory, true));
    assert_eq!(whose.of(b"alias"), Some(Owner::Export(1)));
    whose.renamed(Owner::Export(0), &at(b"dir", b"b"), &at(b"r0", b"c"));
    assert_eq!(whose.of(b"alias"), Some(Owner::Export(1)), "by its new name as well");
    // One of which nothing but its owner was found out is asked for anew.
    whose.learn(Owner::Export(0), dir(b"r0"), shown(b"old", Kind::Directory, true).named(b"old"));
    let old = whose.objects.digest(b"old");
    whose.objects.with(old, |known| *known = known.map(|known| Entry { parent: old, version: 7, ..known }));
    whose.renamed(Owner::Export(0), &at(b"r0", b"old"), &at(b"r0", b"new"));
    assert_eq!(whose.of(b"old"), None);
}
