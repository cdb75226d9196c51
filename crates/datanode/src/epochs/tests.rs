//! The driver alone, with one coordinator played by hand: when it switches.

use std::sync::Arc;

use model::{ActorKind, Config, NodeId, WorkerId};
use stdx::Duration;

use super::*;

const COORDINATOR: Address =
    Address { node: NodeId(1), worker: WorkerId(0), actor: ActorKind::Coordinator };

struct World {
    epochs: Epochs,
    shared: Shared,
}

impl World {
    /// A driver that has begun its first switch.
    fn new() -> Self {
        let config = Config::new(vec![NodeId(1)], vec![NodeId(3)], 1);
        let shared = Shared {
            now: Instant::from_nanos(1_000_000_000),
            cluster: Arc::new(testing::cluster([1]).build()),
            ..testing::serving_worker(1, config)
        };
        let mut world = Self { epochs: Epochs::new(), shared };
        let mut ctx = Ctx::new(&mut world.shared, ActorKind::Epochs);
        world.epochs.cluster_changed(&mut ctx, &ClusterState::default());
        world.tell(EpochMessage::State {
            current: Epoch(0),
            prepared: None,
            drained: Epoch(0),
            committed: Epoch(0),
            completed: Epoch(0),
            snapshots: vec![],
            ended: 0,
        });
        world
    }

    fn tell(&mut self, message: EpochMessage) {
        let mut ctx = Ctx::new(&mut self.shared, ActorKind::Epochs);
        self.epochs.handle(&mut ctx, COORDINATOR, Message::Epoch(message));
        self.epochs.check_invariants(&self.shared);
    }

    /// Lets the switch under way end, with something committed before it or not, and the time come
    /// for the next one; how long that is.
    fn switch(&mut self, committed: Epoch) -> Duration {
        let Role::Preparing { epoch, .. } = self.epochs.role else { panic!("no switch") };
        self.tell(EpochMessage::Prepared { epoch });
        let through = Epoch(epoch.0 - 1);
        self.tell(EpochMessage::Drained { through, committed });
        self.wait()
    }

    /// Lets the time of the timer come.
    fn wait(&mut self) -> Duration {
        let due = self.shared.timers.next().expect("a driver has a timer");
        let passed = due.since(self.shared.now);
        self.shared.now = due;
        let mut ctx = Ctx::new(&mut self.shared, ActorKind::Epochs);
        self.epochs.timeout(&mut ctx, Timer::EpochTick);
        passed
    }
}

#[test]
fn switches_are_slow_while_nothing_is_committed_and_quick_at_once_when_something_is() {
    let mut world = World::new();
    let (usual, slow) = (Duration::from_millis(20), Duration::from_millis(100));
    for _ in 0..10 {
        world.switch(Epoch(0));
    }
    assert_eq!(world.switch(Epoch(0)), slow);
    // Something is committed 30 ms after the switch: the next one is due.
    let Role::Preparing { epoch, .. } = world.epochs.role else { panic!("no switch") };
    world.tell(EpochMessage::Prepared { epoch });
    world.shared.now = world.shared.now + Duration::from_millis(30);
    world.tell(EpochMessage::Drained { through: Epoch(epoch.0 - 1), committed: epoch });
    assert_eq!(world.wait(), Duration::ZERO);
    // For some epochs there is no telling whether that was the last.
    let spans: Vec<Duration> = (0..8).map(|_| world.switch(epoch)).collect();
    assert!(spans[..4].iter().all(|span| *span == usual), "{spans:?}");
    assert_eq!(spans[7], slow);
    // Earlier than the usual time, it comes at the usual time.
    let Role::Preparing { epoch, .. } = world.epochs.role else { panic!("no switch") };
    world.tell(EpochMessage::Prepared { epoch });
    world.shared.now = world.shared.now + Duration::from_millis(5);
    world.tell(EpochMessage::Drained { through: Epoch(epoch.0 - 1), committed: epoch });
    assert_eq!(world.wait(), Duration::from_millis(15));
}

#[test]
fn times_of_epochs_ascend_whatever_clocks_do() {
    let mut world = World::new();
    let mut told: Vec<(Epoch, u64)> = Vec::new();
    let take = |world: &mut World, told: &mut Vec<(Epoch, u64)>| {
        for envelope in world.shared.outbox.drain(..) {
            if let Message::Epoch(EpochMessage::Completed { ended, .. }) = *envelope.message {
                told.extend(ended);
            }
        }
    };
    for day in [1_000_000_000_000, 2_000_000_000_000, 500_000_000_000, 3_000_000_000_000] {
        world.shared.day_origin = day;
        for _ in 0..3 {
            world.switch(Epoch(1));
        }
    }
    take(&mut world, &mut told);
    // A driver that takes over hears what was told last, and its clock is far behind.
    let (newest, at) = *told.last().expect("epochs are complete");
    let current = world.epochs.current;
    world.epochs.gather(&mut Ctx::new(&mut world.shared, ActorKind::Epochs));
    world.shared.day_origin = 0;
    let state = EpochMessage::State {
        current,
        prepared: None,
        drained: newest,
        committed: Epoch(0),
        completed: newest,
        snapshots: vec![],
        ended: at,
    };
    world.tell(state);
    for _ in 0..3 {
        world.switch(Epoch(1));
    }
    take(&mut world, &mut told);
    assert!(told.len() >= 13, "{told:?}");
    let ascends = |pair: &[(Epoch, u64)]| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1;
    assert!(told.windows(2).all(ascends), "{told:?}");
    let first = told[0].1;
    assert!(first >= 1_000_000_000, "microseconds of the day of the clock: {first}");
}
