//! Records of every size through two connections: all of them arrive, whole and in order, whichever way they were handed over.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use midas_net::{Budget, Buffers, Connection, Flow, Go, Scratch};
use midas_nfs::record;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

const LIMIT: usize = 2 << 20;
const PATIENCE: Duration = Duration::from_secs(60);

/// Small ones, ones around the sizes at which they are read and written in another way, and a megabyte.
const SIZES: [usize; 14] =
    [4, 120, 0, 16 << 10, (16 << 10) + 1, 120, 64 << 10, (64 << 10) - 4, 300_000, 8, 1 << 20, 1 << 20, 120, 255 << 10];

#[test]
fn records_of_every_size_arrive_whole_and_in_order() {
    let (mut sender, mut receiver) = pair();
    let sent: Vec<Vec<u8>> = (0..20).flat_map(|round| SIZES.map(|size| content(round, size))).collect();
    let (mut buffers, mut scratch, mut got) = (Buffers::new(), Scratch::new(), Vec::new());
    // All at once, so that what the socket does not take waits and is not overtaken.
    for (number, record) in sent.iter().enumerate() {
        match record.split_first_chunk().filter(|_| number % 3 > 0) {
            Some((xid, body)) => {
                sender.put(&mut buffers, &record::head(record.len(), u32::from_be_bytes(*xid)), body);
            }
            None => record::put(sender.output(&mut buffers), |out| out.extend_from_slice(record)),
        }
    }
    let start = Instant::now();
    while got.len() < sent.len() {
        sender.flush(&mut buffers).unwrap();
        receive(&mut receiver, &mut scratch, &mut got);
        assert!(start.elapsed() < PATIENCE, "{} of {} came", got.len(), sent.len());
    }
    assert!(got == sent, "something came that was not sent so");
    assert_eq!((sender.unsent(), receiver.mid_record(), receiver.reserved()), (0, false, 0));
}

#[test]
fn a_small_record_that_comes_byte_by_byte_takes_no_reservation() {
    let (mut sender, mut receiver) = pair();
    let (mut buffers, mut scratch, mut got) = (Buffers::new(), Scratch::new(), Vec::new());
    let mut bytes = Vec::new();
    record::put(&mut bytes, |out| out.extend_from_slice(&content(1, 300)));
    let start = Instant::now();
    for byte in bytes {
        sender.output(&mut buffers).push(byte);
        assert!(sender.flush(&mut buffers).unwrap());
        receive(&mut receiver, &mut scratch, &mut got);
        assert_eq!(receiver.reserved(), 0);
    }
    while got.is_empty() && start.elapsed() < PATIENCE {
        receive(&mut receiver, &mut scratch, &mut got);
    }
    assert_eq!(got, [content(1, 300)]);
}

/// Reads what is there; every other record ends the batch, so that some are kept for the next time.
fn receive(receiver: &mut Connection, scratch: &mut Scratch, got: &mut Vec<Vec<u8>>) {
    loop {
        let flow = receiver.receive(scratch, |record, _| {
            got.push(record.to_vec());
            if got.len().is_multiple_of(2) { Go::Break(()) } else { Go::Continue(()) }
        });
        match flow.unwrap() {
            Flow::More => {}
            Flow::Drained => return,
            Flow::Waiting => panic!("there is room for the largest"),
        }
    }
}

fn content(round: usize, size: usize) -> Vec<u8> {
    (0..size).map(|at| (at.wrapping_mul(31) ^ at >> 8 ^ round ^ size) as u8).collect()
}

fn pair() -> (Connection, Connection) {
    let budget = Budget::new(16 << 20);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let connected = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (accepted, _) = listener.accept().unwrap();
    let connection = |socket: TcpStream| {
        socket.set_nonblocking(true).unwrap();
        Connection::new(mio::net::TcpStream::from_std(socket), LIMIT, budget.clone()).unwrap()
    };
    (connection(connected), connection(accepted))
}
