//! How long calls take: one distribution for all, or one by procedure. The distributions are the simulator's.

use midas_core::op::Op;
use midas_nfs::nfs3::Procedure;
use midas_workload::Service;
use std::time::Duration;

/// Service times by procedure; without any, calls take no longer than they take.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceTimes {
    by_procedure: [Option<Service>; 22],
    seed: u64,
}

impl ServiceTimes {
    /// What users may type.
    pub const USAGE: &'static str = "none, or const:100us (also exp:, lognormal:, bimodal:), or by procedure: getattr=const:50us,create=exp:2ms,const:100us (the one without a name is for all others)";

    /// Calls take no longer than they take.
    pub const fn none() -> Self {
        Self { by_procedure: [None; 22], seed: 0 }
    }

    /// What was typed, or one line that says what is possible.
    pub fn parse(text: &str, seed: u64) -> Result<Self, String> {
        let mut times = Self { seed, ..Self::none() };
        if text == "none" {
            return Ok(times);
        }
        let items = || text.split(',').map(|item| item.split_once('='));
        for (item, parts) in text.split(',').zip(items()) {
            if parts.is_none() {
                times.by_procedure = [Some(Service::parse(item)?); 22];
            }
        }
        for (name, service) in items().flatten() {
            let service = Some(Service::parse(service)?);
            let procedure = Procedure::ALL.into_iter().find(|procedure| procedure.name().eq_ignore_ascii_case(name));
            let procedure = procedure.ok_or_else(|| format!("unknown procedure '{name}'; possible: {}", names()))?;
            times.by_procedure[procedure as usize] = service;
        }
        Ok(times)
    }

    /// How long call number `number` takes.
    pub(super) fn demand(&self, number: u64, procedure: Procedure) -> Duration {
        // A NULL is as cheap as the cheapest.
        let op = kind(procedure).unwrap_or(Op::Getattr);
        match &self.by_procedure[procedure as usize] {
            Some(service) => Duration::from_nanos(service.demand(self.seed, number, op).as_nanos()),
            None => Duration::ZERO,
        }
    }
}

fn names() -> String {
    Procedure::ALL.map(|procedure| procedure.name().to_lowercase()).join(", ")
}

/// The kind of call that workloads and distributions know a procedure as; None for NULL, which is about no object.
pub const fn kind(procedure: Procedure) -> Option<Op> {
    Some(match procedure {
        Procedure::Null => return None,
        Procedure::Getattr => Op::Getattr,
        Procedure::Setattr => Op::Setattr,
        Procedure::Lookup => Op::Lookup,
        Procedure::Access => Op::Access,
        Procedure::Readlink => Op::Readlink,
        Procedure::Read => Op::Read,
        Procedure::Write => Op::Write,
        Procedure::Create | Procedure::Mkdir | Procedure::Symlink | Procedure::Mknod => Op::Create,
        Procedure::Remove | Procedure::Rmdir => Op::Remove,
        Procedure::Rename => Op::Rename,
        Procedure::Link => Op::Link,
        Procedure::Readdir | Procedure::Readdirplus => Op::List,
        Procedure::Fsstat | Procedure::Fsinfo | Procedure::Pathconf => Op::Statfs,
        Procedure::Commit => Op::Commit,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_time_for_all_and_others_by_name() {
        let times = ServiceTimes::parse("getattr=const:1ms,const:5ms", 1).unwrap();
        assert_eq!(times.demand(1, Procedure::Getattr), Duration::from_millis(1));
        assert_eq!(times.demand(1, Procedure::Create), Duration::from_millis(5));
        let some = ServiceTimes::parse("create=const:2ms", 1).unwrap();
        assert_eq!(some.demand(1, Procedure::Getattr), Duration::ZERO);
        assert_eq!(some.demand(1, Procedure::Create), Duration::from_millis(2));
        for text in ["", "5ms", "stat=const:1ms", "getattr=1ms"] {
            assert!(!ServiceTimes::parse(text, 1).unwrap_err().contains('\n'), "{text}");
        }
    }
}
