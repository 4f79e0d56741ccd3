//! Servers: health, queue, calls, latencies.

use super::grid::{Cell, Column, grid};
use super::paint::Paint;
use super::text::{clean, ms, rate};
use super::world::World;
use midas_proxy::api::watch::Frame;
use midas_proxy::api::{Pool, Server};
use ratatui::text::Line;

/// Every server in a row, in the order of the status; below, what is wrong with one.
pub(crate) fn lines(world: &World, frame: &Frame, paint: Paint, width: usize) -> Vec<Line<'static>> {
    let servers: Vec<(&Pool, &Server)> =
        frame.status.pools.iter().flat_map(|pool| pool.servers.iter().map(move |server| (pool, server))).collect();
    let (pools, others) = (frame.status.pools.len() > 1, frame.cluster.is_some());
    let queues = frame.point.servers.iter().map(|server| server.queue);
    let longest = queues.chain(servers.iter().map(|(_, server)| server.in_flight as f64)).fold(LEAST_TOP, f64::max);
    let courses: Vec<Vec<(u64, f64)>> =
        (0..servers.len()).map(|at| world.course(|point| Some(point.servers.get(at)?.queue))).collect();
    let top = courses.iter().flatten().map(|(_, queue)| *queue).fold(LEAST_TOP, f64::max);
    let rows = servers.iter().zip(courses).enumerate().map(|(at, ((pool, server), course))| {
        let point = frame.point.servers.get(at).copied().unwrap_or_default();
        let style = paint.queue(server.in_flight as f64);
        let mut row = vec![Cell::text(clean(&server.name))];
        row.extend(pools.then(|| Cell::text(clean(&pool.name))));
        row.push(Cell::Text(clean(&server.health), paint.health(&server.health)));
        row.push(Cell::text(server.in_flight.to_string()));
        row.extend(others.then(|| Cell::text(rate(point.queue))));
        row.push(Cell::Bar(server.in_flight as f64 / longest, style));
        row.push(Cell::Trend(course, top, style));
        row.extend([rate(point.calls), ms(server.latency_p50_ms), ms(server.latency_p99_ms)].map(Cell::text));
        row.extend([ms(server.service_ms), format!("{:.2}", server.weight)].map(Cell::text));
        row
    });
    let mut lines = grid(&columns(pools, others), &rows.collect::<Vec<_>>(), paint, width);
    lines.extend(servers.iter().flat_map(|(_, server)| notes(server)).map(|note| Line::styled(note, paint.warn())));
    lines
}

fn columns(pools: bool, others: bool) -> Vec<Column> {
    let mut columns = vec![Column::name("server", 21)];
    columns.extend(pools.then(|| Column::words("pool", 6).leaves(8)));
    columns.push(Column::words("health", 11));
    columns.push(Column::figure("queue"));
    // What all proxies have there, where there are several.
    columns.extend(others.then(|| Column::figure("of all")));
    columns.push(Column::chart("", 6, 16).leaves(4));
    columns.push(Column::chart("a minute", 12, 60).leaves(1));
    columns.push(Column::figure("calls/s").leaves(6));
    columns.push(Column::figure("p50 ms").leaves(5));
    columns.push(Column::figure("p99 ms").leaves(7));
    columns.push(Column::figure("service ms").leaves(3));
    columns.push(Column::figure("weight").leaves(2));
    columns
}

fn notes(server: &Server) -> Vec<String> {
    let name = clean(&server.name);
    let foreign = server.foreign.as_ref().map(|why| format!("  {name}: {}", clean(why)));
    let files = server.uncommitted;
    let uncommitted = (files > 0).then(|| format!("  {name}: {files} files uncommitted"));
    foreign.into_iter().chain(uncommitted).collect()
}

/// So that one call does not look like a queue.
const LEAST_TOP: f64 = 8.0;
