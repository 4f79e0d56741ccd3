//! `midas --help`: the commands in groups, each with one line, and where to begin.
//!
//! clap lists subcommands as they come; who looks for one knows what for. So the list is written here, once, and a test sees to it
//! that every command stands in exactly one group.

use clap::Command;

/// The same command with its help in groups.
pub(crate) fn grouped(command: Command) -> Command {
    let text = template(&command);
    command.help_template(text)
}

fn template(command: &Command) -> String {
    let exists = |name: &str| command.get_subcommands().any(|known| known.get_name() == name);
    let group = |(title, lines): &(&str, &[(&str, &str)])| {
        let lines = lines.iter().filter(|(name, _)| exists(name)).map(|(name, line)| format!("\n  {name:11}  {line}"));
        format!("{title}:{}\n\n", lines.collect::<String>())
    };
    let groups: String = GROUPS.iter().map(group).collect();
    format!("{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}Options:\n{{options}}\n\n{FIRST_STEPS}")
}

type Group = (&'static str, &'static [(&'static str, &'static str)]);

/// A line may name a command that this build does not have: it is left out then.
const GROUPS: [Group; 5] = [
    (
        "Serve",
        &[
            ("serve", "Run the proxy"),
            ("init", "Ask NFS servers what they are, and write a configuration for them"),
            ("check", "Read a configuration: every mistake, or what it means"),
            ("doctor", "Find out whether servers fit together, and what to change"),
        ],
    ),
    (
        "Look",
        &[
            ("status", "How a running daemon, its exports and its servers are"),
            ("ready", "Whether it serves, as an exit code: for scripts and keepalived"),
            ("top", "The same live: queues, hot directories, who asks, events"),
            ("hot", "Who asks most, and for what: directories, clients, users"),
            ("trace", "Calls as they pass, with where each went and why"),
            ("explain", "Where the next call on a path would go, and why"),
            ("cache", "What the caches hold, and how many reads they answer"),
            ("cluster", "The members of the cluster; make a key for one"),
        ],
    ),
    (
        "Change (until the daemon ends)",
        &[
            ("set", "Another policy or cache mode for an export"),
            ("drain", "No new calls for a server"),
            ("undrain", "Calls for it again"),
            ("bypass", "Every call to its directory's home, nothing cached; or back"),
            ("warm", "Fill a cache with what lies below directories"),
            ("invalidate", "Forget what a cache keeps of a path, or all"),
        ],
    ),
    (
        "Measure",
        &[
            ("bench", "Put load on NFSv3 servers or proxies, and compare them"),
            ("history", "Check what clients saw: is it what the cache's mode promises?"),
            ("sim", "Simulate servers behind MIDAS and behind its rivals"),
            ("demo", "See it work on this machine, with servers of its own"),
            ("nfsd", "Run embedded NFSv3 servers to play with"),
        ],
    ),
    (
        "Other",
        &[
            ("man", "Print a manual page, or write them all"),
            ("completions", "Print what a shell needs to complete commands"),
        ],
    ),
];

const FIRST_STEPS: &str = "\
First steps:
  midas demo                                 what it does, on this machine
  midas init nas1 nas2 nas3 > midas.toml     a configuration for your servers
  midas doctor --config midas.toml           what is wrong with them
  midas serve --config midas.toml            the proxy: mount it, not a server
  midas top                                  watch it

`midas COMMAND --help` says more; `midas man COMMAND | man -l -` is the page.";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn listed() -> impl Iterator<Item = (&'static str, &'static str)> {
        GROUPS.iter().flat_map(|(_, lines)| lines.iter().copied())
    }

    #[test]
    fn every_command_stands_in_exactly_one_group() {
        let command = crate::Midas::command();
        let names: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        assert!(names.len() > 20, "{names:?}");
        for name in names {
            assert_eq!(listed().filter(|(other, _)| *other == name).count(), 1, "{name}");
        }
    }

    #[test]
    fn only_commands_that_exist_are_shown_each_in_a_line_of_80_columns() {
        let mut command = Command::new("midas").subcommand(Command::new("serve")).subcommand(Command::new("top"));
        command = grouped(command);
        let shown = command.render_long_help().to_string();
        for (name, line) in listed() {
            assert_eq!(shown.contains(line), ["serve", "top"].contains(&name), "{name} in:\n{shown}");
        }
        let all = grouped(crate::Midas::command()).render_long_help().to_string();
        let wide: Vec<&str> = all.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(wide.is_empty(), "{wide:?}");
        let place = |what: &str| all.find(what).unwrap_or_else(|| panic!("no '{what}' in:\n{all}"));
        let order = ["Usage: midas", "Serve:", "Look:", "Change ", "Measure:", "Other:", "Options:", "First steps:"];
        assert!(order.windows(2).all(|pair| place(pair[0]) < place(pair[1])), "{all}");
    }
}
