//! `[cluster]`: the proxies that share caches and load, and which of them this one is.

use super::address;
use super::key::Table;
use super::nearest::suggestion;
use super::reading::{Reading, Section, Value};
use super::value::{self, Typed, file, flag, one_or_many, placed, time};
use midas_cluster::MEMBERS_MAX;
use midas_core::time::Span;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The proxies that belong together. At least two members with different names and addresses, this one among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// What it is called; members of another one are refused.
    pub name: String,
    /// Where the other members reach this one, TCP and UDP.
    pub listen: SocketAddr,
    /// In the order of the file, which must be the same everywhere.
    pub members: Vec<ClusterMember>,
    /// What all members know and nobody else.
    pub key_file: PathBuf,
    /// Which member this is.
    pub me: String,
    /// How long a member may answer from its cache without hearing from the others.
    pub lease: Span,
    /// How long a member may be silent before the others go on without it.
    pub suspect_after: Span,
    /// Whether it tells the others what it has in flight, and heeds what they tell.
    pub shares: bool,
}

/// A member of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterMember {
    /// As the file calls it.
    pub name: String,
    /// Where the others reach it.
    pub address: SocketAddr,
    /// It votes, and serves nobody: `midas serve --witness`.
    pub witness: bool,
}

/// The cluster that a section means. The listener is returned with its place, to be compared with the others.
pub(super) fn cluster(section: &Section<'_>, reading: &mut Reading<'_>) -> Option<(Cluster, Typed<SocketAddr>)> {
    let name = section.read("name", reading, value::name);
    let listen = section.read("listen", reading, placed(value::address));
    let members = section.read("members", reading, one_or_many(MEMBERS_MAX, member));
    let key_file = section.read("key_file", reading, file);
    let me = section.given("me", reading, placed(value::name));
    let lease = section.read("lease", reading, time(LEASE_MIN, PATIENCE_MAX));
    let suspect_after = section.read("suspect_after", reading, time(SUSPECT_MIN, PATIENCE_MAX));
    let shares = section.read("shares", reading, flag);
    let members = members?;
    different(&members, section, reading);
    let members: Vec<ClusterMember> = members.into_iter().map(|member| member.value).collect();
    let me = which(me?, &members, section, reading);
    let listen = listen?;
    let cluster = Cluster {
        name: name?,
        listen: listen.value,
        members,
        key_file: key_file?,
        me: me?,
        lease: lease?,
        suspect_after: suspect_after?,
        shares: shares?,
    };
    Some((cluster, listen))
}

/// `a=192.0.2.1:7049`, and `witness` behind it.
fn member(value: &Value<'_>, reading: &mut Reading<'_>) -> Option<ClusterMember> {
    let Some((name, rest)) = value.typed.as_str().and_then(|text| text.split_once('=')) else {
        value.takes(reading, "`name=host:port`, such as \"a=192.0.2.1:7049\" or \"w=192.0.2.3:7049 witness\"");
        return None;
    };
    let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(letter) {
        value.wrong(reading, &format!("'{name}' is no name: 1..{NAME_MAX} letters, digits, '-', '_' or '.'"));
        return None;
    }
    let (host, role) = rest.split_once(' ').unwrap_or((rest, ""));
    let witness = match role.trim() {
        "" => false,
        "witness" => true,
        other => {
            value.wrong(reading, &format!("'{other}' behind the address of '{name}'; possible: witness"));
            return None;
        }
    };
    let address = address::parse(host, reading.resolve()).map_err(|said| value.wrong(reading, &said)).ok()?;
    if address.port() == 0 || address.ip().is_unspecified() {
        value.wrong(reading, &format!("{address} is not where a member can be"));
        return None;
    }
    Some(ClusterMember { name: name.to_owned(), address, witness })
}

fn different(members: &[Typed<ClusterMember>], section: &Section<'_>, reading: &mut Reading<'_>) {
    if members.len() < 2 {
        reading
            .wrong(section.place("members"), "members: a cluster has at least two; without one, leave [cluster] out");
    }
    for (index, member) in members.iter().enumerate() {
        let before = || members[..index].iter().map(|other| &other.value);
        let ClusterMember { name, address, .. } = &member.value;
        if before().any(|other| other.name == *name) {
            reading.wrong(member.at, format!("members: '{name}' is there twice"));
        } else if let Some(other) = before().find(|other| other.address == *address) {
            reading.wrong(member.at, format!("members: '{name}' is '{}': both are {address}", other.name));
        }
    }
    if !members.is_empty() && members.iter().all(|member| member.value.witness) {
        reading.wrong(section.place("members"), "members: all are witnesses, and nobody serves");
    }
}

/// Which member this is: the one that is named, or the one that is called as this host is.
fn which(
    given: Option<Typed<String>>,
    members: &[ClusterMember],
    section: &Section<'_>,
    reading: &mut Reading<'_>,
) -> Option<String> {
    let names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
    if let Some(Typed { value, at }) = given {
        let known = names.contains(&value.as_str());
        if !known {
            reading.wrong(at, format!("me: '{value}' is not a member{}", suggestion(&value, &names)));
        }
        return known.then_some(value);
    }
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let short = host.split('.').next().unwrap_or(&host);
    let found = names.iter().find(|name| **name == host || **name == short);
    if found.is_none() {
        let said = format!("this host is called '{host}', which is not a member; say which one it is with 'me'");
        reading.wrong(section.at, format!("{}: {said}", Table::Cluster));
    }
    found.map(|name| (*name).to_owned())
}

/// Bytes of a member's name.
const NAME_MAX: usize = 64;
const LEASE_MIN: Span = Span::from_millis(100);
const SUSPECT_MIN: Span = Span::from_millis(500);
const PATIENCE_MAX: Span = Span::from_secs(60);
