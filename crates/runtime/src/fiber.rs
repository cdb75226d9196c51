//! A stack of its own for a computation, which can stop in the middle of a call and go on later.
//!
//! # Owns
//! [`Fiber`]: the memory of a stack with a guard below it, what is run there, and who may stop it.
//! The switch from one stack to another is the crate `corosensei`'s.
//! # Guarantees
//! A fiber runs on the thread that calls [`Fiber::run`], and nowhere else meanwhile. A panic on the
//! fiber's stack goes on in the caller of `run`. A stack that overflows ends the process and
//! overwrites nothing.
//! # Failure
//! A fiber that is dropped in the middle of a call keeps its stack and all that lives there: its
//! destructors are never run, and its memory is never used again. After a panic a fiber cannot be
//! run again.
//! # Not here
//! When a computation stops (`sql::pace`).
#![expect(unsafe_code, reason = "a stack is given and left; decision 0043 has the argument")]

use std::cell::Cell;
use std::ffi::c_void;
use std::io;
use std::mem::ManuallyDrop;
use std::ptr::{null, null_mut};
use std::rc::Rc;

use corosensei::stack::{Stack, StackPointer};
use corosensei::{Coroutine, CoroutineResult, Yielder};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

use crate::thread::STACK_SIZE;

/// Bytes below a stack that nobody may touch.
const GUARD: usize = 64 << 10;
const SIZE: usize = GUARD + STACK_SIZE;

/// A computation with a stack of its own.
pub struct Fiber {
    /// Told whether to run the body once more, or to end.
    coroutine: ManuallyDrop<Coroutine<Order, (), (), Memory>>,
    state: Rc<State>,
}

/// Stops the fiber that it belongs to.
#[derive(Clone)]
pub struct Suspender {
    state: Rc<State>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The body has ended, or has never begun.
    Idle,
    Running,
    Suspended,
    /// The body has panicked.
    Broken,
}

/// What a fiber is told when it goes on.
enum Order {
    Run,
    /// Between two runs: to leave the stack.
    Leave,
}

struct State {
    phase: Cell<Phase>,
    /// What the stack is left by; null until the fiber runs for the first time.
    yielder: Cell<*const Yielder<Order, ()>>,
    /// The lowest address of the mapping.
    lowest: usize,
}

/// The mapping of a stack, with the guard at its low end.
struct Memory {
    lowest: *mut u8,
}

impl Memory {
    fn new() -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::STACK | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address that the system chooses touches nobody's memory.
        let lowest = unsafe { mmap_anonymous(null_mut(), SIZE, protection, flags)? }.cast::<u8>();
        let memory = Self { lowest };
        // SAFETY: the mapping was made here, and nothing is stored in it yet.
        unsafe { mprotect(lowest.cast::<c_void>(), GUARD, MprotectFlags::empty())? };
        Ok(memory)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this size, and its owner uses it no more.
        let unmapped = unsafe { munmap(self.lowest.cast::<c_void>(), SIZE) };
        unmapped.expect("a stack is a mapping of its own");
    }
}

// SAFETY: the mapping has a guard at its low end, is larger than the least stack, stays where it is
// until it is dropped, and ends at a boundary of pages.
unsafe impl Stack for Memory {
    fn base(&self) -> StackPointer {
        StackPointer::new(self.lowest as usize + SIZE).expect("a mapping ends above zero")
    }

    fn limit(&self) -> StackPointer {
        StackPointer::new(self.lowest as usize).expect("no mapping begins at zero")
    }
}

impl std::fmt::Debug for Fiber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Fiber({:?})", self.state.phase.get())
    }
}

impl std::fmt::Debug for Suspender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Suspender({:?})", self.state.phase.get())
    }
}

impl Fiber {
    /// A fiber that runs `body` from its beginning to its end, as often as it is told to.
    ///
    /// # Errors
    /// When the system gives no memory for the stack.
    pub fn new(mut body: Box<dyn FnMut()>) -> io::Result<Self> {
        let memory = Memory::new()?;
        let lowest = memory.lowest as usize;
        let state = State { phase: Cell::new(Phase::Idle), yielder: Cell::new(null()), lowest };
        let state = Rc::new(state);
        let own = state.clone();
        let coroutine = Coroutine::with_stack(memory, move |yielder, mut order| {
            own.yielder.set(yielder);
            while let Order::Run = order {
                body();
                own.phase.set(Phase::Idle);
                order = yielder.suspend(());
            }
        });
        Ok(Self { coroutine: ManuallyDrop::new(coroutine), state })
    }

    /// Runs the body from its beginning, or goes on where it was suspended. True when it has come
    /// to its end.
    ///
    /// # Panics
    /// With what the body panics with, and if it has panicked before.
    pub fn run(&mut self) -> bool {
        let phase = &self.state.phase;
        assert!(matches!(phase.get(), Phase::Idle | Phase::Suspended), "a fiber can go on");
        phase.set(Phase::Running);
        let broken = OnPanic(phase);
        let result = self.coroutine.resume(Order::Run);
        std::mem::forget(broken);
        assert!(matches!(result, CoroutineResult::Yield(())), "it was not told to leave");
        phase.get() == Phase::Idle
    }

    /// What its body suspends it with.
    pub fn suspender(&self) -> Suspender {
        Suspender { state: self.state.clone() }
    }
}

/// The body panics: its stack has been left for good.
struct OnPanic<'f>(&'f Cell<Phase>);

impl Drop for OnPanic<'_> {
    fn drop(&mut self) {
        self.0.set(Phase::Broken);
    }
}

impl Suspender {
    /// Stops the fiber here; returns when it is run again.
    ///
    /// # Panics
    /// Unless it is called by the body of the fiber, on its stack.
    pub fn suspend(&self) {
        let state = &self.state;
        let here = 0_u8;
        let offset = ((&raw const here) as usize).wrapping_sub(state.lowest);
        let is_own = (GUARD..SIZE).contains(&offset);
        assert!(is_own && state.phase.get() == Phase::Running, "a fiber suspends itself");
        state.phase.set(Phase::Suspended);
        // SAFETY: the yielder lives on the stack that this runs on, at its base, below which all
        // calls of the body lie; it is left when the body runs no more.
        unsafe { &*state.yielder.get() }.suspend(());
    }
}

impl Drop for Fiber {
    fn drop(&mut self) {
        match self.state.phase.get() {
            // What lives on the stack may be referred to from elsewhere, and was promised not to go
            // without its destructor.
            Phase::Suspended | Phase::Running => return,
            Phase::Idle if self.coroutine.started() => {
                self.coroutine.resume(Order::Leave);
            }
            Phase::Idle | Phase::Broken => {}
        }
        // SAFETY: it is used no more.
        unsafe { ManuallyDrop::drop(&mut self.coroutine) };
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::rc::Rc;

    use super::{Fiber, Suspender};
    use crate::thread::STACK_SIZE;

    /// A fiber whose body is given what suspends it.
    fn fiber(mut body: impl FnMut(&Suspender) + 'static) -> Fiber {
        let own: Rc<RefCell<Option<Suspender>>> = Rc::default();
        let given = own.clone();
        let fiber = Fiber::new(Box::new(move || {
            let suspender = given.borrow().clone().expect("it was given");
            body(&suspender);
        }));
        let fiber = fiber.expect("a stack");
        *own.borrow_mut() = Some(fiber.suspender());
        fiber
    }

    fn depth_first(suspender: &Suspender, depth: u32, seen: &RefCell<Vec<u32>>) -> f64 {
        seen.borrow_mut().push(depth);
        suspender.suspend();
        let below = if depth == 0 { 0.5 } else { depth_first(suspender, depth - 1, seen) };
        below * 2.0 + f64::from(depth)
    }

    #[test]
    fn a_fiber_goes_on_in_the_middle_of_calls_and_begins_anew_when_it_has_ended() {
        let (seen, value): (Rc<RefCell<Vec<u32>>>, Rc<Cell<f64>>) = Default::default();
        let (of_body, result) = (seen.clone(), value.clone());
        let mut fiber = fiber(move |suspender| {
            result.set(depth_first(suspender, 3, &of_body));
        });
        for _ in 0..2 {
            for at in 0..4 {
                assert!(!fiber.run());
                assert_eq!(seen.borrow().len(), at + 1);
            }
            assert!(fiber.run());
            assert_eq!(seen.take(), [3, 2, 1, 0]);
            assert_eq!(value.take().to_bits(), 19.0_f64.to_bits());
        }
    }

    #[test]
    fn fibers_take_turns_and_one_may_run_another() {
        let order: Rc<RefCell<Vec<u8>>> = Rc::default();
        let of = |name: u8| {
            let order = order.clone();
            fiber(move |suspender| {
                for _ in 0..2 {
                    order.borrow_mut().push(name);
                    suspender.suspend();
                }
            })
        };
        let (mut first, mut second) = (of(1), of(2));
        let mut outer = fiber(move |suspender| {
            while !first.run() {
                suspender.suspend();
            }
        });
        while !outer.run() {
            second.run();
        }
        assert_eq!(*order.borrow(), [1, 2, 1, 2]);
    }

    #[test]
    fn a_panic_goes_to_whoever_runs_the_fiber() {
        let dropped = Rc::new(());
        let kept = dropped.clone();
        let mut fiber = fiber(move |suspender| {
            let _local = kept.clone();
            suspender.suspend();
            panic!("on its own stack");
        });
        assert!(!fiber.run() && Rc::strong_count(&dropped) == 3);
        let panic = catch_unwind(AssertUnwindSafe(|| fiber.run())).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"on its own stack"));
        assert_eq!(Rc::strong_count(&dropped), 1, "all was dropped on the way");
        let again = catch_unwind(AssertUnwindSafe(|| fiber.run()));
        assert!(again.is_err(), "its stack has been left");
    }

    #[test]
    fn what_was_left_in_the_middle_is_never_given_back() {
        let kept = Rc::new(());
        let of_body = kept.clone();
        let mut left = fiber(move |suspender| {
            let _local = of_body.clone();
            suspender.suspend();
        });
        left.run();
        drop(left);
        assert_eq!(Rc::strong_count(&kept), 3);
    }

    #[test]
    fn what_has_ended_is_given_back() {
        let kept = Rc::new(());
        for runs in 0..3 {
            let of_body = kept.clone();
            let mut ended = fiber(move |_| drop(of_body.clone()));
            assert!((0..runs).all(|_| ended.run()));
            drop(ended);
            assert_eq!(Rc::strong_count(&kept), 1, "after {runs} runs");
        }
    }

    #[test]
    fn nobody_suspends_a_fiber_from_outside() {
        let fiber = fiber(|_| {});
        let outside = fiber.suspender();
        assert!(catch_unwind(AssertUnwindSafe(|| outside.suspend())).is_err());
    }

    #[test]
    fn a_stack_is_as_large_as_a_threads() {
        fn fill(depth: usize) -> u64 {
            let page = std::hint::black_box([depth as u64; 512]);
            if depth == 0 { page[0] } else { fill(depth - 1) + page[511] }
        }
        let mut fiber = fiber(|_| {
            std::hint::black_box(fill(STACK_SIZE / 16_384));
        });
        assert!(fiber.run());
    }

    /// As the worker threads' states do.
    #[test]
    fn a_fiber_may_go_on_on_another_thread() {
        struct Moved(Fiber);
        // SAFETY: nothing else refers to what the fiber refers to.
        #[allow(unsafe_code, reason = "a test of moving")]
        unsafe impl Send for Moved {}
        let mut there = Moved(fiber(|suspender| {
            for _ in 0..3 {
                let text = format!("{:?}", std::thread::current().id());
                suspender.suspend();
                drop(text);
            }
        }));
        assert!(!there.0.run());
        let moved = std::thread::spawn(move || {
            let mut here = there;
            let ended = here.0.run();
            (here, ended)
        });
        let (mut back, ended) = moved.join().ok().unwrap();
        assert!(!ended && !back.0.run() && back.0.run());
    }
}
