//! Styles by meaning. Without colour, what is bad is reversed: it must be seen.

use ratatui::style::{Color, Modifier, Style};

/// Whether there are colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Paint {
    colour: bool,
}

impl Paint {
    pub(crate) const fn new(colour: bool) -> Self {
        Self { colour }
    }

    /// Whether there are colours.
    pub(crate) const fn colour(self) -> bool {
        self.colour
    }

    pub(crate) fn head(self) -> Style {
        self.of(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    pub(crate) fn good(self) -> Style {
        self.of(Color::Green)
    }

    pub(crate) fn warn(self) -> Style {
        self.of(Color::Yellow).add_modifier(Modifier::BOLD)
    }

    pub(crate) fn bad(self) -> Style {
        match self.colour {
            true => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
            false => Style::new().add_modifier(Modifier::REVERSED),
        }
    }

    pub(crate) fn dim(self) -> Style {
        self.of(Color::DarkGray)
    }

    pub(crate) fn chosen() -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// As a server's health wants it.
    pub(crate) fn health(self, health: &str) -> Style {
        match health {
            "up" => self.good(),
            "down" | "quarantined" => self.bad(),
            _ => self.warn(),
        }
    }

    /// A queue of so many calls.
    pub(crate) fn queue(self, calls: f64) -> Style {
        match calls {
            calls if calls < 8.0 => self.good(),
            calls if calls < 32.0 => self.of(Color::Yellow),
            _ => self.of(Color::Red),
        }
    }

    fn of(self, colour: Color) -> Style {
        if self.colour { Style::new().fg(colour) } else { Style::new() }
    }
}
