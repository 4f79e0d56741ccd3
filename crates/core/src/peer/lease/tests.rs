//! A few members that hear each other at once: what each rule means, drawn small. Faults are the simulator's (`midas sim cluster`).

use super::*;
use alloc::vec;

mod doubt;

const TERMS: Terms = Terms {
    size: 3,
    lease: Span::from_secs(2),
    hold: Span::from_secs(10),
    stale: Span::from_secs(1),
    drift: 100,
    remember: Span::from_secs(60),
};

struct Net {
    members: Vec<Member<u64>>,
    done: Vec<(u8, Effect<u64>)>,
    cut: Option<u8>,
}

const fn life(member: u8) -> Life {
    Life { member: MemberId(member), incarnation: 1 }
}

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

fn view(epoch: u64, members: &[u8]) -> View {
    View { epoch, lives: members.iter().copied().map(life).collect() }
}

fn intent(operation: u128, keys: &[u64], names: &[u64]) -> Intent<u64> {
    Intent {
        operation: Some(Operation(operation)),
        keys: keys.into(),
        names: names.into(),
        server: None,
        more_of: None,
        led: None,
        rank: 0,
    }
}

impl Net {
    /// Three members with leases of each other; it is 3 s.
    fn leased() -> Self {
        Self::on(TERMS)
    }

    fn on(terms: Terms) -> Self {
        let past = || Past { tidy: true, intents: Vec::new() };
        let members = (0..3).map(|m| Member::new(Time::ZERO, life(m), terms, Rules::ALL, past())).collect();
        let mut net = Self { members, done: Vec::new(), cut: None };
        net.views(at(0), &view(1, &[0, 1, 2]));
        net.run_to(3_000);
        assert!((0..3).all(|m| net.members[m].answers_until() > at(3_000)));
        net.done.clear();
        net
    }

    fn views(&mut self, now: Time, view: &View) {
        for member in view.lives.iter().map(|life| usize::from(life.member.0)) {
            self.members[member].view(now, view.clone());
        }
        self.settle(now);
    }

    /// Every message is heard at once, but by who is cut off.
    fn settle(&mut self, now: Time) {
        while let Some((from, effect)) = (0..3).find_map(|m| Some((m, self.members[usize::from(m)].effect()?))) {
            match effect {
                Effect::Send(to, message) if Some(from) != self.cut && Some(to.member.0) != self.cut => {
                    let from = self.members[usize::from(from)].me;
                    self.members[usize::from(to.member.0)].hear(now, from, message);
                }
                Effect::Send(..) => {}
                other @ (Effect::Flush
                | Effect::Mark(..)
                | Effect::Unmark(..)
                | Effect::Drop(..)
                | Effect::Recall(..)
                | Effect::Permit(..)
                | Effect::Refused(..)) => self.done.push((from, other)),
            }
        }
    }

    fn run_to(&mut self, millis: u64) {
        for step in 0..=millis / 50 {
            for member in 0..3 {
                self.members[member].tick(at(step * 50));
            }
            self.settle(at(step * 50));
        }
    }

    fn ticks(&mut self, millis: std::ops::RangeInclusive<u64>) {
        for now in millis.step_by(50) {
            for member in 0..3 {
                self.members[member].tick(at(now));
            }
            self.settle(at(now));
        }
    }

    fn announce(&mut self, now: u64, by: usize, intent: Intent<u64>) -> Result<AttemptId, Refusal> {
        let id = self.members[by].announce(at(now), intent, Purpose::Call);
        self.settle(at(now));
        id
    }

    fn permitted(&self, id: AttemptId) -> bool {
        self.done.iter().any(|(_, effect)| matches!(effect, Effect::Permit(permitted, _) if *permitted == id))
    }
}

#[test]
fn a_mutation_leaves_when_all_have_dropped_what_it_changes_and_its_end_frees_it() {
    let mut net = Net::leased();
    let id = net.announce(3_000, 0, intent(1, &[7], &[])).unwrap();
    let marks = |net: &Net| net.done.iter().filter(|(_, e)| matches!(e, Effect::Mark(i, _) if *i == id)).count();
    assert!(marks(&net) == 2 && net.permitted(id));
    net.members[0].ended(at(3_010), id, Outcome::Replied(None));
    net.settle(at(3_010));
    let unmarked = net.done.iter().filter(|(_, e)| *e == Effect::Unmark(id)).count();
    assert_eq!((unmarked, net.members[1].pending()), (2, 0));
}

#[test]
fn who_is_cut_off_is_waited_for_until_its_grant_has_run_out_and_then_answers_nothing() {
    let mut net = Net::leased();
    net.cut = Some(2);
    let id = net.announce(3_000, 0, intent(1, &[7], &[])).unwrap();
    assert!(!net.permitted(id));
    net.ticks(3_000..=5_200);
    assert!(net.permitted(id), "a majority acknowledged, and the grant ran out");
    assert_eq!(net.members[2].answers_until(), Time::ZERO);
    let lone = net.announce(5_200, 2, intent(2, &[8], &[])).unwrap();
    net.ticks(5_200..=9_000);
    assert!(!net.permitted(lone), "outside of the majority nothing leaves");
    net.cut = None;
    net.ticks(9_000..=11_000);
    assert!(net.permitted(lone) && net.members[2].answers_until() > at(11_000));
    assert!(net.done.contains(&(2, Effect::Mark(id, intent(1, &[7], &[])))), "told with the grant");
}

#[test]
fn an_operation_is_attempted_once_and_its_answer_is_known_everywhere() {
    let mut net = Net::leased();
    let first = net.announce(3_000, 0, intent(1, &[7], &[])).unwrap();
    assert_eq!(net.announce(3_001, 1, intent(1, &[7], &[])), Err(Refusal::UnderWay));
    net.members[0].ended(at(3_002), first, Outcome::Replied(Some(Box::new(*b"made"))));
    net.settle(at(3_002));
    assert_eq!(net.announce(3_003, 2, intent(1, &[7], &[])), Err(Refusal::Executed(Some(Box::new(*b"made")))));
}

#[test]
fn one_mutation_of_a_name_at_a_time_and_any_number_of_an_object() {
    let mut net = Net::leased();
    let first = net.announce(3_000, 0, intent(1, &[7, 8], &[7])).unwrap();
    assert_eq!(net.announce(3_001, 1, intent(2, &[7, 9], &[7])), Err(Refusal::Busy));
    assert!(net.announce(3_001, 1, intent(3, &[8], &[])).is_ok(), "an object");
    net.members[0].ended(at(3_002), first, Outcome::NeverLeft);
    net.settle(at(3_002));
    assert!(net.announce(3_003, 1, intent(2, &[7, 9], &[7])).is_ok());
}

#[test]
fn a_lost_call_of_a_living_member_keeps_nobody_from_its_names_and_taints_what_ends_on_them() {
    let mut net = Net::leased();
    let lost = net.announce(3_000, 2, intent(1, &[7], &[7])).unwrap();
    net.members[2].ended(at(3_100), lost, Outcome::Lost);
    net.settle(at(3_100));
    let next = net.announce(6_000, 0, intent(2, &[7, 9], &[7])).unwrap();
    assert!(net.permitted(next));
    let until = net.members[0].ended(at(6_001), next, Outcome::Replied(None));
    net.settle(at(6_001));
    assert_eq!(until, Some(at(3_100) + TERMS.longer(TERMS.hold)));
    net.ticks(6_001..=14_000);
    assert!(!net.done.iter().any(|(_, e)| *e == Effect::Unmark(next) || *e == Effect::Unmark(lost)));
    net.ticks(14_000..=14_200);
    assert!([lost, next].iter().all(|id| net.done.contains(&(1, Effect::Unmark(*id)))));
    assert_eq!(net.announce(14_200, 0, intent(1, &[7], &[7])), Err(Refusal::Doubtful(lost, Trace::Blurred)));
}

#[test]
fn who_must_change_something_alone_waits_for_the_others_and_they_for_it() {
    let mut net = Net::leased();
    let beside = net.announce(3_000, 1, Intent { operation: None, ..intent(0, &[7], &[]) }).unwrap();
    let hold = Intent { operation: None, ..intent(0, &[7], &[]) };
    let held = net.members[2].announce(at(3_000), hold, Purpose::Hold).unwrap();
    net.settle(at(3_000));
    assert!(net.permitted(beside) && net.permitted(held));
    let alone = net.announce(3_010, 0, intent(1, &[7], &[7])).unwrap();
    assert!(!net.permitted(alone));
    assert!(net.done.contains(&(2, Effect::Recall(held))), "what is held is given back");
    let another = Intent { operation: None, ..intent(0, &[7], &[]) };
    assert_eq!(net.announce(3_011, 1, another.clone()), Err(Refusal::Busy), "it was here first");
    for (member, id) in [(1, beside), (2, held)] {
        net.members[member].ended(at(3_020), id, Outcome::Replied(None));
    }
    net.settle(at(3_020));
    assert!(net.permitted(alone), "it is its turn");
    assert_eq!(net.announce(3_022, 1, another.clone()), Err(Refusal::Busy));
    net.members[0].ended(at(3_023), alone, Outcome::Replied(None));
    net.settle(at(3_023));
    assert!(net.announce(3_024, 1, another).is_ok());
}

#[test]
fn of_two_that_wait_for_each_other_who_was_refused_more_often_comes_first() {
    for rank in [0, 3] {
        let mut net = Net::leased();
        let mine = net.members[0].announce(at(3_000), intent(1, &[7], &[7]), Purpose::Call).unwrap();
        let theirs = Intent { rank, ..intent(2, &[7], &[7]) };
        let theirs = net.members[1].announce(at(3_000), theirs, Purpose::Call).unwrap();
        net.settle(at(3_000));
        let (first, second) = if rank > 0 { (theirs, mine) } else { (mine, theirs) };
        assert!(net.permitted(first) && !net.permitted(second));
        assert!(net.done.contains(&(second.owner.member.0, Effect::Refused(second, Refusal::Busy))));
    }
}

#[test]
fn a_call_whose_connection_broke_is_pending_until_it_cannot_run() {
    let mut net = Net::leased();
    let id = net.announce(3_000, 0, intent(1, &[7], &[])).unwrap();
    net.members[0].ended(at(3_100), id, Outcome::Lost);
    net.ticks(3_100..=14_000);
    assert_eq!(net.members[1].pending(), 1);
    net.ticks(14_000..=14_200);
    assert_eq!((net.members[0].pending(), net.members[1].pending()), (0, 0));
}

#[test]
fn a_hold_is_renewed_within_its_term_until_it_is_released() {
    let mut net = Net::leased();
    let hold = Intent { operation: None, ..intent(0, &[7], &[]) };
    let id = net.members[0].announce(at(3_000), hold, Purpose::Hold).unwrap();
    net.settle(at(3_000));
    net.ticks(3_000..=9_000);
    let permits = net.done.iter().filter_map(|(_, e)| match e {
        Effect::Permit(permitted, until) if *permitted == id => Some(*until),
        Effect::Permit(..)
        | Effect::Send(..)
        | Effect::Flush
        | Effect::Mark(..)
        | Effect::Unmark(_)
        | Effect::Recall(_)
        | Effect::Drop(_)
        | Effect::Refused(..) => None,
    });
    let permits: Vec<Time> = permits.collect();
    assert!(permits.len() >= 5 && permits.windows(2).all(|two| two[0] < two[1] && two[1].since(two[0]) < TERMS.lease));
    net.members[0].ended(at(9_000), id, Outcome::NeverLeft);
    net.settle(at(9_000));
    assert_eq!(net.members[2].pending(), 0);
}

#[test]
fn a_view_whose_members_left_no_call_behind_is_clean_and_another_waits() {
    for (tidy, clean) in [(true, true), (false, false)] {
        let past = || Past { tidy, intents: vec![] };
        let members = (0..3).map(|m| Member::new(Time::ZERO, life(m), TERMS, Rules::ALL, past())).collect();
        let mut net = Net { members, done: Vec::new(), cut: None };
        net.views(at(0), &view(1, &[0, 1, 2]));
        net.run_to(4_000);
        assert_eq!(net.members[0].answers_until() > at(4_000), clean);
        net.ticks(4_000..=17_000);
        assert!(net.members[0].answers_until() > at(17_000));
    }
}

#[test]
fn what_was_only_told_is_not_let_through_by_that() {
    let mut net = Net::leased();
    // Both know of each other's attempt from grants before either is announced.
    net.cut = Some(1);
    let lone = net.announce(3_000, 1, intent(1, &[7], &[])).unwrap();
    let told =
        Told { id: lone, intent: intent(1, &[7], &[]), state: State::Pending, age: Span::ZERO, sight: Sight::Clear };
    let first = net.announce(3_001, 0, intent(1, &[7], &[])).unwrap();
    net.members[2].merge(at(3_002), told);
    assert_eq!(net.members[2].enter(at(3_003), lone, &intent(1, &[7], &[])), Err(Refusal::UnderWay));
    assert!(net.members[2].book.state(first).is_some());
}

#[test]
fn an_end_that_a_grant_overtook_is_believed_when_it_comes() {
    for (end, again) in [
        (State::Cancelled, Ok(())),
        (State::Ended(None), Err(Refusal::Executed(None))),
        (State::Unknown, Err(Refusal::Doubtful(AttemptId { owner: life(0), sequence: 1 }, Trace::Blurred))),
    ] {
        let mut net = Net::leased();
        let id = net.announce(3_000, 0, intent(1, &[7], &[])).unwrap();
        net.members[1].close_unlisted(at(3_001), life(0), id.sequence, &[]);
        net.members[1].hear(at(3_002), life(0), Message::Over { id, state: end });
        let next = AttemptId { owner: life(2), sequence: 1 };
        assert_eq!(net.members[1].enter(at(3_003), next, &intent(1, &[7], &[])), again);
    }
}

#[test]
fn what_was_changed_at_a_server_is_changed_there_until_the_others_know() {
    let at_server = |operation, server| Intent { server: Some(server), ..intent(operation, &[7], &[]) };
    let mut net = Net::leased();
    let first = net.announce(3_000, 0, at_server(1, 0)).unwrap();
    assert_eq!(net.announce(3_001, 1, at_server(2, 1)), Err(Refusal::Busy), "while it runs");
    net.members[0].ended(at(3_010), first, Outcome::Replied(None));
    net.settle(at(3_010));
    assert!(net.members[1].may_have_run(first));
    assert_eq!(net.announce(3_011, 1, at_server(2, 1)), Err(Refusal::Busy), "and a moment after");
    assert!(net.announce(3_012, 1, at_server(3, 0)).is_ok(), "at the same server");
    net.ticks(3_012..=4_000);
    let mut net = Net::leased();
    let never = net.announce(3_000, 0, at_server(1, 0)).unwrap();
    net.members[0].ended(at(3_010), never, Outcome::NeverLeft);
    net.settle(at(3_010));
    assert!(!net.members[1].may_have_run(never) && net.announce(3_011, 1, at_server(2, 1)).is_ok());
}

#[test]
fn an_unclean_time_that_passed_wakes_nobody() {
    let past = || Past { tidy: false, intents: Vec::new() };
    let members = (0..3).map(|m| Member::new(Time::ZERO, life(m), TERMS, Rules::ALL, past())).collect();
    let mut net = Net { members, done: Vec::new(), cut: None };
    net.views(at(0), &view(1, &[0, 1, 2]));
    net.run_to(10_000);
    net.cut = Some(2);
    net.ticks(10_000..=30_000);
    assert!(net.members[0].answers_until() == Time::ZERO && net.members[0].next_at() > at(30_000));
}

#[test]
fn an_announcement_that_came_after_its_end_does_not_stand_in_the_way_of_the_next_try() {
    let mut net = Net::leased();
    let tries = [1, 2].map(|sequence| AttemptId { owner: life(0), sequence });
    net.members[1].hear(at(3_000), life(0), Message::Over { id: tries[0], state: State::Cancelled });
    for id in tries {
        assert_eq!(net.members[1].enter(at(3_001), id, &intent(1, &[7], &[])), Ok(()));
    }
    let other = AttemptId { owner: life(2), sequence: 1 };
    assert_eq!(net.members[1].enter(at(3_002), other, &intent(1, &[7], &[])), Err(Refusal::UnderWay));
}

#[test]
fn who_comes_back_is_told_all_that_ended_though_it_is_more_than_one_message_holds() {
    let mut net = Net::leased();
    net.cut = Some(2);
    net.views(at(3_000), &view(2, &[0, 1]));
    net.ticks(3_000..=8_000);
    for number in 0..1_000 {
        let id = net.announce(8_000, 0, intent(number, &[7], &[])).unwrap();
        net.members[0].ended(at(8_000), id, Outcome::Replied(None));
        net.settle(at(8_000));
    }
    net.cut = None;
    net.views(at(8_100), &view(3, &[0, 1, 2]));
    net.ticks(8_100..=12_000);
    assert!(net.members[2].answers_until() > at(12_000));
    // Whoever asks again while it comes is not told all of it once more.
    let mut told = |now| {
        let before = net.members[0].effects.len();
        net.members[0].hear(at(now), life(2), Message::Ask { epoch: 3, asked: at(now), since: None });
        let said = net.members[0].effects.len() - before;
        net.settle(at(now));
        said
    };
    assert_eq!([12_000, 12_001, 12_999, 13_000].map(&mut told), [2, 0, 0, 2]);
    for number in [0, 500, 999] {
        assert_eq!(net.announce(13_000, 2, intent(number, &[7], &[])), Err(Refusal::Executed(None)), "{number}");
    }
}

#[test]
fn who_is_being_told_in_parts_does_not_ask_again_at_once() {
    let mut net = Net::leased();
    net.members[0].view(at(9_000), view(2, &[0, 1, 2]));
    // Its own grants have run out: it may ask.
    net.members[0].tick(at(9_000));
    let asked = core::iter::from_fn(|| net.members[0].effect()).find_map(|effect| match effect {
        Effect::Send(to, Message::Ask { asked, .. }) if to == life(1) => Some(asked),
        _ => None,
    });
    let asked = asked.expect("a new view is asked about");
    net.members[0].hear(at(9_010), life(1), Message::Tell { epoch: 2, asked, part: 0, told: Vec::new() });
    let mut again = Vec::new();
    for now in (9_010..=10_200).step_by(10) {
        net.members[0].tick(at(now));
        while let Some(effect) = net.members[0].effect() {
            if let Effect::Send(to, Message::Ask { .. }) = effect {
                again.push((to.member.0, now));
            }
        }
    }
    let first = |member: u8| again.iter().find(|(to, _)| *to == member).map(|(_, now)| *now);
    assert!(first(2).is_some_and(|now| now <= 9_260), "who said nothing is asked soon: {again:?}");
    assert!(first(1).is_some_and(|now| (9_990..=10_010).contains(&now)), "who tells is left alone: {again:?}");
}

#[test]
fn what_a_member_may_have_said_in_vain_costs_its_grant_and_all_that_was_kept() {
    let mut net = Net::leased();
    assert!(net.members[0].answers_until() > at(3_000));
    net.members[0].unheard(at(3_000), MemberId(1));
    assert_eq!(net.members[0].answers_until(), Time::ZERO);
    net.members[0].tick(at(3_001));
    let asks = |effect: &Effect<u64>| match effect {
        Effect::Send(to, Message::Ask { asked, since, .. }) if *to == life(1) => Some((*asked, *since)),
        _ => None,
    };
    let (asked, since) =
        core::iter::from_fn(|| net.members[0].effect()).find_map(|it| asks(&it)).expect("it asks anew");
    assert!(since.is_some(), "only for what is new");
    let past = Memory::View;
    let grant =
        Message::Grant { epoch: 1, asked, stamp: at(3_002), past, told: vec![], open: vec![], upto: 0, parts: 0 };
    net.members[0].hear(at(3_002), life(1), grant);
    let mut effects = core::iter::from_fn(|| net.members[0].effect());
    assert!(effects.any(|effect| matches!(effect, Effect::Flush)), "it forgets before it answers");
    assert!(net.members[0].answers_until() > at(3_002));
}

#[test]
fn a_lost_call_blocks_its_name_nowhere_and_taints_it_everywhere() {
    let mut net = Net::leased();
    let lost = net.announce(3_000, 0, intent(1, &[7], &[7])).unwrap();
    net.members[0].ended(at(3_100), lost, Outcome::Lost);
    net.settle(at(3_100));
    // What the name is found to lead to is announced by itself, with the name.
    let target = Intent { operation: None, ..intent(0, &[9], &[7]) };
    let next = [intent(2, &[7], &[7]), target].map(|intent| net.announce(3_200, 0, intent).unwrap());
    assert!(next.iter().all(|id| net.permitted(*id)), "nobody minds");
    for id in next {
        net.members[0].ended(at(3_300), id, Outcome::Replied(None));
    }
    net.ticks(3_300..=14_000);
    let freed = |net: &Net, id| net.done.contains(&(1, Effect::Unmark(id)));
    assert!(next.iter().all(|id| !freed(&net, *id)), "the lost call may change what the name leads to now");
    net.ticks(14_000..=15_000);
    assert!(next.iter().all(|id| freed(&net, *id)));
}

#[test]
fn what_was_sent_twice_marks_also_where_its_end_was_only_told() {
    let end = |net: &mut Net, now, id| {
        net.members[0].ended(at(now), id, Outcome::Copied(None));
        net.settle(at(now));
    };
    let marked = |net: &Net, id| {
        let of_that = net.done.iter().rev().find_map(|(member, effect)| match effect {
            Effect::Mark(of, _) if *member == 2 && *of == id => Some(true),
            Effect::Unmark(of) if *member == 2 && *of == id => Some(false),
            _ => None,
        });
        of_that.unwrap_or(false)
    };
    let may_run_twice = || Intent { operation: None, ..intent(0, &[7], &[]) };
    // Who was not there when it ended.
    let mut net = Net::leased();
    net.cut = Some(2);
    net.views(at(3_000), &view(2, &[0, 1]));
    net.ticks(3_000..=8_000);
    let id = net.announce(8_000, 0, may_run_twice()).unwrap();
    end(&mut net, 8_010, id);
    net.cut = None;
    net.views(at(8_100), &view(3, &[0, 1, 2]));
    net.ticks(8_100..=12_000);
    assert!(net.members[2].answers_until() > at(12_000) && marked(&net, id));
    net.ticks(12_000..=30_000);
    assert!(!marked(&net, id));
    // Who was there, and did not hear it.
    let mut net = Net::leased();
    let id = net.announce(3_000, 0, may_run_twice()).unwrap();
    net.cut = Some(2);
    end(&mut net, 3_010, id);
    net.cut = None;
    net.ticks(3_050..=8_000);
    assert!(net.members[2].answers_until() > at(8_000) && marked(&net, id), "told with the next grant");
    net.ticks(8_000..=30_000);
    assert!(!marked(&net, id));
}

#[test]
fn who_joins_a_view_that_is_not_clean_yet_waits_too() {
    let past = || Past { tidy: false, intents: Vec::new() };
    let members = (0..3).map(|m| Member::new(Time::ZERO, life(m), TERMS, Rules::ALL, past())).collect();
    let mut net = Net { members, done: Vec::new(), cut: Some(2) };
    net.views(at(0), &view(1, &[0, 1]));
    net.run_to(5_000);
    net.cut = None;
    net.views(at(5_000), &view(2, &[0, 1, 2]));
    net.ticks(5_000..=12_000);
    assert!((0..3).all(|m| net.members[m].answers_until() == Time::ZERO), "a call of before may still run");
    net.ticks(12_000..=25_000);
    assert!((0..3).all(|m| net.members[m].answers_until() > at(25_000)));
}
