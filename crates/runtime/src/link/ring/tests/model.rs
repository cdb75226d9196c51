//! The rule by which two sides of a ring wake each other, in all interleavings.
//!
//! Each side runs what a thread of a link runs: it writes pieces, reads pieces, throws wake-ups
//! away when there are many, and sleeps without an end after a turn in which it did nothing. A step
//! is one access to memory or one call of the system. Stores wait in a buffer of their side and
//! reach memory later, in any order of those to different words: that is weaker than what CPUs do.
//! The model follows `ring.rs` by hand: whoever changes the one changes the other.

use std::collections::HashSet;

/// Pieces that a ring holds.
const ROOM: u8 = 1;
/// So many counted wake-ups are thrown away.
const MANY: u8 = 1;

/// A word of the memory. The number is the direction, which is its writer's side.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Word {
    Written(usize),
    Taken(usize),
    Sleeps(usize),
    Starves(usize),
}

impl Word {
    fn at(self) -> usize {
        match self {
            Word::Written(of) => of,
            Word::Taken(of) => 2 + of,
            Word::Sleeps(of) => 4 + of,
            Word::Starves(of) => 6 + of,
        }
    }
}

/// What a side does next.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Next {
    /// A turn begins.
    Turn,
    /// Wake-ups are thrown away, before the turn or after it.
    Throw,
    Write,
    /// Looks for room: when it writes, when it has raised its flag, and before it sleeps.
    Look(When),
    /// Takes its flag back, as there is room.
    Sated(When),
    Starve,
    StarveFence,
    Store,
    /// Looks at a flag of the peer, behind a fence.
    Fence(Flag),
    Find(Flag),
    Exchange(Flag),
    Send(Flag),
    Edge(Flag),
    Read,
    Taken,
    Rest,
    Doze,
    DozeFence,
    DozeLook,
    Poll {
        sleeps: bool,
    },
    Rise,
    Done,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum When {
    Writing,
    Starving,
    Dozing,
}

/// A flag of the peer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Flag {
    Sleeps,
    Starves,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Side {
    next: Next,
    /// Stores that have not reached memory.
    held: Vec<(Word, u8)>,
    written: u8,
    gone: u8,
    taken: u8,
    wakes: u8,
    starves: bool,
    /// It has written or read in this turn.
    busy: bool,
    /// Wake-ups on its socket that were not read, and whether the poller knows of new ones.
    unread: u8,
    edge: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct World {
    memory: [u8; 8],
    sides: [Side; 2],
}

/// What is tried: how much each side writes, and a part of the rule that is left out.
#[derive(Clone, Copy, Debug)]
struct Trial {
    totals: [u8; 2],
    throws_late: bool,
    without: Option<Part>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    FenceBeforeSleep,
    FenceAfterStore,
    LastLookForBytes,
    LastLookForRoom,
    CountOfRoom,
}

/// What the worst interleaving comes to.
#[derive(Debug)]
struct Found {
    states: usize,
    /// A state in which nobody can do anything and not all is done.
    stuck: Option<World>,
    most_unread: u8,
}

impl Trial {
    fn lacks(&self, part: Part) -> bool {
        self.without == Some(part)
    }

    fn run(&self) -> Found {
        let side = Side {
            next: Next::Turn,
            held: Vec::new(),
            written: 0,
            gone: 0,
            taken: 0,
            wakes: 0,
            starves: false,
            busy: false,
            unread: 0,
            edge: false,
        };
        let first = World { memory: [0; 8], sides: [side.clone(), side] };
        let mut known = HashSet::from([first.clone()]);
        let mut open = vec![first];
        let mut found = Found { states: 0, stuck: None, most_unread: 0 };
        while let Some(world) = open.pop() {
            found.states += 1;
            let unread = world.sides.iter().map(|side| side.unread).max();
            found.most_unread = found.most_unread.max(unread.unwrap_or(0));
            let mut after = Vec::new();
            for own in [0, 1] {
                after.extend(self.step(&world, own));
                after.extend(world.reaches(own));
            }
            if after.is_empty() && world.sides.iter().any(|side| side.next != Next::Done) {
                found.stuck = Some(world);
                break;
            }
            open.extend(after.into_iter().filter(|world| known.insert(world.clone())));
        }
        found
    }

    /// What a side does next, if it can.
    fn step(&self, before: &World, own: usize) -> Option<World> {
        let mut world = before.clone();
        let next = before.sides[own].next;
        world.sides[own].next = self
            .turn(&mut world, own, next)
            .or_else(|| self.write(&mut world, own, next))
            .or_else(|| self.wake(&mut world, own, next))
            .or_else(|| self.sleep(&mut world, own, next))?;
        Some(world)
    }

    /// The frame of a turn, and what is read in it.
    fn turn(&self, world: &mut World, own: usize, next: Next) -> Option<Next> {
        let (peer, side) = (1 - own, &mut world.sides[own]);
        let done = (side.written, side.taken) == (self.totals[own], self.totals[peer]);
        Some(match next {
            Next::Turn => {
                side.busy = false;
                if done {
                    Next::Done
                } else if self.throws_late {
                    Next::Write
                } else {
                    Next::Throw
                }
            }
            Next::Throw => {
                if side.wakes >= MANY {
                    (side.wakes, side.unread) = (0, 0);
                }
                if self.throws_late { Next::Rest } else { Next::Write }
            }
            Next::Read => {
                if world.load(Word::Written(peer), own) > world.sides[own].taken {
                    Next::Taken
                } else {
                    Flag::Starves.then()
                }
            }
            Next::Taken => {
                side.taken += 1;
                side.busy = true;
                side.held.push((Word::Taken(peer), side.taken));
                Next::Fence(Flag::Starves)
            }
            Next::Rest if self.throws_late && side.wakes >= MANY => Next::Throw,
            Next::Rest if side.busy || done => Next::Turn,
            Next::Rest => Next::Doze,
            _ => return None,
        })
    }

    /// What is written, and the wait for room.
    fn write(&self, world: &mut World, own: usize, next: Next) -> Option<Next> {
        let side = &mut world.sides[own];
        Some(match next {
            Next::Write if side.written == self.totals[own] => Next::Read,
            Next::Write if side.written - side.gone == ROOM => Next::Look(When::Writing),
            Next::Write => Next::Store,
            Next::Look(when) => {
                world.look(own);
                let side = &mut world.sides[own];
                match (side.written - side.gone < ROOM, when) {
                    (true, _) if std::mem::take(&mut side.starves) => Next::Sated(when),
                    (true, _) => sated(when),
                    (false, When::Writing) => Next::Starve,
                    (false, When::Starving) => Next::Read,
                    (false, When::Dozing) => Next::DozeLook,
                }
            }
            Next::Sated(when) => {
                let lowered = world.exchange(Word::Starves(own), 0, own)?;
                if lowered == 0 && !self.lacks(Part::CountOfRoom) {
                    world.sides[own].wakes += 1;
                }
                sated(when)
            }
            Next::Starve => {
                let raised = world.exchange(Word::Starves(own), 1, own)?;
                let side = &mut world.sides[own];
                if std::mem::replace(&mut side.starves, true) && raised == 0 {
                    side.wakes += 1;
                }
                Next::StarveFence
            }
            Next::StarveFence if side.held.is_empty() => Next::Look(When::Starving),
            Next::Store => {
                side.written += 1;
                side.busy = true;
                side.held.push((Word::Written(own), side.written));
                Next::Fence(Flag::Sleeps)
            }
            _ => return None,
        })
    }

    /// The peer's flags, behind what was stored, and its wake-ups.
    fn wake(&self, world: &mut World, own: usize, next: Next) -> Option<Next> {
        let (peer, side) = (1 - own, &world.sides[own]);
        Some(match next {
            Next::Fence(flag) if side.held.is_empty() || self.lacks(Part::FenceAfterStore) => {
                Next::Find(flag)
            }
            Next::Find(flag) => match world.load(flag.word(own), own) {
                0 => flag.then(),
                _ => Next::Exchange(flag),
            },
            Next::Exchange(flag) => match world.exchange(flag.word(own), 0, own)? {
                0 => flag.then(),
                _ => Next::Send(flag),
            },
            Next::Send(flag) => {
                world.sides[peer].unread += 1;
                Next::Edge(flag)
            }
            Next::Edge(flag) => {
                world.sides[peer].edge = true;
                flag.then()
            }
            _ => return None,
        })
    }

    /// What leads to sleep, and out of it.
    fn sleep(&self, world: &mut World, own: usize, next: Next) -> Option<Next> {
        let (peer, side) = (1 - own, &mut world.sides[own]);
        Some(match next {
            Next::Doze => {
                side.held.push((Word::Sleeps(peer), 1));
                Next::DozeFence
            }
            Next::DozeFence if side.held.is_empty() || self.lacks(Part::FenceBeforeSleep) => {
                if side.starves && !self.lacks(Part::LastLookForRoom) {
                    Next::Look(When::Dozing)
                } else {
                    Next::DozeLook
                }
            }
            Next::DozeLook => {
                let nothing = world.load(Word::Written(peer), own) == world.sides[own].taken;
                Next::Poll { sleeps: nothing || self.lacks(Part::LastLookForBytes) }
            }
            Next::Poll { sleeps } => {
                // The system tells of an edge only if its bytes are still there.
                if sleeps && !(side.edge && side.unread > 0) {
                    return None;
                }
                side.edge = false;
                Next::Rise
            }
            Next::Rise => {
                if world.exchange(Word::Sleeps(peer), 0, own)? == 0 {
                    world.sides[own].wakes += 1;
                }
                Next::Turn
            }
            _ => return None,
        })
    }
}

/// What comes when there is room.
fn sated(when: When) -> Next {
    match when {
        When::Writing | When::Starving => Next::Store,
        When::Dozing => Next::Poll { sleeps: false },
    }
}

impl Flag {
    /// The peer's flag that a side looks at.
    fn word(self, own: usize) -> Word {
        match self {
            Flag::Sleeps => Word::Sleeps(own),
            Flag::Starves => Word::Starves(1 - own),
        }
    }

    /// What comes when the peer was woken, or needs no wake-up.
    fn then(self) -> Next {
        match self {
            Flag::Sleeps => Next::Read,
            Flag::Starves => Next::Rest,
        }
    }
}

impl World {
    /// What a side loads: what it has stored itself, even if that has not reached memory.
    fn load(&self, word: Word, own: usize) -> u8 {
        let held = self.sides[own].held.iter().rev().find(|(of, _)| *of == word);
        held.map_or(self.memory[word.at()], |(_, value)| *value)
    }

    /// Exchanges a word's value, if what was stored before has reached memory.
    fn exchange(&mut self, word: Word, value: u8, own: usize) -> Option<u8> {
        let may = self.sides[own].held.is_empty();
        may.then(|| std::mem::replace(&mut self.memory[word.at()], value))
    }

    fn look(&mut self, own: usize) {
        self.sides[own].gone = self.load(Word::Taken(own), own);
    }

    /// The ways in which a store that was held can reach memory.
    fn reaches(&self, own: usize) -> impl Iterator<Item = World> {
        let held = &self.sides[own].held;
        let first = |at: &usize| !held[..*at].iter().any(|(word, _)| *word == held[*at].0);
        (0..held.len()).filter(first).map(move |at| {
            let mut world = self.clone();
            let (word, value) = world.sides[own].held.remove(at);
            world.memory[word.at()] = value;
            world
        })
    }
}

/// Streams of both directions, and of one; wake-ups are thrown away before a turn's work or after.
fn trials(without: Option<Part>) -> impl Iterator<Item = Trial> {
    let totals = [[2, 2], [3, 1], [5, 0], [4, 2]];
    let trial =
        move |totals| [false, true].map(move |throws_late| Trial { totals, throws_late, without });
    totals.into_iter().flat_map(trial)
}

#[test]
fn no_interleaving_loses_a_wake_up() {
    for trial in trials(None) {
        let found = trial.run();
        assert!(found.stuck.is_none(), "{trial:?}: {:#?}", found.stuck);
        assert!(found.most_unread <= MANY + 3, "{trial:?}: {}", found.most_unread);
        assert!(found.states > 1_000, "{trial:?}: {}", found.states);
    }
}

#[test]
fn each_part_of_the_rule_is_needed() {
    for part in [
        Part::FenceBeforeSleep,
        Part::FenceAfterStore,
        Part::LastLookForBytes,
        Part::LastLookForRoom,
    ] {
        let stuck = trials(Some(part)).any(|trial| trial.run().stuck.is_some());
        assert!(stuck, "{part:?}");
    }
    let uncounted = Trial { totals: [8, 0], throws_late: false, without: Some(Part::CountOfRoom) };
    let unread = uncounted.run().most_unread;
    assert!(unread > MANY + 3, "{unread}");
}
