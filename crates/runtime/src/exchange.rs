//! What the threads of a process send each other: a queue for each pair, a wake-up per batch.
//!
//! # Guarantees
//! What one thread posts to another arrives in order. A thread that is awake is not woken, one that
//! sleeps is woken once; nobody falls asleep beside mail.
//! # Not here
//! Delivery between workers of one thread, which is direct.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};

use actor::DiskReply;
use model::NodeId;
use node::Outgoing;
use rustix::event::{EventfdFlags, eventfd};

use crate::link::{Arrival, LinkNews};
use crate::listener::Accepted;
use crate::observer::ThreadReport;

/// Something for a thread.
#[derive(Debug)]
pub(crate) enum Mail {
    /// A message to one of its workers.
    Message(Outgoing),
    /// A message that another thread has got over a link.
    Arrival(Arrival),
    /// Something about links.
    Link(LinkNews),
    /// The nodes of the process are to leave the cluster in good order.
    Leave,
    /// A node has ended.
    NodeDown(NodeId),
    /// The disk's answer to a node's worker.
    Disk(NodeId, DiskReply),
    /// A client has connected.
    Connection(Accepted),
    /// Somebody asks how it goes, and waits for the answer.
    Figures(Sender<ThreadReport>),
    /// The next thread lends its state.
    Guest,
    /// Something that all threads share has changed.
    LookAround,
}

/// The mailboxes of all threads.
#[derive(Debug)]
pub(crate) struct Exchange {
    mailboxes: Vec<Mailbox>,
}

#[derive(Debug)]
struct Mailbox {
    /// One per thread, and the last for what comes from outside.
    slots: Vec<Slot>,
    /// The owner sleeps, or is about to.
    asleep: AtomicBool,
    wake: OwnedFd,
}

#[derive(Debug, Default)]
struct Slot {
    full: AtomicBool,
    mail: Mutex<Vec<Mail>>,
}

impl Slot {
    fn mail(&self) -> MutexGuard<'_, Vec<Mail>> {
        // A thread that panicked ends the process soon; until then its mail is still whole.
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Exchange {
    /// Mailboxes for so many threads.
    pub(crate) fn new(threads: usize) -> io::Result<Self> {
        let mailbox = |_| {
            Ok(Mailbox {
                slots: (0..=threads).map(|_| Slot::default()).collect(),
                asleep: AtomicBool::new(false),
                wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            })
        };
        Ok(Self { mailboxes: (0..threads).map(mailbox).collect::<io::Result<_>>()? })
    }

    /// Number of threads.
    pub(crate) fn len(&self) -> usize {
        self.mailboxes.len()
    }

    /// Moves all of `batch` from a thread to another; `from` is [`Exchange::len`] for what is not
    /// sent in the name of a worker.
    pub(crate) fn post(&self, from: usize, to: usize, batch: &mut Vec<Mail>) {
        if batch.is_empty() {
            return;
        }
        let mailbox = &self.mailboxes[to];
        let slot = &mailbox.slots[from];
        let mut mail = slot.mail();
        if mail.is_empty() {
            std::mem::swap(&mut *mail, batch);
        } else {
            mail.append(batch);
        }
        drop(mail);
        // Sequentially consistent together with `doze`: either it sees the mail, or we its sleep.
        slot.full.store(true, Ordering::SeqCst);
        if mailbox.asleep.swap(false, Ordering::SeqCst) {
            // The counter cannot overflow: it is added to once per sleep.
            let _ = rustix::io::write(&mailbox.wake, &1u64.to_ne_bytes());
        }
    }

    /// Posts one thing to a thread from outside.
    pub(crate) fn post_from_outside(&self, to: usize, mail: Mail) {
        self.post(self.len(), to, &mut vec![mail]);
    }

    /// Lets all threads look at what they share.
    pub(crate) fn wake_all(&self) {
        for thread in 0..self.len() {
            self.post_from_outside(thread, Mail::LookAround);
        }
    }

    /// Has a thread take a turn, if it sleeps.
    pub(crate) fn wake(&self, thread: usize) {
        self.post_from_outside(thread, Mail::LookAround);
    }

    /// Whether there is mail for a thread.
    pub(crate) fn has_mail(&self, thread: usize) -> bool {
        self.mailboxes[thread].slots.iter().any(|slot| slot.full.load(Ordering::SeqCst))
    }

    /// Announces that a thread is going to sleep; false if it must not, because there is mail.
    pub(crate) fn doze(&self, thread: usize) -> bool {
        let mailbox = &self.mailboxes[thread];
        mailbox.asleep.store(true, Ordering::SeqCst);
        let mail = self.has_mail(thread);
        if mail {
            mailbox.asleep.store(false, Ordering::SeqCst);
        }
        !mail
    }

    /// The thread is awake again.
    pub(crate) fn rise(&self, thread: usize) {
        self.mailboxes[thread].asleep.store(false, Ordering::SeqCst);
    }

    /// What becomes readable when the thread is woken.
    pub(crate) fn waker(&self, thread: usize) -> BorrowedFd<'_> {
        self.mailboxes[thread].wake.as_fd()
    }

    /// Notes that the thread has been woken.
    pub(crate) fn woken(&self, thread: usize) {
        let _ = rustix::io::read(&self.mailboxes[thread].wake, &mut [0u8; 8]);
    }

    /// Takes the mail of a thread, sender by sender, into `mail`; whether there was any.
    pub(crate) fn collect(&self, thread: usize, mail: &mut Vec<Mail>) -> bool {
        let before = mail.len();
        for slot in &self.mailboxes[thread].slots {
            if slot.full.load(Ordering::SeqCst) {
                slot.full.store(false, Ordering::SeqCst);
                mail.append(&mut slot.mail());
            }
        }
        mail.len() > before
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn numbers(mail: &[Mail]) -> Vec<u16> {
        let number = |mail: &Mail| match mail {
            Mail::NodeDown(node) => node.0,
            other => panic!("{other:?}"),
        };
        mail.iter().map(number).collect()
    }

    #[test]
    fn mail_is_in_order_and_keeps_awake() {
        let exchange = Exchange::new(2).unwrap();
        assert!(exchange.doze(1));
        for number in [1, 2, 3] {
            exchange.post(0, 1, &mut vec![Mail::NodeDown(NodeId(number))]);
        }
        assert!(!exchange.doze(1));
        let mut mail = Vec::new();
        assert!(exchange.collect(1, &mut mail) && !exchange.collect(1, &mut mail));
        assert_eq!(numbers(&mail), [1, 2, 3]);
        assert!(exchange.doze(1));
    }

    #[test]
    fn nobody_sleeps_beside_mail() {
        let exchange = Exchange::new(2).unwrap();
        const COUNT: u16 = 20_000;
        thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..COUNT {
                    exchange.post(0, 1, &mut vec![Mail::NodeDown(NodeId(number))]);
                }
            });
            let mut poller = crate::poller::Poller::new().unwrap();
            let read = crate::poller::Interest { read: true, write: false };
            poller.add(exchange.waker(1), 0, read).unwrap();
            let mut mail = Vec::new();
            while mail.len() < usize::from(COUNT) {
                if exchange.doze(1) {
                    // Without an end: a lost wake-up would hang the test.
                    poller.wait(None).unwrap();
                    exchange.rise(1);
                    exchange.woken(1);
                }
                exchange.collect(1, &mut mail);
            }
            assert_eq!(numbers(&mail), (0..COUNT).collect::<Vec<u16>>());
        });
    }
}
