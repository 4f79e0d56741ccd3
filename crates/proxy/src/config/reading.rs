//! A configuration on the way from text to meaning: what has been found wrong so far, and the tables as they were typed.
//!
//! Readers return `None` where they have said what is wrong, and the reading goes on: all mistakes are told at once.

use super::Resolve;
use super::error::ConfigError;
use super::key::{Fallback, Key, Table};
use super::nearest::{nearest, suggestion};
use toml::de::{DeTable, DeValue};

/// What is known while a text is read.
pub(super) struct Reading<'r> {
    resolve: Resolve<'r>,
    wrong: Vec<(usize, String)>,
}

impl<'r> Reading<'r> {
    pub(super) fn new(resolve: Resolve<'r>) -> Self {
        Self { resolve, wrong: Vec::new() }
    }

    /// Something is wrong at this offset.
    pub(super) fn wrong(&mut self, at: usize, said: impl Into<String>) {
        self.wrong.push((at, said.into()));
    }

    pub(super) fn resolve(&self) -> Resolve<'r> {
        self.resolve
    }

    /// What was wrong, if anything.
    pub(super) fn end(self, text: &str) -> Option<ConfigError> {
        (!self.wrong.is_empty()).then(|| ConfigError::new(text, self.wrong))
    }
}

/// A value as it was typed.
#[derive(Clone, Copy)]
pub(super) struct Value<'v> {
    pub(super) key: &'static str,
    pub(super) typed: &'v DeValue<'v>,
    pub(super) at: usize,
}

impl Value<'_> {
    /// `key: what is wrong`.
    pub(super) fn wrong(&self, reading: &mut Reading<'_>, said: &str) {
        reading.wrong(self.at, format!("{}: {said}", self.key));
    }

    /// `key takes this, got that`.
    pub(super) fn takes(&self, reading: &mut Reading<'_>, what: &str) {
        let got = match self.typed {
            DeValue::String(text) => format!("'{text}'"),
            DeValue::Integer(number) => number.to_string(),
            DeValue::Float(number) => number.to_string(),
            DeValue::Boolean(flag) => flag.to_string(),
            DeValue::Datetime(_) => "a date".to_owned(),
            DeValue::Array(_) => "a list".to_owned(),
            DeValue::Table(_) => "a table".to_owned(),
        };
        reading.wrong(self.at, format!("{} takes {what}, got {got}", self.key));
    }
}

/// A table as it was typed; keys that it cannot have have been told.
#[derive(Clone, Copy)]
pub(super) struct Section<'t> {
    table: Table,
    typed: Option<&'t DeTable<'t>>,
    /// Of its header.
    pub(super) at: usize,
}

impl<'t> Section<'t> {
    pub(super) fn open(table: Table, typed: &'t DeTable<'t>, at: usize, reading: &mut Reading<'_>) -> Self {
        for (name, _) in typed {
            if table.key(name.get_ref()).is_none() && table.inner(name.get_ref()).is_none() {
                reading.wrong(name.span().start, unknown_key(name.get_ref(), table));
            }
        }
        Self { table, typed: Some(typed), at }
    }

    /// A table that the file does not have: all defaults.
    pub(super) fn absent(table: Table) -> Self {
        Self { table, typed: None, at: 0 }
    }

    /// The tables of a kind that stand in this one.
    pub(super) fn inner(&self, table: Table, most: usize, reading: &mut Reading<'_>) -> Vec<Self> {
        let Some(found) = self.typed.zip(table.name()).and_then(|(typed, name)| typed.get(name)) else {
            return Vec::new();
        };
        let members = found.get_ref().as_array().filter(|list| list.iter().all(|one| one.get_ref().is_table()));
        let Some(members) = members else {
            reading
                .wrong(found.span().start, format!("'{}' is a table; write {table}", table.name().unwrap_or_default()));
            return Vec::new();
        };
        if members.len() > most {
            reading.wrong(found.span().start, format!("there may be {most} of {table} at most, got {}", members.len()));
        }
        let typed = members.iter().take(most).filter_map(|one| Some((one.get_ref().as_table()?, one.span().start)));
        typed.map(|(typed, at)| Self::open(table, typed, at, reading)).collect()
    }

    /// The value of a key, or its default.
    pub(super) fn read<T>(
        &self,
        name: &'static str,
        reading: &mut Reading<'_>,
        reader: impl FnOnce(&Value<'_>, &mut Reading<'_>) -> Option<T>,
    ) -> Option<T> {
        if let Some(value) = self.value(name) {
            return reader(&value, reading);
        }
        match self.key(name).default {
            Fallback::Value(literal) => {
                let typed = DeValue::parse(literal).expect("a default is TOML");
                reader(&Value { key: name, typed: typed.get_ref(), at: self.at }, reading)
            }
            Fallback::Mandatory => {
                reading.wrong(self.at, format!("missing key '{name}' in {}", self.table));
                None
            }
            Fallback::Words(_) => unreachable!("a key without a value for a default is read by `given`"),
        }
    }

    /// The value of a key, or what another key says in its place, or its default.
    pub(super) fn read_or<T>(
        &self,
        name: &'static str,
        instead: Option<T>,
        reading: &mut Reading<'_>,
        reader: impl FnOnce(&Value<'_>, &mut Reading<'_>) -> Option<T>,
    ) -> Option<T> {
        match instead.filter(|_| !self.gives(name)) {
            Some(instead) => Some(instead),
            None => self.read(name, reading, reader),
        }
    }

    /// Whether a key is given.
    pub(super) fn gives(&self, name: &'static str) -> bool {
        self.value(name).is_some()
    }

    /// The value of a key that need not be given: `Some(None)` is not given.
    #[expect(clippy::option_option, reason = "the outer one is every reader's: what is wrong has been said")]
    pub(super) fn given<T>(
        &self,
        name: &'static str,
        reading: &mut Reading<'_>,
        reader: impl FnOnce(&Value<'_>, &mut Reading<'_>) -> Option<T>,
    ) -> Option<Option<T>> {
        match self.value(name) {
            Some(value) => reader(&value, reading).map(Some),
            None => Some(None),
        }
    }

    /// Where the value of a key stands; the header if it is not given.
    pub(super) fn place(&self, name: &'static str) -> usize {
        self.value(name).map_or(self.at, |value| value.at)
    }

    fn value(&self, name: &'static str) -> Option<Value<'t>> {
        let found = self.typed?.get(name)?;
        Some(Value { key: name, typed: found.get_ref(), at: found.span().start })
    }

    fn key(&self, name: &str) -> &'static Key {
        self.table.key(name).expect("every key that is read is in the list of keys")
    }
}

fn unknown_key(typed: &str, table: Table) -> String {
    let names: Vec<&str> = table.keys().map(|key| key.name).collect();
    let elsewhere = Table::ALL.into_iter().find(|other| other.key(typed).is_some());
    let hint = match (nearest(typed, names.iter().copied()), elsewhere) {
        (None, Some(other)) => format!("; '{typed}' belongs to {other}"),
        (Some(_) | None, _) => suggestion(typed, &names),
    };
    format!("unknown key '{typed}' in {table}{hint}")
}
