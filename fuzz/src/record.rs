//! Record marking against a model that sees the whole stream at once.
//!
//! Input: the limit, the number of cuts, the cuts (used over and over), then the stream.

use midas_nfs::record::{MARK, Records, Step, TooLong};

/// One connection, read by a caller who looks whenever bytes came, and by one who waits for as many as he was told.
pub fn check(data: &[u8]) {
    let Some((&[limit, cuts], rest)) = data.split_first_chunk::<2>() else {
        return;
    };
    let (cuts, stream) = rest.split_at(rest.len().min(usize::from(cuts) % MOST_CUTS));
    let model = Model::of(stream, limit.into());
    for patient in [false, true] {
        Reading { records: Records::new(limit.into()), limit: limit.into(), buffer: Vec::new(), needed: 0, found: 0 }
            .all(stream, cuts, patient, &model);
    }
}

/// What a stream holds.
struct Model {
    /// Records, each with the offset at which its last byte has come.
    records: Vec<(usize, Vec<u8>)>,
    /// The offset behind the mark that claims too much, and what it claims.
    refused: Option<(usize, usize)>,
}

impl Model {
    fn of(stream: &[u8], limit: usize) -> Self {
        let mut model = Self { records: Vec::new(), refused: None };
        let (mut at, mut record) = (0, Vec::new());
        while let Some(mark) = stream[at..].first_chunk::<MARK>() {
            let word = u32::from_be_bytes(*mark);
            let length = (word & 0x7fff_ffff) as usize;
            at += MARK;
            if record.len() + length > limit {
                model.refused = Some((at, record.len() + length));
                break;
            }
            let Some(fragment) = stream[at..].get(..length) else {
                break;
            };
            record.extend_from_slice(fragment);
            at += length;
            if word >> 31 == 1 {
                model.records.push((at, std::mem::take(&mut record)));
            }
        }
        model
    }

    /// Records that are whole once `fed` bytes came.
    fn whole(&self, fed: usize) -> usize {
        self.records.iter().filter(|(end, _)| *end <= fed).count()
    }

    fn refused(&self, fed: usize) -> Option<TooLong> {
        self.refused.filter(|(at, _)| *at <= fed).map(|(_, claimed)| TooLong { claimed })
    }
}

struct Reading {
    records: Records,
    limit: usize,
    buffer: Vec<u8>,
    needed: usize,
    found: usize,
}

impl Reading {
    fn all(mut self, stream: &[u8], cuts: &[u8], patient: bool, model: &Model) {
        let mut cuts = cuts.iter().map(|cut| 1 + usize::from(*cut)).cycle();
        let mut fed = 0;
        while fed < stream.len() {
            let cut = cuts.next().unwrap_or(stream.len()).min(stream.len() - fed);
            self.buffer.extend_from_slice(&stream[fed..fed + cut]);
            fed += cut;
            let looked = if patient && self.buffer.len() < self.needed { Ok(()) } else { self.look(model) };
            assert_eq!(looked.err(), model.refused(fed), "after {fed} bytes");
            assert_eq!(self.found, model.whole(fed), "records after {fed} bytes");
            if looked.is_err() {
                return;
            }
        }
    }

    /// Takes every record that is there.
    fn look(&mut self, model: &Model) -> Result<(), TooLong> {
        loop {
            let (done, needed) = match self.records.next(&self.buffer)? {
                Step::Record { body, consumed } => {
                    assert_eq!(Some(body), model.records.get(self.found).map(|(_, record)| &record[..]));
                    self.found += 1;
                    (consumed, None)
                }
                Step::More { consumed, needed } => (consumed, Some(needed)),
            };
            self.buffer.drain(..done);
            assert!(self.records.held() <= self.limit, "{} bytes are held", self.records.held());
            if let Some(needed) = needed {
                assert!(needed > self.buffer.len(), "the caller would look again at once, for ever");
                assert!(needed <= MARK + self.limit, "the caller would wait for more than a record");
                self.needed = needed;
                return Ok(());
            }
        }
    }
}

const MOST_CUTS: usize = 16;
