//! What an export's cache may do: its mode, who else writes, and how old answers may become.
//!
//! A preset is a word for values that go together, and decides nothing by itself. A mode that trusts every writer to come through
//! MIDAS is refused where the export does not say so, however it was asked for: in the file, by a preset, or by a command.

use super::Subtree;
use super::key::Table;
use super::reading::{Reading, Section};
use super::value::{Typed, choice, export_path, placed, share, time};
use midas_core::cache::Mode;
use midas_core::time::Span;

/// Who writes to an export, and how far its cache goes in each mode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Caching {
    /// Who changes its files.
    pub writers: Writers,
    /// Lease mode: the oldest answer.
    pub lease_age_max: Span,
    /// How long a server may still execute a call that was cut off.
    pub server_hold_max: Span,
    /// Immutable mode: the oldest answer.
    pub immutable_age_max: Span,
    /// Ttl mode: the share of answers that may be out of date; more than 0 and less than 1. Paper: P10, p*.
    pub stale_target: f64,
    /// Ttl mode: the oldest answer.
    pub ttl_max: Span,
    /// Every mode: how long a name is believed missing, at most.
    pub absent_max: Span,
}

/// Who changes the files of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writers {
    /// Others too: clients that mount a server directly, jobs on the servers.
    Anyone,
    /// Clients of this MIDAS alone.
    MidasOnly,
}

/// What an export is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// Files that jobs write and read: lease.
    Scratch,
    /// Programs and libraries, installed past MIDAS now and then: ttl.
    SoftwareTree,
    /// Data that stays as it is: immutable.
    Dataset,
}

impl Writers {
    /// What users type.
    pub const NAMES: [(&'static str, Self); 2] = [("anyone", Self::Anyone), ("midas-only", Self::MidasOnly)];

    /// Whether such writers leave a mode's promise whole.
    pub fn permit(self, mode: Mode) -> bool {
        match (mode, self) {
            (Mode::Strict | Mode::Ttl, _) | (Mode::Lease | Mode::Immutable, Self::MidasOnly) => true,
            (Mode::Lease | Mode::Immutable, Self::Anyone) => false,
        }
    }
}

impl Preset {
    /// What users type.
    pub const NAMES: [(&'static str, Self); 3] =
        [("scratch", Self::Scratch), ("software-tree", Self::SoftwareTree), ("dataset", Self::Dataset)];

    const fn mode(self) -> Mode {
        match self {
            Self::Scratch => Mode::Lease,
            Self::SoftwareTree => Mode::Ttl,
            Self::Dataset => Mode::Immutable,
        }
    }

    /// What was installed just now is looked for by name: that it was missing must be forgotten soon.
    const fn absent_max(self) -> Option<Span> {
        match self {
            Self::SoftwareTree => Some(Span::from_secs(10)),
            Self::Scratch | Self::Dataset => None,
        }
    }
}

/// Why a mode is refused where others may write, and what to do.
pub(crate) fn refusal(mode: Mode) -> String {
    format!(
        "'{}' needs writers = \"midas-only\" in the export: what is changed past MIDAS would be answered as it was before; write it if \
         every writer comes through MIDAS, or use 'ttl'",
        mode.name()
    )
}

/// The caching of an export, as it was typed.
pub(super) fn caching(section: &Section<'_>, reading: &mut Reading<'_>) -> Option<(Option<Preset>, Mode, Caching)> {
    let preset = section.given("preset", reading, choice(&Preset::NAMES));
    let said = preset.flatten();
    let modes = Mode::ALL.map(|mode| (mode.name(), mode));
    let mode = section.read_or("mode", said.map(Preset::mode), reading, choice(&modes));
    let writers = section.read("writers", reading, choice(&Writers::NAMES));
    let lease_age_max = section.read("lease_age_max", reading, time(SECOND, HOUR));
    let server_hold_max = section.read("server_hold_max", reading, time(SECOND, HOUR));
    let immutable_age_max = section.read("immutable_age_max", reading, time(SECOND, DAY));
    let stale_target = section.read("stale_target", reading, share);
    let ttl_max = section.read("ttl_max", reading, time(TTL_LEAST, DAY));
    let absent_max = section.read_or("absent_max", said.and_then(Preset::absent_max), reading, time(Span::ZERO, DAY));
    let (mode, writers) = (mode?, writers?);
    permitted(section, mode, writers, reading);
    let caching = Caching {
        writers,
        lease_age_max: lease_age_max?,
        server_hold_max: server_hold_max?,
        immutable_age_max: immutable_age_max?,
        stale_target: stale_target?,
        ttl_max: ttl_max?,
        absent_max: absent_max?,
    };
    Some((preset?, mode, caching))
}

fn permitted(section: &Section<'_>, mode: Mode, writers: Writers, reading: &mut Reading<'_>) {
    if !writers.permit(mode) {
        let key = if section.gives("mode") { "mode" } else { "preset" };
        reading.wrong(section.place(key), format!("{key}: {}", refusal(mode)));
    }
}

/// The subtrees of an export with this path; what they do not say is as in the export.
pub(super) fn subtrees(
    export: &Section<'_>,
    path: Option<&str>,
    caching: Option<Caching>,
    reading: &mut Reading<'_>,
) -> Option<Vec<Subtree>> {
    let mut paths: Vec<String> = Vec::new();
    let mut all = Vec::new();
    for section in export.inner(Table::Subtree, SUBTREES_MAX, reading) {
        let typed = section.read("path", reading, placed(export_path));
        if let Some(typed) = &typed {
            below(path, typed, &paths, reading);
            paths.push(typed.value.clone());
        }
        // Without the export's values, what is wrong here is told all the same.
        all.push(subtree(&section, typed.map(|typed| typed.value), caching, reading));
    }
    all.into_iter().collect()
}

fn below(export: Option<&str>, typed: &Typed<String>, others: &[String], reading: &mut Reading<'_>) {
    let Typed { value: path, at } = typed;
    if others.contains(path) {
        reading.wrong(*at, format!("there are two subtrees with the path '{path}'"));
    }
    let Some(export) = export else { return };
    let root = export.trim_end_matches('/');
    match path.strip_prefix(root) {
        Some(rest) if rest.starts_with('/') && rest.len() > 1 => {}
        Some("" | "/") => reading.wrong(*at, "path: this is the export itself; its own mode stands in [[export]]"),
        Some(_) | None => {
            reading.wrong(*at, format!("path: '{path}' is not below the export's '{export}'; write '{root}{path}'"));
        }
    }
}

fn subtree(
    section: &Section<'_>,
    path: Option<String>,
    export: Option<Caching>,
    reading: &mut Reading<'_>,
) -> Option<Subtree> {
    let preset = section.given("preset", reading, choice(&Preset::NAMES));
    let said = preset.flatten();
    let modes = Mode::ALL.map(|mode| (mode.name(), mode));
    let mode = section.read_or("mode", said.map(Preset::mode), reading, choice(&modes));
    let writers = section.given("writers", reading, choice(&Writers::NAMES));
    let lease_age_max = section.given("lease_age_max", reading, time(SECOND, HOUR));
    let immutable_age_max = section.given("immutable_age_max", reading, time(SECOND, DAY));
    let stale_target = section.given("stale_target", reading, share);
    let ttl_max = section.given("ttl_max", reading, time(TTL_LEAST, DAY));
    let absent_max = section.given("absent_max", reading, time(Span::ZERO, DAY));
    let (export, mode) = (export?, mode?);
    let writers = writers?.unwrap_or(export.writers);
    if writers == Writers::Anyone && export.writers == Writers::MidasOnly {
        // Handles and hard links lead here from where that is relied on.
        reading.wrong(
            section.place("writers"),
            "writers: the export says that all come through MIDAS; give this one an export of its own".to_owned(),
        );
    }
    permitted(section, mode, writers, reading);
    let caching = Caching {
        writers,
        lease_age_max: lease_age_max?.unwrap_or(export.lease_age_max),
        immutable_age_max: immutable_age_max?.unwrap_or(export.immutable_age_max),
        stale_target: stale_target?.unwrap_or(export.stale_target),
        ttl_max: ttl_max?.unwrap_or(export.ttl_max),
        absent_max: absent_max?.or(said.and_then(Preset::absent_max)).unwrap_or(export.absent_max),
        ..export
    };
    Some(Subtree { path: path?, preset: said, mode, caching })
}

/// Subtrees of an export.
const SUBTREES_MAX: usize = 16;
const SECOND: Span = Span::from_secs(1);
const HOUR: Span = Span::from_secs(3600);
const DAY: Span = Span::from_secs(24 * 3600);
/// An entry that lives for less is gone before it is asked for.
const TTL_LEAST: Span = Span::from_millis(100);
