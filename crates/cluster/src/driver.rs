//! The cluster's thread: all sockets, one loop. It moves bytes, counts and tells; who may speak is `greeting`'s and `session`'s, who belongs is
//! `views`'.
//!
//! A full queue to a member closes its connection instead of dropping the oldest frames: what waits there is old news to the upper half, a
//! hole in a stream would have to be found out, and a link that goes down is told at once.

mod meet;

use crate::greeting::Greeting;
use crate::key::random;
use crate::line::{Line, Stage};
use crate::peer::Peer;
use crate::post::{Order, Post};
use crate::pulse::Pulse;
use crate::refusal::{Refusal, Refused};
use crate::session::{DATAGRAM_MAX, Kind};
use crate::settings::{Above, Link, Settings};
use crate::status::{MemberStatus, Status};
use crate::view::{View, majority};
use crate::views::{Report, Told, Views};
use mio::event::Event;
use mio::net::{TcpListener, UdpSocket};
use mio::{Events, Interest, Poll, Token};
use slab::Slab;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

pub(crate) struct Driver<A> {
    settings: Settings,
    me: u8,
    incarnation: u64,
    poll: Poll,
    listener: TcpListener,
    udp: UdpSocket,
    post: Arc<Post>,
    views: Views,
    above: A,
    /// By index; at our own there is nobody.
    peers: Vec<Option<Peer>>,
    lines: Slab<Line>,
    /// Lines with something to write.
    touched: Vec<usize>,
    view: View,
    led: (Option<u8>, u64),
    leaving: bool,
    failed: Option<String>,
    stopped: bool,
    refused: Refused,
    status: Arc<Mutex<Status>>,
    started: Instant,
    beat_at: Instant,
    /// When we last said that we live.
    pulsed: Instant,
    scratch: Vec<u8>,
}

impl<A: Above> Driver<A> {
    pub(crate) fn new(
        settings: Settings,
        me: u8,
        poll: Poll,
        post: Arc<Post>,
        status: Arc<Mutex<Status>>,
        above: A,
    ) -> io::Result<Self> {
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("cluster address {}: {error}", settings.listen));
        let mut listener = TcpListener::bind(settings.listen).map_err(named)?;
        let mut udp = UdpSocket::bind(settings.listen).map_err(named)?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        poll.registry().register(&mut udp, DATAGRAMS, Interest::READABLE)?;
        let views = Views::start(&settings, me, &post)?;
        let started = Instant::now();
        let peer = |(index, member): (u8, &crate::Member)| (index != me).then(|| Peer::new(member.clone(), started));
        let peers = (0u8..).zip(&settings.members).map(peer).collect();
        Ok(Self {
            me,
            incarnation: u64::from_be_bytes(random()?),
            poll,
            listener,
            udp,
            post,
            views,
            above,
            peers,
            lines: Slab::new(),
            touched: Vec::new(),
            view: View::default(),
            led: (None, 0),
            leaving: false,
            failed: None,
            stopped: false,
            refused: Refused::default(),
            status,
            started,
            beat_at: started,
            pulsed: started,
            scratch: vec![0; SCRATCH],
            settings,
        })
    }

    pub(crate) fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// Until it is told to stop, or this member may not take part any more.
    pub(crate) fn run(mut self) {
        let mut events = Events::with_capacity(EVENTS);
        let mut orders = Vec::new();
        while !self.stopped {
            if Instant::now() >= self.beat_at {
                // What came while this thread was busy speaks for those who sent it, before they are judged.
                if self.poll.poll(&mut events, Some(Duration::ZERO)).is_ok() {
                    events.iter().for_each(|event| self.event(event));
                }
                self.beat(Instant::now());
            }
            let asked = self.converse(&mut orders);
            self.flush();
            let until = asked.map_or(self.beat_at, |asked| asked.min(self.beat_at));
            let patience = match self.post.sleep() {
                true => until.saturating_duration_since(Instant::now()),
                false => Duration::ZERO,
            };
            let polled = self.poll.poll(&mut events, Some(patience));
            self.post.awake();
            if polled.is_err_and(|error| error.kind() != ErrorKind::Interrupted) {
                self.fail("the sockets cannot be waited for".to_owned());
            }
            for event in &events {
                self.event(event);
            }
        }
        self.publish();
    }

    /// What is above speaks until it has nothing to say, but not for ever.
    fn converse(&mut self, orders: &mut Vec<Order>) -> Option<Instant> {
        let mut asked = None;
        for _ in 0..ROUNDS_MAX {
            self.post.heed();
            asked = self.above.tick();
            let missed = self.post.take(orders);
            if orders.is_empty() && missed == 0 && !self.post.woken() {
                break;
            }
            for order in orders.drain(..) {
                self.obey(order);
            }
            self.part(missed);
        }
        asked
    }

    /// Closes the lines on which we send to these members, a bit each.
    fn part(&mut self, members: u16) {
        let out = |(place, peer): (usize, &Option<Peer>)| peer.as_ref()?.out.filter(|_| members >> place & 1 == 1);
        let lines: Vec<usize> = self.peers.iter().enumerate().filter_map(out).collect();
        for line in lines {
            self.close(line);
        }
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Frame(to, kind, bytes) => self.send(to, kind, &bytes),
            Order::Datagram(to, bytes) => self.send_datagram(to, &bytes),
            Order::View(view) => {
                if self.view.succeed(view) {
                    self.above.view(&self.view);
                    self.publish();
                }
            }
            Order::Leader(leader, term) => self.led = (leader, term),
            Order::Failed(why) => self.fail(why),
            Order::Digest(digest) => self.settings.digest = digest,
            Order::Leave => {
                self.leaving = true;
                self.beat_at = Instant::now();
            }
            Order::Stop => self.stopped = true,
        }
    }

    fn fail(&mut self, why: String) {
        self.failed = Some(why);
        self.stopped = true;
        for key in self.keys(|_| true) {
            self.close(key);
        }
    }

    fn event(&mut self, event: &Event) {
        match event.token() {
            LISTENER => self.accept(),
            DATAGRAMS => self.receive_datagrams(),
            WAKER => {}
            Token(token) => {
                let key = token - FIRST;
                if event.is_readable() || event.is_read_closed() || event.is_error() {
                    self.receive(key);
                }
                if event.is_writable() {
                    self.touched.push(key);
                }
            }
        }
    }

    /// Reads all that is there, frame by frame.
    fn receive(&mut self, key: usize) {
        while let Some(line) = self.lines.get_mut(key) {
            match line.read(&mut self.scratch) {
                Ok(true) => {
                    if let Err(why) = self.understand(key) {
                        self.refused.count(why);
                        return self.close(key);
                    }
                    self.live(Instant::now());
                }
                Ok(false) => return,
                Err(_) => return self.close(key),
            }
        }
    }

    fn understand(&mut self, key: usize) -> Result<(), Refusal> {
        let input = std::mem::take(&mut self.lines[key].input);
        let mut used = 0;
        loop {
            match self.step(key, &input[used..])? {
                0 => break,
                count => used += count,
            }
        }
        if let Some(line) = self.lines.get_mut(key) {
            line.input.extend_from_slice(&input[used..]);
        }
        Ok(())
    }

    /// Takes the next whole thing from the beginning of what came; how many bytes it had.
    fn step(&mut self, key: usize, bytes: &[u8]) -> Result<usize, Refusal> {
        let Some(line) = self.lines.get_mut(key) else { return Ok(0) };
        match &mut line.stage {
            Stage::Stranger => self.welcome(key, bytes),
            Stage::Dialling(..) => self.answered(key, bytes),
            Stage::Sending(..) if bytes.is_empty() => Ok(0),
            Stage::Sending(..) => Err(Refusal::Garbage),
            Stage::Answered(incoming) | Stage::Receiving(incoming) => {
                let (peer, incarnation, version) = (incoming.peer, incoming.incarnation, incoming.version);
                let Some((kind, body, count)) = incoming.open.frame(bytes)? else { return Ok(0) };
                if matches!(line.stage, Stage::Answered(_)) {
                    self.proven(key);
                }
                self.hear(peer, (incarnation, version), kind, body)?;
                Ok(count)
            }
        }
    }

    fn hear(&mut self, from: u8, (incarnation, version): (u64, u16), kind: Kind, body: &[u8]) -> Result<(), Refusal> {
        let (now, clock) = (Instant::now(), self.clock());
        let Some(peer) = &mut self.peers[usize::from(from)] else { return Err(Refusal::Member) };
        peer.traffic.frames_received += 1;
        peer.traffic.bytes_received += body.len() as u64;
        if let Some(heard) = &mut peer.heard {
            heard.at = now;
        }
        match kind {
            Kind::Pulse => peer.beat(now, clock, Pulse::parse(body).ok_or(Refusal::Meaning)?),
            Kind::Vote => self.views.tell(Told::Message(from, body.to_vec())),
            Kind::Above => self.above.frame(from, incarnation, version, body),
        }
        Ok(())
    }

    fn send(&mut self, to: u8, kind: Kind, bytes: &[u8]) {
        let Some(Some(peer)) = self.peers.get_mut(usize::from(to)) else { return };
        let Some((key, line)) = peer.out.and_then(|key| Some((key, self.lines.get_mut(key)?))) else {
            peer.traffic.lost += 1;
            return;
        };
        if line.waiting() > QUEUE_MAX {
            peer.traffic.lost += 1;
            return self.close(key);
        }
        match line.frame(kind, bytes) {
            Some(count) => {
                peer.traffic.frames_sent += 1;
                peer.traffic.bytes_sent += count as u64;
                self.touched.push(key);
            }
            None => peer.traffic.lost += 1,
        }
    }

    fn send_datagram(&mut self, to: u8, bytes: &[u8]) {
        let Some(Some(peer)) = self.peers.get_mut(usize::from(to)) else { return };
        let line = peer.out.and_then(|key| self.lines.get_mut(key));
        let Some(Line { stage: Stage::Sending(_, seal), .. }) = line else {
            peer.traffic.lost += 1;
            return;
        };
        match self.udp.send_to(&seal.datagram(bytes), peer.member.address) {
            Ok(_) => peer.traffic.datagrams_sent += 1,
            Err(_) => peer.traffic.lost += 1,
        }
    }

    fn receive_datagrams(&mut self) {
        loop {
            let count = match self.udp.recv_from(&mut self.scratch) {
                Ok((count, _)) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // An answer to what we sent to nobody: the next one may be good.
                Err(_) => continue,
            };
            let datagram = std::mem::take(&mut self.scratch);
            if let Err(why) = self.receive_datagram(&datagram[..count]) {
                self.refused.count(why);
            }
            self.scratch = datagram;
        }
    }

    fn receive_datagram(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        let session = *bytes.first_chunk().ok_or(Refusal::Datagram)?;
        if bytes.len() > DATAGRAM_MAX + DATAGRAM_EXTRA {
            return Err(Refusal::Length);
        }
        for peer in self.peers.iter_mut().flatten() {
            let line = peer.back.and_then(|key| self.lines.get_mut(key));
            let Some(Line { stage: Stage::Receiving(incoming), .. }) = line else { continue };
            if incoming.open.is(session) {
                let body = incoming.open.datagram(bytes)?;
                peer.traffic.datagrams_received += 1;
                self.above.datagram(incoming.peer, incoming.incarnation, body);
                return Ok(());
            }
        }
        Err(Refusal::Datagram)
    }

    /// One write for all that was queued for a line since the last time.
    fn flush(&mut self) {
        while let Some(key) = self.touched.pop() {
            let Some(line) = self.lines.get_mut(key) else { continue };
            if line.waiting() > 0 && line.flush().is_err() {
                self.close(key);
            }
        }
    }

    /// Says that we live though there is much to read.
    fn live(&mut self, now: Instant) {
        if now < self.pulsed + self.settings.heartbeat {
            return;
        }
        self.pulsed = now;
        for index in 0..self.peers.len() as u8 {
            if self.peers[usize::from(index)].as_ref().is_some_and(|peer| peer.reached.is_some()) {
                let pulse = self.pulse(index, now);
                self.send(index, Kind::Pulse, &pulse.bytes());
            }
        }
        self.flush();
    }

    /// Several times in `suspect_after`: says that we live, looks who does, dials.
    fn beat(&mut self, now: Instant) {
        (self.beat_at, self.pulsed) = (now + self.settings.heartbeat, now);
        // Who could not be accepted (no more files) is not told of again.
        self.accept();
        let late = |line: &Line| line.unproven() && now.duration_since(line.since) >= GREETING_PATIENCE;
        for key in self.keys(late) {
            if self.lines[key].strange() {
                self.refused.count(Refusal::Late);
            }
            self.close(key);
        }
        for index in 0..self.peers.len() as u8 {
            self.keep(index, now);
        }
        self.report(now);
        self.publish();
    }

    fn keep(&mut self, index: u8, now: Instant) {
        let pulse = self.pulse(index, now);
        let Some(peer) = &self.peers[usize::from(index)] else { return };
        if let (Some(key), None) = (peer.back, peer.recent(now, self.settings.suspect_after)) {
            self.close(key);
        }
        let Some(peer) = &self.peers[usize::from(index)] else { return };
        match (peer.out, peer.reached) {
            (Some(_), Some(_)) => self.send(index, Kind::Pulse, &pulse.bytes()),
            (None, _) if now >= peer.dial_at => self.dial(index, now),
            (Some(_), None) | (None, _) => {}
        }
    }

    fn pulse(&self, to: u8, now: Instant) -> Pulse {
        let heard = self.peers[usize::from(to)].as_ref().and_then(|peer| peer.heard.as_ref());
        let last = heard.and_then(|heard| Some((heard.pulse?.sent, now.duration_since(heard.pulse_at))));
        let (echo, held) = last.unwrap_or_default();
        Pulse {
            sent: self.clock(),
            echo,
            held: held.as_micros() as u64,
            hears: self.hears(now),
            leaving: self.leaving,
            epoch: self.view.epoch,
            digest: self.settings.digest,
        }
    }

    fn hears(&self, now: Instant) -> u16 {
        let heard = |peer: &Option<Peer>| match peer {
            Some(peer) => peer.recent(now, self.settings.suspect_after).is_some(),
            None => true,
        };
        self.peers.iter().enumerate().fold(0, |mask, (place, peer)| mask | u16::from(heard(peer)) << place)
    }

    /// Whether those who hear us, and whom we hear, are for `suspect_after` no majority with us: a view may stand that others have left behind.
    fn cut_off(&self, now: Instant) -> bool {
        let limit = self.settings.suspect_after;
        let hears_us = |peer: &Peer| {
            let pulse = peer.recent(now, limit).and_then(|heard| heard.pulse);
            pulse.is_some_and(|pulse| pulse.hears >> self.me & 1 == 1)
        };
        let others = self.peers.iter().flatten().filter(|peer| hears_us(peer)).count();
        1 + others < majority(self.peers.len()) && now.duration_since(self.started) >= limit
    }

    fn report(&self, now: Instant) {
        let own = Report { incarnation: self.incarnation, hears: self.hears(now), leaving: self.leaving };
        let report = |peer: &Option<Peer>| match peer {
            Some(peer) => {
                let heard = peer.recent(now, self.settings.suspect_after)?;
                let Pulse { hears, leaving, .. } = heard.pulse?;
                Some(Report { incarnation: heard.incarnation, hears, leaving })
            }
            None => Some(own),
        };
        self.views.tell(Told::Reports(self.peers.iter().map(report).collect()));
    }

    /// Lines of which this is so.
    fn keys(&self, so: impl Fn(&Line) -> bool) -> Vec<usize> {
        self.lines.iter().filter(|(_, line)| so(line)).map(|(key, _)| key).collect()
    }

    fn close(&mut self, key: usize) {
        let Some(mut line) = self.lines.try_remove(key) else { return };
        // A socket that is closed is registered nowhere, whatever this says.
        let _gone = self.poll.registry().deregister(&mut line.socket);
        let Some(index) = line.peer() else { return };
        let Some(peer) = &mut self.peers[usize::from(index)] else { return };
        if peer.out == Some(key) {
            (peer.out, peer.reached) = (None, None);
            peer.dial_at = Instant::now() + self.settings.heartbeat;
        }
        if peer.back == Some(key) {
            peer.back = None;
        }
        self.relink(index);
    }

    /// Tells when the way to a member and back has changed.
    fn relink(&mut self, index: u8) {
        let Some(peer) = &mut self.peers[usize::from(index)] else { return };
        let link = peer.link();
        if link != peer.told {
            // A life that follows another at once is still two.
            if matches!((peer.told, link), (Link::Up { .. }, Link::Up { .. })) {
                self.above.link(index, Link::Down);
            }
            peer.told = link;
            self.above.link(index, link);
        }
    }

    fn greeting(&self, to: u8) -> io::Result<Greeting> {
        Ok(Greeting {
            cluster: self.settings.name.clone(),
            from: self.settings.me.clone(),
            to: self.settings.members[usize::from(to)].name.clone(),
            incarnation: self.incarnation,
            versions: self.settings.versions.clone(),
            nonce: random()?,
            software: self.settings.software.clone(),
        })
    }

    /// Microseconds since the start; never 0.
    fn clock(&self) -> u64 {
        1 + self.started.elapsed().as_micros() as u64
    }

    fn publish(&self) {
        let now = Instant::now();
        let cut_off = self.failed.is_some() || self.cut_off(now);
        let lost: u64 = self.peers.iter().flatten().map(|peer| peer.traffic.lost).sum();
        let status = Status {
            me: self.me,
            members: (0u8..).zip(&self.peers).map(|(index, peer)| self.member(index, peer.as_ref(), now)).collect(),
            view: self.view.clone(),
            cut_off,
            leader: self.led.0,
            term: self.led.1,
            refused: self.refused.clone(),
            lost: lost + self.post.lost(),
            failed: self.failed.clone(),
        };
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }

    fn member(&self, index: u8, peer: Option<&Peer>, now: Instant) -> MemberStatus {
        let member = &self.settings.members[usize::from(index)];
        let heard = peer.and_then(|peer| peer.heard.as_ref());
        let pulse = heard.and_then(|heard| heard.pulse);
        let own = peer.is_none();
        let incarnation = if own { Some(self.incarnation) } else { heard.map(|heard| heard.incarnation) };
        MemberStatus {
            name: member.name.clone(),
            address: member.address,
            witness: member.witness,
            incarnation,
            up: own || peer.is_some_and(|peer| peer.link() != Link::Down),
            in_view: incarnation.is_some() && self.view.incarnation(index) == incarnation,
            rtt: peer.and_then(|peer| peer.rtt),
            silent: heard.map(|heard| now.duration_since(heard.at)),
            version: if own { Some(*self.settings.versions.end()) } else { heard.map(|heard| heard.version) },
            software: heard.map_or_else(|| self.settings.software.clone(), |heard| heard.software.clone()),
            unequal: peer.and_then(|peer| peer.unequal.clone()),
            epoch: if own { Some(self.view.epoch) } else { pulse.map(|pulse| pulse.epoch) },
            leaving: if own { self.leaving } else { pulse.is_some_and(|pulse| pulse.leaving) },
            same: if own { Some(true) } else { pulse.map(|pulse| pulse.digest == self.settings.digest) },
            traffic: peer.map(|peer| peer.traffic).unwrap_or_default(),
        }
    }
}

const LISTENER: Token = Token(0);
const DATAGRAMS: Token = Token(1);
pub(crate) const WAKER: Token = Token(2);
/// Of the first line.
const FIRST: usize = 3;
/// Bytes that one read takes.
const SCRATCH: usize = 64 << 10;
/// Of one turn.
const EVENTS: usize = 64;
/// How often what is above may answer itself before sockets have their turn.
const ROUNDS_MAX: usize = 8;
/// Bytes that wait for one member: at this many it has taken nothing for long, or the path is too slow for what it must carry.
const QUEUE_MAX: usize = 32 << 20;
/// What a datagram has besides what it carries, at most.
const DATAGRAM_EXTRA: usize = 64;
/// How long a connection may take to show that a member is at its other end.
const GREETING_PATIENCE: Duration = Duration::from_secs(2);
