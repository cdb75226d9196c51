//! Signals that end the process: SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT. What led to them is
//! kept as after a panic.
//!
//! # Owns
//! The process's handlers of these signals, and the thread that writes traces for them.
//! # Guarantees
//! 1. The handler does what a handler may: it stores numbers, writes a byte to a pipe and sleeps.
//!    Everything else is done by a thread of its own, which was there before.
//! 2. All other threads leave their recorders and take no further step. The one that was hit stands
//!    still in its handler, so that its recorders can be read where they are.
//! 3. The process ends by the signal all the same, and soon: whoever starts it sees how it ended,
//!    and the system may keep a core.
//! # Failure
//! If the memory that a trace is made from is damaged, the rest of it is missing.
//! # Not here
//! SIGKILL, and the end of a process for want of memory: nobody hears of those.
#![expect(unsafe_code, reason = "handlers of signals, and memory of a thread that stands still")]

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread;

use libc::{c_int, c_void, siginfo_t};

use crate::cluster::Common;
use crate::thread::Thread;

/// The signals and their names.
const SIGNALS: [(c_int, &str); 5] = [
    (libc::SIGSEGV, "SIGSEGV"),
    (libc::SIGBUS, "SIGBUS"),
    (libc::SIGILL, "SIGILL"),
    (libc::SIGFPE, "SIGFPE"),
    (libc::SIGABRT, "SIGABRT"),
];

/// The signal that has come; 0 for none.
static SIGNAL: AtomicI32 = AtomicI32::new(0);
/// The state of the worker thread that was hit, if it was one.
static HIT: AtomicPtr<Thread> = AtomicPtr::new(ptr::null_mut());
/// The traces are written.
static WRITTEN: AtomicBool = AtomicBool::new(false);
/// Where the handler wakes the thread that writes.
static PIPE: AtomicI32 = AtomicI32::new(-1);
/// What handled the signals before.
static BEFORE: OnceLock<[libc::sigaction; SIGNALS.len()]> = OnceLock::new();
/// The clusters of this process.
static CLUSTERS: Mutex<Vec<Weak<Common>>> = Mutex::new(Vec::new());

thread_local! {
    /// The state that this thread runs.
    static RUNS: Cell<*mut Thread> = const { Cell::new(ptr::null_mut()) };
}

/// Notes which state this thread runs from now on, for as long as it stays where it is.
pub(crate) fn thread_runs(state: *mut Thread) {
    RUNS.set(state);
}

/// Has traces written for a cluster when the process ends by a signal.
pub(crate) fn watch(common: &Arc<Common>) {
    let mut clusters = CLUSTERS.lock().unwrap_or_else(PoisonError::into_inner);
    clusters.retain(|other| other.strong_count() > 0);
    clusters.push(Arc::downgrade(common));
}

/// Has traces of the process's clusters written if it ends by a signal; `tell` is given the line
/// that says so. To be called once, before there are threads with a state.
///
/// # Errors
/// The system refuses a pipe, a thread or a handler.
pub fn keep_traces_of_signals(tell: fn(&str)) -> io::Result<()> {
    let (read, write) = io::pipe()?;
    let read = File::from(OwnedFd::from(read));
    PIPE.store(OwnedFd::from(write).into_raw_fd(), Ordering::SeqCst);
    thread::Builder::new()
        .name("signal-traces".into())
        .spawn(move || write_when_told(read, tell))?;
    let mut before = [const { MaybeUninit::<libc::sigaction>::zeroed() }; SIGNALS.len()];
    for ((signal, _), before) in SIGNALS.iter().zip(&mut before) {
        // SAFETY: both point to memory of the right type; all zeroes are a valid `sigaction`, which
        // is filled in then; the handler has the signature that SA_SIGINFO asks for.
        let result = unsafe {
            let mut action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
            action.sa_sigaction = handler as *const () as usize;
            // A stack that is used up takes no frame of a handler: threads have another for that.
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigemptyset(&raw mut action.sa_mask);
            libc::sigaction(*signal, &raw const action, before.as_mut_ptr())
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    // SAFETY: zeroed at first, and filled in by the calls above.
    let before = before.map(|before| unsafe { before.assume_init() });
    let _ = BEFORE.set(before);
    Ok(())
}

/// Takes a signal: waits until the traces are written, and leaves the rest to whoever took faults
/// before, or to the system.
extern "C" fn handler(signal: c_int, info: *mut siginfo_t, _: *mut c_void) {
    let first = SIGNAL.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst).is_ok();
    if first {
        // A constant without a destructor: no more than a read from this thread's memory.
        HIT.store(RUNS.get(), Ordering::SeqCst);
        let pipe = PIPE.load(Ordering::SeqCst);
        // SAFETY: one byte of a constant, to a pipe that is never closed.
        unsafe { libc::write(pipe, ptr::from_ref(b"!").cast(), 1) };
    }
    let nap = libc::timespec { tv_sec: 0, tv_nsec: NAP_NANOS };
    for _ in 0..NAPS_MAX {
        if WRITTEN.load(Ordering::SeqCst) {
            break;
        }
        // SAFETY: points to a valid time; what is left of it is of no interest.
        unsafe { libc::nanosleep(&raw const nap, ptr::null_mut()) };
    }
    // SAFETY: `info` is what the system gives a handler with SA_SIGINFO; the actions are those it
    // has told; `raise` may be called by handlers.
    unsafe {
        let at = SIGNALS.iter().position(|(known, _)| *known == signal);
        let before = at.and_then(|at| Some(&raw const BEFORE.get()?[at]));
        // A fault happens again when the handler returns. What somebody has sent, this process by
        // `abort` among them, does not, and who waits for faults would let it pass.
        match before.filter(|_| (*info).si_code > 0) {
            Some(before) => {
                libc::sigaction(signal, before, ptr::null_mut());
            }
            None => {
                libc::signal(signal, libc::SIG_DFL);
                libc::raise(signal);
            }
        }
    }
}

/// The thread that writes.
fn write_when_told(mut pipe: File, tell: fn(&str)) {
    let mut byte = [0; 1];
    while let Err(error) = pipe.read_exact(&mut byte) {
        if error.kind() != io::ErrorKind::Interrupted {
            return;
        }
    }
    let signal = SIGNAL.load(Ordering::SeqCst);
    let name =
        SIGNALS.iter().find(|(known, _)| *known == signal).map_or("a signal", |known| known.1);
    let clusters: Vec<Arc<Common>> = CLUSTERS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .iter()
        .filter_map(Weak::upgrade)
        .collect();
    for common in &clusters {
        let hit = HIT.load(Ordering::SeqCst);
        // SAFETY: the thread that runs this state stands still in its handler until `WRITTEN` is
        // set, and its state does not move meanwhile. It may be damaged, which a process that ends
        // anyway can bear.
        let hit = unsafe { hit.as_ref() };
        match common.end_by_signal(name, hit) {
            Ok(traces) => {
                let traces: Vec<String> =
                    traces.iter().map(|path| path.display().to_string()).collect();
                tell(&format!(
                    "{name} ends this process; what led to it is in {}",
                    traces.join(", ")
                ));
            }
            Err(error) => tell(&format!("{name} ends this process, and no trace written: {error}")),
        }
    }
    WRITTEN.store(true, Ordering::SeqCst);
}

/// How long the handler sleeps at a time, and how often: longer than threads have to leave their
/// recorders.
const NAP_NANOS: libc::c_long = 10_000_000;
const NAPS_MAX: u32 = 400;
