//! The cluster as this daemon sees it.

use super::grid::{Cell, Column, grid};
use super::paint::Paint;
use super::text::{clean, ms, wrap};
use crate::cluster::{self, of_refused, of_standing};
use midas_proxy::api::{Cluster, Member};
use ratatui::text::Line;

/// Members in rows; leases, fetches and shares in sentences.
pub(crate) fn lines(cluster: Option<&Cluster>, paint: Paint, width: usize) -> Vec<Line<'static>> {
    let Some(cluster) = cluster else {
        let alone = "This daemon is alone: its configuration has no [cluster].";
        return wrap(alone, width).into_iter().map(|line| Line::styled(line, paint.dim())).collect();
    };
    let sentences = |sentences: Vec<String>| -> Vec<Line<'static>> {
        sentences.iter().flat_map(|sentence| wrap(&clean(sentence), width)).map(Line::raw).collect()
    };
    let mut lines = Vec::new();
    if let Some(why) = &cluster.failed {
        lines.extend(
            wrap(&clean(&format!("takes no part: {why}")), width)
                .into_iter()
                .map(|line| Line::styled(line, paint.bad())),
        );
    }
    lines.extend(sentences(vec![view(cluster)]));
    lines.push(Line::default());
    let rows: Vec<Vec<Cell>> = cluster.members.iter().map(|member| row(member, &cluster.me, paint)).collect();
    lines.extend(grid(&columns(), &rows, paint, width));
    lines.push(Line::default());
    lines.extend(sentences(vec![leases(cluster), traffic(cluster), of_refused(cluster)]));
    lines
}

fn view(cluster: &Cluster) -> String {
    let Cluster { name, me, epoch, present, term, members, .. } = cluster;
    let leader = cluster.leader.as_deref().unwrap_or("nobody");
    let (view, does) = (cluster::view(cluster.cut_off), cluster::does(None, cluster.cut_off, cluster.in_view));
    let of = members.len();
    format!("cluster {name}: {view} {epoch} with {present} of {of} members, led by {leader} (term {term}); {me} {does}")
}

fn columns() -> Vec<Column> {
    vec![
        Column::name("member", 12),
        Column::words("link", 6),
        Column::words("view", 8),
        Column::figure("rtt ms"),
        Column::figure("silent s").leaves(4),
        Column::words("address", 21).leaves(3),
        Column::words("version", 8).leaves(1),
        Column::words("notes", 10).leaves(2),
    ]
}

fn row(member: &Member, me: &str, paint: Paint) -> Vec<Cell> {
    let link = match (member.name == me, member.up) {
        (true, _) => Cell::text("itself"),
        (false, true) => Cell::Text("up".to_owned(), paint.good()),
        (false, false) => Cell::Text("down".to_owned(), paint.bad()),
    };
    let view = if member.in_view { Cell::text("in view") } else { Cell::Text("left out".to_owned(), paint.warn()) };
    let dash = |figure: Option<String>| Cell::text(figure.unwrap_or_else(|| "-".to_owned()));
    let notes = [
        (member.witness, "witness"),
        (member.leaving, "leaving"),
        (member.same_config == Some(false), "another configuration"),
        (member.unequal.is_some(), "another version"),
    ];
    let notes: Vec<&str> = notes.iter().filter(|(so, _)| *so).map(|(_, note)| *note).collect();
    vec![
        Cell::text(clean(&member.name)),
        link,
        view,
        dash(member.rtt_ms.map(ms)),
        dash(member.silent_ms.map(|silent| format!("{:.1}", silent / 1e3))),
        Cell::text(clean(&member.address)),
        Cell::text(clean(&member.software)),
        Cell::text(notes.join(", ")),
    ]
}

fn leases(cluster: &Cluster) -> String {
    let leases = &cluster.leases;
    format!(
        "leases: {}; {} announced, {} permitted ({:.3} ms on average), {} wait, {} pending",
        of_standing(leases),
        leases.announced,
        leases.permitted,
        leases.wait_mean_ms,
        leases.waiting,
        leases.pending
    )
}

fn traffic(cluster: &Cluster) -> String {
    let (fetches, shares) = (&cluster.fetches, &cluster.shares);
    format!(
        "fetches: {} of {} reads answered by peers, {} of peers' reads answered here; load shares: {} told, {} heard ({:.3} ms old)",
        fetches.fetched, fetches.asked, fetches.lent, shares.told, shares.heard, shares.lag_ms
    )
}
