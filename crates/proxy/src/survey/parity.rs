//! Which servers belong together: the same handle, fsid and fileid of the root, and of names below it. Where they do not all agree, most
//! of them are right; of two halves, the one with the first server.

use super::listing::{Mark, is_dot, list};
use super::seen::{Object, Seen, lookup};
use super::{Asking, Trouble};
use crate::config::Server;
use midas_net::{Caller, Client, ClientError};
use midas_nfs::nfs3::Ftype3;
use std::io;

/// Who belongs together.
#[derive(Clone, Debug, Default)]
pub struct Parity {
    /// Servers that agree.
    pub members: Vec<usize>,
    /// Servers that do not, and in what.
    pub strangers: Vec<(usize, String)>,
    /// Names whose objects were compared, besides the root.
    pub compared: usize,
    /// Directories that were met, the root first.
    pub(super) directories: Vec<Vec<u8>>,
}

/// A name that every server should know alike.
struct Canary {
    dir: Vec<u8>,
    name: Vec<u8>,
    object: Object,
}

pub(super) fn judge(servers: &[Server], seen: &[Result<Seen, Trouble>], asking: &Asking<'_>) -> Parity {
    let roots: Vec<(usize, &Object)> =
        seen.iter().enumerate().filter_map(|(server, seen)| Some((server, &seen.as_ref().ok()?.root))).collect();
    let Some(common) = most_common(&roots) else { return Parity::default() };
    let (members, others): (Vec<_>, Vec<_>) = roots.iter().partition(|(_, root)| *root == common);
    let mut parity = Parity {
        members: members.into_iter().map(|(server, _)| server).collect(),
        strangers: others
            .into_iter()
            .map(|(server, root)| (server, format!("its root is another: {root}, not {common}")))
            .collect(),
        compared: 0,
        directories: vec![common.handle.clone()],
    };
    let caller = parity.members.iter().find_map(|member| seen[*member].as_ref().ok()?.writer.clone());
    compare_names(&mut parity, &|member| {
        Client::connect(servers[member].address, caller.as_ref().unwrap_or(&Caller::ROOT), asking.patience)
    });
    parity
}

fn most_common<'a>(roots: &[(usize, &'a Object)]) -> Option<&'a Object> {
    let votes = |root: &Object| roots.iter().filter(|(_, other)| *other == root).count();
    // `max_by_key` prefers the last of equals, so they come from behind.
    roots.iter().rev().map(|(_, root)| *root).max_by_key(|root| votes(root))
}

/// Moves servers whose names lead elsewhere to the strangers.
fn compare_names(parity: &mut Parity, connect: &dyn Fn(usize) -> io::Result<Client>) {
    let Some(first) = parity.members.first().copied() else { return };
    let Ok(canaries) = connect(first).map_err(ClientError::from).and_then(|mut client| pick(&mut client, parity))
    else {
        // Nobody may list it: the root alone must do.
        return;
    };
    parity.compared = canaries.len();
    let differs = |server: usize| {
        let mut client = connect(server).ok()?;
        difference(&mut client, &canaries)
    };
    let others: Vec<usize> = parity.members[1..].to_vec();
    for server in others {
        if let Some(why) = differs(server) {
            parity.members.retain(|member| *member != server);
            parity.strangers.push((server, why));
        }
    }
}

/// Names of the root, and of the first directory below it.
fn pick(client: &mut Client, parity: &mut Parity) -> Result<Vec<Canary>, ClientError> {
    let mut canaries = Vec::new();
    for level in 0..LEVELS {
        let Some(dir) = parity.directories.get(level).cloned() else { break };
        let names = list(client, &dir, Mark::default(), NAMES)?.names;
        for name in names.into_iter().filter(|name| !is_dot(name)) {
            let (object, attributes) = match lookup(client, &dir, &name) {
                Ok(Some(found)) => found,
                Ok(None) | Err(ClientError::Status(_)) => continue,
                Err(error) => return Err(error),
            };
            if attributes.ftype == Ftype3::Dir && parity.directories.len() < DIRECTORIES {
                parity.directories.push(object.handle.clone());
            }
            canaries.push(Canary { dir: dir.clone(), name, object });
        }
    }
    Ok(canaries)
}

/// A name that leads to another object here. One that is missing may just have been made or removed; all of them may not.
fn difference(client: &mut Client, canaries: &[Canary]) -> Option<String> {
    let mut missing = 0;
    for Canary { dir, name, object } in canaries {
        match lookup(client, dir, name) {
            Ok(Some((found, _))) if found != *object => {
                let name = name.escape_ascii();
                return Some(format!("its '{name}' is another: {found}, not {object}"));
            }
            Ok(Some(_)) => {}
            Ok(None) | Err(ClientError::Status(_)) => missing += 1,
            Err(_) => return None,
        }
    }
    (missing > 0 && missing == canaries.len())
        .then(|| format!("it has none of the {missing} names that were looked up"))
}

/// Directories whose names are compared.
const LEVELS: usize = 2;
/// Names of each.
const NAMES: usize = 18;
/// Directories that are kept for other questions.
const DIRECTORIES: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_are_right_and_of_two_halves_the_one_with_the_first() {
        for (drawn, want) in [("a", 'a'), ("ab", 'a'), ("ba", 'b'), ("abb", 'b'), ("abab", 'a'), ("bcaa", 'a')] {
            let objects: Vec<Object> =
                drawn.bytes().map(|letter| Object { handle: vec![letter], fsid: 1, fileid: 2 }).collect();
            let roots: Vec<(usize, &Object)> = objects.iter().enumerate().collect();
            assert_eq!(most_common(&roots).map(|root| root.handle.clone()), Some(vec![want as u8]), "{drawn}");
        }
        assert_eq!(most_common(&[]), None);
    }
}
