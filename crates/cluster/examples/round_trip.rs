//! The round trip of a frame of 100 bytes between two members on this machine, one at a time and from another thread: `cargo run --release -p
//! midas-cluster --example round_trip`.

use hdrhistogram::Histogram;
use midas_cluster::{Above, Cluster, Key, Link, Member, Sender, Settings, View};
use std::error::Error;
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Sender as Told, channel};
use std::time::{Duration, Instant};

struct End {
    sender: Sender,
    told: Option<Told<()>>,
}

impl Above for End {
    fn view(&mut self, _: &View) {}

    fn frame(&mut self, from: u8, _: u64, _: u16, bytes: &[u8]) {
        match &self.told {
            Some(told) => {
                let _ended = told.send(());
            }
            None => self.sender.send(from, bytes.to_vec()),
        }
    }

    fn datagram(&mut self, _: u8, _: u64, _: &[u8]) {}

    fn link(&mut self, _: u8, link: Link) {
        if let (Some(told), Link::Up { .. }) = (&self.told, link) {
            let _ended = told.send(());
        }
    }

    fn tick(&mut self) -> Option<Instant> {
        None
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let place = std::env::temp_dir().join(format!("midas-round-trip-{}", std::process::id()));
    let free = || -> std::io::Result<SocketAddr> { TcpListener::bind("127.0.0.1:0")?.local_addr() };
    let addresses = [free()?, free()?];
    let settings = |me: usize| {
        let names = ["a", "b"];
        let member = |at: usize| Member { name: names[at].into(), address: addresses[at], witness: false };
        Some(Settings {
            name: "round trip".into(),
            me: names[me].into(),
            listen: addresses[me],
            members: vec![member(0), member(1)],
            key: Key::new(&[7; 32])?,
            state_dir: place.join(names[me]),
            digest: [0; 32],
            versions: 1..=1,
            software: String::new(),
            suspect_after: Duration::from_secs(3),
            heartbeat: Duration::from_millis(250),
        })
    };
    let [near, far] = [settings(0), settings(1)].map(|settings| settings.ok_or("a key has 32 bytes"));
    let (told, heard) = channel();
    let near = Cluster::start(near?, |sender| End { sender, told: Some(told) })?;
    let far = Cluster::start(far?, |sender| End { sender, told: None })?;
    heard.recv()?;
    let mut times = Histogram::<u64>::new(3)?;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        near.sender().send(1, vec![0; 100]);
        heard.recv()?;
        times.record(start.elapsed().as_nanos() as u64)?;
    }
    let micros = |quantile| times.value_at_quantile(quantile) as f64 / 1e3;
    println!(
        "{ROUNDS} round trips: p50 {:.1} us, p99 {:.1} us, p99.9 {:.1} us",
        micros(0.5),
        micros(0.99),
        micros(0.999)
    );
    drop((near, far));
    std::fs::remove_dir_all(place)?;
    Ok(())
}

const ROUNDS: usize = 50_000;
