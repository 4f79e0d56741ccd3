//! `midas hot`: who asks most, and for what, over about the last second.

use crate::control::Daemon;
use crate::failure::Failure;
use crate::table::{percent, table};
use clap::{Args, ValueEnum};
use midas_proxy::api::watch::{self, Hot, Spot};

/// Show the hottest directories, clients and users of the last second
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// What counts: calls, or the time that servers spend on them
    #[arg(long, value_enum, default_value_t = By::Calls)]
    by: By,
    #[command(flatten)]
    daemon: Daemon,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
    Calls,
    Time,
}

impl Options {
    pub(crate) fn run(self) -> Result<(), Failure> {
        self.daemon.ask(watch::HOT, |hot| show(hot, self.by))
    }
}

fn show(hot: &Hot, by: By) -> String {
    let rate = hot.calls as f64 / hot.seconds.max(f64::MIN_POSITIVE);
    let head = format!(
        "{} calls in the last {:.1} s ({rate:.0} a second), {:.1} ms of servers' time",
        hot.calls, hot.seconds, hot.server_ms
    );
    if hot.calls == 0 {
        return format!("no calls in the last {:.1} s", hot.seconds);
    }
    let kinds = [("directory", &hot.directories), ("client", &hot.clients), ("user", &hot.users)];
    let tables = kinds.into_iter().map(|(kind, spots)| of_kind(hot, kind, spots, by));
    std::iter::once(head).chain(tables).collect::<Vec<_>>().join("\n\n")
}

fn of_kind(hot: &Hot, kind: &str, spots: &[Spot], by: By) -> String {
    let mut spots: Vec<&Spot> = spots.iter().collect();
    if by == By::Time {
        spots.sort_by(|one, other| other.server_ms.total_cmp(&one.server_ms));
    }
    let of_clients = kind == "client";
    let mut heads = vec![kind, "calls/s", "share", "servers' time", "share", "hits"];
    if of_clients {
        heads.push("job");
    }
    let row = |spot: &&Spot| {
        let mut row = vec![
            spot.name.clone(),
            format!("{:.0}", spot.calls as f64 / hot.seconds.max(f64::MIN_POSITIVE)),
            share(spot.calls as f64, hot.calls as f64),
            format!("{:.1} ms", spot.server_ms),
            share(spot.server_ms, hot.server_ms),
            percent(Some(spot.hits)),
        ];
        if of_clients {
            row.push(spot.job.clone().unwrap_or_else(|| "-".to_owned()));
        }
        row
    };
    table(&heads, &spots.iter().take(ROWS).map(row).collect::<Vec<_>>())
}

fn share(part: f64, whole: f64) -> String {
    percent((whole > 0.0).then(|| (part / whole).min(1.0)))
}

/// More would not fit on a screen; `--json` has them.
const ROWS: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn hot() -> Hot {
        let spot = |name: &str, calls, server_ms| Spot { name: name.to_owned(), calls, server_ms, ..Spot::default() };
        Hot {
            seconds: 5.0,
            calls: 1000,
            server_ms: 200.0,
            directories: vec![spot("/scratch/storm", 900, 50.0), spot("#00ff", 100, 150.0)],
            clients: vec![Spot { job: Some("4711".to_owned()), hits: 0.5, ..spot("10.0.0.7", 1000, 200.0) }],
            users: vec![spot("1000", 1000, 200.0)],
        }
    }

    #[test]
    fn three_tables_stand_below_each_other() {
        let want = "\
1000 calls in the last 5.0 s (200 a second), 200.0 ms of servers' time

  directory       calls/s   share  servers' time   share   hits
  /scratch/storm      180  90.0 %        50.0 ms  25.0 %  0.0 %
  #00ff                20  10.0 %       150.0 ms  75.0 %  0.0 %

  client    calls/s    share  servers' time    share    hits   job
  10.0.0.7      200  100.0 %       200.0 ms  100.0 %  50.0 %  4711

  user  calls/s    share  servers' time    share   hits
  1000      200  100.0 %       200.0 ms  100.0 %  0.0 %";
        assert_eq!(show(&hot(), By::Calls), want);
    }

    #[test]
    fn by_time_the_slow_come_first_and_nothing_is_said_in_words() {
        let by_time = show(&hot(), By::Time);
        assert!(by_time.find("#00ff") < by_time.find("/scratch/storm"), "{by_time}");
        assert_eq!(show(&Hot { seconds: 7.0, ..Hot::default() }, By::Calls), "no calls in the last 7.0 s");
    }
}
