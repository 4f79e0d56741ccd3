//! `midas cluster`: the proxies that belong together, as one of them sees it; and the key that they share.

use crate::control::Daemon;
use crate::failure::Failure;
use clap::{Args, Subcommand};
use midas_proxy::api::{self, Cluster, Fetches, Leases, Member};
use std::path::PathBuf;

/// Show the members of a daemon's cluster: who is in the view, how each is reached, what was refused
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Options {
    #[command(flatten)]
    daemon: Daemon,
    #[command(subcommand)]
    make: Option<Make>,
}

#[derive(Debug, Subcommand)]
enum Make {
    /// Make a new key for a cluster: a file that its owner alone can read, to be copied to every member
    Key {
        /// The file to make; one that is there is left alone
        file: PathBuf,
    },
}

impl Options {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.make {
            Some(Make::Key { file }) => {
                midas_proxy::create_cluster_key(&file).map_err(|error| Failure::Broken(error.to_string()))
            }
            None => self.daemon.ask(api::CLUSTER, show),
        }
    }
}

fn show(cluster: &Cluster) -> String {
    let Cluster { name, me, epoch, present, term, .. } = cluster;
    let leader = cluster.leader.as_deref().unwrap_or("nobody");
    let (view, does) = (view(cluster.cut_off), does(cluster.failed.as_deref(), cluster.cut_off, cluster.in_view));
    let mut lines = vec![format!(
        "cluster {name}: {view} {epoch} with {present} of {} members, led by {leader} (term {term}); {me} {does}",
        cluster.members.len()
    )];
    let width = cluster.members.iter().map(|member| member.name.len()).max().unwrap_or_default();
    lines.extend(cluster.members.iter().map(|member| of_member(member, member.name == *me, width)));
    lines.push(of_leases(&cluster.leases));
    lines.push(of_fetches(&cluster.fetches));
    let api::Shares { told, heard, refused, lag_ms, bytes } = cluster.shares;
    lines.push(format!(
        "load shares: {told} told ({bytes} bytes at most), {heard} heard ({lag_ms:.3} ms old on average), {refused} refused"
    ));
    lines.push(of_refused(cluster));
    lines.join("\n")
}

/// What a member is in its cluster.
pub(crate) fn does(failed: Option<&str>, cut_off: bool, in_view: bool) -> String {
    match (failed, cut_off, in_view) {
        (Some(why), _, _) => format!("takes no part: {why}"),
        (None, true, _) => {
            "is cut off from the majority: reads go to the servers, mutations on lease exports wait".to_owned()
        }
        (None, false, true) => "is in the view".to_owned(),
        (None, false, false) => "is outside the view".to_owned(),
    }
}

/// Who is cut off knows only which view was the last.
pub(crate) fn view(cut_off: bool) -> &'static str {
    if cut_off { "last known view" } else { "view" }
}

/// Messages that were not taken, and why.
pub(crate) fn of_refused(cluster: &Cluster) -> String {
    let refused: Vec<String> =
        cluster.refused.iter().filter(|(_, count)| **count > 0).map(|(why, count)| format!("{why} {count}")).collect();
    let refused = if refused.is_empty() { "nothing".to_owned() } else { refused.join(", ") };
    format!("refused: {refused}; lost: {}", cluster.lost)
}

/// Whether this member may answer and act by its leases.
pub(crate) fn of_standing(leases: &Leases) -> String {
    let held = match (&leases.blocked, leases.live_ms > 0.0) {
        (Some(why), _) => format!("blocked, {why}"),
        (None, true) => format!("held for {:.1} s more", leases.live_ms / 1e3),
        (None, false) => "not held: reads go to the servers".to_owned(),
    };
    let acts = if leases.acts { "" } else { "; mutations wait" };
    format!("{held}{acts}")
}

fn of_leases(leases: &Leases) -> String {
    format!(
        "leases: {}; {} announced ({:.3} ms on average, at most {:.1} ms, {} refused), {} left under holds, {} wait, {} of the cluster's pending",
        of_standing(leases),
        leases.announced,
        leases.wait_mean_ms,
        leases.wait_max_ms,
        leases.refused,
        leases.held,
        leases.waiting,
        leases.pending
    )
}

fn of_fetches(fetches: &Fetches) -> String {
    let Fetches { asked, fetched, refused, late, lent, declined } = fetches;
    format!(
        "fetches: {fetched} of {asked} reads answered by peers ({refused} refused, {late} late); {lent} of peers' reads answered, {declined} refused"
    )
}

fn of_member(member: &Member, own: bool, width: usize) -> String {
    let link = match (own, member.up, member.rtt_ms) {
        (true, _, _) => "this one".to_owned(),
        (false, true, Some(rtt)) => format!("up, {rtt:.3} ms"),
        (false, true, None) => "up".to_owned(),
        (false, false, _) => "down".to_owned(),
    };
    let view = if member.in_view { "in view" } else { "left out" };
    let silent = member.silent_ms.filter(|_| !member.up).map(|silent| format!("  silent for {:.1} s", silent / 1e3));
    let notes = [
        (member.witness, "  witness"),
        (member.leaving, "  leaving"),
        (member.same_config == Some(false), "  another configuration: no leases"),
    ];
    let notes: String = notes.iter().filter(|(so, _)| *so).map(|(_, note)| *note).collect();
    let unequal = member.unequal.as_ref().map(|it| format!("  {it}, this one does not")).unwrap_or_default();
    format!(
        "  {:width$}  {}  {}  {view}  {link}{}{notes}{unequal}",
        member.name,
        member.address,
        member.incarnation.as_deref().unwrap_or("never heard"),
        silent.unwrap_or_default()
    )
}
