//! The cluster's lower half: who the members are, how they talk, which view holds. It carries bytes and delivers views, and knows
//! nothing of what stands above ([`Above`]).
//!
//! Reading order: `settings` (what goes in and out), `driver` (one thread with all sockets), `greeting` and `session` (who may speak),
//! `pulse` (who lives), `views` (what a majority agrees on). Two connections between two members, one each way: who dialled sends. So no tie
//! must be broken, and a path that works one way only is seen as what it is. Everything has a bound: members, strangers, greetings, frames,
//! queues, the log of views.

mod cluster;
mod driver;
mod greeting;
mod key;
mod line;
mod peer;
mod post;
mod pulse;
mod refusal;
mod replace;
mod session;
mod settings;
mod status;
mod view;
mod views;
mod wire;

/// A digest of what should be equal at all members.
pub fn digest(text: &str) -> [u8; 32] {
    *blake3::hash(text.as_bytes()).as_bytes()
}

pub use cluster::Cluster;
pub use key::Key;
pub use post::Sender;
pub use refusal::{Refusal, Refused};
pub use replace::replace;
pub use session::{DATAGRAM_MAX, FRAME_MAX};
pub use settings::{Above, Link, MEMBERS_MAX, Member, Settings, Unequal};
pub use status::{MemberStatus, Status, Traffic};
pub use view::View;
