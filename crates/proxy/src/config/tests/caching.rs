//! What exports say of the cache: presets, modes that need all writers, bounds, and what of it a reload takes over.

use super::*;

/// Of an export that says nothing.
pub(super) const DEFAULT: Caching = Caching {
    writers: Writers::Anyone,
    lease_age_max: Span::from_secs(30),
    server_hold_max: Span::from_secs(60),
    immutable_age_max: Span::from_secs(3600),
    stale_target: 1e-3,
    ttl_max: Span::from_secs(600),
    absent_max: Span::from_secs(3600),
};

/// The export of the shortest file with these lines.
fn export(lines: &str) -> Export {
    parsed(&format!("{SHORT}{lines}\n")).exports()[0].clone()
}

#[test]
fn a_preset_sets_what_suits_it_and_a_key_beside_it_wins() {
    let sole = Caching { writers: Writers::MidasOnly, ..DEFAULT };
    let tree = Caching { absent_max: Span::from_secs(10), ..DEFAULT };
    let (minute, only) = (Span::from_secs(60), "writers = \"midas-only\"\n");
    let cases = [
        (String::new(), None, Mode::Strict, DEFAULT),
        ("mode = \"ttl\"".to_owned(), None, Mode::Ttl, DEFAULT),
        (format!("{only}mode = \"lease\""), None, Mode::Lease, sole),
        (format!("{only}mode = \"immutable\""), None, Mode::Immutable, sole),
        (only.to_owned(), None, Mode::Strict, sole),
        (format!("{only}preset = \"scratch\""), Some(Preset::Scratch), Mode::Lease, sole),
        ("preset = \"software-tree\"".to_owned(), Some(Preset::SoftwareTree), Mode::Ttl, tree),
        (format!("{only}preset = \"dataset\""), Some(Preset::Dataset), Mode::Immutable, sole),
        ("preset = \"scratch\"\nmode = \"strict\"".to_owned(), Some(Preset::Scratch), Mode::Strict, DEFAULT),
        ("mode = \"ttl\"\npreset = \"dataset\"".to_owned(), Some(Preset::Dataset), Mode::Ttl, DEFAULT),
        (
            "preset = \"software-tree\"\nabsent_max = \"1m\"".to_owned(),
            Some(Preset::SoftwareTree),
            Mode::Ttl,
            Caching { absent_max: minute, ..DEFAULT },
        ),
        (
            "preset = \"software-tree\"\nstale_target = 0.5\nttl_max = \"1m\"".to_owned(),
            Some(Preset::SoftwareTree),
            Mode::Ttl,
            Caching { stale_target: 0.5, ttl_max: minute, ..tree },
        ),
        (
            format!("{only}preset = \"dataset\"\nimmutable_age_max = \"1m\""),
            Some(Preset::Dataset),
            Mode::Immutable,
            Caching { immutable_age_max: minute, ..sole },
        ),
    ];
    for (lines, preset, mode, caching) in cases {
        let export = export(&lines);
        assert_eq!((export.preset, export.mode, export.caching), (preset, mode, caching), "{lines}");
    }
}

const SAME: &str = "writers: the export says that all come through MIDAS; give this one an export of its own";
const NEEDS: &str = "needs writers = \"midas-only\" in the export: what is changed past MIDAS would be answered as it was before; \
                     write it if every writer comes through MIDAS, or use 'ttl'";

#[test]
fn a_mode_that_trusts_all_writers_is_refused_where_others_may_write() {
    let cases = [
        ("mode = \"lease\"", "8:8: mode: 'lease'"),
        ("mode = \"immutable\"", "8:8: mode: 'immutable'"),
        ("preset = \"scratch\"", "8:10: preset: 'lease'"),
        ("preset = \"dataset\"", "8:10: preset: 'immutable'"),
        ("mode = \"lease\"\nwriters = \"anyone\"", "8:8: mode: 'lease'"),
        ("preset = \"software-tree\"\nmode = \"immutable\"", "9:8: mode: 'immutable'"),
    ];
    for (lines, want) in cases {
        assert_eq!(wrong(&format!("{SHORT}{lines}\n")), format!("{want} {NEEDS}"), "{lines}");
    }
}

const WRONG: &[(&str, &str, &str)] = &[
    ("[[export]]", "mode = \"lese\"", "8: mode: unknown value 'lese'; did you mean 'lease'?"),
    ("[[export]]", "mode = \"off\"", "8: mode: unknown value 'off'; possible: strict, lease, ttl, immutable"),
    ("[[export]]", "mode = true", "8: mode takes one of strict, lease, ttl, immutable in quotes, got true"),
    ("[[export]]", "writers = \"midas_only\"", "11: writers: unknown value 'midas_only'; did you mean 'midas-only'?"),
    ("[[export]]", "preset = \"skratch\"", "10: preset: unknown value 'skratch'; did you mean 'scratch'?"),
    ("[[export]]", "presets = \"scratch\"", "1: unknown key 'presets' in [[export]]; did you mean 'preset'?"),
    ("[[export]]", "lease_age = \"5s\"", "1: unknown key 'lease_age' in [[export]]; possible: KEYS"),
    ("[[export]]", "lease_age_max = \"0s\"", "17: lease_age_max takes a time in 1s..3600s, got '0s'"),
    ("[[export]]", "lease_age_max = \"61m\"", "17: lease_age_max takes a time in 1s..3600s, got '61m'"),
    ("[[export]]", "server_hold_max = \"500ms\"", "19: server_hold_max takes a time in 1s..3600s, got '500ms'"),
    ("[[export]]", "immutable_age_max = \"25h\"", "21: immutable_age_max takes a time in 1s..86400s, got '25h'"),
    ("[[export]]", "ttl_max = \"99ms\"", "11: ttl_max takes a time in 100ms..86400s, got '99ms'"),
    ("[[export]]", "absent_max = 10", "14: absent_max takes a time in quotes, such as \"60s\", got 10"),
    ("[[export]]", "stale_target = 0.0", "16: stale_target takes SHARE, got 0.0"),
    ("[[export]]", "stale_target = 1.0", "16: stale_target takes SHARE, got 1.0"),
    ("[[export]]", "stale_target = -0.1", "16: stale_target takes SHARE, got -0.1"),
    ("[[export]]", "stale_target = nan", "16: stale_target takes SHARE, got nan"),
    ("[[export]]", "stale_target = 1", "16: stale_target takes SHARE, got 1"),
    ("[[export]]", "stale_target = \"1e-3\"", "16: stale_target takes SHARE, got '1e-3'"),
    ("[cache]", "memory = \"1023KiB\"", "10: memory takes a size in 1MiB..1TiB, got '1023KiB'"),
    ("[cache]", "memory = \"256MB\"", "10: memory takes a size in 1MiB..1TiB, got '256MB'"),
    ("[cache]", "mode = \"ttl\"", "1: unknown key 'mode' in [cache]; 'mode' belongs to [[export]]"),
];

#[test]
fn a_wrong_setting_of_the_cache_is_told_with_what_is_possible() {
    let keys: Vec<&str> = Table::Export.keys().map(|key| key.name).collect();
    for (table, setting, want) in WRONG {
        let want = want.replace("SHARE", "a number between 0 and 1, both excluded, such as 0.001");
        told_where_they_stand(&[(table, setting, &want.replace("KEYS", &keys.join(", ")))]);
    }
}

#[test]
fn bounds_of_the_cache_may_be_reached() {
    let export = export("lease_age_max = \"1h\"\nserver_hold_max = \"1s\"\nabsent_max = \"24h\"\nstale_target = 1e-9");
    let want = Caching {
        lease_age_max: Span::from_secs(3600),
        server_hold_max: Span::from_secs(1),
        absent_max: Span::from_secs(24 * 3600),
        stale_target: 1e-9,
        ..DEFAULT
    };
    assert_eq!(export.caching, want);
    for (typed, want) in [("\"1MiB\"", 1 << 20), ("\"1TiB\"", 1 << 40), ("2097152", 2 << 20)] {
        assert_eq!(parsed(&format!("{SHORT}[cache]\nmemory = {typed}\n")).cache().memory, want, "{typed}");
    }
}

#[test]
fn what_users_may_write_is_what_the_core_can_do() {
    for config in [parsed(SHORT), parsed(OTHERWISE)] {
        let Caching { lease_age_max, server_hold_max, immutable_age_max, stale_target, ttl_max, .. } =
            config.exports()[0].caching;
        let settings = midas_core::cache::Settings {
            bytes_max: config.cache().memory,
            lease_age_max,
            server_hold_max,
            immutable_age_max,
            stale_target,
            ttl_max,
            ..midas_core::cache::Settings::default()
        };
        assert!(midas_core::cache::Params::new(settings).is_ok(), "{settings:?}");
    }
}

/// What an export's lines were and are, what a reload says, and the mode and the writers afterwards.
const RELOADS: &[(&str, &str, &[&str], Mode, Writers)] = &[
    ("", "mode = \"ttl\"", &["mode changed from strict to ttl"], Mode::Ttl, Writers::Anyone),
    ("mode = \"ttl\"", "", &["mode changed from ttl to strict"], Mode::Strict, Writers::Anyone),
    (
        "writers = \"midas-only\"",
        "writers = \"midas-only\"\nmode = \"lease\"",
        &["mode changed from strict to lease"],
        Mode::Lease,
        Writers::MidasOnly,
    ),
    // Nobody watched the writers until now.
    (
        "",
        "writers = \"midas-only\"\nmode = \"lease\"",
        &[
            "mode changed from strict to lease (at the next restart)",
            "writers changed from anyone to midas-only (at the next restart)",
        ],
        Mode::Strict,
        Writers::Anyone,
    ),
    // To stop trusting them needs no restart.
    (
        "writers = \"midas-only\"\nmode = \"lease\"",
        "mode = \"ttl\"",
        &["mode changed from lease to ttl", "writers changed from midas-only to anyone"],
        Mode::Ttl,
        Writers::Anyone,
    ),
    (
        "",
        "preset = \"software-tree\"",
        &[
            "preset changed from none to software-tree (at the next restart)",
            "mode changed from strict to ttl",
            "absent_max changed from 3600s to 10s (at the next restart)",
        ],
        Mode::Ttl,
        Writers::Anyone,
    ),
    (
        "",
        "lease_age_max = \"5s\"",
        &["lease_age_max changed from 30s to 5s (at the next restart)"],
        Mode::Strict,
        Writers::Anyone,
    ),
];

#[test]
fn a_reload_takes_a_mode_over_if_the_daemon_could_trust_its_writers_from_the_start() {
    for (before, after, said, mode, writers) in RELOADS {
        let [mut running, new] = [before, after].map(|lines| parsed(&format!("{SHORT}{lines}\n")));
        let changes: Vec<String> = running.differences(&new).iter().map(ToString::to_string).collect();
        let want: Vec<String> = said.iter().map(|change| format!("export '/scratch': {change}")).collect();
        assert_eq!(changes, want, "{before} -> {after}");
        running.take_live(&new);
        let export = &running.exports()[0];
        assert_eq!((export.mode, export.caching.writers), (*mode, *writers), "{before} -> {after}");
        assert!(export.caching.writers.permit(export.mode));
    }
}

#[test]
fn a_mode_that_was_set_ends_when_the_file_says_another_or_no_longer_permits_it() {
    let sole = "writers = \"midas-only\"";
    let cases = [
        (sole, sole, Mode::Lease, Mode::Lease),
        (sole, "", Mode::Lease, Mode::Strict),
        (sole, "mode = \"ttl\"", Mode::Lease, Mode::Ttl),
        (sole, "", Mode::Ttl, Mode::Ttl),
        ("mode = \"ttl\"", "mode = \"ttl\"\naccess = \"rw\"", Mode::Strict, Mode::Strict),
        ("mode = \"ttl\"", "", Mode::Ttl, Mode::Strict),
    ];
    for (before, after, in_force, want) in cases {
        assert_eq!(export(after).modes_after(&export(before), &[in_force]), [want], "{before} -> {after}");
    }
}

/// The lines of an export's subtrees.
fn below(lines: &str) -> String {
    format!("{SHORT}writers = \"midas-only\"\n{lines}\n")
}

#[test]
fn a_subtree_has_its_own_mode_and_takes_what_it_does_not_say_from_its_export() {
    let text = below(
        "ttl_max = \"1m\"\n[[export.subtree]]\npath = \"/scratch/sw\"\npreset = \"software-tree\"\n\
         [[export.subtree]]\npath = \"/scratch/sw/own\"\nmode = \"lease\"\nlease_age_max = \"5s\"\nabsent_max = \"1s\"",
    );
    let config = parsed(&text);
    let export = &config.exports()[0];
    let sole = Caching { writers: Writers::MidasOnly, ttl_max: Span::from_secs(60), ..DEFAULT };
    let tree = Caching { absent_max: Span::from_secs(10), ..sole };
    let own = Caching { lease_age_max: Span::from_secs(5), absent_max: Span::from_secs(1), ..sole };
    let of = |path: &str, preset, mode, caching| Subtree { path: path.to_owned(), preset, mode, caching };
    assert_eq!((export.mode, export.caching), (Mode::Strict, sole));
    let want =
        [of("/scratch/sw", Some(Preset::SoftwareTree), Mode::Ttl, tree), of("/scratch/sw/own", None, Mode::Lease, own)];
    assert_eq!(export.subtrees, want);
}

#[test]
fn a_wrong_subtree_is_told_where_it_stands() {
    let path = |path: &str, lines: &str| format!("[[export.subtree]]\npath = \"{path}\"\n{lines}");
    let cases = [
        (path("/scratch/../home", "mode = \"ttl\""), "10:8: path: '/scratch/../home' must not contain '..'".to_owned()),
        (
            path("/software", "mode = \"ttl\""),
            "10:8: path: '/software' is not below the export's '/scratch'; write '/scratch/software'".to_owned(),
        ),
        (
            path("/scratchy", "mode = \"ttl\""),
            "10:8: path: '/scratchy' is not below the export's '/scratch'; write '/scratch/scratchy'".to_owned(),
        ),
        (
            path("/scratch", "mode = \"ttl\""),
            "10:8: path: this is the export itself; its own mode stands in [[export]]".to_owned(),
        ),
        (
            format!("{}\n{}", path("/scratch/a", "mode = \"ttl\""), path("/scratch/a", "mode = \"strict\"")),
            "13:8: there are two subtrees with the path '/scratch/a'".to_owned(),
        ),
        (path("/scratch/a", ""), "9:1: missing key 'mode' in [[export.subtree]]".to_owned()),
        ("[[export.subtree]]\nmode = \"ttl\"".to_owned(), "9:1: missing key 'path' in [[export.subtree]]".to_owned()),
        (path("/scratch/a", "mode = \"lese\""), "11:8: mode: unknown value 'lese'; did you mean 'lease'?".to_owned()),
        (
            path("/scratch/a", "modes = \"ttl\"\nmode = \"ttl\""),
            "11:1: unknown key 'modes' in [[export.subtree]]; did you mean 'mode'?".to_owned(),
        ),
        (
            path("/scratch/a", "mode = \"lease\"\nwriters = \"anyone\""),
            format!("11:8: mode: 'lease' {NEEDS}\n12:11: {SAME}"),
        ),
        (
            path("/scratch/a", "preset = \"dataset\"\nwriters = \"anyone\""),
            format!("11:10: preset: 'immutable' {NEEDS}\n12:11: {SAME}"),
        ),
        (path("/scratch/a", "mode = \"ttl\"\nwriters = \"anyone\""), format!("12:11: {SAME}")),
        ("subtree = \"a\"".to_owned(), "9:11: 'subtree' is a table; write [[export.subtree]]".to_owned()),
        (
            "[[subtree]]\npath = \"/scratch/a\"".to_owned(),
            "9:3: 'subtree' stands in an export; write [[export.subtree]] below its [[export]]".to_owned(),
        ),
    ];
    for (lines, want) in cases {
        assert_eq!(wrong(&below(&lines)), want, "{lines}");
    }
    let many = |count: usize| {
        (0..count).fold(String::new(), |all, n| all + &path(&format!("/scratch/{n}"), "mode = \"ttl\"\n"))
    };
    assert_eq!(parsed(&below(&many(16))).exports()[0].subtrees.len(), 16);
    assert!(wrong(&below(&many(17))).contains("there may be 16 of [[export.subtree]] at most, got 17"));
}

#[test]
fn a_reload_takes_over_the_mode_of_a_subtree_and_tells_the_rest() {
    let tree = |lines: &str| parsed(&below(&format!("[[export.subtree]]\npath = \"/scratch/a\"\n{lines}")));
    let mut running = tree("mode = \"lease\"");
    let new = tree("mode = \"ttl\"\nttl_max = \"1m\"");
    let changes: Vec<String> = running.differences(&new).iter().map(ToString::to_string).collect();
    let want = ["mode changed from lease to ttl", "ttl_max changed from 600s to 60s (at the next restart)"];
    assert_eq!(changes, want.map(|change| format!("subtree '/scratch/a': {change}")));
    let before = running.exports()[0].clone();
    running.take_live(&new);
    let after = &running.exports()[0];
    assert_eq!(after.subtrees[0].mode, Mode::Ttl);
    assert_eq!(after.modes_after(&before, &[Mode::Lease, Mode::Strict]), [Mode::Lease, Mode::Ttl]);
    let gone: Vec<String> = running.differences(&parsed(&below(""))).iter().map(ToString::to_string).collect();
    assert_eq!(gone, ["subtree '/scratch/a' is gone (at the next restart)"]);
}

#[test]
fn every_key_is_taken_over_as_its_table_says() {
    let plain = "[[pool]]\nname = \"heads\"\nservers = \"10.0.0.9:1\"\n\
                 [[export]]\npath = \"/\"\npool = \"heads\"\nclients = \"::1\"\n\
                 [[export.subtree]]\npath = \"/tree\"\nmode = \"strict\"\n";
    let otherwise =
        OTHERWISE.replacen("access = \"ro\"", "access = \"rw\"", 1).replacen("insecure = false", "insecure = true", 1);
    let changes = parsed(&format!("threads = 4\n{plain}")).differences(&parsed(&otherwise));
    let mut seen = BTreeSet::new();
    for Change { place, difference, applies } in changes {
        let Difference::Changed { key, .. } = difference else { panic!("{place} {difference:?}") };
        let live = place.table.key(key).unwrap().live;
        assert_eq!(applies == Applies::Live, live, "{place}: {key}");
        seen.insert((place.table, key));
    }
    let same = [(Table::Pool, "name"), (Table::Export, "path"), (Table::Export, "pool"), (Table::Subtree, "path")];
    let unseen: Vec<_> = KEYS.iter().map(|key| (key.table, key.name)).filter(|key| !seen.contains(key)).collect();
    assert_eq!(unseen, same);
}

#[test]
fn exports_of_one_pool_that_change_each_others_files_are_not_midas_only() {
    // the other export's source and access, and whether it is in the way of `writers = "midas-only"` for /a
    let cases =
        [("/a", "rw", true), ("/", "rw", true), ("/a/b", "rw", true), ("/ab", "rw", false), ("/a/b", "ro", false)];
    for (source, access, clash) in cases {
        let text = format!(
            "[listen]\nnfs = \"127.0.0.1:2049\"\n[[pool]]\nname = \"p\"\nservers = [\"10.0.0.1:2049\"]\n\
             [[export]]\npath = \"/a\"\npool = \"p\"\nclients = [\"10.0.0.0/8\"]\nwriters = \"midas-only\"\n\
             [[export]]\npath = \"/other\"\nsource = \"{source}\"\npool = \"p\"\nclients = [\"10.0.0.0/8\"]\naccess = \"{access}\"\n"
        );
        let said = Config::parse(&text).err().map(|error| error.to_string()).unwrap_or_default();
        assert_eq!(
            said.contains("'/other' writes to the same files through another export"),
            clash,
            "{source}: {said}"
        );
        assert_eq!(said.is_empty(), !clash, "{said}");
    }
}
