//! `midas man`: the manual pages, made of the very definitions that parse the command line.

use crate::failure::Failure;
use clap::{Args, Command, CommandFactory};
use clap_mangen::Man;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

/// Print a manual page, or write them all
///
/// There is a page for `midas` and one for every command below it: midas(1), midas-serve(1), midas-sim-run(1). `make install` puts them
/// where man looks for them.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Options {
    /// Write every page into this directory, which is made if it is missing
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    out: Option<PathBuf>,
    /// Print the names of all pages' files, one a line
    #[arg(long, conflicts_with_all = ["out", "command"])]
    list: bool,
    /// The command whose page is printed; that of midas if not given
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
}

impl Options {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let mut midas = crate::Midas::command().disable_help_subcommand(true);
        midas.build();
        if let Some(directory) = &self.out {
            fs::create_dir_all(directory).map_err(|error| Failure::io(directory, &error))?;
            return all(&midas).into_iter().try_for_each(|command| {
                let file = directory.join(file(command));
                fs::write(&file, page(command)?).map_err(|error| Failure::io(&file, &error))
            });
        }
        let text = match self.list {
            true => all(&midas).into_iter().map(|command| file(command) + "\n").collect::<String>().into_bytes(),
            false => page(named(&midas, &self.command)?)?,
        };
        let mut out = io::stdout().lock();
        out.write_all(&text).and_then(|()| out.flush()).map_err(|error| Failure::Broken(error.to_string()))
    }
}

/// The command that these words lead to.
fn named<'a>(midas: &'a Command, words: &[String]) -> Result<&'a Command, Failure> {
    words.iter().try_fold(midas, |at, word| {
        let possible = || at.get_subcommands().map(Command::get_name).collect::<Vec<_>>().join(", ");
        at.find_subcommand(word).ok_or_else(|| match at.has_subcommands() {
            true => Failure::Usage(format!("unknown command '{word}'; possible: {}", possible())),
            false => Failure::Usage(format!("midas {} has no commands below it", at.get_name())),
        })
    })
}

/// A command, and all below it.
fn all(command: &Command) -> Vec<&Command> {
    let below = command.get_subcommands().filter(|one| !one.is_hide_set()).flat_map(all);
    std::iter::once(command).chain(below).collect()
}

fn title(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

fn file(command: &Command) -> String {
    format!("{}.1", title(command))
}

fn page(command: &Command) -> Result<Vec<u8>, Failure> {
    let man = Man::new(command.clone()).manual("MIDAS").source(concat!("midas ", env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    let rendered = man
        .render_title(&mut text)
        .and_then(|()| man.render_name_section(&mut text))
        .and_then(|()| man.render_synopsis_section(&mut text))
        .and_then(|()| man.render_description_section(&mut text))
        .and_then(|()| man.render_options_section(&mut text))
        .and_then(|()| match command.has_subcommands() {
            true => man.render_subcommands_section(&mut text),
            false => Ok(()),
        });
    rendered.map_err(|error| Failure::Broken(error.to_string()))?;
    if let Some(more) = command.get_after_long_help().or_else(|| command.get_after_help()) {
        text.extend(as_it_is(&more.to_string()).bytes());
    }
    if title(command) != ROOT {
        text.extend(b".SH \"SEE ALSO\"\n.BR midas (1)\n");
    }
    Ok(text)
}

/// Examples and tables keep their lines.
fn as_it_is(text: &str) -> String {
    let (head, lines) = match text.strip_prefix("Examples:\n") {
        Some(lines) => ("EXAMPLES", lines),
        None => ("NOTES", text),
    };
    let line = |line: &str| {
        let plain = line.replace('\\', "\\e").replace('-', "\\-");
        // A dot or an apostrophe in front would be a request.
        format!("\\&{plain}\n")
    };
    format!(".SH {head}\n.nf\n{}.fi\n", lines.lines().map(line).collect::<String>())
}

const ROOT: &str = "midas";
const EXAMPLES: &str = "\
Examples:
  midas man serve | man -l -          a page, without installing it
  midas man sim run | man -l -        a command below another
  midas man --out ~/.local/share/man/man1    all of them";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_must_keep_its_lines_does_and_is_no_request() {
        let text = as_it_is("Examples:\n  midas top --once\n.x \\ 'y'");
        assert_eq!(text, ".SH EXAMPLES\n.nf\n\\&  midas top \\-\\-once\n\\&.x \\e 'y'\n.fi\n");
        assert!(as_it_is("Policies:\n  rr").starts_with(".SH NOTES\n.nf\n\\&Policies:\n"));
    }
}
