//! What a call costs in the core: a routing decision, a cache lookup, a load share. Paper: P21.
//!
//! `make bench` prints the table; the targets are the project's own.

mod cache;
mod decision;
mod drive;
mod share;

fn main() {
    let mut operations = decision::operations();
    operations.extend(cache::operations());
    operations.extend(share::operations());
    drive::drive(&operations);
}
