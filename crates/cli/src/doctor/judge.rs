//! From facts to findings: what is well, what is to be known, what must be changed.

use super::duration;
use super::finding::{About, Finding, Level, SAME_HANDLES};
use midas_core::route::moves::Moves;
use midas_core::time::Span;
use midas_proxy::config::{Access, Export, Pool, Squash};
use midas_proxy::survey::{
    Cookies, Cost, Greeting, Moving, Pair, Ports, RootUser, Seen, Service, Staleness, Survey, Trial, Trouble,
};
use std::time::Duration;

/// One server by itself.
pub(super) fn greeting(server: &str, greeting: &Greeting) -> Vec<Finding> {
    let about = About::server(server);
    let of = |name: &str, result: &Result<Service, Trouble>| match result {
        Ok(service) => Finding::new(Level::Well, "reachable", &about, answers(name, service)),
        Err(trouble) => self::trouble("reachable", &about, trouble),
    };
    vec![of("NFS", &greeting.nfs), of("MOUNT", &greeting.mount)]
}

fn answers(name: &str, service: &Service) -> String {
    let versions = match service.versions {
        Some((low, high)) if low == high => format!(" version {low}"),
        Some((low, high)) => format!(" versions {low} to {high}"),
        None => String::new(),
    };
    format!("answers {name}{versions}; a round trip takes {:.2} ms", service.round_trip.as_secs_f64() * 1e3)
}

fn trouble(topic: &'static str, about: &About, trouble: &Trouble) -> Finding {
    match trouble {
        Trouble::Silent(text) => Finding::new(Level::Unasked, topic, about, text.as_str()),
        Trouble::Refused(text) => Finding::new(Level::Change, topic, about, text.as_str()),
    }
}

/// An export on all servers.
pub(super) fn export(pool: &Pool, export: &Export, greetings: &[Greeting], survey: &Survey) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, server) in pool.servers.iter().enumerate() {
        let about = About { export: Some(export.source.clone()), ..About::server(&server.name) };
        match &survey.seen[number] {
            // Who does not answer at all has been told so.
            Err(Trouble::Silent(_)) if greetings[number].nfs.is_err() || greetings[number].mount.is_err() => {}
            Err(trouble) => {
                let mut finding = self::trouble("export", &about, trouble);
                if finding.level == Level::Change && !rustix::process::geteuid().is_root() {
                    finding.text +=
                        ". It was asked by a plain user, from a port above 1023: perhaps it wants one below";
                }
                findings.push(finding);
            }
            Ok(seen) => {
                findings.push(ports(&about, &seen.ports));
                findings.push(root_user(&about, seen, export.squash, survey));
            }
        }
    }
    let about = &About::export(&export.source);
    findings.extend(handles(pool, about, survey));
    findings.extend(read_only(pool, export, survey));
    findings.extend(limits(pool, about, survey));
    findings.push(cookies(pool, about, &survey.cookies));
    findings.extend(written(pool, about, survey));
    findings.extend(survey.left_behind.iter().map(|left| {
        Finding::new(Level::Change, "left-behind", about, format!("could not be removed, remove it by hand: {left}"))
    }));
    findings
}

fn ports(about: &About, ports: &Ports) -> Finding {
    let (level, text) = match ports {
        Ports::Any => (Level::Well, "any source port is accepted".to_owned()),
        Ports::ReservedOnly(why) => (
            Level::Note,
            format!(
                "source ports of 1024 and above are refused ({why}): `midas serve` needs CAP_NET_BIND_SERVICE, as its unit has it"
            ),
        ),
        Ports::HighAtLeast => (
            Level::Note,
            "source ports of 1024 and above are accepted; whether lower ones are was not asked, as we may not use them"
                .to_owned(),
        ),
    };
    Finding::new(level, "port", about, text)
}

fn root_user(about: &About, seen: &Seen, squash: Squash, survey: &Survey) -> Finding {
    let owner = match &survey.trial {
        Some(Ok(Trial { owner: (0, owner), .. })) => Some(*owner),
        Some(Ok(_) | Err(_)) | None => None,
    };
    let squashed = match (seen.root_user, owner) {
        (RootUser::Kept, _) | (RootUser::Unknown, Some(0)) => Some(false),
        (RootUser::Squashed, _) | (RootUser::Unknown, Some(_)) => Some(true),
        (RootUser::Unknown, None) => None,
    };
    let (level, text) = match (squashed, squash) {
        (Some(false), _) => (Level::Well, "root stays root"),
        (Some(true), Squash::None) => {
            (Level::Note, "root is squashed here, so `squash = \"none\"` of midas.toml has no effect")
        }
        (Some(true), Squash::Root | Squash::All) => (Level::Well, "root is squashed, as by midas.toml"),
        (None, _) => (Level::Note, "whether root stays root cannot be told without writing"),
    };
    Finding::new(level, "squash", about, text)
}

fn handles(pool: &Pool, about: &About, survey: &Survey) -> Vec<Finding> {
    let mut findings: Vec<Finding> = survey
        .parity
        .strangers
        .iter()
        .map(|(server, why)| {
            let text = format!("{} does not belong to the others: {why}. {SAME_HANDLES}", pool.servers[*server].name);
            Finding::new(Level::Change, "handles", about, text)
        })
        .collect();
    let text = match (survey.parity.members.len(), survey.parity.compared) {
        (0 | 1, _) => return findings,
        (servers, 0) => {
            format!("{servers} servers agree on the root's handle, fsid and fileid; there were no names to compare")
        }
        (servers, names) => {
            format!("{servers} servers agree on handle, fsid and fileid of the root and of {names} names")
        }
    };
    findings.push(Finding::new(Level::Well, "handles", about, text));
    findings
}

/// Servers that take no changes, where others do or midas.toml offers them.
fn read_only(pool: &Pool, export: &Export, survey: &Survey) -> Option<Finding> {
    let members = &survey.parity.members;
    let found_out: &[usize] = match &survey.trial {
        Some(Ok(trial)) => &trial.read_only,
        Some(Err(_)) | None => &[],
    };
    let says = |server: &usize| survey.seen[*server].as_ref().is_ok_and(|seen| seen.writer.is_some());
    let (can, cannot): (Vec<usize>, Vec<usize>) =
        members.iter().partition(|server| says(server) && !found_out.contains(server));
    let names = || cannot.iter().map(|server| pool.servers[*server].name.as_str()).collect::<Vec<_>>().join(", ");
    let (level, text) = match (cannot.is_empty(), can.is_empty(), export.access) {
        (true, _, _) => return None,
        (false, false, Access::ReadWrite) => (
            Level::Change,
            format!(
                "{} does not let root or the owner change the root directory, the others do: export it alike",
                names()
            ),
        ),
        (false, false, Access::ReadOnly) => (
            Level::Note,
            format!("{} does not let root or the owner change the root directory, the others do", names()),
        ),
        (false, true, _) => (
            Level::Note,
            "neither root nor the owner may change the root directory: read-only, or root is squashed and owns it"
                .to_owned(),
        ),
    };
    Some(Finding::new(level, "access", &About::export(&export.source), text))
}

/// What servers do not agree on is served by the least.
fn limits(pool: &Pool, about: &About, survey: &Survey) -> Option<Finding> {
    let all: Vec<_> = survey
        .parity
        .members
        .iter()
        .filter_map(|server| {
            let limits = survey.seen[*server].as_ref().ok()?.limits?;
            Some((&pool.servers[*server].name, limits))
        })
        .collect();
    let figures = all.iter().map(|(name, limits)| {
        let figures = [
            limits.rtmax.into(),
            limits.wtmax.into(),
            limits.dtpref.into(),
            limits.maxfilesize,
            limits.properties.into(),
        ];
        (name, figures)
    });
    let figures: Vec<(_, [u64; 5])> = figures.collect();
    let (_, first) = figures.first()?;
    let (name, other) = figures.iter().find(|(_, other)| other != first)?;
    let differ = ["rtmax", "wtmax", "dtpref", "maxfilesize", "properties"].iter().zip(first.iter().zip(other));
    let differ: Vec<String> =
        differ.filter(|(_, (a, b))| a != b).map(|(what, (a, b))| format!("{what} {a} and {b}")).collect();
    let text = format!("FSINFO differs ({} at {name}): clients get the least of all", differ.join(", "));
    Some(Finding::new(Level::Note, "limits", about, text))
}

fn cookies(pool: &Pool, about: &About, cookies: &Cookies) -> Finding {
    let (level, text) = match cookies {
        Cookies::Portable { names } => {
            (Level::Well, format!("cookies are portable: every server went on with another's listing of {names} names"))
        }
        Cookies::Bound { from, to, why } => (
            Level::Note,
            format!(
                "cookies are not portable: with {}'s cookie, {} is lost ({why}). Listings stay at the server where they began",
                pool.servers[*from].name, pool.servers[*to].name
            ),
        ),
        Cookies::Unknown(why) => (Level::Note, format!("whether cookies are portable was not judged: {why}")),
    };
    Finding::new(level, "cookies", about, text)
}

/// What only writing shows.
fn written(pool: &Pool, about: &About, survey: &Survey) -> Vec<Finding> {
    let unknown = |level: Level, why: &str| {
        let text = format!(
            "staleness and clocks were not measured: {why}; midas.toml says staleness {}",
            shown(duration(pool.staleness))
        );
        vec![Finding::new(level, "staleness", about, text)]
    };
    match &survey.trial {
        None => unknown(Level::Note, "that needs --write"),
        Some(Err(Trouble::Refused(why))) => unknown(Level::Note, why),
        Some(Err(Trouble::Silent(why))) => unknown(Level::Unasked, why),
        Some(Ok(trial)) => {
            let worst = trial.staleness.worst().map(|worst| staleness(pool, about, worst));
            let moving = match &trial.moving {
                Ok(moving) => moving.as_ref().map(|moving| moves(pool, about, moving)),
                Err(why) => {
                    let level = if let Trouble::Silent(_) = why { Level::Unasked } else { Level::Note };
                    Some(Finding::new(level, "moves", about, format!("what a move costs was not measured: {why}")))
                }
            };
            worst.into_iter().chain(moving).chain(clocks(pool, about, trial)).collect()
        }
    }
}

fn staleness(pool: &Pool, about: &About, worst: Pair) -> Finding {
    let told = duration(pool.staleness);
    let shown = shown(told);
    let [from, to] = [worst.from, worst.to].map(|server| &pool.servers[server].name);
    let (level, text) = match worst.after {
        Some(Duration::ZERO) => {
            (Level::Well, "what was changed through one server was seen through every other at once".to_owned())
        }
        Some(after) if after <= told => (
            Level::Well,
            format!(
                "a change through {from} was seen through {to} after {after:.1?}, within staleness {shown}. {BOUND} {FRESH}"
            ),
        ),
        Some(after) => (
            Level::Change,
            format!(
                "a change through {from} was seen through {to} after {after:.1?}, but midas.toml says staleness {shown}. {FRESH}"
            ),
        ),
        None => (
            Level::Change,
            format!(
                "a change through {from} was not seen through {to} within {:?}: it is not the same file system, or it is cached for longer. {FRESH}",
                Staleness::BOUND
            ),
        ),
    };
    Finding::new(level, "staleness", about, text)
}

fn moves(pool: &Pool, about: &About, moving: &Moving) -> Finding {
    let name = |server: usize| &pool.servers[server].name;
    let figures = |server: usize| {
        let of = moving.costs.iter().filter(|cost| cost.server == server);
        let cost = |cost: &Cost| {
            let us = [cost.alone, cost.shared].map(|time| time.as_micros());
            format!("{} {} us, {} us ({:.1} times)", cost.what, us[0], us[1], cost.ratio())
        };
        format!("at {} {}", name(server), of.map(cost).collect::<Vec<_>>().join(", "))
    };
    let figures = moving.servers.map(figures).join("; ");
    let figures = format!("medians where it alone is asked, and where the other is asked in turn: {figures}");
    let (level, text) = match (verdict(moving), pool.moves) {
        (Some(Moves::None), Moves::Free) => (
            Level::Change,
            format!("a call that moves costs much, but midas.toml says moves \"free\": {figures}. {STAY}"),
        ),
        (Some(Moves::None), Moves::None) if pool.staleness > Span::ZERO => {
            (Level::Well, format!("a call that moves costs much, and none does for load: {figures}. {APART}"))
        }
        (Some(Moves::None), Moves::None) => {
            (Level::Well, format!("a call that moves costs much, and none does for load: {figures}"))
        }
        (Some(Moves::Free), Moves::Free) => (Level::Well, format!("CREATE and GETATTR may move: {figures}")),
        (Some(Moves::Free), Moves::None) => (
            Level::Note,
            format!("CREATE and GETATTR could move, but midas.toml says moves \"none\": {figures}. {SPREAD}"),
        ),
        (None, _) => match &moving.broke {
            Some(why) => (Level::Unasked, format!("what a move costs was not measured to the end: {why}; {figures}")),
            None => (
                Level::Note,
                format!(
                    "what a move costs is not known, as rounds differ: {figures}. Measure when nobody else uses the servers"
                ),
            ),
        },
    };
    let text = match &moving.broke {
        Some(why) if verdict(moving).is_some() => format!("{text}. A round was not finished: {why}"),
        _ => text,
    };
    Finding::new(level, "moves", about, text)
}

/// The value of `moves` that was measured; none if it was not.
pub(crate) fn measured_moves(survey: &Survey) -> Option<Moves> {
    verdict(survey.trial.as_ref()?.as_ref().ok()?.moving.as_ref().ok()?.as_ref()?)
}

fn verdict(moving: &Moving) -> Option<Moves> {
    match (moving.costs(), moving.free()) {
        (true, _) => Some(Moves::None),
        (false, true) => Some(Moves::Free),
        (false, false) => None,
    }
}

/// The value for all exports of a pool: where a move costs much in one of them, calls stay; they may
/// move where that was measured in all.
pub(crate) fn dearest<'s>(surveys: impl Iterator<Item = &'s Survey>) -> Option<Moves> {
    let all: Vec<Option<Moves>> = surveys.map(measured_moves).collect();
    let stay = all.iter().flatten().find(|moves| moves.stay()).copied();
    stay.or_else(|| all.into_iter().collect::<Option<Vec<_>>>()?.first().copied())
}

/// As midas.toml would write it.
fn shown(span: Duration) -> String {
    if span.is_zero() { "0s".to_owned() } else { format!("{span:?}") }
}

/// The seconds that `staleness` must have: none if they were not measured.
pub(crate) fn staleness_s(survey: &Survey) -> Option<u64> {
    let trial = survey.trial.as_ref()?.as_ref().ok()?;
    match trial.staleness.worst()?.after? {
        Duration::ZERO => Some(0),
        // A second for what was not met: caches are looked at from time to time, and never all at the worst moment.
        after => Some(after.as_secs_f64().ceil() as u64 + 1),
    }
}

fn clocks(pool: &Pool, about: &About, trial: &Trial) -> Option<Finding> {
    let by_clock = |one: &&(usize, f64), other: &&(usize, f64)| one.1.total_cmp(&other.1);
    let (slow, fast) = (trial.clocks.iter().min_by(by_clock)?, trial.clocks.iter().max_by(by_clock)?);
    let apart = fast.1 - slow.1;
    let (level, text) = match apart > CLOCKS_APART_S {
        false => (Level::Well, format!("the times that servers give agree within {CLOCKS_APART_S} s")),
        true => (
            Level::Change,
            format!(
                "{} gives times that are {apart:.1} s ahead of {}: set their clocks by the same source",
                pool.servers[fast.0].name, pool.servers[slow.0].name
            ),
        ),
    };
    Some(Finding::new(level, "clock", about, text))
}

/// What it costs that they are not.
const BOUND: &str = "For so long every call on what was changed goes to the one server that changed it, and cannot be steered (`midas status` says how many do).";
/// What is done where moves cost much.
const STAY: &str =
    "With moves = \"none\" a directory and its files stay at one server, and balance comes from the directories";
/// What is missed where they could be made.
const SPREAD: &str =
    "With moves = \"free\" a hot directory is spread over the servers, if all exports of the pool were measured so";
/// What a pool with `staleness` does all the same.
const APART: &str =
    "As staleness is above 0s, calls by a file's handle have a home of their own, not their directory's";
/// What makes servers fresh.
const FRESH: &str = "To see changes at once: NFS-Ganesha with Attr_Expiration_Time = 0 on every head; the kernel's server over an NFS mount with that mounted noac";
/// More than a call takes, less than people notice.
const CLOCKS_APART_S: f64 = 1.0;

#[cfg(test)]
mod tests {
    use super::*;
    use midas_nfs::nfs3::{Fattr3, FsinfoOk, Ftype3, Nfstime3, Specdata3};
    use midas_proxy::config::Config;
    use midas_proxy::survey::{Object, Parity};

    const FILE: &str = "[[pool]]\nname = \"p\"\nservers = [\"127.0.0.1:1\", \"127.0.0.1:2\"]\nstaleness = \"5s\"\n\
                        [[export]]\npath = \"/x\"\npool = \"p\"\nclients = \"127.0.0.1\"\n";

    fn seen(rtmax: u32) -> Seen {
        let time = Nfstime3::default();
        let attributes = Fattr3 {
            ftype: Ftype3::Dir,
            mode: 0o755,
            nlink: 2,
            uid: 0,
            gid: 0,
            size: 0,
            used: 0,
            rdev: Specdata3::default(),
            fsid: 1,
            fileid: 2,
            atime: time,
            mtime: time,
            ctime: time,
        };
        let limits = FsinfoOk {
            attributes: None,
            rtmax,
            rtpref: 0,
            rtmult: 0,
            wtmax: 0,
            wtpref: 0,
            wtmult: 0,
            dtpref: 0,
            maxfilesize: 0,
            time_delta: time,
            properties: 0,
        };
        let root = Object { handle: vec![1], fsid: 1, fileid: 2 };
        let (ports, root_user) = (Ports::Any, RootUser::Kept);
        Seen { root, attributes, limits: Some(limits), ports, root_user, writer: None }
    }

    fn survey(rtmax: [u32; 2], cookies: Cookies, trial: Option<Result<Trial, Trouble>>) -> Survey {
        let mut parity = Parity::default();
        parity.members = vec![0, 1];
        Survey { seen: rtmax.map(|rtmax| Ok(seen(rtmax))).into(), parity, cookies, trial, left_behind: None }
    }

    /// Changes through the first, seen by the second so late; and its clock so many seconds ahead.
    fn trial(after: Option<Duration>, ahead: f64) -> Trial {
        let staleness = Staleness { pairs: vec![Pair { from: 0, to: 1, after }] };
        Trial { staleness, moving: Ok(None), clocks: vec![(0, ahead), (1, 0.0)], owner: (0, 0), read_only: Vec::new() }
    }

    #[test]
    fn every_fact_has_its_words() {
        let config = Config::parse(FILE).unwrap();
        let portable = || Cookies::Portable { names: 9 };
        let bound = Cookies::Bound { from: 0, to: 1, why: "it answers BAD_COOKIE".to_owned() };
        let tried = |after, ahead| Some(Ok(trial(after, ahead)));
        let refused = Some(Err(Trouble::Refused("ROFS".to_owned())));
        let silent = Some(Err(Trouble::Silent("timed out".to_owned())));
        let seconds = |seconds| Some(Duration::from_secs_f64(seconds));
        let cases = [
            (survey([9, 9], portable(), None), "staleness", Level::Note, "needs --write; midas.toml says staleness 5s"),
            (survey([9, 9], portable(), refused), "staleness", Level::Note, "not measured: ROFS"),
            (survey([9, 9], portable(), silent), "staleness", Level::Unasked, "not measured: timed out"),
            (survey([9, 9], portable(), tried(seconds(0.0), 0.0)), "staleness", Level::Well, "at once"),
            (
                survey([9, 9], portable(), tried(seconds(4.5), 0.0)),
                "staleness",
                Level::Well,
                "after 4.5s, within staleness 5s",
            ),
            (
                survey([9, 9], portable(), tried(seconds(5.5), 0.0)),
                "staleness",
                Level::Change,
                "127.0.0.1:1 was seen through 127.0.0.1:2",
            ),
            (
                survey([9, 9], portable(), tried(None, 0.0)),
                "staleness",
                Level::Change,
                "not seen through 127.0.0.1:2 within 65s",
            ),
            (survey([9, 9], portable(), tried(seconds(0.0), 0.9)), "clock", Level::Well, "agree"),
            (
                survey([9, 9], portable(), tried(seconds(0.0), 3.0)),
                "clock",
                Level::Change,
                "127.0.0.1:1 gives times that are 3.0 s ahead",
            ),
            (survey([9, 9], bound, None), "cookies", Level::Note, "BAD_COOKIE"),
            (survey([9, 8], portable(), None), "limits", Level::Note, "rtmax 9 and 8 at 127.0.0.1:2"),
        ];
        for (survey, topic, level, words) in cases {
            let found = export(&config.pools()[0], &config.exports()[0], &[], &survey);
            let of: Vec<&Finding> = found.iter().filter(|finding| finding.topic == topic).collect();
            let [finding] = of.as_slice() else { panic!("{topic} {words}: {found:?}") };
            assert_eq!(finding.level, level, "{words}: {finding:?}");
            assert!(finding.text.contains(words), "{words}: {finding:?}");
        }
    }

    #[test]
    fn what_a_move_costs_is_told_with_its_figures_and_the_key_to_set() {
        let dear =
            Cost { what: "CREATE", server: 1, alone: Duration::from_micros(535), shared: Duration::from_micros(1970) };
        let cheap = Cost { shared: Duration::from_micros(550), ..dear };
        let free = FILE.to_owned();
        let none = FILE.replacen("staleness", "moves = \"none\"\nstaleness", 1);
        let cases = [
            (&free, cheap, Level::Well, "may move", Moves::Free),
            (&free, dear, Level::Change, "moves = \"none\"", Moves::None),
            (&none, dear, Level::Well, "CREATE 535 us, 1970 us (3.7 times)", Moves::None),
            (&none, dear, Level::Well, "As staleness is above 0s", Moves::None),
            (&none, cheap, Level::Note, "moves = \"free\"", Moves::Free),
        ];
        for (file, cost, level, words, wants) in cases {
            let config = Config::parse(file).unwrap();
            let survey = moved(Ok(Some(moving(vec![cost]))));
            let finding = of_moves(&config, &survey);
            assert_eq!((finding.level, measured_moves(&survey)), (level, Some(wants)), "{finding:?}");
            assert!(finding.text.contains(words), "{words}: {finding:?}");
        }
    }

    /// One round.
    fn moving(costs: Vec<Cost>) -> Moving {
        let cheap = !costs.iter().any(Cost::much);
        Moving { servers: [0, 1], costs, rounds: [1, usize::from(cheap)], broke: None }
    }

    fn moved(moving: Result<Option<Moving>, Trouble>) -> Survey {
        let trial = Trial { moving, ..trial(Some(Duration::ZERO), 0.0) };
        survey([9, 9], Cookies::Unknown(String::new()), Some(Ok(trial)))
    }

    fn of_moves(config: &Config, survey: &Survey) -> Finding {
        let found = export(&config.pools()[0], &config.exports()[0], &[], survey);
        found.into_iter().find(|finding| finding.topic == "moves").unwrap()
    }

    #[test]
    fn a_move_that_could_not_be_measured_says_why_and_hides_nothing_else() {
        let config = Config::parse(FILE).unwrap();
        let survey = moved(Err(Trouble::Refused("CREATE: NOSPC".to_owned())));
        let finding = of_moves(&config, &survey);
        assert_eq!((finding.level, measured_moves(&survey)), (Level::Note, None));
        assert!(finding.text.contains("NOSPC"), "{finding:?}");
        assert_eq!(staleness_s(&survey), Some(0));
    }

    #[test]
    fn what_rounds_do_not_agree_on_is_not_known_and_what_broke_was_not_asked() {
        let config = Config::parse(FILE).unwrap();
        let (alone, shared) = (Duration::from_micros(535), Duration::from_micros(600));
        let unclear = Moving { rounds: [3, 1], ..moving(vec![Cost { what: "CREATE", server: 0, alone, shared }]) };
        let broken = Moving { rounds: [1, 1], broke: Some("no answer in 5 s".to_owned()), ..unclear.clone() };
        for (moving, level, words) in
            [(unclear, Level::Note, "rounds differ"), (broken, Level::Unasked, "no answer in 5 s")]
        {
            let survey = moved(Ok(Some(moving)));
            let finding = of_moves(&config, &survey);
            assert_eq!((finding.level, measured_moves(&survey)), (level, None), "{finding:?}");
            assert!(finding.text.contains(words), "{finding:?}");
        }
        let dear = Cost { what: "CREATE", server: 0, alone, shared: 4 * alone };
        let whole_then_broken = Moving { rounds: [2, 0], broke: Some("no answer".to_owned()), ..moving(vec![dear]) };
        let finding = of_moves(&config, &moved(Ok(Some(whole_then_broken))));
        assert!(finding.level == Level::Change && finding.text.contains("not finished: no answer"), "{finding:?}");
        let survey = moved(Err(Trouble::Silent("timed out".to_owned())));
        assert_eq!((of_moves(&config, &survey).level, measured_moves(&survey)), (Level::Unasked, None));
    }

    #[test]
    fn calls_stay_where_one_export_says_so_and_move_where_all_do() {
        let of = |much: Option<bool>| {
            let us = |much: bool| Duration::from_micros(if much { 900 } else { 110 });
            let costs =
                |much| vec![Cost { what: "CREATE", server: 0, alone: Duration::from_micros(100), shared: us(much) }];
            moved(Ok(much.map(|much| moving(costs(much)))))
        };
        let cases = [
            ([Some(false), Some(false)], Some(Moves::Free)),
            ([Some(false), Some(true)], Some(Moves::None)),
            ([None, Some(true)], Some(Moves::None)),
            ([Some(false), None], None),
        ];
        for (exports, want) in cases {
            assert_eq!(dearest(exports.map(of).iter()), want, "{exports:?}");
        }
    }

    #[test]
    fn the_staleness_to_set_is_a_second_more_than_was_measured() {
        for (after, want) in [(Some(0.0), Some(0)), (Some(0.2), Some(2)), (Some(60.4), Some(62)), (None, None)] {
            let trial = Some(Ok(trial(after.map(Duration::from_secs_f64), 0.0)));
            assert_eq!(staleness_s(&survey([9, 9], Cookies::Unknown(String::new()), trial)), want, "{after:?}");
        }
        assert_eq!(staleness_s(&survey([9, 9], Cookies::Unknown(String::new()), None)), None);
    }
}
