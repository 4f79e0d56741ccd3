//! Whether several proxies balance as one does: the same calls through one, through all, and through all without load shares.

use super::Pair;
use crate::failure::Failure;
use crate::sim::output::print;
use crate::sim::table::Table;
use midas_sim::config::{Config, ShareInterval};
use serde_json::{Value, json};

/// What is played for one policy and seed; the one proxy comes first.
pub(super) fn arms(config: &Config, proxies: u32) -> Vec<Config> {
    let one = Config { proxies: 1, ..config.clone() };
    let arm = |shares| Config { proxies, shares, ..config.clone() };
    match proxies {
        1 => vec![one],
        _ => vec![one, arm(ShareInterval::Auto), arm(ShareInterval::Off)],
    }
}

/// Shows the arms beside each other, and fails unless shares make the difference.
pub(super) fn judge(pairs: &[Pair], as_json: bool) -> Result<(), Failure> {
    let arms: Vec<Arm<'_>> =
        pairs.chunks(ARMS).flat_map(|arms| arms.iter().map(|pair| Arm { pair, one: &arms[0] })).collect();
    let rows: Vec<Value> = arms.iter().map(Arm::json).collect();
    match as_json {
        true => print(&format!("{}\n", json!({ "tolerance": TOLERANCE, "rows": rows })))?,
        false => print(&table(&arms))?,
    }
    match arms.iter().filter(|arm| !arm.holds()).count() {
        0 => Ok(()),
        outside => Err(Failure::Broken(format!("{outside} of {} are not as they should be", arms.len()))),
    }
}

struct Arm<'a> {
    pair: &'a Pair,
    /// The same through one proxy.
    one: &'a Pair,
}

impl Arm<'_> {
    fn wire(&self) -> f64 {
        self.pair.wire.mean_queue / self.one.wire.mean_queue
    }

    fn simulated(&self) -> f64 {
        self.pair.simulated.mean_queue / self.one.simulated.mean_queue
    }

    fn holds(&self) -> bool {
        ((self.wire() - 1.0).abs() <= TOLERANCE) == self.pair.shares && self.pair.failed == 0
    }

    fn json(&self) -> Value {
        let mut row = self.pair.json();
        row["proxies"] = json!(self.pair.proxies);
        row["shares"] = json!(self.pair.shares);
        row["of_one_proxy"] = json!({ "wire": self.wire(), "sim": self.simulated() });
        row["holds"] = json!(self.holds());
        row
    }
}

fn table(arms: &[Arm<'_>]) -> String {
    let mut table = Table::new(&[
        "policy",
        "seed",
        "proxies",
        "shares",
        "calls",
        "mean queue",
        "of one proxy's",
        "simulated",
        "worst queue",
        "errors",
        "within 15 %",
        "as it should",
    ]);
    let word = |so: bool| (if so { "yes" } else { "NO" }).to_owned();
    for arm in arms {
        let Pair { policy, seed, proxies, shares, wire, failed, .. } = arm.pair;
        table.row(vec![
            policy.clone(),
            seed.to_string(),
            proxies.to_string(),
            (if *proxies == 1 {
                "-"
            } else if *shares {
                "on"
            } else {
                "off"
            })
            .to_owned(),
            wire.calls.to_string(),
            format!("{:.3}", wire.mean_queue),
            format!("{:.3}", arm.wire()),
            format!("{:.3}", arm.simulated()),
            wire.worst_queue.to_string(),
            failed.to_string(),
            (if (arm.wire() - 1.0).abs() <= TOLERANCE { "yes" } else { "no" }).to_owned(),
            word(arm.holds()),
        ]);
    }
    table.show(1)
}

/// How far several proxies may be off one.
const TOLERANCE: f64 = 0.15;
/// One proxy, several, several without shares.
const ARMS: usize = 3;
