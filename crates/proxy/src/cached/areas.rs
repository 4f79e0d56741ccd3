//! The parts of an export that are cached in different ways: its own, and its subtrees. Each has a cache of its own, as if it were an export.
//!
//! Where an object lies decides whose promise holds for it, never whether what is kept is true: a mutation is marked in every part, so
//! each is as coherent as its mode says, whatever else is known. What is kept of an object that lies elsewhere is not told.

use super::places::{Epoch, Places};
use super::{Cached, Fetching, Stale, Told, Touched, Unfound};
use crate::translate::Meaning;
use crate::wakes::{Waiter, Wakes};
use midas_core::cache::{Ended, Impossible, Mode};
use midas_core::key::Key;
use midas_core::time::{Span, Time};
use midas_nfs::nfs3::{Call, Procedure, Reply};
use std::sync::Arc;

/// An export's caches.
pub(crate) struct Areas {
    /// Its own first, then those of its subtrees in the order of the file.
    all: Box<[Area]>,
    /// Only where there are subtrees.
    places: Option<Arc<Places>>,
}

/// A part of an export.
pub(crate) struct Area {
    /// Among the parts of all exports.
    pub(crate) number: usize,
    /// As clients see it, the export's path included.
    pub(crate) path: String,
    pub(crate) cached: Cached,
}

impl Areas {
    /// The export comes first; `first` is its number among all parts.
    pub(crate) fn new(now: Time, first: usize, told: &[(String, Told)]) -> Result<Self, Impossible> {
        let root = told.first().map_or("", |(path, _)| path.trim_end_matches('/'));
        let below = told.iter().skip(1).map(|(path, _)| path.strip_prefix(root).unwrap_or(path));
        let places = (told.len() > 1).then(|| Arc::new(Places::new(below)));
        let area = |(number, (path, told)): (usize, &(String, Told))| {
            let cached = Cached::new(now, told)?.within(number, places.clone());
            Ok(Area { number: first + number, path: path.clone(), cached })
        };
        let all = told.iter().enumerate().map(area).collect::<Result<_, _>>()?;
        let areas = Self { all, places };
        areas.tell_places();
        Ok(areas)
    }

    /// The export's own.
    pub(crate) fn own(&self) -> &Area {
        &self.all[0]
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Area> {
        self.all.iter()
    }

    /// Whether there is any use in asking.
    #[inline]
    pub(crate) fn may_answer(&self) -> bool {
        self.places.is_some() || self.own().cached.mode().answers() || self.own().cached.some_wait()
    }

    /// The one whose rules hold for an object; none if that is not known, and even the export's own might promise too much.
    #[inline]
    pub(crate) fn of(&self, now: Time, object: Key) -> Option<&Area> {
        match &self.places {
            None => Some(self.own()),
            Some(places) => places.area(now, object).map(|area| &self.all[area]),
        }
    }

    /// The one that these names lead to from the export's root.
    pub(crate) fn at(&self, names: &[&str]) -> &Area {
        self.places.as_ref().map_or(self.own(), |places| &self.all[places.area_at(names)])
    }

    /// Where a read was asked for.
    pub(crate) fn of_read(&self, fetching: &Fetching) -> &Cached {
        &self.all[fetching.area()].cached
    }

    /// What a mutation may carry from one part to another is noted in its marks.
    pub(crate) fn crosses(&self, now: Time, call: &Call<'_>, touched: &mut Touched) {
        if let Some(places) = self.places.as_ref().filter(|_| touched.area() == 0) {
            touched.crossing = places.crosses(now, call);
        }
    }

    /// A mutation is over. What other members must drop.
    pub(crate) fn ended(
        &self,
        now: Time,
        touched: Touched,
        ended: Ended,
        reply: Option<(Procedure, &[u8])>,
    ) -> Vec<Stale> {
        let (cached, crossing) = (&self.all[touched.area()].cached, touched.crossing);
        let stale = cached.ended(now, touched, ended, reply);
        if let (Some(places), Some(crossing)) = (&self.places, crossing) {
            // It may come back, changed by whoever may write where it goes.
            let left = self.all.iter().enumerate().filter(|(area, _)| crossing.leaves(*area));
            left.for_each(|(_, area)| area.cached.lease_lost());
            places.crossed(now, crossing, ended, cached.hold_max());
        }
        stale
    }

    /// The marks of a mutation that must wait all the same are taken back.
    pub(crate) fn give_back(&self, now: Time, touched: Touched, who: Waiter) {
        self.all[touched.area()].cached.give_back(now, touched, who);
    }

    /// Those that wait for names are woken by these.
    pub(crate) fn wake_by(&self, wakes: &Arc<Wakes>) {
        self.all.iter().for_each(|area| area.cached.wake_by(wakes));
    }

    /// A mutation waits no longer for a name of an area.
    pub(crate) fn leave(&self, area: usize, name: (Key, Key), who: Waiter) {
        self.all[area].cached.leave(name, who);
    }

    /// It was found where a name of a mutation leads.
    pub(crate) fn found(&self, now: Time, object: Key, unfound: &Unfound, touched: &mut Touched) {
        self.all[touched.area()].cached.found(now, object, unfound, touched);
    }

    /// Whether another proxy has changed a name of a mutation since that was marked.
    pub(crate) fn overtaken(&self, touched: &Touched) -> bool {
        self.all[touched.area()].cached.overtaken(touched)
    }

    /// A call leaves now; what its reply teaches of where objects lie may be learned later.
    pub(crate) fn epoch(&self, now: Time) -> Option<Epoch> {
        self.places.as_ref().map(|places| places.epoch(now))
    }

    /// Whether it is remembered where objects lie.
    pub(crate) const fn learns(&self) -> bool {
        self.places.is_some()
    }

    /// Learns where objects lie.
    pub(crate) fn learn_from(&self, now: Time, left: Option<Epoch>, meaning: &Meaning, reply: &Reply<'_>) {
        if let (Some(places), Some(left)) = (&self.places, left) {
            places.learn_from(now, left, (meaning.place, meaning.object), reply);
        }
    }

    /// A path below the export's root led to this directory.
    pub(crate) fn learn_path<'n>(
        &self,
        now: Time,
        left: Option<Epoch>,
        names: impl Iterator<Item = &'n [u8]>,
        handle: &[u8],
    ) {
        if let (Some(places), Some(left)) = (&self.places, left) {
            places.learn_path(now, left, names, handle);
        }
    }

    /// The handle of the export's root is known.
    pub(crate) fn set_root(&self, root: Key) {
        if let Some(places) = &self.places {
            places.set_root(root);
        }
    }

    /// How fine the servers' times are, as they say; none if they do not.
    pub(crate) fn set_grain(&self, grain: Option<Span>) {
        self.all.iter().for_each(|area| area.cached.set_grain(grain));
    }

    /// Other modes from now on, in the order of the parts.
    pub(crate) fn set_modes(&self, modes: impl Iterator<Item = Mode>) {
        let mut changed = false;
        for (area, mode) in self.all.iter().zip(modes) {
            if mode != area.cached.mode() {
                area.cached.set_mode(mode);
                changed = true;
            }
        }
        if changed {
            self.tell_places();
        }
    }

    fn tell_places(&self) {
        if let Some(places) = &self.places {
            places.set_modes(self.all.iter().map(|area| area.cached.mode()));
        }
    }

    pub(crate) fn flush(&self) {
        self.all.iter().for_each(|area| area.cached.flush());
    }

    /// Servers may answer with an old state until then: nothing is filled before.
    pub(crate) fn doubt_servers(&self, until: Time) {
        self.all.iter().for_each(|area| area.cached.doubt_servers(until));
    }

    pub(crate) fn settled(&self, now: Time) -> bool {
        self.all.iter().all(|area| area.cached.settled(now))
    }

    pub(crate) fn gone(&self, now: Time, object: Key) {
        self.all.iter().for_each(|area| area.cached.gone(now, object));
    }

    pub(crate) fn tick(&self, now: Time) {
        self.all.iter().for_each(|area| area.cached.tick(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cached::{Asked, Claimed, Question, Who};
    use crate::event::Asker;
    use crate::relay::Waits;
    use midas_core::cache::{CleanStart, Rules, Settings};
    use midas_nfs::nfs3::{
        DirOp, Fattr3, FileHandle, Ftype3, LookupOk, Nfstime3, RenameDone, Reply, Specdata3, WccData,
    };
    use midas_nfs::rpc::{AuthSys, Credential};

    const NOW: Time = Time::from_nanos(1_000_000_000_000_000_000);
    const WHO: Waiter = Waiter { since: NOW, number: 0, event_loop: 0 };

    /// An export in `own` mode with a subtree `software` in ttl mode, and `scratch` in lease mode.
    fn areas(own: Mode) -> Areas {
        let told = |(path, mode): (&str, Mode)| {
            let settings = Settings { mode, ..Settings::default() };
            let (start, rules, absent_max) = (CleanStart::Yes, Rules::ALL, Span::from_secs(10));
            (path.to_owned(), Told { settings, absent_max, watches: true, start, rules, leases: None, name: 0 })
        };
        let parts = [("/p", own), ("/p/software", Mode::Ttl), ("/p/scratch", Mode::Lease)];
        let areas = Areas::new(NOW, 0, &parts.map(told)).unwrap();
        areas.set_root(Key::of(b"root"));
        areas
    }

    fn handle(name: &str) -> FileHandle<'_> {
        FileHandle::new(name.as_bytes()).unwrap()
    }

    /// Old enough for ttl mode to keep it.
    fn attributes(ftype: Ftype3, nlink: u32) -> Fattr3 {
        let (time, rdev) = (Nfstime3 { seconds: 1, nseconds: 0 }, Specdata3 { specdata1: 0, specdata2: 0 });
        let (atime, mtime, ctime) = (time, time, time);
        Fattr3 {
            ftype,
            mode: 0o755,
            nlink,
            uid: 0,
            gid: 0,
            size: 0,
            used: 0,
            rdev,
            fsid: 1,
            fileid: 2,
            atime,
            mtime,
            ctime,
        }
    }

    /// What becomes of a read.
    enum Was {
        Answered,
        Asked(Box<Fetching>),
        /// Nothing may be kept of it.
        Passed,
    }

    fn ask(areas: &Areas, call: &Call<'_>) -> Was {
        let meaning = Meaning::of(call).unwrap();
        let Some(area) = areas.of(NOW, meaning.place).filter(|area| area.cached.answers(NOW)) else {
            return Was::Passed;
        };
        let mut args = Vec::new();
        call.encode(&mut args);
        let asker = Asker { event_loop: 0, slot: 0, generation: 0 };
        let waits =
            Waits { asker, xid: 7, procedure: call.procedure(), known: None, cost: 0, whom: crate::watch::Whom::PEER };
        let who = Who::of(&Credential::Sys(AuthSys::new(0, b"", 1, 1, &[]).unwrap()));
        let question = Question::of(call, &meaning).unwrap();
        match area.cached.ask(NOW, (&question, &args), (meaning.place, &who), waits, &mut Vec::new()) {
            Asked::Answered(..) => Was::Answered,
            Asked::Fetch(fetching) => Was::Asked(fetching),
            Asked::Joined => panic!("nothing else is under way"),
            Asked::Pass => Was::Passed,
        }
    }

    /// A name is looked up, and a server asked if need be: whether it was answered from a cache.
    fn look(areas: &Areas, dir: &str, name: &str, object: &str, seen: Fattr3) -> bool {
        let call = Call::Lookup { what: DirOp { dir: handle(dir), name: name.as_bytes() } };
        let (left, was) = (areas.epoch(NOW), ask(areas, &call));
        let numbered = |of: Fattr3, object: &str| Fattr3 { fileid: Key::of(object.as_bytes()).0, ..of };
        let (dir_attributes, seen) = (Some(numbered(attributes(Ftype3::Dir, 2), dir)), numbered(seen, object));
        let found = LookupOk { object: handle(object), attributes: Some(seen), dir_attributes };
        let mut results = Vec::new();
        Reply::Lookup(Ok(found)).encode(&mut results);
        if matches!(was, Was::Answered) {
            return true;
        }
        areas.learn_from(NOW, left, &Meaning::of(&call).unwrap(), &Reply::Lookup(Ok(found)));
        if let Was::Asked(fetching) = was {
            areas.of_read(&fetching).landed(NOW, *fetching, Some(&results));
        }
        false
    }

    fn enter(areas: &Areas, dir: &str, name: &str, object: &str) -> bool {
        look(areas, dir, name, object, attributes(Ftype3::Dir, 2))
    }

    fn getattr(areas: &Areas, object: &str) -> bool {
        match ask(areas, &Call::Getattr { object: handle(object) }) {
            Was::Answered => true,
            Was::Asked(fetching) => {
                assert!(areas.of_read(&fetching).forsaken(fetching).is_none());
                false
            }
            Was::Passed => false,
        }
    }

    fn rename(areas: &Areas, from: (&str, &str), to: (&str, &str)) -> Vec<Touched> {
        let from = DirOp { dir: handle(from.0), name: from.1.as_bytes() };
        let to = DirOp { dir: handle(to.0), name: to.1.as_bytes() };
        let call = Call::Rename { from, to };
        let claim = |area: &Area| match area.cached.claim(NOW, WHO, &call) {
            Claimed::Marked(touched, _) => touched,
            Claimed::Busy(_) => panic!("nothing else changes it"),
        };
        let mut claims: Vec<Touched> = areas.iter().map(claim).collect();
        for touched in &mut claims {
            areas.crosses(NOW, &call, touched);
        }
        claims
    }

    fn renamed(areas: &Areas, claims: Vec<Touched>) {
        let mut results = Vec::new();
        let none = WccData { before: None, after: None };
        Reply::Rename(Ok(RenameDone { from: none, to: none })).encode(&mut results);
        for touched in claims {
            areas.ended(NOW, touched, Ended::Done, Some((Procedure::Rename, &results)));
        }
    }

    /// Everything is looked up once.
    fn walked(own: Mode) -> Areas {
        let areas = areas(own);
        for (dir, name, object) in [
            ("root", "software", "S"),
            ("S", "gcc", "gcc"),
            ("gcc", "bin", "bin"),
            ("root", "scratch", "T"),
            ("T", "run", "run"),
            ("root", "home", "home"),
            ("home", "me", "me"),
        ] {
            assert!(!enter(&areas, dir, name, object), "{dir}/{name} is new");
        }
        areas
    }

    #[test]
    fn each_part_answers_as_its_own_mode_says() {
        let areas = walked(Mode::Strict);
        let hits = [("S", "gcc", "gcc"), ("gcc", "bin", "bin"), ("T", "run", "run")];
        for (dir, name, object) in hits {
            assert!(enter(&areas, dir, name, object) && getattr(&areas, object), "{dir}/{name}");
        }
        for (dir, name, object) in [("root", "software", "S"), ("root", "home", "home"), ("home", "me", "me")] {
            assert!(!enter(&areas, dir, name, object), "{dir}/{name}");
        }
        assert_eq!(
            ["S", "T", "home", "me", "never seen"].map(|it| getattr(&areas, it)),
            [true, true, false, false, false]
        );
        assert_eq!(areas.at(&["software", "gcc"]).path, "/p/software");
    }

    #[test]
    fn what_a_looser_part_knows_of_an_object_of_a_stricter_one_is_not_told() {
        let areas = walked(Mode::Immutable);
        assert!(getattr(&areas, "home"), "the export's own");
        assert!(!enter(&areas, "root", "scratch", "T"), "its name is immutable, but its attributes are leased");
        assert!(!getattr(&areas, "never seen"), "it may lie in a subtree");
        assert!(enter(&areas, "root", "home", "home"));
    }

    #[test]
    fn a_file_with_several_names_is_answered_as_the_strictest_part_would() {
        for (own, answered) in [(Mode::Strict, false), (Mode::Lease, true)] {
            let areas = walked(own);
            look(&areas, "gcc", "linked", "linked", attributes(Ftype3::Reg, 2));
            look(&areas, "gcc", "linked", "linked", attributes(Ftype3::Reg, 2));
            assert!(!getattr(&areas, "linked"), "nothing was kept of it where it may be asked for");
            if let Was::Asked(fetching) = ask(&areas, &Call::Getattr { object: handle("linked") }) {
                let mut results = Vec::new();
                Reply::Getattr(Ok(attributes(Ftype3::Reg, 2))).encode(&mut results);
                areas.of_read(&fetching).landed(NOW, *fetching, Some(&results));
            }
            assert_eq!(getattr(&areas, "linked"), answered, "{own:?}");
            assert!(!look(&areas, "gcc", "linked", "linked", attributes(Ftype3::Reg, 2)), "never from the looser part");
        }
    }

    #[test]
    fn a_directory_that_leaves_a_looser_part_takes_all_that_lies_in_it_along() {
        let areas = walked(Mode::Strict);
        let claims = rename(&areas, ("S", "gcc"), ("home", "gcc"));
        let known = ["S", "gcc", "bin", "T"].map(|it| getattr(&areas, it));
        assert_eq!(known, [false, false, false, true], "while it is under way");
        renamed(&areas, claims);
        for (dir, name, object) in [("home", "gcc", "gcc"), ("gcc", "bin", "bin")] {
            assert!(!enter(&areas, dir, name, object));
            assert!(!enter(&areas, dir, name, object) && !getattr(&areas, object), "{dir}/{name} is strict now");
        }
        enter(&areas, "root", "software", "S");
        enter(&areas, "S", "other", "other");
        assert!(enter(&areas, "S", "other", "other"), "the others are found again");
    }

    #[test]
    fn a_mutation_drops_what_every_part_has() {
        let areas = walked(Mode::Strict);
        let call = Call::Remove { object: DirOp { dir: handle("T"), name: b"run" } };
        for area in areas.iter() {
            let Claimed::Marked(touched, _) = area.cached.claim(NOW, WHO, &call) else { panic!("busy") };
            areas.ended(NOW, touched, Ended::Done, None);
        }
        assert!(!enter(&areas, "T", "run", "run"));
    }
}
