//! Every view, drawn into memory as the terminal would be, at two sizes: what stands in the cells.

use super::app::{After, App, Sort, View};
use super::feed::News;
use super::paint::Paint;
use super::{plain, screen};
use midas_proxy::api::watch::{Event, ExportPoint, Frame, Hot, Point, ServerPoint, Spot};
use midas_proxy::api::{
    Caching, Cluster, Export, Fetches, Leases, Member, Pool, Reads, Server, Setting, Shares, Status,
};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier};
use std::collections::BTreeMap;
use std::time::Duration;

const NARROW: (u16, u16) = (80, 24);
const WIDE: (u16, u16) = (160, 50);

fn server(number: u64) -> Server {
    Server {
        name: format!("10.0.0.{number}:2049"),
        address: format!("10.0.0.{number}:2049"),
        health: "up".to_owned(),
        in_flight: 4 * number,
        dispatched: 1000 * number,
        uncommitted: 0,
        fenced: false,
        foreign: None,
        latency_p50_ms: 0.5 * number as f64,
        latency_p99_ms: 12.345 * number as f64,
        service_ms: 0.25,
        weight: 1.0,
    }
}

fn setting(now: &str) -> Setting {
    Setting { now: now.to_owned(), file: "first-fit".to_owned() }
}

fn export() -> Export {
    let mode = Setting { now: "lease".to_owned(), file: "lease".to_owned() };
    let reads = Reads { answered: 700, absent: 10, joined: 50, fetched: 250 };
    Export {
        path: "/scratch".to_owned(),
        pool: "heads".to_owned(),
        policy: setting("rr"),
        mode,
        admitted: 4,
        routes: BTreeMap::from([("home".to_owned(), 900), ("steered".to_owned(), 100)]),
        bound: BTreeMap::from([("fence".to_owned(), 200), ("listing".to_owned(), 50), ("doubt".to_owned(), 0)]),
        fences: 12,
        cache: Caching { mode: "lease".to_owned(), reads, entries: 1234, bytes: 1 << 20, ..Caching::default() },
        subtrees: Vec::new(),
    }
}

fn spot(name: &str, calls: u64, server_ms: f64) -> Spot {
    Spot { name: name.to_owned(), calls, error: 3, server_ms, hits: 0.25, ..Spot::default() }
}

fn point(number: u64) -> Point {
    let server = |at: u64| ServerPoint { queue: 4.0 * at as f64, calls: 250.5, p50_ms: 0.5, p99_ms: 12.3 };
    let knobs = BTreeMap::from([("gap".to_owned(), 2.0), ("ttl_ms file".to_owned(), 1500.0)]);
    let export =
        ExportPoint { steered: 0.1, bound: 0.25, pressure: Some(0.75), thresholds: [0.2, 0.6], imbalance: 1.5, knobs };
    Point {
        number,
        uptime_ms: 500 * number,
        servers: (1..=4).map(server).collect(),
        procedures: BTreeMap::from([("GETATTR".to_owned(), 600.0), ("LOOKUP".to_owned(), 402.0)]),
        outcomes: BTreeMap::from([("hit".to_owned(), 501.0), ("forwarded".to_owned(), 501.0)]),
        hits: BTreeMap::from([("GETATTR".to_owned(), 0.83)]),
        exports: vec![export],
    }
}

fn frame(number: u64) -> Frame {
    let clients =
        (1..=12).map(|at| Spot { job: Some(format!("{}", 7000 + at)), ..spot(&format!("10.1.0.{at}"), 900 - at, 5.0) });
    let event = |number: u64, kind: &str, what: &str, why: &str| Event {
        number,
        uptime_ms: 3_723_000 + number,
        kind: kind.to_owned(),
        about: "/scratch".to_owned(),
        what: what.to_owned(),
        why: why.to_owned(),
    };
    Frame {
        point: point(number),
        status: Status {
            version: "0.1.0".to_owned(),
            uptime_seconds: 3723,
            clients: 17,
            calls: 123_456,
            exports: vec![export()],
            pools: vec![Pool { name: "heads".to_owned(), servers: (1..=4).map(server).collect() }],
            ..Status::default()
        },
        hot: Hot {
            seconds: 10.0,
            calls: 10_020,
            server_ms: 4321.0,
            directories: vec![spot("/scratch/storm", 8000, 30.0), spot("/scratch/calm", 100, 4000.0)],
            clients: clients.collect(),
            users: vec![spot("1000", 9000, 100.0), spot("0", 20, 2.0)],
        },
        events: vec![
            event(1, "knob", "gap 1 -> 2", "pressure 0.750 was above 0.600 for 3 ticks"),
            event(2, "health", "is down", "no answer for 10 s"),
        ],
        cluster: None,
    }
}

fn member(name: &str, up: bool) -> Member {
    Member {
        name: name.to_owned(),
        address: format!("{name}.example:7049"),
        witness: name == "w",
        incarnation: None,
        up,
        in_view: up,
        leaving: false,
        same_config: Some(true),
        epoch: Some(5),
        version: Some(1),
        software: "0.1.0".to_owned(),
        unequal: None,
        rtt_ms: up.then_some(0.321),
        silent_ms: Some(if up { 100.0 } else { 65_000.0 }),
        frames_sent: 1,
        bytes_sent: 1,
        frames_received: 1,
        bytes_received: 1,
        datagrams_sent: 1,
        datagrams_received: 1,
    }
}

fn cluster() -> Cluster {
    let leases = Leases {
        live_ms: 1500.0,
        blocked: None,
        acts: true,
        pending: 2,
        waiting: 1,
        longest_ms: 1.0,
        announced: 77,
        held: 0,
        holds: 0,
        permitted: 76,
        wait_mean_ms: 0.5,
        wait_max_ms: 2.0,
        refused: 0,
        marked: 0,
        flushed: 0,
        messages: 0,
        frames: 0,
        malformed: 0,
    };
    Cluster {
        name: "site".to_owned(),
        me: "a".to_owned(),
        epoch: 5,
        in_view: true,
        cut_off: false,
        present: 2,
        leader: Some("b".to_owned()),
        term: 3,
        members: vec![member("a", true), member("b", true), member("w", false)],
        refused: BTreeMap::from([("key".to_owned(), 4)]),
        lost: 0,
        failed: None,
        leases,
        fetches: Fetches { asked: 10, fetched: 9, ..Fetches::default() },
        shares: Shares { told: 11, heard: 12, refused: 0, lag_ms: 0.1, bytes: 9 },
    }
}

/// Some minutes of the same, and a frame.
fn app(view: View, frame: Frame) -> App {
    let mut app = App::new(view, Paint::new(false), "control".to_owned());
    app.hear(News::Past((1..120).map(point).collect()));
    app.hear(News::Frame(Box::new(frame)));
    app
}

fn cells(app: &mut App, (wide, high): (u16, u16)) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(wide, high)).unwrap();
    terminal.draw(|frame| screen::draw(app, frame.area(), frame.buffer_mut())).unwrap();
    terminal.backend().buffer().clone()
}

fn lines(app: &mut App, size: (u16, u16)) -> Vec<String> {
    let cells = cells(app, size);
    let row = |y| (0..size.0).map(|x| cells[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..size.1).map(row).collect()
}

/// Everything that is there, in lines that contain all of the words each, top-down.
fn assert_lines(shown: &[String], want: &[&[&str]]) {
    let mut from = 0;
    for words in want {
        let found = shown[from..].iter().position(|line| words.iter().all(|word| line.contains(word)));
        let found =
            found.unwrap_or_else(|| panic!("no line with {words:?} from line {from} on in:\n{}", shown.join("\n")));
        from += found + 1;
    }
}

fn press(app: &mut App, code: KeyCode) -> After {
    app.key(KeyEvent::new(code, KeyModifiers::NONE))
}

#[test]
fn servers_are_shown_with_what_the_status_says_at_80_by_24() {
    let shown = lines(&mut app(View::Servers, frame(120)), NARROW);
    assert_eq!(shown[0], "midas 0.1.0  ready  up 1 h 2 min  1002 calls/s  17 clients  0 held");
    assert_eq!(shown[1], "123456 calls answered  50.0 % from caches");
    assert_eq!(shown[2], "[1 servers] 2 hot  3 exports  4 events  5 cluster");
    let blank = " ".repeat(13);
    assert_eq!(shown[3], format!("server         health  queue  {blank}  calls/s  p50 ms  p99 ms  service ms"));
    assert_eq!(shown[4], "10.0.0.1:2049  up          4  ███▎               250   0.500  12.345       0.250");
    assert_eq!(shown[7], "10.0.0.4:2049  up         16  █████████████      250   2.000  49.380       0.250");
    assert_lines(
        &shown[8..],
        &[
            &["directories, last 10 s", "calls▾"],
            &["/scratch/storm", "8000", "25.0 %"],
            &["clients, last 10 s", "job"],
            &["10.1.0.1", "7001", "899"],
            &["users"],
            &["1000", "9000"],
            &["q quit", "? keys"],
        ],
    );
}

#[test]
fn a_wide_terminal_has_every_column_and_events_below() {
    let shown = lines(&mut app(View::Servers, frame(120)), WIDE);
    let head = shown.iter().find(|line| line.starts_with("server ")).unwrap();
    for word in ["health", "queue", "a minute", "calls/s", "p50 ms", "p99 ms", "service ms", "weight"] {
        assert!(head.contains(word), "{word} in {head}");
    }
    let last = shown.iter().find(|line| line.starts_with("10.0.0.4")).unwrap();
    assert!(last.contains("██████████") && last.ends_with("1.00"), "{last}");
    let second = shown.iter().find(|line| line.starts_with("10.0.0.2")).unwrap();
    assert!(second.contains(&"▅".repeat(50)), "half of the longest queue, for a minute: {second}");
    assert_lines(
        &shown,
        &[
            &["directories, last 10 s", "clients, last 10 s", "users, last 10 s"],
            &["/scratch/storm", "10.1.0.1", "1000"],
            &["events, newest first"],
            &["1:02:03", "health", "/scratch: is down (no answer for 10 s)"],
            &["knob", "gap 1 -> 2"],
        ],
    );
}

#[test]
fn hot_spots_are_sorted_by_calls_or_by_time_and_scrolled() {
    let mut app = app(View::Hot, frame(120));
    let shown = lines(&mut app, NARROW);
    assert_lines(
        &shown,
        &[
            &["10020 calls in 10.0 s", "4321.0 ms"],
            &["directories", "calls▾", "server ms"],
            &["/scratch/storm", "800", "8000", "3", "30.0", "25.0 %"],
            &["/scratch/calm", "10.0", "100", "4000.0"],
            &["10.1.0.9", "7009", "891"],
            &["3 more below"],
        ],
    );
    press(&mut app, KeyCode::Char('t'));
    assert_eq!(app.sort, Sort::Time);
    let shown = lines(&mut app, NARROW);
    assert_lines(&shown, &[&["server ms▾"], &["/scratch/calm"], &["/scratch/storm"]]);
    press(&mut app, KeyCode::End);
    let shown = lines(&mut app, NARROW);
    assert_lines(&shown, &[&["users"], &["1000", "9000"], &["0", "20"]]);
    assert!(!shown.iter().any(|line| line.contains("more below")), "{shown:?}");
    press(&mut app, KeyCode::Up);
    assert_lines(&lines(&mut app, NARROW), &[&["1 more below"]]);
    assert_lines(&lines(&mut app, WIDE), &[&["directories"], &["clients"], &["users"]]);
}

#[test]
fn exports_show_knobs_pressure_and_hits() {
    for size in [NARROW, WIDE] {
        let shown = lines(&mut app(View::Exports, frame(120)), size);
        assert_lines(
            &shown,
            &[
                &["export", "policy", "hits", "steered", "pressure"],
                &["/scratch", "rr*", "75.0 %", "10.0 %", "0.750"],
                &["knobs: gap 2, ttl_ms file 1500"],
                &["policy changed; first-fit in the file"],
                &["1000 calls routed: home 900, steered 100"],
                &["bound to one server: 25.0 % of calls"],
                &["GETATTR", "600", "83.0 %"],
                &["LOOKUP", "402", "-"],
                &["forwarded 501/s, hit 501/s"],
            ],
        );
        let wide = shown
            .iter()
            .any(|line| line.contains("entries") && line.contains("0.200..0.600") || line.contains("turns"));
        assert!(size == NARROW || wide, "{shown:?}");
    }
}

#[test]
fn events_say_why_and_are_wrapped_not_cut() {
    let shown = lines(&mut app(View::Events, frame(120)), (60, 24));
    assert_lines(
        &shown,
        &[
            &["[4 events]"],
            &["health", "/scratch: is down (no answer for 10 s)"],
            &["knob", "/scratch: gap 1 -> 2 (pressure 0.750"],
            &["was above 0.600 for 3 ticks)"],
        ],
    );
    assert_lines(
        &lines(&mut app(View::Events, frame(120)), WIDE),
        &[&["gap 1 -> 2 (pressure 0.750 was above 0.600 for 3 ticks)"]],
    );
}

#[test]
fn a_cluster_shows_its_members_and_a_daemon_alone_says_so() {
    let alone = lines(&mut app(View::Cluster, frame(120)), NARROW);
    assert_lines(&alone, &[&["[5 cluster]"], &["no [cluster]"]]);
    for size in [NARROW, WIDE] {
        let together = Frame { cluster: Some(cluster()), ..frame(120) };
        let shown = lines(&mut app(View::Cluster, together.clone()), size);
        assert_lines(
            &shown,
            &[
                &["cluster site: view 5 with 2 of 3 members, led by b"],
                &["member", "link", "view", "rtt ms"],
                &["a", "itself", "in view", "0.321"],
                &["b", "up", "in view"],
                &["w", "down", "left out", "-", "65.0"],
                &["leases: held for 1.5 s more; 77 announced"],
                &["fetches: 9 of 10"],
                &["refused: key 4; lost: 0"],
            ],
        );
        assert!(shown.iter().any(|line| line.contains("witness")), "{shown:?}");
        let mut alone = together.clone();
        alone.cluster.as_mut().unwrap().cut_off = true;
        let shown = lines(&mut app(View::Cluster, alone.clone()), size);
        assert_lines(&shown, &[&["a is cut off from the majority"], &["cluster site: last known view 5"]]);
        assert_lines(&lines(&mut app(View::Servers, alone), size), &[&["a is cut off from the majority"]]);
        let shown = lines(&mut app(View::Servers, together), size);
        assert_lines(&shown, &[&["queue", "of all"], &["10.0.0.4:2049", "16", "16.0"]]);
    }
}

#[test]
fn an_empty_daemon_has_words_for_everything() {
    for size in [NARROW, WIDE] {
        for view in View::ALL {
            let shown = lines(&mut app(view, Frame::default()), size);
            assert_lines(&shown, &[&["midas", "ready", "up 0 s", "0.0 calls/s", "0 clients"]]);
            let words = match view {
                View::Servers | View::Hot => "no calls in the last 0 s",
                View::Exports => "no calls now",
                View::Events => "nothing was decided",
                View::Cluster => "no [cluster]",
            };
            assert_lines(&shown, &[&[words]]);
        }
    }
    let mut nothing = App::new(View::Servers, Paint::new(false), "/run/x.sock".to_owned());
    assert_lines(&lines(&mut nothing, NARROW), &[&["waiting for the first frame from /run/x.sock"], &["q quit"]]);
}

#[test]
fn what_is_wrong_is_seen_with_and_without_colours() {
    let mut frame = frame(120);
    frame.status.pools[0].servers[1].health = "down".to_owned();
    frame.status.pools[0].servers[2].foreign = Some("its handles differ".to_owned());
    frame.status.pools[0].servers[3].uncommitted = 5;
    frame.status.not_ready = (1..=5).map(|at| format!("export /e{at} has no server")).collect();
    frame.status.bypass = true;
    frame.status.held = 3;
    frame.status.exports[0].cache.demoted = Some("somebody writes past MIDAS".to_owned());
    for (colour, look) in [(true, (Color::Red, Modifier::BOLD)), (false, (Color::Reset, Modifier::REVERSED))] {
        let mut app = app(View::Servers, frame.clone());
        app.paint = Paint::new(colour);
        let cells = cells(&mut app, WIDE);
        let shown = lines(&mut app, WIDE);
        assert_lines(
            &shown,
            &[
                &["NOT READY", "3 held"],
                &["bypass is on"],
                &["not ready: export /e1"],
                &["not ready: export /e3"],
                &["and 3 more"],
                &["10.0.0.2:2049", "down"],
                &["10.0.0.3:2049: its handles differ"],
                &["10.0.0.4:2049: 5 files uncommitted"],
            ],
        );
        let row = shown.iter().position(|line| line.starts_with("10.0.0.2")).unwrap();
        let column = shown[row].find("down").unwrap();
        let cell = &cells[(column as u16, row as u16)];
        assert_eq!((cell.fg, cell.modifier), look);
        let coloured = cells.content().iter().filter(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset).count();
        assert_eq!(coloured > 0, colour);
    }
}

#[test]
fn names_cannot_move_the_cursor_and_long_ones_keep_their_end() {
    let mut frame = frame(120);
    let long = format!("/scratch/{}/end", "x".repeat(200));
    frame.hot.directories = vec![spot("/scratch/\x1b[2J\nboo", 9, 1.0), spot(&long, 8, 1.0)];
    frame.status.pools[0].servers[0].name = "evil\r\u{202e}name".to_owned();
    frame.status.not_ready = vec!["\x07bell".to_owned()];
    for view in View::ALL {
        let cells = cells(&mut app(view, frame.clone()), NARROW);
        let symbols = cells.content().iter().map(ratatui::buffer::Cell::symbol);
        assert!(symbols.clone().all(|symbol| !symbol.chars().any(char::is_control)), "{view:?}");
    }
    let shown = lines(&mut app(View::Servers, frame), WIDE);
    assert_lines(
        &shown,
        &[&["\\u{7}bell"], &["evil\\u{d}\\u{202e}name"], &["/scratch/\\u{1b}[2J\\u{a}boo"], &["…", "xxx/end", "8"]],
    );
}

#[test]
fn a_pause_holds_the_picture_and_the_feed_goes_on() {
    let mut app = app(View::Servers, frame(120));
    press(&mut app, KeyCode::Char('p'));
    let mut next = frame(121);
    next.status.calls = 999_999;
    app.hear(News::Frame(Box::new(next)));
    assert_lines(&lines(&mut app, NARROW), &[&["123456 calls answered"], &["paused"]]);
    press(&mut app, KeyCode::Char('p'));
    assert_lines(&lines(&mut app, NARROW), &[&["999999 calls answered"]]);
    app.hear(News::Gone { why: "no daemon at control".to_owned(), again: Duration::from_millis(500) });
    let gone = lines(&mut app, NARROW);
    assert_lines(
        &gone,
        &[&["999999"], &["the daemon is gone: asked again every 0.5 s (no daemon at control)"], &["10.0.0.1"]],
    );
    app.hear(News::Frame(Box::new(frame(122))));
    assert!(!lines(&mut app, NARROW).iter().any(|line| line.contains("gone")));
}

#[test]
fn keys_choose_views_show_help_and_end() {
    let mut app = app(View::Servers, frame(120));
    for (digit, view) in ('1'..='5').zip(View::ALL) {
        assert_eq!((press(&mut app, KeyCode::Char(digit)), app.view), (After::Stay, view));
    }
    press(&mut app, KeyCode::Tab);
    assert_eq!(app.view, View::Servers);
    press(&mut app, KeyCode::BackTab);
    assert_eq!(app.view, View::Cluster);
    press(&mut app, KeyCode::Char('?'));
    assert_lines(&lines(&mut app, NARROW), &[&["c, t", "sort hot spots"], &["q, Esc, Ctrl-C", "end"]]);
    assert_eq!((press(&mut app, KeyCode::Esc), app.help), (After::Stay, false));
    assert_eq!(press(&mut app, KeyCode::Esc), After::Quit);
    assert_eq!(press(&mut app, KeyCode::Char('q')), After::Quit);
    assert_eq!(app.key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), After::Quit);
}

#[test]
fn any_size_is_drawn_and_no_figure_is_cut() {
    for view in View::ALL {
        for (wide, high) in [(1, 1), (39, 9), (40, 10), (47, 11), (63, 17), (100, 30), (139, 40), (140, 40), (300, 90)]
        {
            let mut app = app(view, Frame { cluster: Some(cluster()), ..frame(120) });
            press(&mut app, KeyCode::Char('?'));
            let _help_fits = lines(&mut app, (wide, high));
            press(&mut app, KeyCode::Char('?'));
            let shown = lines(&mut app, (wide, high)).join("\n");
            for figure in shown.split(|c: char| !c.is_ascii_digit()).filter(|figure| figure.starts_with("1234")) {
                assert!(figure == "1234" || figure == "123456", "{figure} in:\n{shown}");
            }
        }
    }
}

#[test]
fn text_says_what_it_leaves_out() {
    let mut app = app(View::Hot, frame(120));
    let print = |app: &mut App, high| {
        let area = Rect::new(0, 0, 80, high);
        let mut cells = Buffer::empty(area);
        screen::print(app, area, &mut cells);
        plain::text(&cells, Paint::new(false))
    };
    let all = print(&mut app, 50);
    assert!(all.contains("users, last 10 s") && !all.contains("more: ") && !all.contains("q quit"), "{all}");
    assert!(!all.contains('\x1b') && all.lines().all(|line| line == line.trim_end()), "{all}");
    let some = print(&mut app, 10);
    let left_out = all.lines().count() - (some.lines().count() - 1);
    assert!(some.ends_with(&format!("{left_out} more: --height\n")), "{some}");
}
