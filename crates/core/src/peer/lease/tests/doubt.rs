//! Calls whose member died: what is found out of them, and what others may do meanwhile.

use super::*;
use alloc::boxed::Box;
use core::ops::Range;

const LOST: AttemptId = AttemptId { owner: life(2), sequence: 1 };

/// Member 2 is gone with a call on name 7 that others heard of: it cannot run any more.
fn with_an_orphan() -> Net {
    let mut net = Net::on(Terms { stale: Span::ZERO, ..TERMS });
    net.announce(3_000, 2, intent(1, &[7, 8], &[7])).unwrap();
    net.cut = Some(2);
    net.views(at(3_100), &view(2, &[0, 1]));
    net.ticks(3_100..=16_100);
    assert_eq!(
        net.announce(16_100, 0, intent(2, &[7, 9], &[7])),
        Err(Refusal::Busy),
        "somebody will ask whether it ran"
    );
    assert_eq!(net.announce(16_100, 1, intent(1, &[7, 8], &[7])), Err(Refusal::UnderWay), "it may run");
    let beside = net.announce(16_100, 0, intent(3, &[8], &[])).expect("what is no name of either is free");
    net.members[0].ended(at(16_100), beside, Outcome::Replied(None));
    net.ticks(16_100..=16_300);
    net
}

#[test]
fn what_a_lost_members_call_was_to_change_waits_until_it_is_known_whether_it_did() {
    let found = [State::Ended(Some(Box::new(*b"gone"))), State::Cancelled];
    for state in found {
        let mut net = with_an_orphan();
        let sure = Trace::Sure(None, Span::from_millis(13_300));
        let doubtful = Err(Refusal::Doubtful(LOST, sure));
        assert_eq!(net.announce(16_300, 1, intent(1, &[7, 8], &[7])), doubtful);
        assert_eq!(net.announce(16_300, 0, intent(2, &[7, 9], &[7])), Err(Refusal::Busy), "it is looked at");
        assert!(net.members[1].found_out(at(16_400), LOST, (sure, at(16_300)), &state));
        net.settle(at(16_400));
        let again = net.announce(16_400, 0, intent(1, &[7, 8], &[7]));
        match state {
            State::Ended(answer) => assert_eq!(again, Err(Refusal::Executed(answer)), "everybody knows"),
            _ => assert!(net.permitted(again.unwrap()), "it never ran: now it may"),
        }
    }
}

/// Member 2 is gone; a call of its that others heard of had announced what its name leads to, too.
fn with_an_orphan_of_two_parts() -> Net {
    let mut net = Net::on(Terms { stale: Span::ZERO, ..TERMS });
    net.announce(3_000, 2, intent(1, &[7], &[7])).unwrap();
    let more = Intent { more_of: Some(Operation(1)), led: Some(true), ..intent(1, &[9], &[7, 9]) };
    net.announce(3_010, 2, Intent { operation: None, ..more }).unwrap();
    net.cut = Some(2);
    net.views(at(3_100), &view(2, &[0, 1]));
    net.ticks(3_100..=16_300);
    net
}

#[test]
fn what_a_lost_members_name_leads_to_waits_with_the_name_and_is_free_with_it() {
    let mut net = with_an_orphan_of_two_parts();
    let beside = |operation| Intent { operation: None, ..intent(operation, &[9], &[]) };
    assert_eq!(net.announce(16_300, 0, beside(2)), Err(Refusal::Busy), "it would hide whether the call ran");
    let Err(Refusal::Doubtful(LOST, sure @ Trace::Sure(Some(true), age))) =
        net.announce(16_310, 1, intent(1, &[7], &[7]))
    else {
        panic!("it is in doubt, and it shows where its name led")
    };
    assert_eq!(age, Span::from_millis(13_310));
    assert!(net.members[1].found_out(at(16_320), LOST, (sure, at(16_310)), &State::Cancelled));
    net.settle(at(16_320));
    assert!(net.announce(16_330, 0, beside(2)).is_ok(), "both parts are over");
    assert!(net.announce(16_340, 1, intent(1, &[7], &[7])).is_ok());
}

#[test]
fn a_part_that_somebody_may_have_changed_blurs_the_whole() {
    let mut net = with_an_orphan_of_two_parts();
    net.ticks(16_300..=29_600);
    let beside = Intent { operation: None, ..intent(2, &[9], &[]) };
    net.announce(29_600, 0, beside).unwrap();
    let again = net.announce(29_610, 1, intent(1, &[7], &[7]));
    assert_eq!(again, Err(Refusal::Doubtful(LOST, Trace::Blurred)));
}

#[test]
fn who_comes_back_gives_up_what_nobody_else_heard_of_and_keeps_what_they_did() {
    let mut net = Net::on(Terms { stale: Span::ZERO, ..TERMS });
    let heard = net.announce(3_000, 2, intent(1, &[7], &[7])).unwrap();
    net.cut = Some(2);
    let unheard = net.announce(3_010, 2, intent(2, &[8], &[8])).unwrap();
    let intents = net.members[2].intents().collect();
    net.views(at(3_100), &view(2, &[0, 1]));
    net.ticks(3_100..=6_000);
    let me = Life { incarnation: life(2).incarnation + 1, ..life(2) };
    let terms = Terms { stale: Span::ZERO, ..TERMS };
    net.members[2] = Member::new(at(6_000), me, terms, Rules::ALL, Past { tidy: false, intents });
    assert_eq!(net.members[2].state(unheard), Some(&State::Pending), "nobody has told yet");
    net.cut = None;
    net.views(at(6_000), &View { epoch: 3, lives: vec![life(0), life(1), me] });
    net.ticks(6_000..=12_000);
    assert_eq!(net.members[2].state(unheard), Some(&State::Cancelled), "it never left");
    assert_eq!(net.members[2].state(heard), Some(&State::Pending), "it may have");
    net.ticks(12_000..=20_000);
    let again = net.announce(20_000, 2, intent(1, &[7], &[7]));
    assert!(matches!(again, Err(Refusal::Doubtful(id, Trace::Sure(..))) if id == heard), "{again:?}: the others saw");
}

#[test]
fn who_knows_that_it_ran_says_so_whatever_is_known_of_other_tries() {
    let mut net = Net::leased();
    let told = |owner, state| Told {
        id: AttemptId { owner: life(owner), sequence: 9 },
        intent: intent(1, &[7], &[]),
        state,
        age: Span::ZERO,
        sight: Sight::Clear,
    };
    net.members[0].merge(at(3_000), told(1, State::Pending));
    net.members[0].merge(at(3_000), told(2, State::Ended(None)));
    assert_eq!(net.announce(3_001, 0, intent(1, &[7], &[])), Err(Refusal::Executed(None)));
}

#[test]
fn what_a_living_member_does_is_learned_from_itself_alone() {
    let mut net = Net::leased();
    // Member 1 did not hear that it is over; member 2 has forgotten it.
    let id = AttemptId { owner: life(0), sequence: 1 };
    let told = || {
        vec![Told { id, intent: intent(1, &[7], &[7]), state: State::Pending, age: Span::ZERO, sight: Sight::Clear }]
    };
    net.members[2].merge_all(at(3_000), life(1), told());
    assert_eq!(net.members[2].state(id), None);
    net.members[2].merge_all(at(3_000), life(0), told());
    assert_eq!(net.members[2].state(id), Some(&State::Pending));
}

#[test]
fn what_another_member_let_through_later_may_run_for_longer() {
    let mut net = Net::on(Terms { stale: Span::ZERO, ..TERMS });
    let id = net.announce(3_000, 2, intent(1, &[7], &[7])).unwrap();
    net.cut = Some(2);
    net.members[1].enter(at(5_000), id, &intent(1, &[7], &[7])).unwrap();
    net.views(at(5_100), &view(2, &[0, 1]));
    net.ticks(5_100..=16_500);
    for member in 0..2 {
        let again = net.announce(16_500, member, intent(1, &[7], &[7]));
        assert_eq!(again, Err(Refusal::UnderWay), "member {member}");
    }
}

#[test]
fn a_lost_call_hides_another_ones_trace_only_if_nobody_knows_how_it_ended() {
    let told = |id, operation, state| {
        let age = Span::ZERO;
        Told { id, intent: intent(operation, &[7], &[7]), state, age, sight: Sight::Clear }
    };
    let earlier = AttemptId { owner: Life { incarnation: 0, ..life(2) }, sequence: 9 };
    let next = AttemptId { sequence: 2, ..LOST };
    let ended = || State::Ended(None);
    for (beside, end, hidden) in [(LOST, None, false), (earlier, Some(ended()), false), (earlier, None, true)] {
        let mut net = Net::on(Terms { stale: Span::ZERO, ..TERMS });
        net.cut = Some(2);
        net.views(at(3_100), &view(2, &[0, 1]));
        for member in &mut net.members[..2] {
            member.merge(at(3_100), told(next, 2, State::Pending));
            member.merge(at(3_150), told(beside, 1, State::Pending));
        }
        net.ticks(3_150..=16_300);
        let again = net.announce(16_300, 1, intent(2, &[7], &[7]));
        assert_eq!(again == Err(Refusal::UnderWay), beside == earlier, "{again:?}: it is not known yet");
        for member in &mut net.members[..2] {
            if let Some(end) = &end {
                member.merge(at(16_310), told(beside, 1, end.clone()));
            }
        }
        net.ticks(16_350..=16_400);
        let again = net.announce(16_400, 1, intent(2, &[7], &[7]));
        let Err(Refusal::Doubtful(_, trace)) = again else { panic!("{again:?}") };
        assert_eq!(trace == Trace::Blurred, hidden, "{beside:?}");
    }
}

#[test]
fn what_nobody_asks_for_is_free_after_a_while_and_then_shows_nothing_any_more() {
    let mut net = with_an_orphan();
    net.ticks(16_300..=29_000);
    assert_eq!(net.announce(29_000, 0, intent(2, &[7, 9], &[7])), Err(Refusal::Busy));
    net.ticks(29_000..=29_500);
    let next = net.announce(29_500, 0, intent(2, &[7, 9], &[7])).unwrap();
    assert!(net.permitted(next));
    net.members[0].ended(at(29_501), next, Outcome::Replied(None));
    net.settle(at(29_501));
    for member in 0..2 {
        let doubtful = Err(Refusal::Doubtful(LOST, Trace::Blurred));
        assert_eq!(net.announce(29_502, member, intent(1, &[7, 8], &[7])), doubtful);
        let looked = (Trace::Sure(None, Span::ZERO), at(29_490));
        assert!(!net.members[member].found_out(at(29_503), LOST, looked, &State::Cancelled));
    }
}

#[test]
fn where_its_name_led_is_told_by_the_try_that_left_alone() {
    let mut net = Net::on(Terms { stale: Span::ZERO, ..TERMS });
    // The first try found the name in a cache and gave way; what came between took it away.
    let first = Intent { led: Some(true), ..intent(1, &[7], &[7]) };
    let given_up = net.announce(3_000, 2, first).unwrap();
    net.members[2].ended(at(3_010), given_up, Outcome::NeverLeft);
    net.settle(at(3_010));
    let left = net.announce(3_020, 2, intent(1, &[7], &[7])).unwrap();
    net.cut = Some(2);
    net.views(at(3_100), &view(2, &[0, 1]));
    net.ticks(3_100..=16_300);
    let again = net.announce(16_300, 1, intent(1, &[7], &[7]));
    assert!(matches!(again, Err(Refusal::Doubtful(id, Trace::Sure(None, _))) if id == left), "{again:?}");
}

#[test]
fn who_holds_no_leases_waits_before_it_says_what_shows() {
    let mut net = with_an_orphan();
    net.members[1].unheard(at(16_300), MemberId(0));
    let again = net.members[1].announce(at(16_300), intent(1, &[7, 8], &[7]), Purpose::Call);
    assert_eq!(again, Err(Refusal::UnderWay));
    let looked = (Trace::Sure(None, Span::ZERO), at(16_300));
    assert!(!net.members[1].found_out(at(16_300), LOST, looked, &State::Cancelled));
    net.ticks(16_300..=16_600);
    let again = net.announce(16_600, 1, intent(1, &[7, 8], &[7]));
    assert!(matches!(again, Err(Refusal::Doubtful(LOST, Trace::Sure(..)))), "{again:?}");
    // Without leases until others might change the same: that may have happened.
    net.members[1].unheard(at(16_700), MemberId(0));
    net.members[1].tick(at(40_000));
    net.ticks(40_000..=43_000);
    let again = net.announce(43_000, 1, intent(1, &[7, 8], &[7]));
    assert_eq!(again, Err(Refusal::Doubtful(LOST, Trace::Blurred)));
}

#[test]
fn who_comes_back_prolongs_nothing_of_what_the_others_have_counted() {
    let mut net = Net::on(Terms { stale: Span::ZERO, ..TERMS });
    net.announce(3_000, 2, intent(1, &[7], &[7])).unwrap();
    let intents = net.members[2].intents().collect();
    net.cut = Some(2);
    net.views(at(3_100), &view(2, &[0, 1]));
    net.ticks(3_100..=12_000);
    let me = Life { incarnation: life(2).incarnation + 1, ..life(2) };
    let terms = Terms { stale: Span::ZERO, ..TERMS };
    net.members[2] = Member::new(at(12_000), me, terms, Rules::ALL, Past { tidy: false, intents });
    net.cut = None;
    net.views(at(12_000), &View { epoch: 3, lives: vec![life(0), life(1), me] });
    net.ticks(12_000..=16_300);
    for member in 0..2 {
        let again = net.announce(16_300, member, intent(1, &[7], &[7]));
        assert!(matches!(again, Err(Refusal::Doubtful(LOST, Trace::Sure(..)))), "{again:?}");
    }
}

/// A member that did not hear what was found out refused the same call for as long as it was sent:
/// the one that asked knew already, and so did not find it out again.
#[test]
fn what_was_found_out_is_told_again_to_who_did_not_hear_it() {
    for found in [State::Cancelled, State::Ended(Some(Box::new(*b"gone")))] {
        let mut net = with_an_orphan();
        let call = || intent(1, &[7, 8], &[7]);
        let Err(Refusal::Doubtful(LOST, sure)) = net.announce(16_300, 1, call()) else { panic!("it is in doubt") };
        net.cut = Some(0);
        assert!(net.members[1].found_out(at(16_310), LOST, (sure, at(16_300)), &found));
        net.settle(at(16_310));
        net.cut = Some(2);
        assert_eq!(net.members[0].state(LOST), Some(&State::Unknown), "it did not hear it");
        let refused = |net: &Net, id| {
            net.done.iter().any(|(_, e)| matches!(e, Effect::Refused(i, Refusal::Doubtful(LOST, _)) if *i == id))
        };
        if found == State::Cancelled {
            let again = net.announce(16_320, 1, call()).expect("here it is known");
            assert!(refused(&net, again), "it is not known there");
        }
        // It is looked at once more. What that showed is not relied on, as others may have changed the same since.
        assert!(!net.members[1].found_out(at(16_330), LOST, (sure, at(16_320)), &State::Cancelled));
        net.settle(at(16_330));
        assert_eq!(net.members[0].state(LOST), Some(&found));
        match (net.announce(16_340, 1, call()), found) {
            (Ok(id), State::Cancelled) => assert!(net.permitted(id) && !refused(&net, id)),
            (again, State::Ended(answer)) => assert_eq!(again, Err(Refusal::Executed(answer))),
            other => panic!("{other:?}"),
        }
    }
}

/// Members 0 and 1 of [`with_an_orphan`], and a third one that is new, until then.
fn with_an_orphan_and_three(millis: u64) -> Net {
    let mut net = with_an_orphan();
    let me = Life { incarnation: life(2).incarnation + 1, ..life(2) };
    let terms = Terms { stale: Span::ZERO, ..TERMS };
    let past = Past { tidy: false, intents: Vec::new() };
    net.members[2] = Member::new(at(16_300), me, terms, Rules::ALL, past);
    net.cut = None;
    net.views(at(16_300), &View { epoch: 3, lives: vec![life(0), life(1), me] });
    net.ticks(16_300..=millis);
    net
}

/// Member 1 is asked for the call of unknown end meanwhile, by who sends it again there.
fn asked(net: &mut Net, millis: Range<u64>) {
    for now in millis.step_by(500) {
        net.ticks(now..=now + 450);
        let known = net.members[1].tried(at(now + 450), Operation(1));
        assert!(matches!(known, Some(Refusal::UnderWay | Refusal::Doubtful(LOST, Trace::Sure(..)))), "{known:?}");
    }
}

/// While somebody asks for it here, this member keeps others from its names. A member that did not
/// hear from this one need not wait for that.
#[test]
fn what_is_asked_for_where_nobody_hears_it_may_be_hidden() {
    let mut net = with_an_orphan_and_three(28_000);
    asked(&mut net, 28_000..44_000);
    let other = intent(2, &[7, 9], &[7]);
    let waits = net.announce(44_000, 0, other.clone());
    assert!(!waits.is_ok_and(|id| net.permitted(id)), "member 1 keeps the name");
    net.cut = Some(1);
    asked(&mut net, 44_000..60_000);
    let other = net.announce(60_000, 0, other).unwrap();
    assert!(net.permitted(other));
    net.members[0].ended(at(60_000), other, Outcome::Replied(None));
    net.cut = None;
    net.ticks(60_000..=63_000);
    let again = net.announce(63_000, 1, intent(1, &[7, 8], &[7]));
    assert_eq!(again, Err(Refusal::Doubtful(LOST, Trace::Blurred)));
}

/// The others have heard what became of it, and let the name be changed. Who did not hear it, nor was
/// asked, takes for hidden what it keeps.
#[test]
fn who_was_not_asked_is_not_sure_though_its_own_time_is_not_over() {
    let mut net = with_an_orphan_and_three(22_000);
    let call = || intent(1, &[7, 8], &[7]);
    net.cut = Some(1);
    net.ticks(22_000..=22_200);
    let Err(Refusal::Doubtful(LOST, sure)) = net.announce(22_200, 0, call()) else { panic!("it is in doubt") };
    assert!(net.members[0].found_out(at(22_210), LOST, (sure, at(22_200)), &State::Ended(None)));
    net.ticks(22_250..=25_000);
    let other = net.announce(25_000, 0, intent(2, &[7, 9], &[7])).unwrap();
    assert!(net.permitted(other), "member 1 was not asked");
    net.members[0].ended(at(25_000), other, Outcome::Replied(None));
    net.cut = None;
    net.ticks(25_050..=27_000);
    assert_eq!(net.announce(27_000, 1, call()), Err(Refusal::Doubtful(LOST, Trace::Blurred)));
    assert!(!net.members[1].found_out(at(27_000), LOST, (sure, at(26_900)), &State::Cancelled));
}

/// A member that was away while others could find it out, change the name and forget it all.
#[test]
fn who_was_away_for_long_is_not_sure() {
    let mut net = with_an_orphan_and_three(28_000);
    let me = net.members[2].me;
    net.cut = Some(1);
    net.views(at(28_050), &View { epoch: 4, lives: vec![life(0), me] });
    net.views(at(28_100), &View { epoch: 5, lives: vec![life(0), me] });
    asked(&mut net, 28_100..200_000);
    assert_eq!(net.members[0].state(LOST), None, "it is forgotten");
    net.cut = None;
    net.views(at(200_000), &View { epoch: 6, lives: vec![life(0), life(1), me] });
    net.ticks(200_000..=204_000);
    let again = net.announce(204_000, 1, intent(1, &[7, 8], &[7]));
    assert_eq!(again, Err(Refusal::Doubtful(LOST, Trace::Blurred)));
}

/// A server may take longer to say what became of a call than others keep its names unasked.
#[test]
fn a_look_may_take_as_long_as_it_is_asked_for_meanwhile() {
    for asked in [true, false] {
        let mut net = with_an_orphan();
        let call = || intent(1, &[7, 8], &[7]);
        let Err(Refusal::Doubtful(LOST, sure)) = net.announce(16_300, 1, call()) else { panic!("it is in doubt") };
        for now in (16_300..36_000).step_by(500) {
            net.ticks(now..=now + 450);
            if asked {
                assert!(net.members[1].tried(at(now + 450), Operation(1)).is_some());
            }
        }
        let other = net.announce(36_000, 0, intent(2, &[7, 9], &[7]));
        assert_eq!(other.is_ok_and(|id| net.permitted(id)), !asked);
        assert_eq!(net.members[1].found_out(at(36_100), LOST, (sure, at(16_300)), &State::Cancelled), asked);
    }
}
