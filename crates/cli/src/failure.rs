//! How a command fails: one line on stderr, and an exit code that scripts can tell apart.

use std::fmt;
use std::process::ExitCode;

/// Why a command did not do its work.
#[derive(Debug)]
pub(crate) enum Failure {
    /// What was typed is impossible: exit code 2.
    Usage(String),
    /// It was possible and went wrong: exit code 1.
    Broken(String),
    /// Whoever should have answered did not: exit code 2.
    Unanswered(String),
    /// Told to stop before it was done, and all is cleaned up: exit code 130.
    Interrupted,
}

impl Failure {
    /// Help and version are no failures; everything else is said in one line.
    pub(crate) fn from_clap(error: &clap::Error, command: &clap::Command) -> Result<(), Self> {
        if !error.use_stderr() {
            return error.print().map_err(|error| Self::Broken(error.to_string()));
        }
        if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
            let possible = subcommands(command).join(", ");
            return Err(Self::Usage(format!("which command? possible: {possible} (see --help)")));
        }
        let text = error.render().to_string();
        let parts = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let said: Vec<&str> =
            parts.take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more")).collect();
        let possible = match error.kind() == clap::error::ErrorKind::InvalidSubcommand {
            true => format!("; possible: {}", subcommands(command).join(", ")),
            false => " (see --help)".to_owned(),
        };
        Err(Self::Usage(said.join(" ").trim_start_matches("error: ").to_owned() + &possible))
    }

    /// Something went wrong with a file.
    pub(crate) fn io(path: &std::path::Path, error: &std::io::Error) -> Self {
        Self::Broken(format!("{}: {error}", path.display()))
    }

    pub(crate) fn report(self) -> ExitCode {
        let code = match &self {
            Self::Usage(_) | Self::Unanswered(_) => 2,
            Self::Broken(_) => 1,
            Self::Interrupted => 130,
        };
        eprintln!("midas: {self}");
        ExitCode::from(code)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) | Self::Broken(text) | Self::Unanswered(text) => f.write_str(text),
            Self::Interrupted => f.write_str("interrupted"),
        }
    }
}

/// What could stand where a word was typed that is no command.
fn subcommands(command: &clap::Command) -> Vec<&str> {
    let mut typed = std::env::args().skip(1);
    let inner = typed.try_fold(command, |at, word| at.find_subcommand(word).ok_or(at));
    let (Ok(last) | Err(last)) = inner;
    last.get_subcommands().map(clap::Command::get_name).collect()
}
