//! What is heard of other members: messages of leases and of late copies in the order that they
//! were said in, and those of fetched reads beside them.

use super::fetch::{self, Said};
use super::{Accord, Inner, late, wire};
use crate::event::Mail;
use crate::pool::lock;
use midas_core::peer::lease::{Life, Message};
use midas_core::time::Time;
use midas_nfs::xdr::Malformed;

impl Accord {
    /// A frame of another member. What comes behind something that cannot be read is not looked at.
    pub(crate) fn hear(&self, from: Life, frame: &[u8]) {
        if usize::from(from.member.0) >= lock(&self.inner).outbox.len() {
            return;
        }
        if fetch::is_ours(frame) {
            return self.hear_fetches(from, frame);
        }
        self.step(|now, inner| {
            let mut messages = wire::cut(frame);
            let heard = messages.try_for_each(|message| self.hear_one(now, inner, from, message?));
            inner.counts.malformed += u64::from(heard.is_err());
        });
    }

    /// A message; kinds that are not known are passed over.
    fn hear_one(&self, now: Time, inner: &mut Inner, from: Life, message: &[u8]) -> Result<(), Malformed> {
        if let Some(said) = late::decode(message)? {
            self.late_said(now, inner, from, &said);
            return Ok(());
        }
        let Some(message) = wire::message(message)? else { return Ok(()) };
        let over = match &message {
            Message::Over { id, .. } | Message::Found { id, .. } => Some(*id),
            _ => None,
        };
        inner.member.hear(now, from, message);
        if let Some(id) = over {
            inner.settled(id);
        }
        Ok(())
    }

    fn hear_fetches(&self, from: Life, frame: &[u8]) {
        let Some(around) = self.around.get() else { return };
        for message in wire::cut(frame) {
            match message.and_then(fetch::decode) {
                Ok(Some(Said::Fetch { epoch, id, export, record })) => {
                    let loops = around.mailboxes.len();
                    let taken = self.fetches.agrees(epoch) && loops > 0 && self.leases.live();
                    match taken {
                        true => around.mailboxes[fetch::turn(id) % loops].send(Mail::Asked {
                            from,
                            id,
                            export,
                            record: record.into(),
                        }),
                        false => self.lend(from, id, None),
                    }
                }
                Ok(Some(Said::Fetched { incarnation, id, results })) => {
                    self.fetches.heard(self.clock.now(), from.member.0);
                    let mailbox = around.mailboxes.get(fetch::event_loop(id));
                    if let Some(mailbox) = mailbox.filter(|_| self.fetches.mine(incarnation)) {
                        mailbox.send(Mail::Fetched { id, results: results.map(Into::into) });
                    }
                }
                Ok(Some(Said::Names { names })) => self.names_heard(&names),
                Ok(Some(Said::Owner { id, handle })) => self.owner_asked(from, id, handle),
                Ok(Some(Said::Owned { incarnation, id, exports })) => {
                    if self.fetches.mine(incarnation) {
                        self.owner_told(id, exports);
                    }
                }
                Ok(Some(Said::Down { pool, servers })) => self.down_heard(from.member.0, pool, servers),
                Ok(None) => {}
                Err(_) => {
                    lock(&self.inner).counts.malformed += 1;
                    return;
                }
            }
        }
    }
}
