//! A stack of its own for a computation, which can stop in the middle of a call and go on later.
//!
//! # Owns
//! [`Fiber`]: the memory of a stack with a guard page below it, and the switch of the processor
//! from one stack to another.
//! # Guarantees
//! A fiber runs on the thread that calls [`Fiber::run`], and nowhere else meanwhile. A panic on the
//! fiber's stack goes on in the caller of `run`. A stack that overflows ends the process and
//! overwrites nothing.
//! # Failure
//! A fiber that is dropped in the middle of a call keeps its stack and all that lives there: its
//! destructors are never run, and its memory is never used again.
//! # Not here
//! When a computation stops (`sql::pace`). Processors other than x86-64: there is no fiber there,
//! and who asks for one does without.
#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "a stack is switched; decision 0043 has the argument")
)]

#[cfg(target_arch = "x86_64")]
pub use self::x86_64::{Fiber, Suspender};

#[cfg(not(target_arch = "x86_64"))]
pub use self::none::{Fiber, Suspender};

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::any::Any;
    use std::cell::{Cell, RefCell};
    use std::ffi::c_void;
    use std::io;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    use std::ptr::null_mut;
    use std::rc::Rc;

    use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

    use crate::thread::STACK_SIZE;

    /// Bytes below a stack that nobody may touch.
    const GUARD: usize = 64 << 10;

    /// A computation with a stack of its own.
    #[derive(Debug)]
    pub struct Fiber {
        state: Rc<State>,
    }

    /// Stops the fiber that it belongs to.
    #[derive(Clone, Debug)]
    pub struct Suspender {
        state: Rc<State>,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Phase {
        /// The body has ended, or has never begun.
        Idle,
        Running,
        Suspended,
    }

    struct State {
        phase: Cell<Phase>,
        /// Where the stack ended when the fiber ran last.
        own: Cell<*mut u8>,
        /// Where the stack of its caller ended when the fiber began to run.
        callers: Cell<*mut u8>,
        body: RefCell<Option<Box<dyn FnMut()>>>,
        /// What the body has panicked with.
        panic: Cell<Option<Box<dyn Any + Send>>>,
        /// The lowest address of the mapping.
        base: *mut u8,
    }

    impl std::fmt::Debug for State {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "Fiber({:?})", self.phase.get())
        }
    }

    impl Fiber {
        /// A fiber that runs `body` from its beginning to its end, as often as it is told to.
        ///
        /// # Errors
        /// When the system gives no memory for the stack.
        pub fn new(body: Box<dyn FnMut()>) -> io::Result<Self> {
            let size = GUARD + STACK_SIZE;
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            let flags = MapFlags::PRIVATE | MapFlags::STACK | MapFlags::NORESERVE;
            // SAFETY: a new mapping at an address that the system chooses touches nobody's memory.
            let base = unsafe { mmap_anonymous(null_mut(), size, protection, flags)? }.cast::<u8>();
            let state = Rc::new(State {
                phase: Cell::new(Phase::Idle),
                own: Cell::new(null_mut()),
                callers: Cell::new(null_mut()),
                body: RefCell::new(Some(body)),
                panic: Cell::new(None),
                base,
            });
            let fiber = Self { state };
            // SAFETY: the mapping was made here, and nothing is stored in it yet.
            unsafe { mprotect(base.cast::<c_void>(), GUARD, MprotectFlags::empty())? };
            // What `switch` takes from a stack, from below: the modes of floating-point numbers
            // (rounding to nearest, no traps), r15, r14, r13, r12, rbx, rbp, where to go on; then
            // two words that nobody reads, so that the stack is aligned there.
            let start: unsafe extern "sysv64" fn() = start;
            let enter: unsafe extern "sysv64" fn(*const State) -> ! = enter;
            let state = Rc::as_ptr(&fiber.state);
            let modes = 0x0000_037f_0000_1f80_u64;
            let frame: [u64; 10] = [
                modes,
                0,
                0,
                enter as usize as u64,
                state as u64,
                0,
                0,
                start as usize as u64,
                0,
                0,
            ];
            // SAFETY: the frame lies at the top of the mapping, above the guard, and is aligned to
            // 16 bytes as the mapping's end is.
            unsafe {
                let top = base.add(size - size_of_val(&frame));
                top.cast::<[u64; 10]>().write(frame);
                fiber.state.own.set(top);
            }
            Ok(fiber)
        }

        /// Runs the body from its beginning, or goes on where it was suspended. True when it has
        /// come to its end.
        ///
        /// # Panics
        /// With what the body panics with.
        pub fn run(&mut self) -> bool {
            let state = &self.state;
            assert!(state.phase.get() != Phase::Running, "a fiber is run by one caller");
            state.phase.set(Phase::Running);
            // SAFETY: `own` is where the fiber's stack ended when it was left by `switch`, or the
            // frame made for its first run; nobody else runs on it, as it was not `Running`. The
            // stack stays mapped as long as `self`, which is borrowed here.
            unsafe { switch(state.callers.as_ptr(), state.own.get()) };
            if let Some(panic) = state.panic.take() {
                resume_unwind(panic);
            }
            state.phase.get() == Phase::Idle
        }

        /// What its body suspends it with.
        pub fn suspender(&self) -> Suspender {
            Suspender { state: self.state.clone() }
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
            let offset = ((&raw const here) as usize).wrapping_sub(state.base as usize);
            let is_own = (GUARD..GUARD + STACK_SIZE).contains(&offset);
            assert!(is_own && state.phase.get() == Phase::Running, "a fiber suspends itself");
            state.phase.set(Phase::Suspended);
            // SAFETY: this runs on the fiber's stack, so the caller of `run` waits inside of it,
            // where its stack ends as `callers` says.
            unsafe { switch(state.own.as_ptr(), state.callers.get()) };
        }
    }

    impl Drop for Fiber {
        fn drop(&mut self) {
            if self.state.phase.get() != Phase::Idle {
                // What lives on the stack may be referred to from elsewhere, and was promised not
                // to go without its destructor.
                std::mem::forget(self.state.clone());
                return;
            }
            // SAFETY: the mapping was made by `new` with this size. Nothing on it is alive: the
            // body has ended, and what is left of `enter` has no destructor.
            let unmapped = unsafe { munmap(self.state.base.cast::<c_void>(), GUARD + STACK_SIZE) };
            unmapped.expect("a stack is a mapping of its own");
        }
    }

    /// The first function on a fiber's stack.
    ///
    /// # Safety
    /// The state is that of the fiber whose stack this is; it outlives all runs of the fiber.
    unsafe extern "sysv64" fn enter(state: *const State) -> ! {
        loop {
            // SAFETY: see above.
            let state = unsafe { &*state };
            // The body may drop what holds this fiber's state no more than its caller may.
            let mut body = state.body.take().expect("a fiber has its body back when it is idle");
            let ended = catch_unwind(AssertUnwindSafe(&mut body));
            state.body.replace(Some(body));
            state.panic.set(ended.err());
            state.phase.set(Phase::Idle);
            // SAFETY: as in `suspend`.
            unsafe { switch(state.own.as_ptr(), state.callers.get()) };
        }
    }

    /// Where a stack begins: calls `enter` with its state. The frame pointer is zero and nothing
    /// lies above, which is where those who walk along a stack end.
    ///
    /// # Safety
    /// It is reached by the first `switch` to a stack, and called by nobody.
    #[unsafe(naked)]
    unsafe extern "sysv64" fn start() {
        std::arch::naked_asm!("mov rdi, r12", "xor ebp, ebp", "call r13", "ud2")
    }

    /// Leaves this stack, notes in `left` where it ends, and goes on where the other one was left.
    ///
    /// # Safety
    /// `to` is where another stack was left by this function, or a frame made for it, and nobody
    /// runs on that stack.
    #[unsafe(naked)]
    unsafe extern "sysv64" fn switch(left: *mut *mut u8, to: *mut u8) {
        // What a function keeps for its caller: six registers and the modes of floating-point
        // numbers. All others the compiler takes as lost over the call.
        std::arch::naked_asm!(
            "push rbp",
            "push rbx",
            "push r12",
            "push r13",
            "push r14",
            "push r15",
            "sub rsp, 8",
            "stmxcsr [rsp]",
            "fnstcw [rsp + 4]",
            "mov [rdi], rsp",
            "mov rsp, rsi",
            "ldmxcsr [rsp]",
            "fldcw [rsp + 4]",
            "add rsp, 8",
            "pop r15",
            "pop r14",
            "pop r13",
            "pop r12",
            "pop rbx",
            "pop rbp",
            "ret",
        )
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod none {
    use std::io;

    /// There is none for this processor.
    #[derive(Debug)]
    pub struct Fiber(Suspender);

    /// Of no fiber.
    #[derive(Clone, Debug)]
    pub enum Suspender {}

    impl Fiber {
        /// # Errors
        /// Always.
        pub fn new(_body: Box<dyn FnMut()>) -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        /// Nobody has one.
        pub fn run(&mut self) -> bool {
            match self.0 {}
        }

        /// Nobody has one.
        pub fn suspender(&self) -> Suspender {
            match self.0 {}
        }
    }

    impl Suspender {
        /// Nobody has one.
        pub fn suspend(&self) {
            match *self {}
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
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
        assert_eq!(Rc::strong_count(&dropped), 2, "locals were dropped on the way");
        assert!(!fiber.run(), "it can be run again");
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
