//! What the servers of a pool must have in common for an export: its root's handle, fsid and fileid (nfs3.md, A2).
//!
//! The first to answer might be the odd one out: all are heard before most of them decide. What was decided stays: clients
//! hold handles.

use midas_nfs::nfs3::FsinfoOk;

/// What a server says of an export; or what all that were admitted say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Agreed {
    pub(crate) root: Vec<u8>,
    pub(crate) fsid: u64,
    pub(crate) fileid: u64,
    /// The least of every server's limits.
    pub(crate) limits: Option<FsinfoOk>,
    /// Why a cache would answer wrongly here.
    pub(crate) unfit: Option<String>,
}

impl Agreed {
    fn same(&self, other: &Self) -> bool {
        (&self.root, self.fsid, self.fileid) == (&other.root, other.fsid, other.fileid)
    }
}

/// What was heard from each server.
#[derive(Debug)]
pub(crate) struct Belief {
    said: Vec<Said>,
    agreed: Option<Agreed>,
}

#[derive(Clone, Debug)]
enum Said {
    /// It was not asked yet.
    Nothing,
    /// It does not answer.
    Silence,
    This(Agreed),
}

impl Belief {
    pub(crate) fn new(servers: usize) -> Self {
        Self { said: vec![Said::Nothing; servers], agreed: None }
    }

    /// A server says what it exports, or did not answer: whether it belongs; none as long as others must be heard first.
    pub(crate) fn heard(&mut self, server: usize, said: Option<Agreed>) -> Option<bool> {
        self.said[server] = said.map_or(Said::Silence, Said::This);
        if self.agreed.is_none() && !self.said.iter().any(|said| matches!(said, Said::Nothing)) {
            self.agreed = self.most().cloned();
        }
        let agreed = self.agreed.as_mut()?;
        let said = self.said[server].this()?;
        let same = said.same(agreed);
        if same {
            agreed.limits = least(agreed.limits, said.limits);
        }
        Some(same)
    }

    /// What most servers say; of those that are equally many, the first.
    fn most(&self) -> Option<&Agreed> {
        let said = || self.said.iter().filter_map(Said::this);
        let votes = |one: &Agreed| said().filter(|other| one.same(other)).count();
        said().rev().max_by_key(|one| votes(one))
    }

    pub(crate) fn agreed(&self) -> Option<&Agreed> {
        self.agreed.as_ref()
    }
}

impl Said {
    fn this(&self) -> Option<&Agreed> {
        match self {
            Self::This(agreed) => Some(agreed),
            Self::Nothing | Self::Silence => None,
        }
    }
}

/// The limits that hold for both (nfs3.md, G3).
fn least(one: Option<FsinfoOk>, other: Option<FsinfoOk>) -> Option<FsinfoOk> {
    let (Some(one), Some(other)) = (one, other) else { return one.or(other) };
    Some(FsinfoOk {
        rtmax: one.rtmax.min(other.rtmax),
        rtpref: one.rtpref.min(other.rtpref),
        rtmult: one.rtmult.max(other.rtmult),
        wtmax: one.wtmax.min(other.wtmax),
        wtpref: one.wtpref.min(other.wtpref),
        wtmult: one.wtmult.max(other.wtmult),
        dtpref: one.dtpref.min(other.dtpref),
        maxfilesize: one.maxfilesize.min(other.maxfilesize),
        time_delta: one.time_delta.max(other.time_delta),
        properties: one.properties & other.properties,
        attributes: one.attributes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agreed(root: &[u8]) -> Agreed {
        Agreed { root: root.to_vec(), fsid: 1, fileid: 2, limits: None, unfit: None }
    }

    #[test]
    fn most_servers_decide_and_not_the_first_to_answer() {
        let mut belief = Belief::new(4);
        assert_eq!(belief.heard(0, Some(agreed(b"odd"))), None);
        assert_eq!(belief.heard(2, Some(agreed(b"even"))), None);
        assert_eq!(belief.heard(3, None), None);
        assert_eq!(belief.heard(1, Some(agreed(b"even"))), Some(true));
        assert_eq!(belief.heard(0, Some(agreed(b"odd"))), Some(false));
        assert_eq!(belief.heard(2, Some(agreed(b"even"))), Some(true));
        assert_eq!(belief.heard(3, Some(agreed(b"even"))), Some(true), "it came late and belongs");
    }

    #[test]
    fn if_none_answers_nothing_is_agreed_until_one_does_and_a_decision_stays() {
        let mut belief = Belief::new(2);
        assert_eq!((belief.heard(0, None), belief.heard(1, None)), (None, None));
        assert_eq!(belief.heard(1, Some(agreed(b"one"))), Some(true));
        assert_eq!(belief.heard(0, Some(agreed(b"two"))), Some(false));
        assert_eq!(belief.heard(1, Some(agreed(b"two"))), Some(false), "clients hold the other handles");
    }
}
