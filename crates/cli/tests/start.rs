//! A job's start under the Linux kernel's client: python3 with everything that it imports comes from an export whose metadata is cached.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

mod support;

use midas_lab::{Guest, PATIENCE, Part, bounded, loopback, require, succeeded};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::thread;
use support::counted::{CACHED, Counted};
use support::over::Over;
use support::serve::Site;

/// Where the search path begins: directories that hold nothing but, the last, the job's own module.
const PATHS: usize = 12;

#[test]
fn python_starts_from_the_export_and_its_second_start_hardly_reaches_the_servers() {
    if !(require(Part::Ganesha) && require(Part::KernelClient)) {
        return;
    }
    let heads = Counted::start(3);
    install(&heads.ganesha.export().join("python"));
    let address = loopback(1, &[]);
    let listen = format!("nfs = \"{address}:0\"\nmount = \"{address}:0\"");
    // Under emulation a start may take longer than the 30 s of an entry's age.
    let export = "mode = \"lease\"\nwriters = \"midas-only\"\nlease_age_max = \"10m\"\n";
    let proxy = Site { listen, export, ..heads.site() }.start();
    let counter = TcpListener::bind((address, 0)).unwrap();
    let at = counter.local_addr().unwrap();
    let (transcript, reached) = thread::scope(|scope| {
        let notes = scope.spawn(|| note(&counter, &heads));
        let over = Over(at);
        let transcript = Guest::of(&proxy.endpoint()).env("COUNTER", &at.port().to_string()).scenario("python").run();
        drop(over);
        (transcript, notes.join().unwrap())
    });
    println!("{} in {:?}", transcript.text, transcript.took);
    transcript.expect_all_ok();
    let sent = transcript.figures("sent");
    let ([cold, warm], [first, both]) = (&sent[..], &reached[..]) else { panic!("{sent:?} {reached:?}") };
    println!(
        "calls that the client sent and that reached the servers: {cold} and {first}, then {warm} and {}",
        both - first
    );
    assert!(*first > 200, "the first start comes from the servers");
    assert!(*warm > 200, "the client had forgotten everything");
    // One answer in ten is compared with the servers' at first.
    assert!((both - first) * 5 <= *warm, "the second start comes from the cache");
}

/// Whenever it is asked to: the calls that have reached the servers.
fn note(counter: &TcpListener, heads: &Counted) -> Vec<u64> {
    let mut notes = Vec::new();
    for asker in counter.incoming() {
        let (asker, mut line) = (asker.unwrap(), String::new());
        BufReader::new(&asker).read_line(&mut line).unwrap();
        if line.trim() == "over" {
            break;
        }
        notes.push(heads.calls(&CACHED));
        writeln!(&asker, "noted").unwrap();
    }
    notes
}

/// This machine's python3, its libraries and its modules, less what nobody imports at a start.
fn install(to: &Path) {
    for directory in ["bin", "lib"] {
        fs::create_dir_all(to.join(directory)).unwrap();
    }
    let ask = "import sys, sysconfig; print(sys.executable, sysconfig.get_paths()['stdlib'])";
    let said = succeeded(&bounded("python3", PATIENCE).args(["-c", ask]).output().unwrap());
    let (program, modules) = said.trim().split_once(' ').unwrap();
    fs::copy(program, to.join("bin/python3")).unwrap();
    let extensions = fs::read_dir(Path::new(modules).join("lib-dynload")).unwrap().map(|entry| entry.unwrap().path());
    let libraries = succeeded(&bounded("ldd", PATIENCE).arg(program).args(extensions).output().unwrap());
    // Each file's name stands before its libraries, with a colon.
    let is_library = |word: &&str| word.starts_with('/') && !word.ends_with(':');
    for library in libraries.split_whitespace().filter(is_library).map(Path::new) {
        fs::copy(library, to.join("lib").join(library.file_name().unwrap())).unwrap();
    }
    let (above, name) = modules.rsplit_once('/').unwrap();
    let without: Vec<String> = ["test", "tests", "site-packages", "dist-packages", "idlelib", "config-*"]
        .map(|name| format!("--exclude={name}"))
        .to_vec();
    // The times of the files stay, by which compiled modules are known to be current.
    let archive = to.join("modules.tar");
    let tar = |from: &str, how: &str, rest: &[String]| {
        let mut tar = bounded("tar", PATIENCE);
        succeeded(&tar.args(["-C", from, how]).arg(&archive).args(rest).output().unwrap());
    };
    tar(above, "-cf", &[&without[..], &[name.to_owned()]].concat());
    tar(&to.join("lib").display().to_string(), "-xf", &[]);
    fs::remove_file(&archive).unwrap();
    for number in 1..=PATHS {
        fs::create_dir_all(to.join(format!("path/{number}"))).unwrap();
    }
    fs::write(to.join(format!("path/{PATHS}/job.py")), "answer = 42\n").unwrap();
}
