//! The embedded NFSv3 server. This part is the namespace: what a call does and what its reply says, without any socket.
//!
//! A [`Namespace`] is shared by all servers of a process: handles, file numbers and cookies are the same on each. What NFSv3
//! means stands once, in `procedures`, over a small `Store` that memory and a real directory implement. Names are bytes,
//! times come from the system's clock, and nothing here waits except for locks and the directory's file system.

mod directory;
mod handle;
mod memory;
mod namespace;
mod procedures;
mod server;
mod store;
mod user;

pub use directory::{DirectoryOptions, Handles};
pub use handle::Handle;
pub use memory::Limits;
pub use namespace::{Identity, Namespace, ServerNumber};
pub use server::{
    Bounds, CHANGES_MOST, Command, Config, Executed, Fault, Mark, Nfsd, Queue, Seen, ServiceTimes, Truth, kind,
};
pub use user::User;
