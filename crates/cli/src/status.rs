//! `midas status`: how the daemon is, and what was changed while it runs.

use crate::cache::summary;
use crate::cluster::{does, view};
use crate::control::Daemon;
use crate::failure::Failure;
use clap::Args;
use midas_proxy::api::{self, Export, Membership, Pool, Setting, Status};
use std::time::Duration;

/// Show how a running daemon, its exports and its servers are
///
/// What was changed with `midas set`, `drain` or `bypass` is shown with the value of the configuration, which holds again after a
/// restart.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    daemon: Daemon,
}

impl Options {
    pub(crate) fn run(self) -> Result<(), Failure> {
        self.daemon.ask(api::STATUS, show)
    }
}

fn show(status: &Status) -> String {
    let Status { version, clients, calls, held, .. } = status;
    let ready = if status.not_ready.is_empty() { "ready" } else { "not ready" };
    let up = since(Duration::from_secs(status.uptime_seconds));
    let mut lines = vec![format!(
        "midas {version}, {ready}, up {up}: {clients} client connections, {calls} calls answered, {held} held"
    )];
    lines.extend(status.not_ready.iter().map(|why| format!("  not ready: {why}")));
    if status.bypass {
        lines.push("bypass is on: every call goes to its home (`midas bypass off`)".to_owned());
    }
    if status.unknown_owners > 0 {
        lines.push(format!(
            "handles of unknown exports: asked for {} times in vain; calls on them wait (docs/limitations.md)",
            status.unknown_owners
        ));
    }
    lines.extend(status.cluster.as_ref().map(of_cluster));
    lines.extend(status.exports.iter().flat_map(of_export));
    lines.extend(status.pools.iter().flat_map(of_pool));
    lines.join("\n")
}

fn of_cluster(membership: &Membership) -> String {
    let Membership { name, me, in_view, cut_off, present, members, failed } = membership;
    let (view, does) = (view(*cut_off), does(failed.as_deref(), *cut_off, *in_view));
    format!("cluster {name}: {me} {does}; {present} of {members} members in its {view}")
}

fn of_export(export: &Export) -> Vec<String> {
    let total: u64 = export.routes.values().sum();
    let share = |(why, count): (&String, &u64)| format!("{why} {:.1} %", 100.0 * *count as f64 / total as f64);
    let routes: Vec<String> = export.routes.iter().filter(|(_, count)| **count > 0).map(share).collect();
    let routes = if routes.is_empty() { "no calls yet".to_owned() } else { routes.join(", ") };
    let (policy, mode) = (of_setting("policy", &export.policy), of_setting("mode", &export.mode));
    let mut lines = vec![format!("export {} of {}: {policy}, {mode}; {routes}", export.path, export.pool)];
    lines.extend(bound(export).map(|bound| format!("  {bound}")));
    // A cache that was never asked for has nothing to say.
    let cache = &export.cache;
    if cache.mode != "strict" || cache.demoted.is_some() || cache.reads.all() > 0 {
        lines.push(format!("  {}", summary(&export.path, cache)));
    }
    for subtree in &export.subtrees {
        let mode = of_setting("mode", &subtree.mode);
        lines.push(format!("  subtree {}: {mode}; {}", subtree.path, summary(&subtree.path, &subtree.cache)));
    }
    lines
}

/// The share of calls that only one server could serve, and by what they were bound.
pub(crate) fn bound(export: &Export) -> Option<String> {
    let (total, bound) = (export.routes.values().sum::<u64>(), export.bound.values().sum::<u64>());
    if bound == 0 {
        return None;
    }
    let share = |count: u64| format!("{:.1} %", 100.0 * count as f64 / total.max(1) as f64);
    let why = export.bound.iter().filter(|(_, count)| **count > 0);
    let why: Vec<String> = why.map(|(by, count)| format!("{by} {}", share(*count))).collect();
    Some(format!("bound to one server: {} of calls ({}); {} fences", share(bound), why.join(", "), export.fences))
}

fn of_setting(key: &str, setting: &Setting) -> String {
    match setting.changed() {
        true => format!("{key} {} (changed; {} in the file)", setting.now, setting.file),
        false => format!("{key} {}", setting.now),
    }
}

fn of_pool(pool: &Pool) -> Vec<String> {
    let width = pool.servers.iter().map(|server| server.name.len()).max().unwrap_or_default();
    let mut lines = vec![format!("pool {}", pool.name)];
    for server in &pool.servers {
        let files = server.uncommitted;
        let uncommitted = if files > 0 { format!("  {files} files uncommitted") } else { String::new() };
        let foreign = server.foreign.as_ref().map_or_else(String::new, |why| format!("  {why}"));
        lines.push(format!(
            "  {:width$}  {:11}  {:>5} in flight  {:>12} calls  p50 {:>9.3} ms  p99 {:>9.3} ms{uncommitted}{foreign}",
            server.name,
            server.health,
            server.in_flight,
            server.dispatched,
            server.latency_p50_ms,
            server.latency_p99_ms
        ));
    }
    lines
}

/// In two units at most.
pub(crate) fn since(span: Duration) -> String {
    let secs = span.as_secs();
    match secs {
        0..60 => format!("{secs} s"),
        60..3600 => format!("{} min", secs / 60),
        3600..86_400 => format!("{} h {} min", secs / 3600, secs / 60 % 60),
        _ => format!("{} d {} h", secs / 86_400, secs / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_changed_is_shown_with_what_the_file_says() {
        let setting = |now: &str| Setting { now: now.to_owned(), file: "first-fit".to_owned() };
        assert_eq!(of_setting("policy", &setting("first-fit")), "policy first-fit");
        assert_eq!(of_setting("policy", &setting("rr")), "policy rr (changed; first-fit in the file)");
    }

    #[test]
    fn a_member_that_is_cut_off_says_so() {
        let member = |cut_off| Membership {
            name: "site".to_owned(),
            me: "c".to_owned(),
            in_view: true,
            cut_off,
            present: 3,
            members: 3,
            failed: None,
        };
        assert_eq!(of_cluster(&member(false)), "cluster site: c is in the view; 3 of 3 members in its view");
        assert_eq!(
            of_cluster(&member(true)),
            "cluster site: c is cut off from the majority: reads go to the servers, mutations on lease exports wait; \
             3 of 3 members in its last known view"
        );
    }

    #[test]
    fn times_are_said_in_two_units_at_most() {
        let cases = [(5, "5 s"), (61, "1 min"), (3_720, "1 h 2 min"), (90_000, "1 d 1 h")];
        for (secs, want) in cases {
            assert_eq!(since(Duration::from_secs(secs)), want);
        }
    }
}
