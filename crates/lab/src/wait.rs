//! Waiting, always with a limit.
//!
//! What tells of itself is waited for: a line, an answer, a process's end. [`until`] is for the rest, and the one place where tests ask
//! again and again: figures that a server or a daemon gives only when it is asked, and listeners, which tell nobody that they are there.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

/// Longer than anything here takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Asks until it is so.
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let limit = Instant::now() + PATIENCE;
    while !so() {
        assert!(Instant::now() < limit, "it never happened: {what}");
        thread::sleep(LOOK);
    }
}

/// Waits until something can be read there; whether that was within the limit.
pub fn readable(from: &impl AsFd, limit: Duration) -> bool {
    let limit = Timespec::try_from(limit).expect("a limit is short");
    let found = poll(&mut [PollFd::new(from, PollFlags::IN)], Some(&limit)).expect("it can be waited for");
    found > 0
}

/// Between two questions: a test's machine has more to do than to answer them.
const LOOK: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn something_that_can_be_read_wakes_and_silence_ends_at_its_limit() {
        let (mut near, far) = UnixStream::pair().unwrap();
        assert!(!readable(&far, Duration::from_millis(10)));
        near.write_all(b"x").unwrap();
        assert!(readable(&far, PATIENCE));
    }

    #[test]
    fn it_is_asked_until_it_is_so() {
        let mut asked = 0;
        until("three questions", || {
            asked += 1;
            asked == 3
        });
        assert_eq!(asked, 3);
    }
}
