//! Starts the real parts of the project's `lab` directory from tests, and ends them.
//!
//! A test asks [`require`] for the parts that it needs and returns when one is not installed; in CI that is a failure
//! instead. Servers end when their value is dropped, and also when the test's process dies without dropping it. Every
//! command has a time limit. Whatever goes wrong here panics with the part's own words: this crate is for tests alone.
//! The scripts do the work, so that a person starts the same parts by hand. Beside them stand clients that say whatever a
//! test wants on the wire ([`raw`]) and what every server of ours makes of the worst of it ([`hostile`]).

mod address;
mod bounded;
mod delay;
mod ganesha;
mod guest;
pub mod hostile;
mod made;
mod part;
mod place;
pub mod raw;
mod tools;
mod wait;

pub use address::{common_port, free_port, loopback};
pub use bounded::bounded;
pub use delay::Delay;
pub use ganesha::Ganesha;
pub use guest::{Guest, Transcript};
pub use made::{create, mkdir};
pub use part::{PORTMAP, Part, USUAL_NFS, require};
pub use place::{Scratch, root};
pub use tools::{Endpoint, mounted, nfs_cat, nfs_cp, nfs_ls, null_call, rpcinfo, showmount, succeeded};
pub use wait::{PATIENCE, readable, until};
