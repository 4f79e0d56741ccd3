//! Seeded streams of metadata calls.
#![no_std]
