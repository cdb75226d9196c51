//! The stacks that tasks run on, so that they can pause in the middle of a call.
//!
//! Parsing, binding, planning and evaluation call themselves, and await nothing. A task runs on a
//! stack of the host's instead of the worker's own: when its time is over within such a call, the
//! stack stays as it is, and the worker goes on with others.
//!
//! # Owns
//! [`Stacks`], which polls tasks: spare stacks for the next ones, and how many are in use.
//! # Guarantees
//! A task is polled by one stack from the beginning of a poll to its end, whoever else runs
//! meanwhile. Most tasks end their poll without a pause: they share one spare stack.
//! # Failure
//! Without a stack, as the host has none or too many are in use, a task is polled without one, and
//! pauses only where it awaits.
//! # Not here
//! When a task pauses (`pace`), and when it goes on (`node`).

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::pace::Pace;

/// A stack of the host's that runs what it was made with.
pub trait Stack {
    /// Runs its body from the beginning, or goes on where it has stopped; whether it has ended.
    fn run(&mut self) -> bool;

    /// What stops the body, when that calls it.
    fn suspender(&self) -> Rc<dyn Fn()>;
}

/// Makes a stack; none if the host has no more.
pub type MakeStack = fn(Box<dyn FnMut()>) -> Option<Box<dyn Stack>>;

/// What a connection does.
pub(crate) type Task = Pin<Box<dyn Future<Output = ()>>>;

/// How far a task has come.
pub(crate) enum Polled {
    /// To its end.
    Over,
    /// It waits for something.
    Waits(Task),
    /// It has paused in the middle of a call, on this stack.
    Paused(Seat),
}

/// A stack, and the task that runs on it.
pub(crate) struct Seat {
    stack: Box<dyn Stack>,
    suspend: Rc<dyn Fn()>,
    place: Rc<RefCell<Place>>,
}

/// What passes between a stack's body and who runs it.
#[derive(Default)]
struct Place {
    /// To be polled, or polled and not over.
    task: Option<Task>,
}

/// The stacks of a worker.
pub(crate) struct Stacks {
    make: Option<MakeStack>,
    /// For the tasks that are polled next.
    spare: Vec<Seat>,
    /// How many are in the middle of a call.
    paused: usize,
}

/// Most tasks of a worker that have paused in the middle of a call at the same time: a stack is
/// some megabytes of address space, and what has been used of it stays in memory.
const PAUSED_MAX: usize = 32;
/// Stacks that are kept for tasks to come.
const SPARE_MAX: usize = 4;

impl Stacks {
    pub(crate) fn new(make: Option<MakeStack>) -> Self {
        Self { make, spare: Vec::new(), paused: 0 }
    }

    /// Runs a task as far as it comes.
    pub(crate) fn poll(&mut self, pace: &Pace, task: Task) -> Polled {
        match self.seat() {
            Some(seat) => {
                seat.place.borrow_mut().task = Some(task);
                self.run(pace, seat)
            }
            None => poll(task).map_or(Polled::Over, Polled::Waits),
        }
    }

    /// Goes on with a task that has paused.
    pub(crate) fn go_on(&mut self, pace: &Pace, seat: Seat) -> Polled {
        self.paused -= 1;
        self.run(pace, seat)
    }

    fn run(&mut self, pace: &Pace, mut seat: Seat) -> Polled {
        pace.may_suspend(Some(seat.suspend.clone()));
        let ended = seat.stack.run();
        pace.may_suspend(None);
        if !ended {
            self.paused += 1;
            return Polled::Paused(seat);
        }
        let task = seat.place.borrow_mut().task.take();
        if self.spare.len() < SPARE_MAX {
            self.spare.push(seat);
        }
        task.map_or(Polled::Over, Polled::Waits)
    }

    fn seat(&mut self) -> Option<Seat> {
        if let Some(seat) = self.spare.pop() {
            return Some(seat);
        }
        let make = self.make.filter(|_| self.paused < PAUSED_MAX)?;
        let place: Rc<RefCell<Place>> = Rc::default();
        let of_body = place.clone();
        let body = move || {
            let task = of_body.borrow_mut().task.take();
            let left = task.and_then(poll);
            of_body.borrow_mut().task = left;
        };
        let stack = make(Box::new(body))?;
        let suspend = stack.suspender();
        Some(Seat { stack, suspend, place })
    }
}

/// Polls a task; what is left of it.
fn poll(mut task: Task) -> Option<Task> {
    let mut context = Context::from_waker(Waker::noop());
    match task.as_mut().poll(&mut context) {
        Poll::Ready(()) => None,
        Poll::Pending => Some(task),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    struct Fiber(runtime::Fiber);

    impl Stack for Fiber {
        fn run(&mut self) -> bool {
            self.0.run()
        }

        fn suspender(&self) -> Rc<dyn Fn()> {
            let suspender = self.0.suspender();
            Rc::new(move || suspender.suspend())
        }
    }

    fn make(body: Box<dyn FnMut()>) -> Option<Box<dyn Stack>> {
        Some(Box::new(Fiber(runtime::Fiber::new(body).ok()?)))
    }

    /// A task that takes so many slices within one call.
    fn task(pace: &Rc<Pace>, slices: u32, done: &Rc<Cell<u32>>) -> Task {
        let (pace, done) = (pace.clone(), done.clone());
        Box::pin(async move {
            for _ in 0..slices {
                pace.look(u64::MAX >> 1);
                done.set(done.get() + 1);
            }
        })
    }

    #[test]
    fn tasks_pause_within_calls_and_others_run_meanwhile() {
        let pace = Rc::new(Pace::new(None));
        let mut stacks = Stacks::new(Some(make));
        let (long, short): (Rc<Cell<u32>>, Rc<Cell<u32>>) = Default::default();
        pace.begin(false);
        let Polled::Paused(mut seat) = stacks.poll(&pace, task(&pace, 3, &long)) else {
            panic!("it pauses")
        };
        for round in 0..2 {
            assert_eq!(long.get(), round);
            let of_short = short.clone();
            let other = Box::pin(async move { of_short.set(of_short.get() + 1) });
            assert!(matches!(stacks.poll(&pace, other), Polled::Over));
            pace.begin(false);
            seat = match stacks.go_on(&pace, seat) {
                Polled::Paused(seat) => seat,
                _ => panic!("it pauses"),
            };
        }
        assert!(matches!(stacks.go_on(&pace, seat), Polled::Over));
        assert_eq!((long.get(), short.get(), stacks.paused), (3, 2, 0));
    }

    #[test]
    fn beyond_the_limit_and_without_stacks_tasks_run_to_their_end() {
        let pace = Rc::new(Pace::new(None));
        let done = Rc::default();
        let mut without = Stacks::new(None);
        assert!(matches!(without.poll(&pace, task(&pace, 3, &done)), Polled::Over));
        let mut stacks = Stacks::new(Some(make));
        let mut seats = Vec::new();
        while let Polled::Paused(seat) = stacks.poll(&pace, task(&pace, 1, &done)) {
            pace.begin(false);
            seats.push(seat);
        }
        assert_eq!((seats.len(), done.get()), (PAUSED_MAX, 4));
        for seat in seats {
            assert!(matches!(stacks.go_on(&pace, seat), Polled::Over));
        }
        assert_eq!((done.get(), stacks.paused), (PAUSED_MAX as u32 + 4, 0));
    }
}
