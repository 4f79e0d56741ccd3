//! The lease protocol's messages as bytes. A frame holds any number of them, each behind its length: what a newer member adds at the end of
//! one, or a kind that this one does not know, is passed over. Nothing is allocated for a number that is only claimed.

use super::Label;
use midas_core::key::Key;
use midas_core::peer::lease::{
    AttemptId, Intent, Life, MemberId, Memory, Message, Operation, Refusal, Sight, State, Told, Trace,
};
use midas_core::time::{Span, Time};
use midas_nfs::xdr::{Malformed, Reader, put};

/// Appends a message to a frame.
pub(super) fn encode(out: &mut Vec<u8>, message: &Message<Label>) {
    let begin = out.len();
    put::u32(out, 0);
    match message {
        Message::Ask { epoch, asked, since } => {
            head(out, Tag::Ask, *epoch);
            put::u64(out, asked.as_nanos());
            put::option(out, since.as_ref(), |out, since| put::u64(out, since.as_nanos()));
        }
        Message::Tell { epoch, asked, part, told } => {
            head(out, Tag::Tell, *epoch);
            put::u64(out, asked.as_nanos());
            put::u32(out, *part);
            put_all(out, told);
        }
        Message::Grant { epoch, asked, stamp, past, told, open, upto, parts } => {
            head(out, Tag::Grant, *epoch);
            put::u64(out, asked.as_nanos());
            put::u64(out, stamp.as_nanos());
            put::u32(out, *past as u32);
            put::u64(out, *upto);
            put::u32(out, *parts);
            put_all(out, told);
            put::u32(out, open.len() as u32);
            for id in open {
                put_id(out, *id);
            }
        }
        Message::Release { epoch } => head(out, Tag::Release, *epoch),
        Message::Announce { epoch, id, round, intent } => {
            head(out, Tag::Announce, *epoch);
            put_id(out, *id);
            put::u32(out, *round);
            put_intent(out, intent);
        }
        Message::Acknowledge { epoch, id, round } => {
            head(out, Tag::Acknowledge, *epoch);
            put_id(out, *id);
            put::u32(out, *round);
        }
        Message::Refuse { epoch, id, round, why } => {
            head(out, Tag::Refuse, *epoch);
            put_id(out, *id);
            put::u32(out, *round);
            put_refusal(out, why);
        }
        Message::Over { id, state } => {
            head(out, Tag::Over, 0);
            put_id(out, *id);
            put_state(out, state);
        }
        Message::Lost { id } => {
            head(out, Tag::Lost, 0);
            put_id(out, *id);
        }
        Message::Found { id, state } => {
            head(out, Tag::Found, 0);
            put_id(out, *id);
            put_state(out, state);
        }
        Message::Drop { keys } => {
            head(out, Tag::Drop, 0);
            put_labels(out, keys);
        }
    }
    let length = (out.len() - begin - 4) as u32;
    out[begin..begin + 4].copy_from_slice(&length.to_be_bytes());
}

/// Messages in a row, cut between two of them into frames of at most so many bytes. One that is longer by itself is left out.
pub(super) fn frames(said: Vec<u8>, most: usize) -> Vec<Vec<u8>> {
    if said.len() <= most {
        return vec![said];
    }
    let (mut frames, mut frame, mut rest) = (Vec::new(), Vec::new(), &said[..]);
    while let Some((length, _)) = rest.split_first_chunk::<4>() {
        let (message, behind) = rest.split_at((4 + u32::from_be_bytes(*length) as usize).min(rest.len()));
        rest = behind;
        if frame.len() + message.len() > most && !frame.is_empty() {
            frames.push(std::mem::take(&mut frame));
        }
        if message.len() <= most {
            frame.extend_from_slice(message);
        }
    }
    frames.push(frame);
    frames.retain(|frame: &Vec<u8>| !frame.is_empty());
    frames
}

/// The messages of a frame, one by one; kinds that are not known are left out.
pub(super) fn messages(frame: &[u8]) -> impl Iterator<Item = Result<Message<Label>, Malformed>> + '_ {
    cut(frame).filter_map(|of_frame| of_frame.and_then(message).transpose())
}

/// A message without its length; none if its kind is not known.
pub(super) fn message(message: &[u8]) -> Result<Option<Message<Label>>, Malformed> {
    decode(&mut Reader::new(message))
}

/// The messages of a frame as they lie in it.
pub(super) fn cut(frame: &[u8]) -> impl Iterator<Item = Result<&[u8], Malformed>> + '_ {
    let mut rest = frame;
    std::iter::from_fn(move || {
        let (length, behind) = rest.split_first_chunk::<4>()?;
        let message = behind.split_at_checked(u32::from_be_bytes(*length) as usize);
        rest = message.map_or(&[], |(_, behind)| behind);
        Some(message.map(|(message, _)| message).ok_or(Malformed::Short))
    })
}

/// The kinds of messages. Numbers are never given anew; 10, 11 and 14 to 17 are `fetch`'s, 18 to 20
/// `late`'s.
#[derive(Clone, Copy)]
#[repr(u32)]
enum Tag {
    Ask = 1,
    Grant = 2,
    Release = 3,
    Announce = 4,
    Acknowledge = 5,
    Refuse = 6,
    Over = 7,
    Drop = 8,
    Tell = 9,
    Lost = 12,
    Found = 13,
}

impl Tag {
    const ALL: [Self; 11] = [
        Self::Ask,
        Self::Grant,
        Self::Release,
        Self::Announce,
        Self::Acknowledge,
        Self::Refuse,
        Self::Over,
        Self::Drop,
        Self::Tell,
        Self::Lost,
        Self::Found,
    ];
}

fn time(reader: &mut Reader<'_>) -> Result<Time, Malformed> {
    reader.u64().map(Time::from_nanos)
}

fn decode(reader: &mut Reader<'_>) -> Result<Option<Message<Label>>, Malformed> {
    let number = reader.u32()?;
    let epoch = reader.u64()?;
    let Some(tag) = Tag::ALL.into_iter().find(|tag| *tag as u32 == number) else { return Ok(None) };
    Ok(Some(match tag {
        Tag::Ask => {
            let asked = time(reader)?;
            Message::Ask { epoch, asked, since: reader.option(time)? }
        }
        Tag::Grant => {
            let (asked, stamp) = (time(reader)?, time(reader)?);
            let past = memory(reader.u32()?)?;
            let (upto, parts) = (reader.u64()?, reader.u32()?);
            let (told, open) = (many(reader, TOLD_MOST, told)?, many(reader, TOLD_MOST, id)?);
            Message::Grant { epoch, asked, stamp, past, told, open, upto, parts }
        }
        Tag::Tell => {
            let (asked, part) = (Time::from_nanos(reader.u64()?), reader.u32()?);
            Message::Tell { epoch, asked, part, told: many(reader, TOLD_MOST, told)? }
        }
        Tag::Release => Message::Release { epoch },
        Tag::Announce => Message::Announce { epoch, id: id(reader)?, round: reader.u32()?, intent: intent(reader)? },
        Tag::Acknowledge => Message::Acknowledge { epoch, id: id(reader)?, round: reader.u32()? },
        Tag::Refuse => Message::Refuse { epoch, id: id(reader)?, round: reader.u32()?, why: refusal(reader)? },
        Tag::Over => Message::Over { id: id(reader)?, state: state(reader)? },
        Tag::Lost => Message::Lost { id: id(reader)? },
        Tag::Found => Message::Found { id: id(reader)?, state: state(reader)? },
        Tag::Drop => Message::Drop { keys: many(reader, LABELS_MOST, label)?.into() },
    }))
}

fn head(out: &mut Vec<u8>, tag: Tag, epoch: u64) {
    put::u32(out, tag as u32);
    put::u64(out, epoch);
}

fn put_id(out: &mut Vec<u8>, id: AttemptId) {
    put::u32(out, id.owner.member.0.into());
    put::u64(out, id.owner.incarnation);
    put::u64(out, id.sequence);
}

fn id(reader: &mut Reader<'_>) -> Result<AttemptId, Malformed> {
    let member = MemberId(u8::try_from(reader.u32()?).map_err(|_| Malformed::Value)?);
    Ok(AttemptId { owner: Life { member, incarnation: reader.u64()? }, sequence: reader.u64()? })
}

fn put_all(out: &mut Vec<u8>, all: &[Told<Label>]) {
    put::u32(out, all.len() as u32);
    for told in all {
        put_told(out, told);
    }
}

fn put_told(out: &mut Vec<u8>, told: &Told<Label>) {
    put_id(out, told.id);
    put_intent(out, &told.intent);
    put_state(out, &told.state);
    put::u64(out, told.age.as_nanos());
    put::u32(out, told.sight as u32);
}

fn told(reader: &mut Reader<'_>) -> Result<Told<Label>, Malformed> {
    let (id, intent, state) = (id(reader)?, intent(reader)?, state(reader)?);
    Ok(Told { id, intent, state, age: age(reader)?, sight: sight(reader)? })
}

fn age(reader: &mut Reader<'_>) -> Result<Span, Malformed> {
    Ok(Span::from_nanos(reader.u64()?))
}

fn sight(reader: &mut Reader<'_>) -> Result<Sight, Malformed> {
    let number = reader.u32()?;
    let known = [Sight::Clear, Sight::Unconfirmed, Sight::Blurred].into_iter().find(|sight| *sight as u32 == number);
    known.ok_or(Malformed::Value)
}

fn put_operation(out: &mut Vec<u8>, operation: &Operation) {
    put::u64(out, (operation.0 >> 64) as u64);
    put::u64(out, operation.0 as u64);
}

fn operation(reader: &mut Reader<'_>) -> Result<Operation, Malformed> {
    let (high, low) = (reader.u64()?, reader.u64()?);
    Ok(Operation(u128::from(high) << 64 | u128::from(low)))
}

fn put_intent(out: &mut Vec<u8>, intent: &Intent<Label>) {
    put::option(out, intent.operation.as_ref(), put_operation);
    put_labels(out, &intent.keys);
    put_labels(out, &intent.names);
    put::option(out, intent.server.as_ref(), |out, server| put::u32(out, (*server).into()));
    put::option(out, intent.more_of.as_ref(), put_operation);
    put::option(out, intent.led.as_ref(), |out, led| put::bool(out, *led));
    put::u32(out, intent.rank);
}

fn intent(reader: &mut Reader<'_>) -> Result<Intent<Label>, Malformed> {
    let server = |reader: &mut Reader<'_>| u16::try_from(reader.u32()?).map_err(|_| Malformed::Value);
    Ok(Intent {
        operation: reader.option(operation)?,
        keys: many(reader, LABELS_MOST, label)?.into(),
        names: many(reader, LABELS_MOST, label)?.into(),
        server: reader.option(server)?,
        more_of: reader.option(operation)?,
        led: reader.option(Reader::bool)?,
        rank: reader.u32()?,
    })
}

fn put_labels(out: &mut Vec<u8>, labels: &[Label]) {
    put::u32(out, labels.len() as u32);
    for label in labels {
        put::u32(out, label.export);
        put::u64(out, label.place.0);
        put::u64(out, label.key.0);
    }
}

fn label(reader: &mut Reader<'_>) -> Result<Label, Malformed> {
    Ok(Label { export: reader.u32()?, place: Key(reader.u64()?), key: Key(reader.u64()?) })
}

fn put_state(out: &mut Vec<u8>, state: &State) {
    let (number, answer) = match state {
        State::Pending => (0, None),
        State::Ended(answer) => (1, answer.as_deref()),
        State::Copied(answer) => (2, answer.as_deref()),
        State::Unknown => (3, None),
        State::Cancelled => (4, None),
    };
    put::u32(out, number);
    put_answer(out, answer);
}

fn state(reader: &mut Reader<'_>) -> Result<State, Malformed> {
    let (number, answer) = (reader.u32()?, answer(reader)?);
    match number {
        0 => Ok(State::Pending),
        1 => Ok(State::Ended(answer)),
        2 => Ok(State::Copied(answer)),
        3 => Ok(State::Unknown),
        4 => Ok(State::Cancelled),
        _ => Err(Malformed::Value),
    }
}

fn put_refusal(out: &mut Vec<u8>, why: &Refusal) {
    let (number, answer) = match why {
        Refusal::UnderWay => (0, None),
        Refusal::Executed(answer) => (1, answer.as_deref()),
        Refusal::Doubtful(_, Trace::Blurred) => (2, None),
        Refusal::Doubtful(_, Trace::Sure(None, _)) => (5, None),
        Refusal::Doubtful(_, Trace::Sure(Some(false), _)) => (6, None),
        Refusal::Doubtful(_, Trace::Sure(Some(true), _)) => (7, None),
        Refusal::Busy => (3, None),
        Refusal::Over => (4, None),
    };
    put::u32(out, number);
    put_answer(out, answer);
    if let Refusal::Doubtful(id, trace) = why {
        put_id(out, *id);
        if let Trace::Sure(_, age) = trace {
            put::u64(out, age.as_nanos());
        }
    }
}

fn refusal(reader: &mut Reader<'_>) -> Result<Refusal, Malformed> {
    let (number, answer) = (reader.u32()?, answer(reader)?);
    match number {
        0 => Ok(Refusal::UnderWay),
        1 => Ok(Refusal::Executed(answer)),
        2 => Ok(Refusal::Doubtful(id(reader)?, Trace::Blurred)),
        5 => Ok(Refusal::Doubtful(id(reader)?, Trace::Sure(None, age(reader)?))),
        6 => Ok(Refusal::Doubtful(id(reader)?, Trace::Sure(Some(false), age(reader)?))),
        7 => Ok(Refusal::Doubtful(id(reader)?, Trace::Sure(Some(true), age(reader)?))),
        3 => Ok(Refusal::Busy),
        4 => Ok(Refusal::Over),
        _ => Err(Malformed::Value),
    }
}

fn put_answer(out: &mut Vec<u8>, answer: Option<&[u8]>) {
    put::bool(out, answer.is_some());
    if let Some(answer) = answer {
        put::opaque(out, answer);
    }
}

fn answer(reader: &mut Reader<'_>) -> Result<Option<Box<[u8]>>, Malformed> {
    Ok(reader.option(|reader| reader.opaque(ANSWER_MOST))?.map(Into::into))
}

fn memory(number: u32) -> Result<Memory, Malformed> {
    let known = [Memory::None, Memory::Tidy, Memory::View];
    known.into_iter().find(|memory| *memory as u32 == number).ok_or(Malformed::Value)
}

/// A count and so many items.
fn many<T>(
    reader: &mut Reader<'_>,
    most: usize,
    item: fn(&mut Reader<'_>) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    let count = reader.u32()? as usize;
    match count > most {
        true => Err(Malformed::TooLong),
        // Every item takes a few bytes: what is only claimed ends early.
        false => (0..count).map(|_| item(reader)).collect(),
    }
}

/// What one mutation changes: two names, what they lead to, two directories, in every export of a pool.
const LABELS_MOST: usize = 1 << 12;
/// Attempts that a grant may carry.
const TOLD_MOST: usize = 1 << 20;
/// The results of a call that changes something.
pub(crate) const ANSWER_MOST: usize = 2 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn label(number: u64) -> Label {
        Label { export: number as u32, place: Key(number), key: Key(!number) }
    }

    fn every_message() -> Vec<Message<Label>> {
        let id = AttemptId { owner: Life { member: MemberId(2), incarnation: 77 }, sequence: 9 };
        let intent = Intent {
            operation: Some(Operation(u128::MAX - 5)),
            keys: [label(1), label(2)].into(),
            names: [label(2)].into(),
            more_of: Some(Operation(9)),
            led: Some(true),
            rank: 7,
            server: Some(3),
        };
        let bare = Intent {
            operation: None,
            keys: [].into(),
            names: [].into(),
            server: None,
            more_of: None,
            led: None,
            rank: 3,
        };
        let states = [
            State::Pending,
            State::Ended(Some([1, 2, 3].into())),
            State::Copied(None),
            State::Unknown,
            State::Cancelled,
        ];
        let (age, sights) = (Span::from_millis(7), [Sight::Clear, Sight::Unconfirmed, Sight::Blurred]);
        let told =
            |(state, sight): (&State, Sight)| Told { id, intent: intent.clone(), state: state.clone(), age, sight };
        let told: Vec<_> = states.iter().zip(sights.into_iter().cycle()).map(told).collect();
        let asked = Time::from_nanos(5);
        let mut all = vec![
            Message::Ask { epoch: 1, asked, since: Some(asked) },
            Message::Ask { epoch: 1, asked, since: None },
            Message::Tell { epoch: 1, asked, part: 3, told: told.clone() },
            Message::Grant {
                epoch: 1,
                asked,
                stamp: asked,
                past: Memory::Tidy,
                told,
                open: vec![id],
                upto: 4,
                parts: 4,
            },
            Message::Release { epoch: 3 },
            Message::Announce { epoch: 1, id, round: 2, intent: bare },
            Message::Acknowledge { epoch: 1, id, round: 2 },
            Message::Lost { id },
            Message::Drop { keys: [label(7)].into() },
        ];
        let refusals = [Refusal::UnderWay, Refusal::Executed(Some([7].into())), Refusal::Busy, Refusal::Over];
        let sure = [None, Some(true), Some(false)].map(|led| Trace::Sure(led, age));
        let doubts = sure.into_iter().chain([Trace::Blurred]).map(|trace| Refusal::Doubtful(id, trace));
        let refusals = refusals.into_iter().chain(doubts);
        all.extend(refusals.map(|why| Message::Refuse { epoch: 1, id, round: 2, why }));
        let found = states.clone().map(|state| Message::Found { id, state });
        all.extend(found);
        all.extend(states.map(|state| Message::Over { id, state }));
        all
    }

    #[test]
    fn every_message_comes_back_as_it_was_and_every_prefix_of_it_is_refused() {
        let (all, mut frame) = (every_message(), Vec::new());
        for message in &all {
            encode(&mut frame, message);
        }
        let back: Vec<Message<Label>> = messages(&frame).collect::<Result<_, _>>().unwrap();
        assert_eq!(back, all);
        for message in &all {
            let mut one = Vec::new();
            encode(&mut one, message);
            for length in 8..one.len() - 4 {
                let mut cut = one[..length].to_vec();
                cut[..4].copy_from_slice(&(length as u32 - 4).to_be_bytes());
                assert!(messages(&cut).all(|message| message.is_err()), "{message:?} cut at {length}");
            }
        }
    }

    #[test]
    fn what_is_said_is_cut_between_messages() {
        let (all, mut said) = (every_message(), Vec::new());
        for message in &all {
            encode(&mut said, message);
        }
        for most in [500, 1000, said.len(), said.len() + 1] {
            let frames = frames(said.clone(), most);
            assert!(frames.iter().all(|frame| frame.len() <= most));
            let back: Vec<_> = frames.iter().flat_map(|frame| messages(frame)).collect::<Result<_, _>>().unwrap();
            let fit = |message: &&Message<Label>| {
                let mut one = Vec::new();
                encode(&mut one, message);
                one.len() <= most
            };
            assert_eq!(back, all.iter().filter(fit).cloned().collect::<Vec<_>>(), "{most}");
        }
    }

    #[test]
    fn what_a_newer_member_adds_is_passed_over() {
        let mut frame = Vec::new();
        encode(&mut frame, &Message::Release { epoch: 3 });
        frame.extend([0, 0, 0, 9]);
        frame[3] += 4;
        frame.extend([0, 0, 0, 12, 0, 0, 0, 99, 0, 0, 0, 0, 0, 0, 0, 0]);
        encode(&mut frame, &Message::Release { epoch: 4 });
        let back: Vec<Message<Label>> = messages(&frame).collect::<Result<_, _>>().unwrap();
        assert_eq!(back, [Message::Release { epoch: 3 }, Message::Release { epoch: 4 }]);
    }
}
