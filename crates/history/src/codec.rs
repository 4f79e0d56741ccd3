//! Records as bytes: every field a number of seven bits a byte, small numbers first. Times count from the record before.

use crate::record::{Attributes, Kind, Name, Place, Record};

/// Appends a record; `clock` is the start of the one before it in the block.
pub(crate) fn encode(out: &mut Vec<u8>, record: &Record, clock: &mut u64) {
    let status = u64::from(record.status.wrapping_add(1));
    let head = [
        u64::from(record.client),
        u64::from(record.target),
        record.start - *clock,
        record.end - record.start,
        record.kind as u64,
        place(record.at),
        name(record.at),
        place(record.to),
        name(record.to),
        record.object,
        record.victim,
        record.value,
        status,
        record.found,
        record.result,
        u64::from(record.complete) | u64::from(record.again) << 1,
        record.seen.len() as u64,
        record.names.len() as u64,
    ];
    *clock = record.start;
    for number in head {
        put(out, number);
    }
    for Attributes { object, ftype, size, mtime, ctime, nlink, mode } in record.seen.iter().copied() {
        for number in [object, ftype.into(), size, mtime, ctime, nlink.into(), mode.into()] {
            put(out, number);
        }
    }
    for (listed, object) in &record.names {
        put(out, number_of(Some(*listed)));
        put(out, *object);
    }
}

/// Takes a record off the front.
pub(crate) fn decode(from: &mut &[u8], clock: &mut u64) -> Result<Record, Damaged> {
    let (client, target) = (get32(from)?, get32(from)?);
    let start = clock.checked_add(get(from)?).ok_or(Damaged)?;
    let end = start.checked_add(get(from)?).ok_or(Damaged)?;
    *clock = start;
    let kind = *Kind::ALL.get(get(from)? as usize).ok_or(Damaged)?;
    let (at, to) = (get_place(from)?, get_place(from)?);
    let (object, victim, value) = (get(from)?, get(from)?, get(from)?);
    let status = get32(from)?.wrapping_sub(1);
    let (found, result, sent) = (get(from)?, get(from)?, get(from)?);
    let (complete, again) = (sent & 1 != 0, (sent >> 1).try_into().map_err(|_| Damaged)?);
    let (attributes, listed) = (get(from)?, get(from)?);
    // Each takes several bytes: a count above what is left is a lie, and nothing is allocated for it.
    if attributes.max(listed) > from.len() as u64 {
        return Err(Damaged);
    }
    let seen = (0..attributes).map(|_| get_attributes(from)).collect::<Result<_, _>>()?;
    let names = (0..listed).map(|_| Ok((get_name(from)?.ok_or(Damaged)?, get(from)?))).collect::<Result<_, _>>()?;
    Ok(Record {
        client,
        target,
        start,
        end,
        kind,
        at,
        to,
        object,
        victim,
        value,
        status,
        found,
        result,
        again,
        seen,
        names,
        complete,
    })
}

/// These bytes are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damaged;

fn get_attributes(from: &mut &[u8]) -> Result<Attributes, Damaged> {
    let (object, ftype, size) = (get(from)?, get32(from)?, get(from)?);
    let (mtime, ctime) = (get(from)?, get(from)?);
    Ok(Attributes { object, ftype, size, mtime, ctime, nlink: get32(from)?, mode: get32(from)? })
}

/// A directory's number plus one; 0 is no place.
fn place(place: Option<Place>) -> u64 {
    place.map_or(0, |place| u64::from(place.dir) + 1)
}

fn name(place: Option<Place>) -> u64 {
    number_of(place.and_then(|place| place.name))
}

/// 0 is no name.
fn number_of(name: Option<Name>) -> u64 {
    name.map_or(0, |Name { letter, number }| {
        let index = Name::LETTERS.iter().position(|known| *known == letter).unwrap_or(0);
        u64::from(number) * LETTERS + index as u64 + 1
    })
}

fn get_place(from: &mut &[u8]) -> Result<Option<Place>, Damaged> {
    let (dir, name) = (get(from)?, get_name(from)?);
    let Some(dir) = dir.checked_sub(1) else { return Ok(None) };
    Ok(Some(Place { dir: dir.try_into().map_err(|_| Damaged)?, name }))
}

fn get_name(from: &mut &[u8]) -> Result<Option<Name>, Damaged> {
    let Some(number) = get(from)?.checked_sub(1) else { return Ok(None) };
    let letter = *Name::LETTERS.get((number % LETTERS) as usize).ok_or(Damaged)?;
    Ok(Some(Name { letter, number: (number / LETTERS).try_into().map_err(|_| Damaged)? }))
}

fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn get32(from: &mut &[u8]) -> Result<u32, Damaged> {
    get(from)?.try_into().map_err(|_| Damaged)
}

fn get(from: &mut &[u8]) -> Result<u64, Damaged> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = from.split_first().ok_or(Damaged)?;
        *from = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(Damaged)
}

/// Room for letters to come.
const LETTERS: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_what_is_read_and_half_of_it_is_nothing() {
        let mut record = Record::new(Kind::Rename);
        record.at = Some(Place { dir: 0, name: Name::parse(b"n7") });
        record.to = Some(Place { dir: 3, name: Name::parse(b"k4294967295") });
        (record.client, record.start, record.end, record.object) = (31, 1 << 40, (1 << 40) + 7, u64::MAX);
        record.seen =
            vec![Attributes { object: 9, ftype: 1, size: u64::MAX, mtime: 1, ctime: 2, nlink: 3, mode: 0o644 }];
        record.names = vec![(Name { letter: b'f', number: 0 }, 0), (Name { letter: b's', number: 300 }, u64::MAX)];
        let mut silent = Record::new(Kind::Readdir);
        (silent.start, silent.end, silent.complete, silent.again) = (1 << 40, 1 << 41, true, 3);
        let (mut out, mut clock) = (Vec::new(), 0);
        encode(&mut out, &record, &mut clock);
        let first = out.len();
        encode(&mut out, &silent, &mut clock);
        let (mut from, mut clock) = (out.as_slice(), 0);
        assert_eq!(decode(&mut from, &mut clock), Ok(record));
        assert_eq!(decode(&mut from, &mut clock), Ok(silent));
        assert!(from.is_empty());
        for cut in 0..first {
            assert_eq!(decode(&mut &out[..cut], &mut 0), Err(Damaged), "cut at {cut}");
        }
    }
}
