//! An event loop's calls that wait for the cache: mutations of names that must be looked up first, or that another mutation is under way of.

use crate::cached::Unfound;
use crate::claim::{self, Claim, Prepared};
use crate::clerk::Job;
use crate::event::Loop;
use crate::upstream::Held;
use midas_core::cache::Ended;
use midas_core::key::Key;
use midas_core::time::{Span, Time};

impl Loop {
    /// A call that may leave, as far as the cache is concerned; otherwise it is kept for later.
    pub(crate) fn prepared(&mut self, now: Time, mut call: Box<Held>) -> Option<Box<Held>> {
        if call.claim.is_none() {
            match call.errand.prepare(now, &self.shared, &call.record) {
                Prepared::Ready(claim) => call.claim = claim,
                Prepared::Find(claim, unfound) => (call.claim, call.unfound) = (Some(claim), unfound),
                Prepared::Busy => {
                    self.held.push_back(call);
                    return None;
                }
            }
        }
        if call.unfound.is_empty() {
            return Some(call);
        }
        if call.asked_at.is_some_and(|asked| now.since(asked) < ASK_AGAIN) {
            self.held.push_back(call);
            return None;
        }
        call.asked_at = Some(now);
        let (realm, names) = (call.errand.forward.realm, call.unfound.clone());
        let record = call.record.clone();
        let number = self.finding.insert(call);
        if self.desk.give(Job::Lead { realm, names, record, event_loop: self.number, number }).is_err() {
            // Too many at once: it is asked for at the next tick.
            let call = self.finding.remove(number);
            self.held.push_back(call);
        }
        None
    }

    /// It was found out where names lead, or not yet.
    pub(crate) fn led(&mut self, now: Time, number: usize, found: Option<Vec<Option<Key>>>) {
        let Some(mut call) = self.finding.try_remove(number) else { return };
        let known = found.is_some();
        if let (Some(found), Some(Claim::Changes(claims))) = (found, &mut call.claim) {
            for (Unfound { moves, .. }, object) in std::mem::take(&mut call.unfound).iter().zip(found) {
                let Some(object) = object else { continue };
                for (export, touched) in &mut *claims {
                    self.shared.exports[*export].areas.found(now, object, *moves, touched);
                }
            }
        }
        self.held.push_back(call);
        // If nobody could tell, it is asked for again at the next tick.
        if known {
            self.send_held(now);
        }
    }

    /// A call that is recalled: its marks end, and are set anew when it is sent again. A read stays what others wait for.
    pub(crate) fn let_go(&self, now: Time, claim: Option<Claim>, ended: Ended) -> Option<Claim> {
        match claim {
            Some(Claim::Changes(claims)) => {
                claim::changed(now, &self.shared, claims, ended, None);
                None
            }
            reads => reads,
        }
    }

    /// Whether nobody waits with a read; then nobody will.
    pub(crate) fn nobody_joined(&self, call: &mut Held) -> bool {
        let Some(Claim::Reads(fetching)) = call.claim.take() else { return true };
        let areas = &self.shared.exports[call.errand.forward.realm].areas;
        call.claim = areas.of_read(&fetching).forsaken(fetching).map(Claim::Reads);
        call.claim.is_none()
    }
}

/// What nobody could tell is not asked for again sooner.
const ASK_AGAIN: Span = Span::from_millis(20);
