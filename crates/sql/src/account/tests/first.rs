//! The password that the cluster makes for `root`.

use std::sync::{Arc, Mutex};

use crate::account::first::secure;
use crate::account::own_password::{OwnPassword, PasswordFile};
use crate::account::{AccountName, password};
use crate::admission::ClientHost;
use crate::catalog::harness::Harness;

/// Files in memory.
#[derive(Debug, Default)]
struct Files {
    pending: Mutex<Option<String>>,
    published: Mutex<Option<String>>,
    /// What failed, and how often it is to fail.
    complaints: Mutex<Vec<String>>,
    failures: Mutex<usize>,
    /// What was published when nothing was left to be done.
    settled: Mutex<Option<Option<String>>>,
}

impl Files {
    fn fail(&self) -> Result<(), String> {
        let mut failures = self.failures.lock().unwrap();
        let fails = *failures > 0;
        *failures -= usize::from(fails);
        if fails { Err("the disk is full".to_owned()) } else { Ok(()) }
    }
}

impl PasswordFile for Files {
    fn pending(&self) -> Option<String> {
        self.pending.lock().unwrap().clone()
    }

    fn published(&self) -> Option<String> {
        self.published.lock().unwrap().clone()
    }

    fn keep(&self, password: &str) -> Result<(), String> {
        self.fail()?;
        *self.pending.lock().unwrap() = Some(password.to_owned());
        Ok(())
    }

    fn publish(&self) -> Result<(), String> {
        self.fail()?;
        *self.published.lock().unwrap() = self.pending.lock().unwrap().take();
        Ok(())
    }

    fn discard(&self) {
        *self.pending.lock().unwrap() = None;
    }

    fn complain(&self, why: &str) {
        self.complaints.lock().unwrap().push(why.to_owned());
    }

    fn settle(&self) {
        *self.settled.lock().unwrap() = Some(self.published());
    }
}

fn secured(harness: &mut Harness, files: &Arc<Files>, renews: bool, seed: fn() -> Option<u64>) {
    let own = OwnPassword { file: files.clone(), renews, entropy: seed };
    harness.wait(async |session| {
        secure(session.kernel.clone(), session.shared.clone(), own, 0).await;
    });
}

/// Whether `root` proves itself by a password.
fn is_root(harness: &Harness, text: Option<&str>) -> bool {
    let book = harness.session.shared.accounts.book(&harness.session.kernel);
    let root = book.find(&AccountName::root()).unwrap().expect("root is there");
    password::fits(&root.authentication, text.unwrap_or_default().as_bytes())
}

#[test]
fn a_cluster_makes_one_password_whoever_is_first() {
    let (mut one, mut other) = (Harness::new(), Harness::new());
    let (first, second) = (Arc::new(Files::default()), Arc::new(Files::default()));
    assert!(is_root(&one, None));
    secured(&mut one, &first, false, || Some(1));
    let made = first.published().expect("it is shown");
    assert_eq!(first.settled.lock().unwrap().take(), Some(Some(made.clone())));
    assert!(made.len() == 24 && is_root(&one, Some(&made)) && !is_root(&one, None));
    one.said("CREATE USER u");
    // The other one asks when the first change has been made and it has not heard of that.
    other.world.overtaken = Some(one.world.state.clone());
    secured(&mut other, &second, false, || Some(2));
    assert_eq!((second.pending(), second.published()), (None, None));
    assert!(is_root(&other, Some(&made)));
    // Nobody who starts later makes another.
    let before = one.world.changes.len();
    secured(&mut one, &second, false, || Some(3));
    assert_eq!((second.published(), one.world.changes.len()), (None, before));
}

#[test]
fn a_process_that_was_killed_finishes_what_it_began() {
    let mut harness = Harness::new();
    let files = Arc::new(Files::default());
    // It was killed before the change.
    files.keep("of no account").unwrap();
    secured(&mut harness, &files, false, || Some(1));
    let made = files.published().expect("it is shown");
    assert!(is_root(&harness, Some(&made)));
    // And another time after the change, and before it was shown.
    *files.pending.lock().unwrap() = files.published.lock().unwrap().take();
    secured(&mut harness, &files, false, || Some(2));
    assert_eq!((files.pending(), files.published()), (None, Some(made)));
}

#[test]
fn without_a_file_there_is_no_password() {
    let mut harness = Harness::new();
    let files = Arc::new(Files::default());
    *files.failures.lock().unwrap() = 3;
    let changes = harness.world.changes.len();
    secured(&mut harness, &files, false, || Some(1));
    assert_eq!(*files.complaints.lock().unwrap(), ["the disk is full"]);
    assert_eq!(harness.world.changes.len(), changes + 1);
    assert!(is_root(&harness, files.published().as_deref()));
}

#[test]
fn a_forgotten_password_is_made_anew_once() {
    let mut harness = Harness::new();
    let files = Arc::new(Files::default());
    secured(&mut harness, &files, false, || Some(1));
    let first = files.published();
    for sql in [
        "ALTER USER root@localhost ACCOUNT LOCK COMMENT 'mine'",
        "ALTER USER root@localhost IDENTIFIED BY 'forgotten' REQUIRE X509",
        "REVOKE SELECT, CREATE USER ON *.* FROM root@localhost",
    ] {
        harness.said(sql);
    }
    secured(&mut harness, &files, true, || Some(2));
    let second = files.published();
    assert!(first != second && is_root(&harness, second.as_deref()));
    harness.log_in("root", "localhost");
    harness.said("CREATE USER u");
    let shown = {
        let session = &harness.session;
        let book = session.shared.accounts.book(&session.kernel);
        let root = book.find(&AccountName::root()).unwrap().unwrap();
        crate::account::show::create_user(&AccountName::root(), &root, false)
    };
    assert!(shown.contains("ACCOUNT UNLOCK") && shown.contains("mine"), "{shown}");
    assert!(shown.contains("REQUIRE NONE"), "{shown}");
    // The same process started again with the same options.
    secured(&mut harness, &files, true, || Some(3));
    assert_eq!(files.published(), second);
    // Where root was dropped it comes back.
    harness.said("DROP USER root@localhost");
    secured(&mut harness, &files, true, || Some(4));
    assert!(files.published() != second && is_root(&harness, files.published().as_deref()));
}

#[test]
fn nobody_is_let_in_before_root_has_a_password() {
    let harness = Harness::new();
    let book = |guarded: bool| {
        let records = crate::account::book::Records::new(guarded);
        let from = ClientHost::named("localhost");
        records.book(&harness.session.kernel).who("root", &from).unwrap().is_some()
    };
    assert_eq!((book(false), book(true)), (true, false));
}
