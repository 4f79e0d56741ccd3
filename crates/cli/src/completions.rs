//! `midas completions`: what a shell needs to complete commands, options and their values.

use crate::failure::Failure;
use clap::{Args, CommandFactory};
use clap_complete::{Shell, generate};
use std::io::{self, Write};

/// Print what a shell needs to complete commands, options and their values
///
/// `make install` puts the files for bash, zsh and fish where these shells look for them.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Options {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Options {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let mut script = Vec::new();
        generate(self.shell, &mut crate::Midas::command(), "midas", &mut script);
        let mut out = io::stdout().lock();
        out.write_all(&script).and_then(|()| out.flush()).map_err(|error| Failure::Broken(error.to_string()))
    }
}

const EXAMPLES: &str = "\
Examples:
  source <(midas completions bash)                                        in this shell
  midas completions bash > ~/.local/share/bash-completion/completions/midas   in every bash of yours
  midas completions fish > ~/.config/fish/completions/midas.fish              in every fish";
