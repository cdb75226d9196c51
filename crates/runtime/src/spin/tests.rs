//! Decisions about waits as they might come.

use stdx::Prng;

use super::*;

const WAKE_COST: Duration = Duration::from_micros(10);
const METHODS: [SpinMethod; 3] =
    [SpinMethod::CostBased, SpinMethod::LatencyOptimised, SpinMethod::DatabaseMachine];

fn micros(count: u64) -> Duration {
    Duration::from_micros(count)
}

/// A spinner that has seen these waits, each found or not, 2,000 a second, and has decided.
fn decided(method: SpinMethod, waits: &[(u64, bool)]) -> Spinner {
    let mut spinner = Spinner::new(method, WAKE_COST);
    let mut now = Instant::from_nanos(1_000_000_000);
    spinner.decide(now, || None);
    for _ in 0..10 {
        for (wait, found) in waits.iter().cycle().take(200) {
            spinner.note(micros(*wait), false, *found);
        }
        now = now + Duration::from_millis(100);
        spinner.decide(now, || Some(0));
    }
    spinner
}

#[test]
fn short_waits_are_spun_through_and_long_ones_slept() {
    for method in METHODS {
        assert_eq!(decided(method, &[(6, true)]).time(), micros(7), "{method}");
        assert_eq!(decided(method, &[(5_000, true)]).time(), Duration::ZERO, "{method}");
    }
}

#[test]
fn a_method_pays_what_it_may_and_no_more() {
    // A wait of 90 µs for 10 µs saved is nine times: too dear for the first method.
    let times = METHODS.map(|method| decided(method, &[(90, true)]).time());
    assert_eq!(times, [Duration::ZERO, micros(100), micros(100)]);
    // 400 µs is 40 times.
    let times = METHODS.map(|method| decided(method, &[(400, true)]).time());
    assert_eq!(times, [Duration::ZERO, Duration::ZERO, micros(500)]);
    // One in four waits is short; the others cost the time in vain: 4 + 3 × 5 µs for 10 µs.
    let mixed = [(4, true), (5_000, true), (5_000, true), (5_000, true)];
    assert_eq!(decided(SpinMethod::CostBased, &mixed).time(), micros(5));
    // One in eight: 4 + 7 × 5 µs.
    let rarely: Vec<_> = [(4, true)].into_iter().chain([(5_000, true); 7]).collect();
    assert_eq!(decided(SpinMethod::CostBased, &rarely).time(), Duration::ZERO);
    assert_eq!(decided(SpinMethod::LatencyOptimised, &rarely).time(), micros(5));
}

#[test]
fn only_the_waits_that_are_worth_it_are_covered() {
    // The second group costs more than it saves: spinning ends after the first.
    let two = [(6, true), (6, true), (60, true)];
    assert_eq!(decided(SpinMethod::CostBased, &two).time(), micros(7));
    assert_eq!(decided(SpinMethod::LatencyOptimised, &two).time(), micros(70));
}

#[test]
fn timers_are_nothing_that_spinning_finds() {
    for method in METHODS {
        assert_eq!(decided(method, &[(6, false)]).time(), Duration::ZERO, "{method}");
    }
}

#[test]
fn who_has_little_to_do_sleeps() {
    let mut spinner = Spinner::new(SpinMethod::DatabaseMachine, WAKE_COST);
    let mut now = Instant::from_nanos(1_000_000_000);
    for _ in 0..100 {
        // Two short waits in 10 ms: 200 a second.
        spinner.note(micros(3), false, true);
        spinner.note(micros(3), false, true);
        now = now + Duration::from_millis(10);
        spinner.decide(now, || Some(0));
        assert_eq!(spinner.time(), Duration::ZERO);
    }
}

#[test]
fn a_crowded_machine_is_left_alone_for_a_while() {
    let mut spinner = decided(SpinMethod::CostBased, &[(6, true)]);
    assert!(spinner.time() > Duration::ZERO);
    let mut now = spinner.decided_at;
    let mut busy = |spinner: &mut Spinner, crowd: Option<u64>| {
        (0..100).for_each(|_| spinner.note(micros(6), false, true));
        now = now + Duration::from_millis(50);
        spinner.decide(now, || crowd);
        spinner.time()
    };
    assert_eq!(busy(&mut spinner, Some(50)), Duration::ZERO);
    for _ in 0..19 {
        assert_eq!(busy(&mut spinner, Some(0)), Duration::ZERO, "held back");
    }
    assert_eq!(busy(&mut spinner, None), Duration::ZERO, "not known yet");
    assert_eq!(busy(&mut spinner, Some(10)), micros(7));
    // A database machine is there for its threads.
    let mut own = decided(SpinMethod::DatabaseMachine, &[(6, true)]);
    let mut now = own.decided_at;
    (0..100).for_each(|_| own.note(micros(6), false, true));
    now = now + Duration::from_millis(50);
    own.decide(now, || Some(100));
    assert_eq!(own.time(), micros(7));
}

#[test]
fn sleeping_hides_the_wait_behind_the_wake_up() {
    let mut spinner = Spinner::new(SpinMethod::CostBased, WAKE_COST);
    let mut now = Instant::from_nanos(1_000_000_000);
    spinner.decide(now, || None);
    for _ in 0..100 {
        // What came after 4 µs was seen after 14.
        spinner.note(micros(14), true, true);
    }
    now = now + Duration::from_millis(50);
    spinner.decide(now, || Some(0));
    assert_eq!(spinner.time(), micros(5));
}

#[test]
fn static_spinning_is_what_it_is_told() {
    let mut spinner = Spinner::new(SpinMethod::Static(micros(50)), WAKE_COST);
    for second in 1..5 {
        spinner.note(Duration::from_secs(1), true, true);
        spinner.decide(Instant::from_nanos(second * 1_000_000_000), || Some(100));
        assert_eq!(spinner.time(), micros(50));
    }
}

/// However waits are distributed, the choice spends no more than the method may, and no other limit
/// would have been worth more.
#[test]
fn the_choice_is_the_best_there_is() {
    let mut prng = Prng::new(7);
    for _ in 0..500 {
        let mut waits = Waits::default();
        let lengths: Vec<(u64, bool)> = (0..prng.between(1, 60))
            .map(|_| (1 << prng.between(5, 24), prng.between(0, 4) > 0))
            .collect();
        lengths.iter().for_each(|(nanos, found)| waits.note(*nanos, *found));
        for method in METHODS {
            let allowance = method.allowance().unwrap();
            let worth = |time: u64| {
                let hits = lengths.iter().filter(|(nanos, _)| *nanos <= time);
                let saved: u64 = hits.clone().filter(|(_, found)| *found).count() as u64;
                let saved = saved * WAKE_COST.as_nanos() * allowance.overhead_max / 100;
                let spent: u64 = lengths.iter().map(|(nanos, _)| (*nanos).min(time)).sum();
                saved as i128 - spent as i128
            };
            let chosen = waits.best(WAKE_COST, allowance).as_nanos();
            assert!(chosen <= allowance.time_max.as_nanos());
            assert!(worth(chosen) >= 0);
            for limit in LIMITS_US.map(|limit| limit * 1_000) {
                if limit <= allowance.time_max.as_nanos() {
                    assert!(worth(limit) <= worth(chosen), "{limit} rather than {chosen}");
                }
            }
        }
    }
}
