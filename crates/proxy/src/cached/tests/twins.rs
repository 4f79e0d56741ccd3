//! Objects that clients change by several handles.

use super::*;
use midas_nfs::nfs3::ReadlinkOk;

/// Another handle of the same file: the server does not look at every bit.
const ALIAS: FileHandle<'static> = handle(b"file with a bit more");

#[test]
fn d1_a_change_by_another_handle_of_the_same_file_drops_what_is_kept_of_it() {
    let (cached, who) = (cached(Mode::Lease), user(1));
    read(&cached, at(1), &GETATTR, &who, &Reply::Getattr(Ok(file(5))));
    let access = Call::Access { object: FILE, access: 1 };
    read(&cached, at(1), &access, &who, &Reply::Access(Ok(AccessOk { attributes: Some(file(5)), access: 1 })));
    let Was::Fetch(late) = ask(&cached, at(2), &Call::Readlink { symlink: FILE }, &who) else { panic!() };
    let by_alias = Call::Write { file: ALIAS, offset: 0, count: 0, stable: StableHow::FileSync, data: b"" };
    change(&cached, at(2), &by_alias, &written(8));
    assert_eq!(told(&cached, at(3), &GETATTR, &who), None);
    assert_eq!(told(&cached, at(3), &access, &who), None);
    let link = ReadlinkOk { attributes: Some(file(5)), data: b"" };
    cached.landed(at(3), *late, Some(&bytes(&Reply::Readlink(Ok(link)))));
    assert_eq!(told(&cached, at(3), &GETATTR, &who), None, "it left before the change");
    let by_handle = Call::Getattr { object: ALIAS };
    assert_eq!(told(&cached, at(3), &by_handle, &who), Some(bytes(&Reply::Getattr(Ok(file(8))))));
    // From now on both are known: what may still run keeps both from being kept.
    read(&cached, at(4), &GETATTR, &who, &Reply::Getattr(Ok(file(8))));
    let (touched, _) = claim(&cached, at(5), &by_alias);
    assert_eq!(told(&cached, at(5), &GETATTR, &who), None);
    cached.ended(at(6), touched, Ended::Unknown, None);
    read(&cached, at(7), &GETATTR, &who, &Reply::Getattr(Ok(file(8))));
    assert_eq!(told(&cached, at(8), &GETATTR, &who), None, "it may run yet");
}

#[test]
fn d1_a_change_by_another_handle_at_another_proxy_drops_what_is_kept_of_the_file() {
    let (here, there, who) = (cached(Mode::Lease), cached(Mode::Lease), user(1));
    let (file_key, alias_key) = (Key::of(FILE.bytes()), Key::of(ALIAS.bytes()));
    read(&here, at(1), &GETATTR, &who, &Reply::Getattr(Ok(file(5))));
    let id = FileId::of(&file(5));
    assert!(!there.changed_by(at(2), id, alias_key), "nobody else is to be told where there are no leases");
    here.changed_elsewhere(at(2), id.key(), alias_key);
    assert_eq!(told(&here, at(3), &GETATTR, &who), None);
    assert_eq!((here.other_handles(alias_key), here.other_handles(file_key)), (vec![file_key], vec![alias_key]));
}
