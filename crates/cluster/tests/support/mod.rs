//! Members on loopback addresses, with paths between them that can be cut, each way for itself.

use midas_cluster::{Above, Cluster, Key, Link, Member, Sender, Settings, Status, Unequal, View};
use midas_lab::{Scratch, common_port, loopback, until};
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

mod path;
pub use path::Path;

/// What one member was told.
#[derive(Clone, Default)]
pub struct Seen(Arc<Mutex<Facts>>);

#[derive(Clone, Debug, Default)]
pub struct Facts {
    pub views: Vec<View>,
    pub frames: Vec<(u8, u64, u16, Vec<u8>)>,
    pub datagrams: Vec<(u8, Vec<u8>)>,
    pub links: Vec<(u8, Link)>,
    pub unequal: Vec<(u8, RangeInclusive<u16>)>,
    pub ticks: usize,
}

/// Answers frames that begin with `?`.
struct Echo {
    seen: Seen,
    sender: Sender,
}

impl Seen {
    pub fn facts(&self) -> Facts {
        self.0.lock().unwrap().clone()
    }

    fn note(&self, note: impl FnOnce(&mut Facts)) {
        note(&mut self.0.lock().unwrap());
    }
}

impl Above for Echo {
    fn view(&mut self, view: &View) {
        self.seen.note(|facts| facts.views.push(view.clone()));
    }

    fn frame(&mut self, from: u8, incarnation: u64, version: u16, bytes: &[u8]) {
        self.seen.note(|facts| facts.frames.push((from, incarnation, version, bytes.to_vec())));
        if let Some(asked) = bytes.strip_prefix(b"?") {
            self.sender.send(from, asked.to_vec());
        }
    }

    fn datagram(&mut self, from: u8, _: u64, bytes: &[u8]) {
        self.seen.note(|facts| facts.datagrams.push((from, bytes.to_vec())));
    }

    fn unequal(&mut self, peer: u8, unequal: &Unequal) {
        self.seen.note(|facts| facts.unequal.push((peer, unequal.versions.clone())));
    }

    fn link(&mut self, peer: u8, link: Link) {
        self.seen.note(|facts| facts.links.push((peer, link)));
    }

    fn tick(&mut self) -> Option<Instant> {
        self.seen.note(|facts| facts.ticks += 1);
        None
    }
}

/// Some members, and the paths from each to each.
pub struct World {
    pub place: Scratch,
    pub addresses: Vec<SocketAddr>,
    /// By who dials and who is dialled.
    pub paths: Vec<Vec<Option<Path>>>,
    pub members: Vec<Option<(Cluster, Seen)>>,
    pub suspect_after: Duration,
    pub versions: Vec<RangeInclusive<u16>>,
    pub keys: Vec<u8>,
}

impl World {
    /// So many members with paths between them, none started.
    pub fn new(count: usize) -> Self {
        let first = loopback(count, &[]);
        let port = common_port(first, count);
        let address = |index: usize| SocketAddr::from((Ipv4Addr::from(u32::from(first) + index as u32), port));
        let addresses: Vec<SocketAddr> = (0..count).map(address).collect();
        let path = |from: usize, to: usize| (from != to).then(|| Path::new(addresses[from], addresses[to]));
        let paths = (0..count).map(|from| (0..count).map(|to| path(from, to)).collect()).collect();
        Self {
            place: Scratch::new(),
            addresses,
            paths,
            members: (0..count).map(|_| None).collect(),
            suspect_after: Duration::from_millis(1500),
            versions: vec![1..=1; count],
            keys: vec![7; count],
        }
    }

    /// The same, all started and in one view.
    pub fn agreed(count: usize) -> Self {
        let mut world = Self::new(count);
        (0..count).for_each(|index| world.start(index));
        world.wait_for(&(0..count).collect::<Vec<_>>());
        world
    }

    pub fn settings(&self, me: usize) -> Settings {
        let member = |index: usize| Member {
            name: name(index),
            address: self.paths[me][index].as_ref().map_or(self.addresses[index], Path::address),
            witness: false,
        };
        Settings {
            name: "test".into(),
            me: name(me),
            listen: self.addresses[me],
            members: (0..self.addresses.len()).map(member).collect(),
            key: Key::new(&[self.keys[me]; 32]).unwrap(),
            state_dir: self.place.path().join(name(me)),
            digest: [1; 32],
            versions: self.versions[me].clone(),
            software: "test".into(),
            suspect_after: self.suspect_after,
            heartbeat: self.suspect_after / 15,
        }
    }

    pub fn start(&mut self, index: usize) {
        let seen = Seen::default();
        let above = |sender| Echo { seen: seen.clone(), sender };
        let cluster = Cluster::start(self.settings(index), above).expect("it starts");
        self.members[index] = Some((cluster, seen));
    }

    /// As a crash is: the others see a silence.
    pub fn kill(&mut self, index: usize) {
        self.members[index] = None;
    }

    pub fn cluster(&self, index: usize) -> &Cluster {
        &self.members[index].as_ref().unwrap().0
    }

    pub fn facts(&self, index: usize) -> Facts {
        self.members[index].as_ref().unwrap().1.facts()
    }

    pub fn status(&self, index: usize) -> Status {
        self.cluster(index).status()
    }

    /// The last view that a member was told.
    pub fn view(&self, index: usize) -> View {
        self.facts(index).views.last().cloned().unwrap_or_default()
    }

    /// Until these members have one view of exactly their lives.
    pub fn wait_for(&self, members: &[usize]) -> View {
        let lives = members.iter().map(|member| (*member as u8, self.cluster(*member).incarnation()));
        let wanted: Vec<(u8, u64)> = lives.collect();
        until(&format!("a view of {members:?}"), || {
            let views: Vec<View> = members.iter().map(|member| self.view(*member)).collect();
            views.iter().all(|view| *view == views[0] && view.members == wanted)
        });
        self.view(members[0])
    }

    /// The settings of a member at another address, with the same state.
    pub fn settings_elsewhere(&self, me: usize) -> Settings {
        let listen = SocketAddr::new(self.addresses[me].ip(), 0);
        Settings { listen, ..self.settings(me) }
    }

    /// Until frames pass both ways between two members.
    pub fn wait_for_link(&self, one: usize, other: usize) {
        until("a link", || self.status(one).members[other].up && self.status(other).members[one].up);
    }
}

/// Stands above and listens to nothing.
pub fn nobody(sender: Sender) -> impl Above {
    Echo { seen: Seen::default(), sender }
}

pub fn name(index: usize) -> String {
    ["a", "b", "c", "d", "e"][index].to_owned()
}
