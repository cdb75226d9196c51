//! Has the system close the sockets of a process that is killed before it takes its memory back.
//!
//! The system ends a process by giving back its memory first and its files and sockets next. The
//! memory of a data node takes long: 0.1 s for 500 MB in small pages, some seconds for 100 GB. So
//! long its peers see nothing but silence. Memory that another process uses too is not given back.
//!
//! # Owns
//! A second process that shares the memory of this one and has nothing else: no files, no signals.
//! It sleeps, and the system kills it when this one has ended.
//! # Failure
//! Without it everything works, and the end of the process is noticed later.
#![expect(unsafe_code, reason = "a process that shares the memory of this one")]

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

use libc::{c_int, c_long, c_void};

/// The second process; 0 for none.
static HOLDER: AtomicI32 = AtomicI32::new(0);

/// Has the sockets and files of this process closed at once when it is killed or crashes. To be
/// called by the thread that lives as long as the process, once.
///
/// # Errors
/// The system is too old (Linux 5.9), or refuses a process.
pub fn close_sockets_first() -> io::Result<()> {
    // The holder could not report it: an error is written to memory of this thread.
    // SAFETY: no descriptor is in this range.
    check(unsafe { libc::syscall(libc::SYS_close_range, NO_FILE, NO_FILE, 0) })?;
    let stack: &'static mut [MaybeUninit<u128>] =
        Box::leak(Box::<[u128]>::new_uninit_slice(STACK_SIZE / size_of::<u128>()));
    // SAFETY: the sets are filled in before they are read. The stack is never given back, and the
    // function does not return. It inherits that all signals are blocked: a handler of this
    // process never runs in it.
    let holder = unsafe {
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        let top = stack.as_mut_ptr_range().end.cast::<c_void>();
        let parent = ptr::without_provenance_mut(libc::getpid() as usize);
        // No signal tells of its end.
        let holder = libc::clone(hold, top, libc::CLONE_VM, parent);
        let error = io::Error::last_os_error();
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
        if holder < 0 { Err(error) } else { Ok(holder) }
    }?;
    HOLDER.store(holder, Ordering::SeqCst);
    Ok(())
}

/// Ends the second process, if there is one: before this one becomes another program, whose memory
/// is not that of the present one.
pub fn let_memory_go() {
    let holder = HOLDER.swap(0, Ordering::SeqCst);
    if holder > 0 {
        // SAFETY: a child that nobody else waits for, so the number is still its.
        unsafe {
            libc::kill(holder, libc::SIGKILL);
            libc::waitpid(holder, ptr::null_mut(), libc::__WALL);
        }
    }
}

/// What the second process does. It shares the memory of the first, with what belongs to the thread
/// that made it: so it calls nothing but the system, and only what cannot fail.
extern "C" fn hold(parent: *mut c_void) -> c_int {
    // SAFETY: none of these calls is given memory but a name that is always there.
    unsafe {
        libc::syscall(libc::SYS_prctl, libc::PR_SET_NAME, NAME.as_ptr());
        libc::syscall(libc::SYS_prctl, libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::syscall(libc::SYS_close_range, 0, NO_FILE, 0);
        // It may have ended before its end was asked for.
        while libc::syscall(libc::SYS_getppid) == parent.addr() as c_long {
            let nothing = ptr::null::<c_void>();
            libc::syscall(libc::SYS_ppoll, nothing, 0, nothing, nothing, 0);
        }
        libc::syscall(libc::SYS_exit, 0);
    }
    0
}

fn check(result: c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The second process in lists of processes.
const NAME: &std::ffi::CStr = c"memory-holder";
/// Above all descriptors.
const NO_FILE: u32 = u32::MAX;
/// The second process calls the system and nothing else.
const STACK_SIZE: usize = 64 << 10;
