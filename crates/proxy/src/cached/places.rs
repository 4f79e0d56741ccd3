//! Where objects lie among the subtrees of an export. A handle does not say: an object lies where the name that led to it lies, as replies
//! show, from the export's root downwards.
//!
//! It must never take an object for a part of the export that promises less than where it lies. While something may leave a part over
//! its border, nothing is known of that part; afterwards it is forgotten, if it promises less than where that went. A file with several
//! names, and what is found in two places at a time, is nowhere: it is changed who knows where, and is as safe as the strictest part.

use super::Loose;
use crate::generations::Generations;
use crate::pool::lock;
use midas_core::cache::{Ended, Mode};
use midas_core::key::Key;
use midas_core::time::{Span, Time};
use midas_nfs::nfs3::{Call, DirOp, Fattr3, FileHandle, Ftype3, Reply};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// The map of an export with subtrees.
pub(crate) struct Places {
    /// The directories that paths of subtrees lead through; the export's root first.
    nodes: Vec<Node>,
    /// The root's key, once it is known.
    root: AtomicU64,
    parts: Box<[Mutex<Generations<Known>>]>,
    /// Raised by whatever may carry something over a border.
    epoch: AtomicU64,
    sides: Box<[Side]>,
    /// Whether the export's own mode is the strictest of all: then it holds where nothing is known.
    own_is_strictest: AtomicBool,
}

/// What is known of a part of the export as a whole.
#[derive(Debug, Default)]
struct Side {
    mode: AtomicU8,
    /// What was learned before is forgotten.
    forgotten: AtomicU64,
    /// Calls that may carry something out of it.
    leaving: Loose,
}

/// A call that may carry something over a border: out of which parts, and into which, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Crossing {
    from: u32,
    to: u32,
    /// Whether it may be a directory that leads to a subtree: then what lies in it no longer does.
    leads_on: bool,
}

impl Crossing {
    /// Whether it may carry something out of this part.
    pub(super) const fn leaves(&self, area: usize) -> bool {
        self.from >> area & 1 == 1
    }
}

/// A directory on the way to a subtree, or its root.
#[derive(Debug)]
struct Node {
    /// The part of the export that it lies in.
    area: usize,
    /// Names in it that lead on.
    names: Vec<(Vec<u8>, usize)>,
}

/// Where an object lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// It is this directory.
    Node(usize),
    /// In this part of the export, where no name leads to a subtree.
    In(usize),
}

#[derive(Clone, Copy, Debug)]
struct Known {
    /// None if it was seen in two places, or may have further names.
    place: Option<Place>,
    epoch: u64,
}

/// When a call left, for what its reply teaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Epoch(u64, Time);

impl Places {
    /// For subtrees with these names below the root, in the order of their numbers; the export's own part has number 0.
    pub(crate) fn new<'p>(subtrees: impl IntoIterator<Item = &'p str>) -> Self {
        let mut nodes = vec![Node { area: 0, names: Vec::new() }];
        let mut roots = Vec::new();
        for below in subtrees {
            let mut at = 0;
            for name in below.split('/').filter(|name| !name.is_empty()) {
                at = step(&mut nodes, at, name.as_bytes());
            }
            roots.push(at);
        }
        for (number, root) in roots.iter().enumerate() {
            nodes[*root].area = number + 1;
        }
        inherit(&mut nodes, &roots, 0, 0);
        Self {
            nodes,
            root: AtomicU64::new(0),
            parts: (0..PARTS).map(|_| Mutex::default()).collect(),
            epoch: AtomicU64::new(0),
            sides: (0..=roots.len()).map(|_| Side::default()).collect(),
            own_is_strictest: AtomicBool::new(false),
        }
    }

    /// The handle of the export's root is known.
    pub(crate) fn set_root(&self, root: Key) {
        self.root.store(root.0, Ordering::Relaxed);
    }

    /// The modes are these now. What was learned under others is forgotten: what left a part then may have become less safe.
    pub(crate) fn set_modes(&self, modes: impl Iterator<Item = Mode> + Clone) {
        self.own_is_strictest.store(modes.clone().min() == modes.clone().next(), Ordering::Relaxed);
        for (side, mode) in self.sides.iter().zip(modes) {
            side.mode.store(mode as u8, Ordering::SeqCst);
        }
        let epoch = self.raised();
        for side in &self.sides {
            side.forgotten.fetch_max(epoch, Ordering::SeqCst);
        }
    }

    /// The part of the export whose rules hold for an object; none if not even its own do.
    pub(crate) fn area(&self, now: Time, object: Key) -> Option<usize> {
        match self.known(now, object) {
            Some(place) => Some(self.area_of(place)),
            None => self.own_is_strictest.load(Ordering::Relaxed).then_some(0),
        }
    }

    /// The part that a path below the root lies in.
    pub(crate) fn area_at(&self, names: &[&str]) -> usize {
        self.area_of(self.led(names.iter().map(|name| name.as_bytes())))
    }

    /// A call leaves now.
    pub(crate) fn epoch(&self, now: Time) -> Epoch {
        Epoch(self.epoch.load(Ordering::SeqCst), now)
    }

    /// Learns from the reply to a call that left then; `dir` and `name` are the keys of its directory, and of its name there.
    pub(crate) fn learn_from(&self, now: Time, left: Epoch, (dir, name): (Key, Key), reply: &Reply<'_>) {
        match reply {
            Reply::Lookup(Ok(found)) => self.named(now, left, (dir, name), found.object, found.attributes.as_ref()),
            Reply::Create(Ok(made)) | Reply::Mkdir(Ok(made)) | Reply::Symlink(Ok(made)) | Reply::Mknod(Ok(made)) => {
                if let Some(object) = made.object {
                    self.named(now, left, (dir, name), object, made.attributes.as_ref());
                }
            }
            Reply::Readdirplus(Ok(page)) => {
                for plus in page.entries().flatten() {
                    if let Some(handle) = plus.handle {
                        self.named(now, left, (dir, dir.named(plus.entry.name)), handle, plus.attributes.as_ref());
                    }
                }
            }
            _ => {}
        }
    }

    /// A path below the root led to a directory, asked then.
    pub(crate) fn learn_path<'n>(&self, now: Time, left: Epoch, names: impl Iterator<Item = &'n [u8]>, handle: &[u8]) {
        self.learn(now, left, Key::of(handle), Some(self.led(names)));
    }

    fn named(&self, now: Time, left: Epoch, (dir, name): (Key, Key), object: FileHandle<'_>, seen: Option<&Fattr3>) {
        // These lead to the directory itself and out of it.
        if [&b"."[..], b".."].iter().any(|other| dir.named(other) == name) {
            return;
        }
        let (Some(parent), Some(seen)) = (self.known(now, dir), seen) else { return };
        let place = self.child(parent, |on| dir.named(on) == name);
        let alone = seen.ftype == Ftype3::Dir || seen.nlink <= 1;
        self.learn(now, left, Key::of(object.bytes()), Some(place).filter(|_| alone));
    }

    fn learn(&self, now: Time, Epoch(left, at): Epoch, object: Key, place: Option<Place>) {
        let mut part = lock(self.part(object));
        // Looked at behind the lock that whoever reads it takes; and as it was when its call left, for what lingered then may have run.
        if place.is_some_and(|place| !self.holds(now, left, place) || !self.holds(at, left, place)) {
            return;
        }
        let before =
            part.find(object).filter(|known| known.place.is_none_or(|place| self.holds(now, known.epoch, place)));
        let (place, epoch) = match before {
            // What has one name is where it was found last, if that can be told.
            Some(known) if known.place != place && known.epoch == left => (None, left),
            Some(known) if known.epoch > left => (known.place, known.epoch),
            Some(_) | None => (place, left),
        };
        part.insert(object, Known { place, epoch });
    }

    fn known(&self, now: Time, object: Key) -> Option<Place> {
        if object.0 == self.root.load(Ordering::Relaxed) {
            return Some(Place::Node(0));
        }
        let Known { place, epoch } = lock(self.part(object)).find(object)?;
        place.filter(|place| self.holds(now, epoch, *place))
    }

    /// Whether what lay there then surely lies nowhere that promises more.
    fn holds(&self, now: Time, epoch: u64, place: Place) -> bool {
        let Side { forgotten, leaving, .. } = &self.sides[self.area_of(place)];
        leaving.none(now) && epoch >= forgotten.load(Ordering::SeqCst)
    }

    fn area_of(&self, place: Place) -> usize {
        match place {
            Place::Node(node) => self.nodes[node].area,
            Place::In(area) => area,
        }
    }

    fn led<'n>(&self, names: impl Iterator<Item = &'n [u8]>) -> Place {
        names.fold(Place::Node(0), |place, name| self.child(place, |on| on == name))
    }

    /// Where a name leads: the one that this says it is, of those that lead on.
    fn child(&self, place: Place, is: impl Fn(&[u8]) -> bool) -> Place {
        match place {
            Place::In(area) => Place::In(area),
            Place::Node(node) => {
                let Node { area, names } = &self.nodes[node];
                let on = names.iter().find(|(on, _)| is(on));
                on.map_or(Place::In(*area), |(_, node)| Place::Node(*node))
            }
        }
    }

    /// What a call may carry from one part of the export to another; nothing is known of those until [`Places::crossed`].
    pub(crate) fn crosses(&self, now: Time, call: &Call<'_>) -> Option<Crossing> {
        let (from, to, leads_on) = match call {
            Call::Rename { from, to } if self.stays(from, to) => return None,
            Call::Rename { from, to } => (self.place_of(now, from), self.place_of(now, to), self.leads_on(from.name)),
            Call::Link { file, link } => (self.known(now, Key::of(file.bytes())), self.place_of(now, link), false),
            _ => return None,
        };
        if from.is_some() && from == to {
            return None;
        }
        let leads_on = leads_on && !matches!(from, Some(Place::In(_)));
        let crossing = Crossing { from: self.below(from), to: self.below(to), leads_on };
        for side in self.sides_of(crossing.from) {
            side.leaving.running.fetch_add(1, Ordering::SeqCst);
        }
        self.raised();
        Some(crossing)
    }

    /// Such a call is over.
    pub(crate) fn crossed(&self, now: Time, crossing: Crossing, ended: Ended, hold: Span) {
        let mode = |side: &Side| side.mode.load(Ordering::SeqCst);
        let strictest = self.sides_of(crossing.to).map(mode).min();
        let epoch = self.raised();
        for side in self.sides_of(crossing.from) {
            side.leaving.hold(now, ended, hold);
            // What relies on marks relies on who writes where it is: what was carried elsewhere is no longer its.
            let marks = [Mode::Lease, Mode::Immutable].iter().any(|relies| *relies as u8 == mode(side));
            if crossing.leads_on || marks || Some(mode(side)) > strictest {
                side.forgotten.fetch_max(epoch, Ordering::SeqCst);
            }
            side.leaving.running.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn raised(&self) -> u64 {
        self.epoch.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn sides_of(&self, parts: u32) -> impl Iterator<Item = &Side> {
        self.sides.iter().enumerate().filter(move |(number, _)| parts >> number & 1 == 1).map(|(_, side)| side)
    }

    /// The parts that what lies there, and below it, may be in: all, if that is not known.
    fn below(&self, place: Option<Place>) -> u32 {
        match place {
            None => u32::MAX,
            Some(Place::In(area)) => 1 << area,
            Some(Place::Node(node)) => {
                let Node { area, names } = &self.nodes[node];
                names.iter().fold(1 << area, |parts, (_, on)| parts | self.below(Some(Place::Node(*on))))
            }
        }
    }

    /// Whether both names are of one directory, and neither leads to a subtree: then nobody need know where that lies.
    fn stays(&self, from: &DirOp<'_>, to: &DirOp<'_>) -> bool {
        from.dir == to.dir && !self.leads_on(from.name) && !self.leads_on(to.name)
    }

    /// Whether some directory on the way to a subtree has this name.
    fn leads_on(&self, name: &[u8]) -> bool {
        self.nodes.iter().any(|node| node.names.iter().any(|(on, _)| on == name))
    }

    fn place_of(&self, now: Time, what: &DirOp<'_>) -> Option<Place> {
        Some(self.child(self.known(now, Key::of(what.dir.bytes()))?, |on| on == what.name))
    }

    fn part(&self, object: Key) -> &Mutex<Generations<Known>> {
        &self.parts[(object.0 % PARTS as u64) as usize]
    }
}

/// The directory that a name leads to, made if there is none.
fn step(nodes: &mut Vec<Node>, at: usize, name: &[u8]) -> usize {
    if let Some((_, on)) = nodes[at].names.iter().find(|(on, _)| on == name) {
        return *on;
    }
    let on = nodes.len();
    nodes.push(Node { area: 0, names: Vec::new() });
    nodes[at].names.push((name.to_vec(), on));
    on
}

/// A directory between subtrees lies in the one above it.
fn inherit(nodes: &mut [Node], roots: &[usize], at: usize, area: usize) {
    if !roots.contains(&at) {
        nodes[at].area = area;
    }
    let area = nodes[at].area;
    for (_, on) in nodes[at].names.clone() {
        inherit(nodes, roots, on, area);
    }
}

/// With two generations each a million objects in all, about 50 MB, and only where an export has subtrees.
const PARTS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use midas_nfs::nfs3::{LookupOk, Nfstime3, Specdata3};

    const NOW: Time = Time::from_nanos(1_000_000_000_000);

    /// `/projects` with `software` and, in it, `software/local/own`, and `scratch`: parts 1, 2 and 3.
    fn places() -> Places {
        let places = Places::new(["software", "software/local/own", "scratch"]);
        places.set_modes([Mode::Ttl, Mode::Immutable, Mode::Lease, Mode::Strict].into_iter());
        places.set_root(Key::of(b"root"));
        places
    }

    fn seen(ftype: Ftype3, nlink: u32) -> Fattr3 {
        let time = Nfstime3 { seconds: 0, nseconds: 0 };
        let rdev = Specdata3 { specdata1: 0, specdata2: 0 };
        Fattr3 {
            ftype,
            mode: 0,
            nlink,
            uid: 0,
            gid: 0,
            size: 0,
            used: 0,
            rdev,
            fsid: 0,
            fileid: 0,
            atime: time,
            mtime: time,
            ctime: time,
        }
    }

    fn handle(name: &str) -> FileHandle<'_> {
        FileHandle::new(name.as_bytes()).unwrap()
    }

    fn look(places: &Places, dir: &str, name: &str, object: &str, attributes: Option<Fattr3>) {
        let (left, dir) = (places.epoch(NOW), Key::of(dir.as_bytes()));
        let found = LookupOk { object: handle(object), attributes, dir_attributes: None };
        places.learn_from(NOW, left, (dir, dir.named(name.as_bytes())), &Reply::Lookup(Ok(found)));
    }

    /// A directory, looked up.
    fn enter(places: &Places, dir: &str, name: &str, object: &str) {
        look(places, dir, name, object, Some(seen(Ftype3::Dir, 2)));
    }

    fn area(places: &Places, object: &str) -> Option<usize> {
        places.area(NOW, Key::of(object.as_bytes()))
    }

    fn op<'a>(dir: &'a str, name: &'a str) -> DirOp<'a> {
        DirOp { dir: handle(dir), name: name.as_bytes() }
    }

    /// Everything below `software` and `scratch` was walked.
    fn walked() -> Places {
        let places = places();
        for (dir, name, object) in [
            ("root", "software", "S"),
            ("S", "gcc", "gcc"),
            ("gcc", "bin", "bin"),
            ("S", "local", "local"),
            ("local", "own", "own"),
            ("local", "else", "else"),
            ("own", "x", "x"),
            ("root", "scratch", "T"),
            ("root", "home", "home"),
        ] {
            enter(&places, dir, name, object);
        }
        places
    }

    #[test]
    fn what_lies_in_a_directory_of_a_subtree_lies_in_the_subtree() {
        let places = walked();
        let want = [("root", 0), ("S", 1), ("gcc", 1), ("bin", 1), ("local", 1), ("own", 2), ("else", 1), ("x", 2)];
        for (object, number) in want.into_iter().chain([("T", 3), ("home", 0)]) {
            assert_eq!(area(&places, object), Some(number), "{object}");
        }
        let paths: [(&[&str], usize); 6] = [
            (&[], 0),
            (&["software", "gcc"], 1),
            (&["software", "local", "own", "x"], 2),
            (&["software", "local"], 1),
            (&["scratch"], 3),
            (&["home", "software"], 0),
        ];
        for (names, number) in paths {
            assert_eq!(places.area_at(names), number, "{names:?}");
        }
    }

    #[test]
    fn what_nobody_has_seen_has_the_exports_own_mode_only_if_that_is_the_strictest() {
        let places = walked();
        assert_eq!(area(&places, "never seen"), None);
        look(&places, "never seen", "file", "file", Some(seen(Ftype3::Reg, 1)));
        assert_eq!(area(&places, "file"), None, "nor is what lies in it known");
        places.set_modes([Mode::Lease, Mode::Immutable, Mode::Lease, Mode::Ttl].into_iter());
        assert_eq!(area(&places, "never seen"), Some(0));
        assert_eq!(area(&places, "gcc"), Some(0), "what was learned in other modes is forgotten");
    }

    #[test]
    fn a_file_with_several_names_and_one_without_attributes_are_nowhere() {
        let places = walked();
        look(&places, "gcc", "one", "one", Some(seen(Ftype3::Reg, 1)));
        look(&places, "gcc", "two", "two", Some(seen(Ftype3::Reg, 2)));
        look(&places, "gcc", "bare", "bare", None);
        assert_eq!(["one", "two", "bare"].map(|it| area(&places, it)), [Some(1), None, None]);
    }

    #[test]
    fn what_is_found_in_two_places_is_nowhere_and_stays_so() {
        let places = walked();
        enter(&places, "home", "gcc", "gcc");
        assert_eq!(area(&places, "gcc"), None);
        enter(&places, "S", "gcc", "gcc");
        assert_eq!(area(&places, "gcc"), None);
        enter(&places, "root", "local", "local");
        assert_eq!(area(&places, "local"), None, "the same part, but no name in it leads on any more");
        cross(&places, &Call::Rename { from: op("T", "a"), to: op("home", "a") }, Ended::Done);
        enter(&places, "home", "gcc", "gcc");
        assert_eq!(area(&places, "gcc"), Some(0), "it may have been moved: it is where it was found last");
    }

    fn cross(places: &Places, call: &Call<'_>, ended: Ended) {
        let crossing = places.crosses(NOW, call).expect("it crosses a border");
        places.crossed(NOW, crossing, ended, Span::from_secs(60));
    }

    #[test]
    fn the_names_of_a_directory_and_of_its_parent_teach_nothing() {
        let places = walked();
        enter(&places, "S", "..", "above");
        enter(&places, "S", ".", "same");
        assert_eq!((area(&places, "above"), area(&places, "same")), (None, None));
    }

    #[test]
    fn what_may_leave_a_part_makes_it_unknown_and_forgotten_if_that_relies_on_marks_or_the_other_promises_more() {
        // The export is ttl, software (with S, gcc, bin) immutable, own in it leased, scratch (with T) strict. What of S, own, T and
        // home is known while the call is under way, and afterwards.
        let cases = [
            (Call::Rename { from: op("gcc", "bin"), to: op("home", "bin") }, "-oTh", "-oTh"),
            (Call::Rename { from: op("home", "a"), to: op("T", "a") }, "SoT-", "SoT-"),
            (Call::Rename { from: op("T", "a"), to: op("gcc", "a") }, "So-h", "SoTh"),
            (Call::Rename { from: op("root", "software"), to: op("root", "old") }, "--Th", "--Th"),
            (Call::Rename { from: op("root", "new"), to: op("root", "software") }, "SoT-", "SoT-"),
            (Call::Rename { from: op("S", "local"), to: op("S", "other") }, "--Th", "--Th"),
            (Call::Rename { from: op("S", "gcc"), to: op("S", "gcc-13") }, "SoTh", "SoTh"),
            (Call::Rename { from: op("gcc", "bin"), to: op("S", "bin") }, "SoTh", "SoTh"),
            (Call::Rename { from: op("unknown", "a"), to: op("unknown", "b") }, "SoTh", "SoTh"),
            (Call::Rename { from: op("unknown", "own"), to: op("unknown", "b") }, "----", "----"),
            (Call::Rename { from: op("unknown", "a"), to: op("gcc", "a") }, "----", "--Th"),
            (Call::Link { file: handle("bin"), link: op("gcc", "name") }, "SoTh", "SoTh"),
            (Call::Link { file: handle("bin"), link: op("home", "name") }, "-oTh", "-oTh"),
            (Call::Link { file: handle("unknown"), link: op("unknown", "name") }, "----", "--T-"),
            (Call::Remove { object: op("gcc", "bin") }, "SoTh", "SoTh"),
        ];
        for (call, meanwhile, afterwards) in cases {
            let places = walked();
            let show = || {
                let known = |(object, letter)| if area(&places, object).is_some() { letter } else { '-' };
                [("S", 'S'), ("own", 'o'), ("T", 'T'), ("home", 'h')].map(known).iter().collect::<String>()
            };
            let crossing = places.crosses(NOW, &call);
            assert_eq!(show(), meanwhile, "{call:?}");
            if let Some(crossing) = crossing {
                places.crossed(NOW, crossing, Ended::Done, Span::ZERO);
            }
            assert_eq!(show(), afterwards, "{call:?}");
        }
    }

    #[test]
    fn what_was_asked_before_a_border_was_crossed_teaches_nothing_of_what_may_have_left() {
        let places = walked();
        let before = places.epoch(NOW);
        let crossing = places.crosses(NOW, &Call::Rename { from: op("gcc", "bin"), to: op("home", "bin") }).unwrap();
        let meanwhile = places.epoch(NOW);
        let path = |left| places.learn_path(NOW, left, [&b"software"[..]].into_iter(), b"S");
        path(meanwhile);
        assert_eq!(area(&places, "S"), None, "while it is under way");
        places.crossed(NOW, crossing, Ended::Done, Span::ZERO);
        for left in [before, meanwhile] {
            path(left);
            assert_eq!(area(&places, "S"), None, "asked before its end");
        }
        path(places.epoch(NOW));
        assert_eq!(area(&places, "S"), Some(1));
    }

    #[test]
    fn what_nobody_knows_the_end_of_may_still_happen_for_a_while() {
        let places = walked();
        cross(&places, &Call::Rename { from: op("gcc", "bin"), to: op("home", "bin") }, Ended::Unknown);
        enter(&places, "root", "software", "S");
        assert_eq!(area(&places, "S"), None);
        let later = NOW + Span::from_secs(60);
        for (left, known) in [(NOW, None), (later, Some(1))] {
            places.learn_path(later, places.epoch(left), [&b"software"[..]].into_iter(), b"S");
            assert_eq!(
                places.area(later, Key::of(b"S")),
                known,
                "what was looked up before then may have moved meanwhile"
            );
        }
    }
}
