//! `midas sim list`: what can be typed.

use super::output::print;
use super::table::Table;
use crate::failure::Failure;
use midas_core::route::policy::Policy;
use midas_sim::baseline::Rival;
use midas_sim::policy::Contender;
use midas_workload::Service;
use midas_workload::Spec;

pub(crate) fn list() -> Result<(), Failure> {
    let mut workloads = Table::new(&["workload", "what it is"]);
    for described in Spec::list() {
        workloads.row(vec![described.usage.to_owned(), described.meaning.to_owned()]);
    }
    let (usage, meaning) = crate::workload::TRACE;
    workloads.row(vec![usage.to_owned(), meaning.to_owned()]);
    let mut policies = Table::new(&["policy", "what it does"]);
    for name in Contender::NAMES {
        let rival = Rival::ALL.into_iter().find(|(_, rival, _)| *rival == name).map(|(_, _, what)| (name, what));
        let core = Policy::USAGE.into_iter().find(|(usage, _)| usage.split('[').next() == Some(name));
        if let Some((usage, what)) = rival.or(core) {
            policies.row(vec![usage.to_owned(), what.to_owned()]);
        }
    }
    let modes = "off, strict (joins waiting calls), lease (coherent), ttl (hazard target), immutable";
    print(&format!(
        "{}\n{}\nservice times  {}\ncache modes    {modes}\n",
        workloads.show(2),
        policies.show(2),
        Service::USAGE
    ))
}
