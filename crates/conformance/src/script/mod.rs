//! The script: what is asked of every server, in order. Each part works in a directory of its own.

mod access;
mod attributes;
mod creation;
mod data;
mod handles;
mod links;
mod listings;
mod mounts;
mod names;
mod removal;
mod renames;
mod rpc;

use crate::step::Step;

/// Every step.
pub fn script() -> impl Iterator<Item = &'static Step> {
    PARTS.iter().copied().flatten()
}

const PARTS: &[&[Step]] = &[
    mounts::STEPS,
    handles::STEPS,
    creation::STEPS,
    names::STEPS,
    access::STEPS,
    attributes::STEPS,
    data::STEPS,
    links::STEPS,
    removal::STEPS,
    renames::STEPS,
    listings::STEPS,
    rpc::STEPS,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::Act;
    use midas_nfs::nfs3::Procedure;
    use std::collections::BTreeSet;

    #[test]
    fn every_step_has_a_name_of_its_own_and_every_symbol_one_step() {
        let mut names = BTreeSet::new();
        let mut symbols = BTreeSet::new();
        for step in script() {
            assert!(names.insert(step.name), "{} is there twice", step.name);
            assert!(step.binds.is_none_or(|symbol| symbols.insert(symbol)), "{}: bound before", step.name);
        }
        assert!(names.len() >= 200, "{} steps", names.len());
    }

    #[test]
    fn every_procedure_is_called() {
        let called: BTreeSet<Procedure> = script()
            .filter_map(|step| match step.act {
                Act::Call(call) | Act::Guarded(call) | Act::Twice(call) => Some(call.procedure()),
                Act::List(_) | Act::Fill(_) | Act::Mount(_) | Act::Rpc(_) => None,
            })
            .collect();
        assert_eq!(called, BTreeSet::from(Procedure::ALL));
    }
}
