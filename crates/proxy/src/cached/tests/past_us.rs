//! What others change: past us in ttl mode, at another proxy, and what checks of hits make of it (D1, D5, D7).

use super::*;
use crate::clock::Clock;

#[test]
fn d1_a_directory_that_was_changed_past_us_takes_its_names_with_it() {
    let (cached, who) = (cached(Mode::Ttl), user(1));
    read(&cached, at(1), &LOOKUP, &who, &found(FILE, 5));
    assert!(told(&cached, at(1), &LOOKUP, &who).is_some());
    let newer = Reply::Readdirplus(Ok(ReaddirplusOk {
        dir_attributes: Some(dir(2)),
        cookieverf: [0; 8],
        list: &Page::readdirplus(u32::MAX, u32::MAX, &None).finish(true),
    }));
    let list = Call::Readdirplus { dir: DIR, cookie: 0, cookieverf: [0; 8], dircount: 100, maxcount: 1000 };
    let Was::Fetch(fetching) = ask(&cached, at(1), &list, &who) else { panic!("not listed before") };
    let newer = bytes(&newer);
    cached.landed(at(1), *fetching, Some(&newer));
    assert_eq!(told(&cached, at(1), &LOOKUP, &who), None);
}

fn mkdir(name: &'static [u8]) -> Call<'static> {
    Call::Mkdir { place: DirOp { name, ..NAME }, attributes: Sattr3::default() }
}

fn made(before: Option<u32>, after: Option<u32>) -> Reply<'static> {
    let dir = WccData { before: before.map(|version| dir(version).wcc_attr()), after: after.map(dir) };
    Reply::Mkdir(Ok(CreateOk { object: Some(OTHER), attributes: None, dir }))
}

#[test]
fn d1_a_mutation_of_our_own_does_not_hide_one_past_us() {
    let failed = |before: Option<u32>| {
        let attributes = WccData { before: before.map(|version| dir(version).wcc_attr()), after: before.map(dir) };
        Reply::Mkdir(Err(Failed { status: Nfsstat3::EXIST, attributes }))
    };
    let cases = [
        (made(Some(1), Some(3)), true, "nobody else has changed it"),
        (made(Some(2), Some(3)), false, "somebody has"),
        (made(None, Some(3)), false, "it is not said how it was"),
        (made(Some(1), None), false, "nor how it is"),
        (failed(None), true, "nothing is said, and nothing was changed"),
        (failed(Some(1)), true, "as it was"),
        (failed(Some(2)), false, "a failure shows it as well"),
    ];
    for (reply, kept, why) in cases {
        let (cached, who) = (cached(Mode::Ttl), user(1));
        read(&cached, at(1), &LOOKUP, &who, &absent());
        assert!(told(&cached, at(1), &LOOKUP, &who).is_some());
        change(&cached, at(1), &mkdir(b"another"), &reply);
        assert_eq!(told(&cached, at(1), &LOOKUP, &who).is_some(), kept, "{why}");
    }
}

#[test]
fn d1_names_that_stayed_over_a_mutation_of_our_own_go_with_the_next_one_past_us() {
    let (cached, who) = (cached(Mode::Ttl), user(1));
    read(&cached, at(1), &LOOKUP, &who, &absent());
    for (before, after, kept) in [(1, 3, true), (3, 4, true), (5, 6, false)] {
        change(&cached, at(1), &mkdir(b"another"), &made(Some(before), Some(after)));
        assert_eq!(told(&cached, at(1), &LOOKUP, &who).is_some(), kept, "{before}");
    }
}

#[test]
fn d1_names_and_listings_do_not_outlive_what_is_known_of_their_directory() {
    let list = Call::Readdir { dir: DIR, cookie: 0, cookieverf: [0; 8], count: 1000 };
    let empty = Page::readdir(u32::MAX, &None).finish(true);
    let page = Reply::Readdir(Ok(ReaddirOk { dir_attributes: Some(dir(1)), cookieverf: [0; 8], list: &empty }));
    let seen = |version| Reply::Access(Ok(AccessOk { attributes: Some(dir(version)), access: 1 }));
    // How it is seen, whether its attributes are still kept then, and whether its names and listings are.
    for (version, attributes_kept, kept) in [(1, true, true), (2, true, false), (2, false, false)] {
        let (cached, who) = (cached(Mode::Ttl), user(1));
        read(&cached, at(1), &LOOKUP, &who, &found(FILE, 1));
        read(&cached, at(1), &list, &who, &page);
        assert!([&LOOKUP, &list].iter().all(|call| told(&cached, at(1), call, &who).is_some()));
        if !attributes_kept {
            let place = Key::of(DIR.bytes());
            cached.part(place).cache.invalidate(at(1), place);
        }
        read(&cached, at(1), &Call::Access { object: DIR, access: 1 }, &who, &seen(version));
        assert_eq!([&LOOKUP, &list].map(|call| told(&cached, at(1), call, &who).is_some()), [kept; 2], "{version}");
    }
}

#[test]
fn d1_what_is_older_than_what_is_known_of_a_directory_teaches_no_names() {
    let (cached, who) = (cached(Mode::Ttl), user(1));
    let missing = |version| Reply::Lookup(Err(Failed { status: Nfsstat3::NOENT, attributes: Some(dir(version)) }));
    let sibling = Call::Lookup { what: DirOp { name: b"sibling", ..NAME } };
    read(&cached, at(1), &LOOKUP, &who, &missing(2));
    read(&cached, at(1), &sibling, &who, &missing(1));
    assert_eq!([&LOOKUP, &sibling].map(|call| told(&cached, at(1), call, &who).is_some()), [true, false]);
}

#[test]
fn d1_a_checked_hit_that_is_not_true_takes_the_names_and_listings_of_its_directory_along() {
    let sibling = Call::Lookup { what: DirOp { name: b"sibling", ..NAME } };
    for (mode, of_name) in [(Mode::Ttl, true), (Mode::Ttl, false), (Mode::Lease, true), (Mode::Lease, false)] {
        let (cached, who) = (cached(mode), user(1));
        let (waiting, samples) = sync_channel(1 << 16);
        cached.check_at(0, &waiting);
        read(&cached, at(1), &LOOKUP, &who, &found(FILE, 1));
        read(&cached, at(1), &sibling, &who, &absent());
        (0..100_000).for_each(|_| drop(told(&cached, at(1), &LOOKUP, &who)));
        let of_it = |sample: &Sample| sample.name.is_some() == of_name && *sample.handle == *DIR.bytes();
        let sample =
            samples.try_iter().map(|(_, sample)| sample).find(of_it).expect("names and attributes are checked");
        let heard = if of_name { Heard::Leads(&[]) } else { Heard::Attributes(dir(2)) };
        let _next = cached.checked(at(1), &sample, &heard, false);
        assert_eq!(told(&cached, at(1), &sibling, &who), None, "{mode:?} {of_name}");
    }
}

#[test]
fn d1_a_mutation_whose_target_its_user_may_not_look_up_and_that_succeeds_leaves_nothing_known() {
    let refused = Reply::failed(Procedure::Remove, Nfsstat3::ACCES);
    for (ended, reply, kept) in [
        (Ended::Done, Some(removed()), false),
        (Ended::Done, Some(refused), true),
        (Ended::Done, None, true),
        (Ended::Unknown, None, false),
    ] {
        let (cached, who) = (cached(Mode::Lease), user(1));
        let (mut touched, unfound) = claim(&cached, at(1), &remove());
        assert_eq!(unfound.len(), 1);
        touched.unsure();
        read(&cached, at(2), &GETATTR, &who, &Reply::Getattr(Ok(file(5))));
        let reply = reply.map(|reply| bytes(&reply));
        cached.ended(at(3), touched, ended, reply.as_deref().map(|reply| (Procedure::Remove, reply)));
        assert_eq!(told(&cached, at(3), &GETATTR, &who).is_some(), kept, "{ended:?}");
        assert_eq!(cached.answers(at(3)), ended == Ended::Done, "as long as it may run nothing is answered");
    }
}

#[test]
fn d7_what_changed_within_the_servers_shortest_time_is_not_kept() {
    // How fine the server's times are, and how long ago the object changed, in seconds.
    for (grain, age, kept) in [(10, 5, false), (10, 10, true), (1, 5, true)] {
        let (cached, who) = (cached(Mode::Ttl), user(1));
        cached.set_grain(Some(Span::from_secs(grain)));
        let changed = (at(1).as_nanos() / 1_000_000_000) as u32;
        let reply = |version| Reply::Getattr(Ok(file(version)));
        read(&cached, at(1), &GETATTR, &who, &reply(1));
        assert!(told(&cached, at(1), &GETATTR, &who).is_some());
        let left = cached.left(at(1 + age));
        let (mut args, results) = (Vec::new(), bytes(&reply(changed)));
        GETATTR.encode(&mut args);
        cached.learn(at(1 + age), left, &args, &who, (Procedure::Getattr, &results));
        let now = told(&cached, at(1 + age), &GETATTR, &who);
        assert_eq!(now, kept.then_some(results), "{grain} {age}: nor is what was known before");
    }
}

#[test]
fn in_ttl_mode_kinds_that_are_not_checked_live_as_long_as_what_is_checked_of_their_objects() {
    let (cached, who) = (cached(Mode::Ttl), user(1));
    let access = Call::Access { object: FILE, access: 1 };
    read(&cached, at(1), &access, &who, &Reply::Access(Ok(AccessOk { attributes: Some(file(1)), access: 1 })));
    let later = at(1) + Span::from_millis(10);
    assert!(told(&cached, later, &access, &who).is_some());
    (0..1000).for_each(|_| cached.learned(later, Kind::Attributes.class(), Verdict::Different));
    assert_eq!(told(&cached, later, &access, &who), None);
}

#[test]
fn a_name_is_checked_on_behalf_of_whoever_was_told_it() {
    let cached = cached(Mode::Lease);
    let who = Who::of(&Credential::Sys(AuthSys::new(0, b"", 7, 8, &[9, 10]).unwrap()));
    let (waiting, samples) = sync_channel(1 << 16);
    cached.check_at(0, &waiting);
    read(&cached, at(1), &LOOKUP, &who, &absent());
    (0..100_000).for_each(|_| drop(told(&cached, at(1), &LOOKUP, &who)));
    let (_, sample) = samples.try_iter().find(|(_, sample)| sample.name.is_some()).expect("a name is checked");
    assert_eq!(sample.caller(), midas_net::Caller { uid: 7, gid: 8, gids: vec![9, 10] });
}

#[test]
fn d1_where_a_name_leads_is_not_relied_on_if_another_proxy_changed_it_since() {
    let cached = cached(Mode::Lease);
    let (touched, _) = claim(&cached, at(1), &remove());
    assert!(!cached.overtaken(&touched));
    let (place, name, _) = touched.labels(0).find(|(_, _, name)| *name).unwrap();
    let mark = cached.mark(at(1), place, name);
    cached.unmark(at(2), place, mark);
    assert!(cached.overtaken(&touched), "it has come and gone");
    cached.ended(at(2), touched, Ended::Done, None);
    let (touched, _) = claim(&cached, at(3), &remove());
    assert!(!cached.overtaken(&touched), "it was looked at anew");
    cached.ended(at(3), touched, Ended::Done, None);
}

#[test]
fn d5_what_a_writer_past_us_changed_is_noticed_at_the_second_look_and_a_reader_is_not() {
    let read_later = Fattr3 { atime: Nfstime3 { seconds: 99, nseconds: 0 }, used: 4096, ..file(5) };
    let own = || (write(), written(6));
    // what the server says, whether a change of our own ran meanwhile, and whether the export is demoted
    let cases = [(file(5), false, false), (read_later, false, false), (file(6), false, true), (file(6), true, false)];
    for (now_there, ours, demoted) in cases {
        let (cached, who) = (cached(Mode::Lease), user(1));
        let (waiting, samples) = sync_channel(1);
        cached.check_at(7, &waiting);
        read(&cached, at(1), &GETATTR, &who, &Reply::Getattr(Ok(file(5))));
        let hits = (0..100_000).map(|_| told(&cached, at(2), &GETATTR, &who)).take_while(Option::is_some).count();
        assert_eq!(hits, 100_000);
        let (export, sample) = samples.try_recv().expect("one hit in a thousand, at least");
        assert!(export == 7 && samples.try_recv().is_err(), "further ones are not checked");
        if ours {
            change(&cached, at(2), &own().0, &own().1);
        }
        let heard = Heard::Attributes(now_there);
        let next = match cached.checked(at(3), &sample, &heard, false) {
            Next::LookAgain(then) => {
                let sample = cached.suspected(at(3), sample);
                cached.checked(then.max(at(4)), &sample, &heard, true)
            }
            next @ (Next::Nothing | Next::Demote) => next,
        };
        assert_eq!(next == Next::Demote, demoted, "{now_there:?} {ours}");
    }
}

/// Another proxy may change what it likes while this one has no lease. What was told before is true
/// then, and differs from what a server says afterwards: nobody has written past MIDAS.
#[test]
fn d5_what_was_told_under_a_lease_that_was_lost_since_proves_no_writer_past_us() {
    let forget: [fn(&Cached); 3] = [Cached::lease_lost, Cached::flush, |cached| {
        cached.set_mode(Mode::Strict);
        cached.set_mode(Mode::Lease);
    }];
    for (number, forget) in forget.into_iter().enumerate() {
        for first_look in [true, false] {
            let (cached, who) = (cached(Mode::Lease), user(1));
            let (waiting, samples) = sync_channel(1);
            cached.check_at(7, &waiting);
            read(&cached, at(1), &GETATTR, &who, &Reply::Getattr(Ok(file(5))));
            (0..100_000).for_each(|_| drop(told(&cached, at(2), &GETATTR, &who)));
            let (_, sample) = samples.try_recv().expect("one hit in a thousand, at least");
            let (heard, mut demoted) = (Heard::Attributes(file(6)), false);
            if first_look {
                forget(&cached);
            }
            if let Next::LookAgain(then) = cached.checked(at(3), &sample, &heard, false) {
                let sample = cached.suspected(at(3), sample);
                if !first_look {
                    forget(&cached);
                }
                demoted = cached.checked(then.max(at(4)), &sample, &heard, true) == Next::Demote;
            } else {
                assert!(first_look, "{number}: nothing was forgotten, so it is looked at again");
            }
            assert!(!demoted, "{number} {first_look}");
        }
    }
}

/// A lease that has run out, before anybody was told to forget: another proxy may have changed it.
#[test]
fn d5_what_is_checked_without_a_lease_proves_no_writer_past_us() {
    for (at_first, at_second, demoted) in [(true, true, true), (false, true, false), (true, false, false)] {
        let leases = Arc::new(Leases::new(Clock::new()));
        leases.publish(Time::FAR);
        let (cached, who) = (beside(Mode::Lease, Some(leases.clone())), user(1));
        let (waiting, samples) = sync_channel(1);
        cached.check_at(7, &waiting);
        read(&cached, at(1), &GETATTR, &who, &Reply::Getattr(Ok(file(5))));
        (0..100_000).for_each(|_| drop(told(&cached, at(2), &GETATTR, &who)));
        let (_, sample) = samples.try_recv().expect("one hit in a thousand, at least");
        let heard = Heard::Attributes(file(6));
        let lease = |lasts: bool| leases.publish(if lasts { Time::FAR } else { Time::ZERO });
        lease(at_first);
        let next = match cached.checked(at(3), &sample, &heard, false) {
            Next::LookAgain(then) => {
                let sample = cached.suspected(at(3), sample);
                lease(at_second);
                cached.checked(then.max(at(4)), &sample, &heard, true)
            }
            next @ (Next::Nothing | Next::Demote) => next,
        };
        assert_eq!(next == Next::Demote, demoted, "with a lease: {at_first}, then {at_second}");
    }
}
