//! The midas command.

fn main() {}
