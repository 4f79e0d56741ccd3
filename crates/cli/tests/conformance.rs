//! One script, answered alike by NFS-Ganesha and by our servers; differences are those of `midas_conformance::ALLOWED` and
//! no others.

mod support;

use midas_conformance::{Difference, Target, Transcript, diff, faults, idle, run};
use midas_lab::{Ganesha, Part, Scratch, require};
use support::nfsd::Nfsd;
use support::target;

/// The heads believe nothing that they know of a file: what the observer changed is seen at once.
const NO_EXPIRATION: u32 = 0;

#[test]
fn the_embedded_servers_answer_as_ganesha_does_but_where_the_rfc_lets_them() {
    if !require(Part::Ganesha) {
        return;
    }
    let ganesha = Ganesha::start(1, NO_EXPIRATION);
    let reference = twice(&target(&ganesha.heads()[0]));
    let scratch = Scratch::new();
    let directory = scratch.path().display().to_string();
    let arms = [
        ("--memory", Nfsd::start(&["--memory", "--export", "/export"])),
        ("--dir", Nfsd::start(&["--dir", &directory, "--export", "/export"])),
    ];
    let mut all = Vec::new();
    for (arm, nfsd) in &arms {
        let differences = diff(&reference, &twice(&target(&nfsd.endpoint(0))));
        println!("{arm}: {} steps, {} differences, all allowed", reference.0.len(), differences.len());
        assert_eq!(told(&faults(&differences)), "", "{arm} differs from Ganesha where it must not");
        all.extend(differences);
    }
    assert_eq!(idle(&all), [], "allowed, but seen on no arm");
    let left = [ganesha.export(), scratch.path()].map(|path| std::fs::read_dir(path).expect("it is ours").count());
    assert_eq!(left, [0, 0], "the script removes what it made");
}

#[test]
fn a_namespace_in_memory_answers_the_script_alike_every_time() {
    let nfsd = Nfsd::start(&["--memory", "--export", "/export", "--servers", "2"]);
    let first = twice(&target(&nfsd.endpoint(0)));
    assert_eq!(told(&diff(&first, &run(&target(&nfsd.endpoint(1)))).iter().collect::<Vec<_>>()), "");
}

/// Plays the script twice: a server that answers differently without a reason proves nothing.
fn twice(target: &Target) -> Transcript {
    let first = run(target);
    assert_eq!(told(&diff(&first, &run(target)).iter().collect::<Vec<_>>()), "", "the second run differs");
    first
}

fn told(differences: &[&Difference]) -> String {
    differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
