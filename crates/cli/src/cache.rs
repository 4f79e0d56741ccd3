//! `midas cache`: what the caches hold, and what they are worth.

use crate::control::Daemon;
use crate::failure::Failure;
use crate::table::{percent, size, table};
use clap::Args;
use midas_proxy::api::{self, Amount, Caching, Held, Holding, Holdings, Reads};

/// Show what the caches hold, by kind and by subtree, and how many reads they answer
///
/// Kinds: attributes of objects; names and where they lead; names that are missing; which users may search a directory; since when a
/// directory's names are known (directories); what users may do (access); symbolic links; pages of listings; limits of file systems.
/// Subtrees are the names in the export's root. An entry is counted there if names that are held lead to it from the root, at most a
/// million of them; everything else is elsewhere. Bytes include what keeping an entry costs.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Options {
    /// One export, such as /scratch; all if not given
    export: Option<String>,
    #[command(flatten)]
    daemon: Daemon,
}

impl Options {
    pub(crate) fn run(self) -> Result<(), Failure> {
        self.daemon.tell(api::CACHE, &Held { export: self.export }, show)
    }
}

fn show(held: &Holdings) -> String {
    held.exports.iter().map(of_export).collect::<Vec<_>>().join("\n\n")
}

fn of_export(holding: &Holding) -> String {
    let what = if holding.subtree { "subtree" } else { "export" };
    let mut parts = vec![format!("{what} {}: {}", holding.path, summary(&holding.path, &holding.cache))];
    let held = |rows: &[&Amount]| rows.iter().filter(|it| it.entries > 0).map(|it| row(it)).collect::<Vec<_>>();
    let kinds = held(&holding.kinds.iter().collect::<Vec<_>>());
    if !kinds.is_empty() {
        parts.push(table(&["kind", "entries", "bytes", "bytes each"], &kinds));
        let places: Vec<&Amount> = holding.subtrees.iter().chain([&holding.elsewhere]).collect();
        parts.push(table(&["subtree", "entries", "bytes", "bytes each"], &held(&places)));
    }
    if !holding.reads.is_empty() {
        let rows: Vec<_> = holding.reads.iter().map(|(procedure, reads)| of_reads(procedure, reads)).collect();
        parts.push(table(&["reads", "calls", "answered", "missing", "joined", "asked of a server"], &rows));
    }
    parts.join("\n")
}

fn row(it: &Amount) -> Vec<String> {
    vec![it.what.clone(), it.entries.to_string(), size(it.bytes), (it.bytes / it.entries.max(1)).to_string()]
}

fn of_reads(procedure: &str, reads: &Reads) -> Vec<String> {
    let share = |part| percent(reads.share(part));
    let Reads { answered, absent, joined, fetched } = *reads;
    vec![procedure.to_owned(), reads.all().to_string(), share(answered), share(absent), share(joined), share(fetched)]
}

/// A cache in a line; `export` is for the command that arms it again.
pub(crate) fn summary(export: &str, cache: &Caching) -> String {
    let Caching { mode, reads, entries, bytes, .. } = cache;
    let demoted = cache
        .demoted
        .as_ref()
        .map_or_else(String::new, |why| format!(", DEMOTED: {why} (`midas set {export} mode=..` arms it again)"));
    let asked = match reads.all() {
        0 => "no reads yet".to_owned(),
        all => format!(
            "{} of {all} reads answered ({} missing names), {} joined",
            percent(reads.share(reads.answered)),
            percent(reads.share(reads.absent)),
            percent(reads.share(reads.joined))
        ),
    };
    let checked = match cache.checked {
        0 => String::new(),
        checked => format!("; {checked} checked, {} differed", cache.different),
    };
    let refused = refusals(cache);
    format!("cache {mode}{demoted}: {asked}; {entries} entries, {}{refused}{checked}", size(*bytes))
}

fn refusals(cache: &Caching) -> String {
    let some = cache.refused.iter().filter(|(_, count)| **count > 0);
    let named: Vec<String> = some.map(|(why, count)| format!("{why} {count}")).collect();
    if named.is_empty() { String::new() } else { format!("; not kept: {}", named.join(", ")) }
}

const EXAMPLES: &str = "\
Examples:
  midas cache                        every export
  midas cache /scratch --json        one, for programs";

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_demoted_cache_says_why_and_what_to_do() {
        let refused = BTreeMap::from([("pending".to_owned(), 3), ("hold".to_owned(), 0)]);
        let reads = Reads { answered: 3, absent: 1, joined: 1, fetched: 4 };
        let mode = "strict".to_owned();
        let demoted = Some("somebody writes".to_owned());
        let cache =
            Caching { mode, demoted, reads, entries: 5, bytes: 2048, refused, checked: 7, different: 1, kept: 9 };
        let want = "cache strict, DEMOTED: somebody writes (`midas set /a mode=..` arms it again): 37.5 % of 8 reads answered \
                    (12.5 % missing names), 12.5 % joined; 5 entries, 2.0 KiB; not kept: pending 3; 7 checked, 1 differed";
        assert_eq!(summary("/a", &cache), want);
    }
}
