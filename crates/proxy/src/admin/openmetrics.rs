//! Metrics as text: OpenMetrics for who says that he reads it, Prometheus' classic format for everyone else.

use crate::counters::{BUCKETS, Spread};
use prometheus_client::encoding::{DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use std::collections::{HashMap, HashSet};
use std::fmt;

/// The page that is written.
pub(super) struct Page<'e>(pub(super) DescriptorEncoder<'e>);

impl Page<'_> {
    pub(super) fn gauge(&mut self, name: &str, help: &str, value: impl EncodeGaugeValue + Copy) -> fmt::Result {
        self.0.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
    }

    pub(super) fn counter(&mut self, name: &str, help: &str, value: impl EncodeCounterValue + Copy) -> fmt::Result {
        self.0.encode_descriptor(name, help, None, MetricType::Counter)?.encode_counter(&value, NONE)
    }

    pub(super) fn gauges<'l, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = (Labels<'l, N>, impl EncodeGaugeValue)>,
    ) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        rows.into_iter().try_for_each(|(labels, value)| metric.encode_family(&labels)?.encode_gauge(&value))
    }

    pub(super) fn counters<'l, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = (Labels<'l, N>, u64)>,
    ) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        rows.into_iter().try_for_each(|(labels, value)| metric.encode_family(&labels)?.encode_counter(&value, NONE))
    }

    /// With these upper bounds of buckets, in microseconds: all, or some, of those that latencies are counted by.
    pub(super) fn histograms<'l, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        bounds: &[u64],
        rows: impl IntoIterator<Item = (Labels<'l, N>, Spread)>,
    ) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Histogram)?;
        rows.into_iter().try_for_each(|(labels, spread)| {
            let (sum, count) = (spread.nanos as f64 / 1e9, spread.count());
            let none: Option<&HashMap<usize, Exemplar<NoLabelSet, f64>>> = None;
            metric.encode_family(&labels)?.encode_histogram(sum, count, &coarser(&spread, bounds), none)
        })
    }
}

pub(super) type Labels<'l, const N: usize> = [(&'l str, &'l str); N];

/// The counts between these bounds, which are some of those that were counted by, and beyond the last.
fn coarser(spread: &Spread, bounds: &[u64]) -> Vec<(f64, u64)> {
    let mut buckets: Vec<(f64, u64)> = bounds.iter().map(|micros| (*micros as f64 / 1e6, 0)).collect();
    buckets.push((f64::INFINITY, 0));
    let finest = BUCKETS.iter().copied().chain([u64::MAX]);
    for (most, count) in finest.zip(spread.buckets) {
        buckets[bounds.partition_point(|bound| *bound < most)].1 += count;
    }
    buckets
}

/// The classic format: a counter's description has the name of its samples, and nothing marks the end.
pub(super) fn classic(open: &str) -> String {
    let counter = |line: &'_ str| line.strip_prefix("# TYPE ")?.strip_suffix(" counter").map(str::to_owned);
    let counters: HashSet<String> = open.lines().filter_map(counter).collect();
    let mut out = String::with_capacity(open.len() + 8 * counters.len());
    for line in open.lines() {
        let described = ["# HELP ", "# TYPE "].into_iter().find_map(|word| Some((word, line.strip_prefix(word)?)));
        match described.and_then(|(word, rest)| Some((word, rest.split_once(' ')?))) {
            Some((word, (name, rest))) if counters.contains(name) => {
                out.extend([word, name, "_total ", rest, "\n"]);
            }
            _ if line == "# EOF" || line.starts_with("# UNIT ") => {}
            _ => out.extend([line, "\n"]),
        }
    }
    out
}

const NONE: Option<&Exemplar<NoLabelSet, f64>> = None;
/// Who says this reads OpenMetrics.
pub(super) const OPEN: &str = "application/openmetrics-text";
pub(super) const OPEN_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
pub(super) const CLASSIC_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_described_by_the_name_of_their_samples() {
        let open = "# HELP a A.\n# TYPE a counter\na_total{x=\"# EOF\"} 1\n# HELP b B.\n# TYPE b gauge\n# UNIT b s\nb 2\n# EOF\n";
        let want =
            "# HELP a_total A.\n# TYPE a_total counter\na_total{x=\"# EOF\"} 1\n# HELP b B.\n# TYPE b gauge\nb 2\n";
        assert_eq!(classic(open), want);
    }

    #[test]
    fn coarser_buckets_hold_all_that_the_fine_ones_hold() {
        let mut spread = Spread::default();
        // One of each.
        spread.buckets.fill(1);
        let counts = |bounds: &[u64]| coarser(&spread, bounds).into_iter().map(|(_, count)| count).collect::<Vec<_>>();
        assert_eq!(counts(&BUCKETS), [1; BUCKETS.len() + 1]);
        assert_eq!(counts(&[100, 1_000]), [2, 3, 14]);
        assert_eq!(coarser(&spread, &[100])[0].0, 0.0001);
    }
}
