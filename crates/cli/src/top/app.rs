//! What is looked at: the view, its order, whether it stands still. Keys change it.

use super::feed::News;
use super::paint::Paint;
use super::world::World;
use clap::ValueEnum;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::time::Duration;

/// A view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum View {
    /// Servers, and the hottest directories, clients and users
    Servers,
    /// Directories, clients and users
    Hot,
    /// Exports, their knobs, caches and procedures
    Exports,
    /// What was done and decided, and why
    Events,
    /// Members, leases, what they tell each other
    Cluster,
}

impl View {
    /// In the order of their keys, from 1.
    pub(crate) const ALL: [Self; 5] = [Self::Servers, Self::Hot, Self::Exports, Self::Events, Self::Cluster];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Servers => "servers",
            Self::Hot => "hot",
            Self::Exports => "exports",
            Self::Events => "events",
            Self::Cluster => "cluster",
        }
    }

    fn step(self, by: usize) -> Self {
        let at = Self::ALL.iter().position(|view| *view == self).unwrap_or_default();
        Self::ALL[(at + by) % Self::ALL.len()]
    }
}

/// By what hot spots are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    Calls,
    /// The servers' time.
    Time,
}

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    Stay,
    Quit,
}

/// Everything that is drawn.
#[derive(Debug)]
pub(crate) struct App {
    live: World,
    /// What stood when it was paused.
    paused: Option<World>,
    /// Why nothing comes, and when it is asked again.
    gone: Option<(String, Duration)>,
    pub(crate) view: View,
    pub(crate) sort: Sort,
    pub(crate) help: bool,
    /// Lines that are scrolled away; whoever draws knows how many there can be.
    pub(crate) scroll: usize,
    pub(crate) paint: Paint,
    /// Where the daemon is.
    pub(crate) source: String,
}

impl App {
    pub(crate) fn new(view: View, paint: Paint, source: String) -> Self {
        Self {
            live: World::default(),
            paused: None,
            gone: None,
            view,
            sort: Sort::Calls,
            help: false,
            scroll: 0,
            paint,
            source,
        }
    }

    /// What is shown.
    pub(crate) fn world(&self) -> &World {
        self.paused.as_ref().unwrap_or(&self.live)
    }

    pub(crate) const fn paused(&self) -> bool {
        self.paused.is_some()
    }

    /// Why nothing comes, and when it is asked again.
    pub(crate) fn gone(&self) -> Option<(&str, Duration)> {
        self.gone.as_ref().map(|(why, again)| (why.as_str(), *again))
    }

    pub(crate) fn hear(&mut self, news: News) {
        match news {
            News::Past(points) => {
                self.gone = None;
                self.live.take_past(points);
            }
            News::Frame(frame) => {
                self.gone = None;
                self.live.take_frame(frame);
            }
            News::Gone { why, again } => self.gone = Some((why, again)),
        }
    }

    pub(crate) fn key(&mut self, key: KeyEvent) -> After {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => return After::Quit,
            KeyCode::Esc if self.help => self.help = false,
            KeyCode::Char('q') | KeyCode::Esc => return After::Quit,
            KeyCode::Char('?' | 'h') => self.help = !self.help,
            KeyCode::Char(digit @ '1'..='5') => self.look(View::ALL[digit as usize - '1' as usize]),
            KeyCode::Tab | KeyCode::Right => self.look(self.view.step(1)),
            KeyCode::BackTab | KeyCode::Left => self.look(self.view.step(View::ALL.len() - 1)),
            KeyCode::Char('c') => self.sort = Sort::Calls,
            KeyCode::Char('t') => self.sort = Sort::Time,
            KeyCode::Char('p' | ' ') => {
                self.paused = if self.paused.is_some() { None } else { Some(self.live.clone()) };
            }
            KeyCode::Down | KeyCode::Char('j') => self.scroll += 1,
            KeyCode::Up | KeyCode::Char('k') => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::PageDown => self.scroll += PAGE,
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(PAGE),
            KeyCode::Home | KeyCode::Char('g') => self.scroll = 0,
            KeyCode::End | KeyCode::Char('G') => self.scroll = usize::MAX / 2,
            _not_ours => {}
        }
        After::Stay
    }

    fn look(&mut self, view: View) {
        (self.view, self.scroll) = (view, 0);
    }
}

/// Lines of a page.
const PAGE: usize = 10;
