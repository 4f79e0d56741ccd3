//! Real members on loopback: what they agree on when members die, come back, and are cut off.

#![allow(clippy::unwrap_used, clippy::missing_panics_doc, missing_docs, unreachable_pub, dead_code, reason = "a test")]

mod support;

use midas_cluster::{Cluster, FRAME_MAX, Link};
use midas_lab::until;
use std::fs;
use std::io::ErrorKind;
use support::World;

#[test]
fn three_agree_and_one_that_dies_is_left_out_and_comes_back_as_another() {
    let mut world = World::agreed(3);
    let first = world.view(0);
    world.kill(2);
    let second = world.wait_for(&[0, 1]);
    assert!(second.epoch > first.epoch);
    world.start(2);
    let third = world.wait_for(&[0, 1, 2]);
    assert!(third.epoch > second.epoch);
    assert_ne!(third.incarnation(2), first.incarnation(2), "a restart is a new incarnation");
    for member in 0..3 {
        let epochs: Vec<u64> = world.facts(member).views.iter().map(|view| view.epoch).collect();
        assert!(epochs.is_sorted_by(|one, next| one < next), "{epochs:?}");
    }
}

#[test]
fn the_leader_may_die_too() {
    let mut world = World::agreed(3);
    let leader = usize::from(world.status(0).leader.expect("there is a view, so somebody led"));
    world.kill(leader);
    let rest: Vec<usize> = (0..3).filter(|member| *member != leader).collect();
    world.wait_for(&rest);
    assert!(rest.iter().all(|member| world.status(*member).leader != Some(leader as u8)));
}

#[test]
fn a_minority_gets_no_view_and_catches_up_when_the_cut_heals() {
    let world = World::agreed(3);
    let before = world.view(2);
    for other in [0, 1] {
        world.paths[2][other].as_ref().unwrap().cut();
        world.paths[other][2].as_ref().unwrap().cut();
    }
    let majority = world.wait_for(&[0, 1]);
    assert!(majority.epoch > before.epoch);
    assert_eq!(world.view(2), before, "nothing is agreed without a majority");
    until("it knows that it is cut off", || world.status(2).cut_off && world.cluster(2).cut_off());
    assert!(!world.status(0).cut_off && !world.status(1).cut_off);
    for other in [0, 1] {
        world.paths[2][other].as_ref().unwrap().heal();
        world.paths[other][2].as_ref().unwrap().heal();
    }
    let healed = world.wait_for(&[0, 1, 2]);
    assert!(healed.epoch > majority.epoch);
    assert_eq!(healed.incarnation(2), before.incarnation(2), "it never died");
    until("it is cut off no longer", || !world.status(2).cut_off);
}

/// It hears all others, but none of them hears it.
#[test]
fn who_is_not_heard_is_cut_off_too() {
    let world = World::agreed(3);
    for other in [0, 1] {
        world.paths[2][other].as_ref().unwrap().cut();
    }
    until("it knows", || world.status(2).cut_off);
    assert!(!world.status(0).cut_off && !world.status(1).cut_off);
}

#[test]
fn a_frame_that_cannot_be_sent_takes_its_link_down_at_both_ends() {
    let world = World::agreed(3);
    world.wait_for_link(0, 1);
    let downs = |at: usize, of: u8| world.facts(at).links.iter().filter(|link| **link == (of, Link::Down)).count();
    let before = [downs(0, 1), downs(1, 0), downs(0, 2)];
    let lost = world.status(0).lost;
    world.cluster(0).sender().send(1, vec![0; FRAME_MAX + 1]);
    until("both are told", || downs(0, 1) > before[0] && downs(1, 0) > before[1]);
    assert_eq!(downs(0, 2), before[2], "nobody else is");
    until("it is counted", || world.status(0).lost > lost);
    until("it goes on", || {
        world.cluster(0).sender().send(1, b"behind it".to_vec());
        world.facts(1).frames.iter().any(|(_, _, _, bytes)| bytes == b"behind it")
    });
}

#[test]
fn of_two_that_hear_each_other_one_way_only_one_is_left_out() {
    let world = World::agreed(3);
    let before = world.view(0);
    world.paths[1][2].as_ref().unwrap().cut();
    until("one of them is left out", || {
        let view = world.view(0);
        view.epoch > before.epoch && view.members.len() == 2 && view.incarnation(0).is_some()
    });
    until("a link that works one way only is down", || !world.status(2).members[1].up);
    world.paths[1][2].as_ref().unwrap().heal();
    world.wait_for(&[0, 1, 2]);
}

#[test]
fn a_blip_changes_no_view() {
    let world = World::agreed(3);
    let before = world.view(0);
    for (from, to) in [(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)] {
        world.paths[from][to].as_ref().unwrap().break_all();
    }
    until("the link was down", || world.facts(0).links.contains(&(1, Link::Down)));
    world.wait_for_link(0, 1);
    world.wait_for_link(0, 2);
    world.wait_for_link(1, 2);
    assert_eq!(world.view(0), before);
}

#[test]
fn one_that_leaves_is_left_out_without_a_silence() {
    let world = World::agreed(3);
    world.cluster(1).sender().leave();
    let view = world.wait_for(&[0, 2]);
    assert_eq!(view.incarnation(1), None);
    assert!(world.status(0).members[1].leaving && world.status(0).members[1].up, "it still talks");
}

#[test]
fn all_may_restart_and_epochs_go_on() {
    let mut world = World::agreed(3);
    let before = world.view(0);
    (0..3).for_each(|member| world.kill(member));
    (0..3).for_each(|member| world.start(member));
    let after = world.wait_for(&[0, 1, 2]);
    assert!(after.epoch > before.epoch, "{after:?} after {before:?}");
}

#[test]
fn a_member_starts_once_and_only_with_a_log_that_is_its_own() {
    let mut world = World::agreed(2);
    let twice = Cluster::start(world.settings_elsewhere(0), support::nobody).err().unwrap();
    assert_eq!(twice.kind(), ErrorKind::AddrInUse, "{twice}");
    world.kill(0);
    let mut other = world.settings(0);
    other.name = "other".into();
    let foreign = Cluster::start(other, support::nobody).err().unwrap();
    assert!(foreign.to_string().contains("the log of 'a' in cluster 'test'"), "{foreign}");
    let file = world.settings(0).state_dir.join("cluster.views");
    let mut bytes = fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&file, bytes).unwrap();
    let damaged = Cluster::start(world.settings(0), support::nobody).err().unwrap();
    assert!(damaged.to_string().contains("damaged"), "{damaged}");
}
