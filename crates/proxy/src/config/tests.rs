//! Whole files: what they mean, and what is wrong with them.
