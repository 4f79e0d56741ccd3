//! The table of the cluster.

use super::{SHORT, parsed, wrong};

const TABLE: &str = r#"[cluster]
name = "site"
members = ["a=10.0.0.8:7049", "b=10.0.0.9:7049", "w=10.0.0.10:7049 witness"]
me = "a"
"#;

fn with(table: &str) -> String {
    format!("{SHORT}{table}")
}

#[test]
fn a_cluster_needs_a_name_and_members_and_the_rest_is_there() {
    let config = parsed(&with(TABLE));
    let cluster = config.cluster().unwrap();
    let members: Vec<(&str, bool)> =
        cluster.members.iter().map(|member| (member.name.as_str(), member.witness)).collect();
    assert_eq!(members, [("a", false), ("b", false), ("w", true)]);
    assert_eq!((cluster.listen.port(), cluster.key_file.to_str()), (7049, Some("/etc/midas/cluster.key")));
    assert_eq!(parsed(SHORT).cluster(), None);
    assert_eq!(config.warnings(), Vec::<String>::new());
}

#[test]
fn two_members_without_a_witness_are_a_warning() {
    let two = with(&TABLE.replace(", \"w=10.0.0.10:7049 witness\"", ""));
    let warnings = parsed(&two).warnings();
    assert!(warnings.len() == 1 && warnings[0].contains("when one is lost the other is no majority"), "{warnings:?}");
}

#[test]
fn what_is_wrong_with_a_cluster_is_told_where_it_stands() {
    let line = |text: &str| SHORT.lines().count() + text.lines().count();
    for (from, to, at, said) in [
        ("me = \"a\"", "me = \"c\"", "11:6", "me: 'c' is not a member; did you mean 'a'?"),
        ("me = \"a\"", "", "8:1", "which is not a member; say which one it is with 'me'"),
        ("name = \"site\"\n", "", "8:1", "missing key 'name' in [cluster]"),
        ("b=10.0.0.9:7049", "10.0.0.9:7049", "10:31", "members takes `name=host:port`"),
        ("b=10.0.0.9:7049", "b=10.0.0.9", "10:31", "has no port"),
        ("b=10.0.0.9:7049", "b=0.0.0.0:7049", "10:31", "is not where a member can be"),
        ("b=10.0.0.9:7049", "a=10.0.0.9:7049", "10:31", "members: 'a' is there twice"),
        ("b=10.0.0.9:7049", "b=10.0.0.8:7049", "10:31", "members: 'b' is 'a': both are 10.0.0.8:7049"),
        ("b=10.0.0.9:7049", "b b=10.0.0.9:7049", "10:31", "'b b' is no name"),
        ("7049 witness", "7049 voter", "10:50", "'voter' behind the address of 'w'; possible: witness"),
        ("me = \"a\"", "me = \"a\"\nlease = \"1ms\"", "12:9", "lease takes a time in 100ms..60s"),
        (
            "me = \"a\"",
            "me = \"a\"\nlisten = \"0.0.0.0:2049\"",
            "12:10",
            "listen: the port of 0.0.0.0:2049 is taken by nfs",
        ),
        ("me = \"a\"", "me = \"a\"\nmember = 1", "12:1", "unknown key 'member' in [cluster]; did you mean 'members'?"),
    ] {
        let changed = TABLE.replacen(from, to, 1);
        assert_ne!(changed, TABLE, "{from}");
        let told = wrong(&with(&changed));
        let found = told.lines().any(|line| line.starts_with(&format!("{at}: ")) && line.contains(said));
        assert!(found, "{at}: {said}, got\n{told}");
    }
    assert_eq!(line(TABLE), 11);
    let one = wrong(&with("[cluster]\nname = \"x\"\nmembers = \"a=10.0.0.8:7049\"\nme = \"a\"\n"));
    assert!(one.contains("members: a cluster has at least two"), "{one}");
    let many: Vec<String> = (0..17).map(|n| format!("\"m{n}=10.0.1.{n}:7049\"")).collect();
    let many = wrong(&with(&format!("[cluster]\nname = \"x\"\nmembers = [{}]\nme = \"m0\"\n", many.join(", "))));
    assert!(many.contains("the list must have 1..16 members, got 17"), "{many}");
}
