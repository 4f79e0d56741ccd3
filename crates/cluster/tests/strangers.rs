//! Whoever is no member, or not now: refused, counted, and no harm to those who are.

#![allow(clippy::unwrap_used, clippy::missing_panics_doc, missing_docs, unreachable_pub, dead_code, reason = "a test")]

mod support;

use midas_cluster::{Cluster, Key, Link, Refusal, Settings};
use midas_lab::{PATIENCE, readable, until};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use support::{World, nobody};

/// Until this member has refused so many for this reason.
fn refused(world: &World, member: usize, why: Refusal, least: u64) {
    until(&format!("{why} refused"), || world.status(member).refused.of(why) >= least);
}

/// Says something to a member, and waits until it hangs up.
fn say(to: SocketAddr, bytes: &[u8]) {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let _hung_up = stream.write_all(bytes);
    let mut rest = Vec::new();
    // An end or a reset: either way nobody is there any more.
    let _reset = stream.read_to_end(&mut rest);
}

#[test]
fn strangers_are_refused_by_reason_and_members_go_on() {
    let world = World::agreed(3);
    let before = world.view(0);
    let to = world.addresses[0];
    for (what, bytes, why) in [
        ("another protocol", b"GET / HTTP/1.1\r\n\r\n".to_vec(), Refusal::Garbage),
        ("one wrong byte", b"M".iter().chain(b"X").copied().collect(), Refusal::Garbage),
        ("a length without measure", b"MIDASCL1\xff\xff".to_vec(), Refusal::Length),
        ("a greeting of zeros", [b"MIDASCL1\x00\x40".to_vec(), vec![0; 64 + 32]].concat(), Refusal::Garbage),
        ("silence", Vec::new(), Refusal::Late),
        ("half a greeting", b"MIDASCL1\x00\x40abc".to_vec(), Refusal::Late),
    ] {
        let count = world.status(0).refused.of(why);
        say(to, &bytes);
        until(what, || world.status(0).refused.of(why) > count);
    }
    assert_eq!(world.view(0), before);
    assert!((0..3).all(|member| world.status(0).members[member].up));
}

#[test]
fn more_strangers_than_there_is_room_for_push_out_the_oldest_and_members_still_come() {
    let mut world = World::agreed(3);
    world.kill(2);
    let silent: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(world.addresses[0]).unwrap()).collect();
    refused(&world, 0, Refusal::Crowd, 1);
    world.start(2);
    world.wait_for(&[0, 1, 2]);
    drop(silent);
}

#[test]
fn another_key_another_cluster_and_another_name_are_refused() {
    let world = World::agreed(3);
    let like_c = |change: &dyn Fn(&mut Settings)| {
        let mut settings = world.settings_elsewhere(2);
        settings.state_dir = world.place.path().join("stranger");
        change(&mut settings);
        settings
    };
    for (change, why) in [
        (
            &(|settings: &mut Settings| settings.key = Key::new(&[9; 32]).unwrap()) as &dyn Fn(&mut Settings),
            Refusal::Key,
        ),
        (&|settings: &mut Settings| settings.name = "another".into(), Refusal::Cluster),
        (
            &|settings: &mut Settings| {
                settings.members[2].name = "stranger".into();
                settings.me = "stranger".into();
            },
            Refusal::Member,
        ),
        (&|settings: &mut Settings| settings.versions = 5..=6, Refusal::Version),
    ] {
        let count = world.status(0).refused.of(why);
        let settings = like_c(change);
        let place = settings.state_dir.clone();
        let stranger = Cluster::start(settings, nobody).unwrap();
        refused(&world, 0, why, count + 1);
        drop(stranger);
        std::fs::remove_dir_all(place).unwrap();
    }
}

#[test]
fn what_a_member_said_can_be_neither_changed_nor_said_again() {
    let world = World::agreed(2);
    let path = world.paths[0][1].as_ref().unwrap();
    world.cluster(0).sender().send(1, b"once".to_vec());
    let came = |member: usize| world.facts(member).frames.iter().filter(|frame| frame.3 == b"once").count();
    until("a frame came", || came(1) == 1);
    // The whole of it again, greeting, frames and all: the answer has another nonce, so the frames do not fit.
    let count = world.status(1).refused.of(Refusal::Frame);
    say(world.addresses[1], &path.said());
    refused(&world, 1, Refusal::Frame, count + 1);
    // The greeting alone: it waits for a frame that cannot come.
    let count = world.status(1).refused.of(Refusal::Late);
    let greeting = path.said()[..greeting_length(&path.said())].to_vec();
    say(world.addresses[1], &greeting);
    refused(&world, 1, Refusal::Late, count + 1);
    assert!(world.status(1).members[0].up, "the member whose words they were is not disturbed");
    // One bit on the way.
    let count = world.status(1).refused.of(Refusal::Frame);
    path.bend();
    refused(&world, 1, Refusal::Frame, count + 1);
    until("the link was down", || world.facts(1).links.contains(&(0, Link::Down)));
    world.wait_for_link(0, 1);
    assert_eq!(came(1), 1);
}

#[test]
fn datagrams_come_once_and_strange_ones_never() {
    let world = World::agreed(2);
    let sender = world.cluster(0).sender();
    until("a datagram came", || {
        sender.datagram(1, b"load");
        world.facts(1).datagrams.contains(&(0, b"load".to_vec()))
    });
    let stranger = UdpSocket::bind((world.addresses[0].ip(), 0)).unwrap();
    let count = world.status(1).refused.of(Refusal::Datagram);
    for bytes in [&b""[..], b"short", &[0; 48], &[0; 1200]] {
        stranger.send_to(bytes, world.addresses[1]).unwrap();
    }
    refused(&world, 1, Refusal::Datagram, count + 4);
    stranger.send_to(&[0; 1400], world.addresses[1]).unwrap();
    refused(&world, 1, Refusal::Length, 1);
}

#[test]
fn what_is_sent_comes_in_order_whole_and_once() {
    let world = World::agreed(2);
    let sender = world.cluster(0).sender();
    let sizes = [0, 1, 100, 4096, 70_000, midas_cluster::FRAME_MAX];
    // Less than a queue holds: more may close the connection.
    for (number, size) in sizes.iter().cycle().take(36).enumerate() {
        sender.send(1, vec![number as u8; *size]);
    }
    sender.send(1, b"last".to_vec());
    until("the last one", || world.facts(1).frames.last().is_some_and(|frame| frame.3 == b"last"));
    let frames = world.facts(1).frames;
    assert_eq!(frames.len(), 37);
    for (number, frame) in frames[..36].iter().enumerate() {
        assert_eq!((frame.0, frame.1, frame.2), (0, world.cluster(0).incarnation(), 1));
        assert!(frame.3.len() == sizes[number % sizes.len()] && frame.3.iter().all(|byte| *byte == number as u8));
    }
    assert_eq!(world.status(0).lost, 0);
}

#[test]
fn a_member_with_the_next_version_speaks_the_old_one_with_the_others() {
    let mut world = World::new(3);
    world.versions = vec![1..=1, 1..=2, 1..=2];
    (0..3).for_each(|member| world.start(member));
    world.wait_for(&[0, 1, 2]);
    for (from, to, version) in [(0, 1, 1), (1, 0, 1), (1, 2, 2), (2, 1, 2), (2, 0, 1)] {
        world.wait_for_link(from, to);
        world.cluster(from).sender().send(to as u8, b"hello".to_vec());
        let from = from as u8;
        until("a greeting", || world.facts(to).frames.iter().any(|frame| frame.0 == from));
        let frame = world.facts(to).frames.into_iter().find(|frame| frame.0 == from).unwrap();
        assert_eq!(frame.2, version, "{from} to {to}");
        assert!(world.facts(to).links.iter().any(
            |link| matches!(link, (peer, Link::Up { version: spoken, .. }) if *peer == from && *spoken == version)
        ));
    }
}

/// Members that speak no common version do not misread each other: each says so of the other, by name.
#[test]
fn members_of_unequal_versions_understand_nothing_and_say_so() {
    let mut world = World::new(3);
    world.versions = vec![1..=1, 1..=1, 2..=3];
    (0..3).for_each(|member| world.start(member));
    world.wait_for(&[0, 1]);
    let of = |member: usize, other: usize| world.status(member).members[other].unequal.clone();
    until("each knows of the other", || of(0, 2).is_some() && of(1, 2).is_some() && of(2, 0).is_some());
    assert_eq!(of(0, 2).map(|unequal| unequal.versions), Some(2..=3));
    assert_eq!(of(2, 0).map(|unequal| unequal.versions), Some(1..=1));
    assert_eq!(of(0, 1), None);
    assert_eq!(world.facts(0).unequal, [(2, 2..=3)], "it is told once");
    refused(&world, 0, Refusal::Version, 2);
    assert!(world.facts(0).frames.iter().all(|frame| frame.0 != 2));
}

#[test]
fn the_upper_half_is_woken_and_differing_digests_are_seen() {
    let world = World::agreed(2);
    let ticks = world.facts(0).ticks;
    world.cluster(0).sender().wake();
    until("a tick", || world.facts(0).ticks > ticks);
    until("the same digest", || world.status(0).members[1].same == Some(true));
    world.cluster(1).sender().digest([2; 32]);
    until("another digest", || world.status(0).members[1].same == Some(false));
    until("a round trip", || world.status(0).members[1].rtt.is_some());
}

/// Of the greeting at the beginning of what was said.
fn greeting_length(said: &[u8]) -> usize {
    10 + usize::from(u16::from_be_bytes([said[8], said[9]])) + 32
}

#[test]
fn a_silent_listener_is_no_member() {
    // Somebody listens where a member should be and says nothing: it is dialled again and again, and nothing waits for it.
    let world = World::new(3);
    let listener = std::net::TcpListener::bind(world.addresses[2]).unwrap();
    let mut world = world;
    (0..2).for_each(|member| world.start(member));
    world.wait_for(&[0, 1]);
    assert!(readable(&listener, PATIENCE));
    assert!(!world.status(0).members[2].up);
}
