//! The terminal itself: taken, drawn to, asked for keys, and given back whichever way this ends.

use super::app::{After, App};
use super::feed::{self, News, Source};
use super::screen;
use crate::failure::Failure;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::flag;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::Duration;

/// Shows what comes until somebody has enough of it. A daemon that was never there is an error; one that goes away is waited for.
pub(crate) fn watch(mut app: App, source: Source) -> Result<(), Failure> {
    let news = feed::follow(source)?;
    match news.recv() {
        Ok(News::Gone { why, .. }) => return Err(Failure::Broken(why)),
        Ok(first) => app.hear(first),
        Err(_) => return Err(Failure::Broken("nothing can be read".to_owned())),
    }
    let stop = stopped().map_err(|error| Failure::Broken(error.to_string()))?;
    end_with_terminal(&stop).map_err(|error| Failure::Broken(format!("the terminal: {error}")))?;
    let mut screen = Screen::take().map_err(|error| Failure::Broken(format!("the terminal: {error}")))?;
    let end = show(&mut app, &news, &mut screen.0, &stop);
    drop(screen);
    // Whoever closed the terminal, or sent a signal, knows why it ended.
    match end {
        Err(error) if !stop.load(Ordering::Relaxed) => Err(Failure::Broken(format!("the terminal: {error}"))),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn show(app: &mut App, news: &Receiver<News>, terminal: &mut DefaultTerminal, stop: &AtomicBool) -> io::Result<()> {
    let mut changed = true;
    while !stop.load(Ordering::Relaxed) {
        for one in news.try_iter() {
            app.hear(one);
            changed = true;
        }
        if std::mem::take(&mut changed) {
            terminal.draw(|frame| screen::draw(app, frame.area(), frame.buffer_mut()))?;
        }
        if !event::poll(LOOK)? {
            continue;
        }
        changed = true;
        match event::read()? {
            Event::Key(key) if key.kind != KeyEventKind::Release && app.key(key) == After::Quit => return Ok(()),
            _drawn_anew => {}
        }
    }
    Ok(())
}

/// The terminal while it is ours: given back when this is dropped; a panic gives it back first, so that its words are seen.
struct Screen(DefaultTerminal);

impl Screen {
    fn take() -> io::Result<Self> {
        ratatui::try_init().map(Self).inspect_err(|_| ratatui::restore())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _shown = self.0.show_cursor();
        ratatui::restore();
    }
}

/// Every signal that asks for an end: the terminal must be given back before.
fn stopped() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
        flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// Ends this process when its terminal is gone. Signals alone do not: a terminal may go without
/// one, and the library that reads keys reads a terminal that is gone again and again, without a
/// look at anything else.
fn end_with_terminal(stop: &Arc<AtomicBool>) -> io::Result<()> {
    let stop = Arc::clone(stop);
    thread::Builder::new().name("terminal".to_owned()).spawn(move || {
        hang_up();
        stop.store(true, Ordering::Relaxed);
        // Whoever looks at that ends by itself, and says what went wrong before.
        thread::sleep(GRACE);
        std::process::exit(0);
    })?;
    Ok(())
}

/// Waits until the terminal that is drawn to is gone.
fn hang_up() {
    let out = io::stdout();
    loop {
        // No event is asked for: that the other end is gone is told all the same.
        let mut watched = [PollFd::new(&out, PollFlags::empty())];
        match poll(&mut watched, None) {
            Ok(_) if !watched[0].revents().is_empty() => return,
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => thread::sleep(LOOK),
        }
    }
}

/// How long it may take to end once the terminal is gone.
const GRACE: Duration = Duration::from_millis(500);
/// How often it is looked whether something came; keys are seen at once.
const LOOK: Duration = Duration::from_millis(100);
