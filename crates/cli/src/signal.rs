//! Signals as flags. Ctrl-C and SIGTERM, and the end of the terminal where SIGHUP means nothing else: whoever sees it cleans up, and the
//! second time ends the process at once.

use crate::failure::Failure;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Set by the first signal.
pub(crate) fn stop() -> Result<Arc<AtomicBool>, Failure> {
    first_of(&[SIGINT, SIGTERM])
}

/// The same for whoever would leave something behind, were it to end with its terminal.
pub(crate) fn stop_or_hangup() -> Result<Arc<AtomicBool>, Failure> {
    first_of(&[SIGINT, SIGTERM, SIGHUP])
}

fn first_of(signals: &[i32]) -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for &signal in signals {
        // In this order: the first signal finds the flag down and only raises it.
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stop))
            .and_then(|_| flag::register(signal, Arc::clone(&stop)))
            .map_err(|error| Failure::Broken(error.to_string()))?;
    }
    Ok(stop)
}

/// Set by every SIGHUP; whoever sees it takes it down.
pub(crate) fn reload() -> Result<Arc<AtomicBool>, Failure> {
    let reload = Arc::new(AtomicBool::new(false));
    flag::register(SIGHUP, Arc::clone(&reload)).map_err(|error| Failure::Broken(error.to_string()))?;
    Ok(reload)
}
