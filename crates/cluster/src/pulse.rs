//! What a member says of itself several times in `suspect_after`: that it lives, whom it hears, and what else changes slowly. No gossip
//! protocol beside it (chitchat): with at most 16 configured members in a full mesh everyone hears everyone's own word.

use crate::wire::Fields;

/// One such word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pulse {
    /// Microseconds on the sender's clock.
    pub(crate) sent: u64,
    /// `sent` of the last pulse that it had from the receiver; 0 if none.
    pub(crate) echo: u64,
    /// Microseconds since that came.
    pub(crate) held: u64,
    /// Bit by bit, which members it hears.
    pub(crate) hears: u16,
    pub(crate) leaving: bool,
    /// Of its view.
    pub(crate) epoch: u64,
    pub(crate) digest: [u8; 32],
}

impl Pulse {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(67);
        for number in [self.sent, self.echo, self.held, self.epoch] {
            bytes.extend(number.to_be_bytes());
        }
        bytes.extend(self.hears.to_be_bytes());
        bytes.push(self.leaving.into());
        bytes.extend(self.digest);
        bytes
    }

    /// Longer ones are taken: a later version may say more.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let [sent, echo, held, epoch] = [fields.u64()?, fields.u64()?, fields.u64()?, fields.u64()?];
        Some(Self {
            sent,
            echo,
            held,
            epoch,
            hears: fields.u16()?,
            leaving: fields.u8()? != 0,
            digest: fields.array()?,
        })
    }
}
