//! The entries of the journal as they lie in its files.

use super::{Entry, Intent};
use midas_core::key::Key;
use midas_core::peer::lease::Operation;
use midas_core::time::Time;

impl Entry {
    pub(super) const fn operation(&self) -> Operation {
        match self {
            Self::Begun(Intent { operation, .. }) | Self::Ended { operation, .. } | Self::Cancelled(operation) => {
                *operation
            }
        }
    }

    pub(super) fn encoded(&self) -> Vec<u8> {
        let mut body = Vec::new();
        body.push(match self {
            Self::Begun(_) => BEGUN,
            Self::Ended { .. } => ENDED,
            Self::Cancelled(_) => CANCELLED,
        });
        body.extend(self.operation().0.to_be_bytes());
        match self {
            Self::Begun(Intent { at, keys, .. }) => {
                body.extend(at.as_nanos().to_be_bytes());
                keys.iter().flatten().for_each(|key| body.extend(key.0.to_be_bytes()));
            }
            Self::Ended { at, results, .. } => {
                body.extend(at.as_nanos().to_be_bytes());
                body.extend_from_slice(results);
            }
            Self::Cancelled(_) => {}
        }
        let mut entry = (body.len() as u32).to_be_bytes().to_vec();
        entry.extend(sum(&body));
        entry.extend(body);
        entry
    }

    /// The next entry, and what follows it.
    pub(super) fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let (wanted, rest) = rest.split_first_chunk::<8>()?;
        let (body, behind) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        if sum(body) != *wanted {
            return None;
        }
        let (tag, body) = body.split_first()?;
        let (operation, body) = body.split_first_chunk::<16>()?;
        let operation = Operation(u128::from_be_bytes(*operation));
        if *tag == CANCELLED {
            return Some((Self::Cancelled(operation), behind));
        }
        let (at, body) = body.split_first_chunk::<8>()?;
        let at = Time::from_nanos(u64::from_be_bytes(*at));
        let entry = match *tag {
            BEGUN => {
                let key = |at: usize| Some(Key(u64::from_be_bytes(*body.get(at..)?.first_chunk()?)));
                Self::Begun(Intent { operation, at, keys: [key(0), key(8)] })
            }
            ENDED => Self::Ended { operation, at, results: body.into() },
            _ => return None,
        };
        Some((entry, behind))
    }
}

/// Against writes that were cut short, not against people.
fn sum(body: &[u8]) -> [u8; 8] {
    Key(body.len() as u64).named(body).0.to_be_bytes()
}

const BEGUN: u8 = 1;
const ENDED: u8 = 2;
const CANCELLED: u8 = 3;
