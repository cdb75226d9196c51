//! The first password of `root`, and a new one when it is forgotten.
//!
//! Without this, `root` has no password as long as nobody has changed accounts. With it nobody logs
//! in before then, and the cluster makes that first change itself: a random password, which the
//! host writes to a file before the accounts know it.
//!
//! # Owns
//! [`secure`], a task of its own beside the connections' tasks.
//! # Guarantees
//! A cluster makes one first password, however many SQL nodes start: the change is accepted for
//! accounts that nobody has changed, and by the first who asks. A password that `root` may have is
//! in a file at every moment, also when the process is killed between two steps.
//! # Failure
//! As long as the file cannot be written `root` gets no password, and nobody logs in; the task goes
//! on trying.
//! # Not here
//! The file's interface (`own_password`); where the file is, and who may read it: the host.

use std::collections::BTreeMap;
use std::rc::Rc;

use mysql_wire::auth::Plugin;
use stdx::{Duration, Prng};

use super::own_password::OwnPassword;
use super::record::{Record, Requirement};
use super::{AccountName, fresh, password};
use crate::kernel::Kernel;
use crate::session::Shared;

/// Characters of a password that is made here.
const LENGTH: usize = 24;
/// How long to wait before the cluster, or the file, is tried again.
const PAUSE: Duration = Duration::from_millis(100);

/// Gives `root` a password, if that is to be done. Ends when it is done, by whomever. `clock_base`
/// is microseconds since 1970 when the worker's clock stood at zero.
pub(crate) async fn secure(kernel: Kernel, shared: Rc<Shared>, own: OwnPassword, clock_base: i64) {
    kernel.share_heard(&shared.heard);
    let task = Task { kernel, shared, own, clock_base };
    let mut has_complained = false;
    loop {
        match task.attempt().await {
            Ok(true) => return task.own.file.settle(),
            Ok(false) => {}
            Err(why) => {
                if !has_complained {
                    task.own.file.complain(&why);
                }
                has_complained = true;
            }
        }
        let _ = task.kernel.sleep(PAUSE).await;
    }
}

struct Task {
    kernel: Kernel,
    shared: Rc<Shared>,
    own: OwnPassword,
    clock_base: i64,
}

impl Task {
    /// One look at the accounts, and one change; whether all is done.
    async fn attempt(&self) -> Result<bool, String> {
        if fresh::hear(&self.kernel).await.is_err() {
            // There is no cluster yet.
            return Ok(false);
        }
        let (root, file) = (AccountName::root(), &self.own.file);
        let book = self.shared.accounts.book(&self.kernel);
        let found = book.find(&root).map_err(|error| error.message().to_owned())?;
        if !book.is_new() {
            let has = |text: &String| {
                let fits =
                    |root: &Rc<Record>| password::fits(&root.authentication, text.as_bytes());
                found.as_ref().is_some_and(fits)
            };
            match file.pending() {
                Some(text) if has(&text) => {
                    // Before anybody is told, nobody is let in by what was before.
                    let _ = fresh::outlast(&self.kernel).await;
                    file.publish()?;
                    return Ok(true);
                }
                Some(_) => file.discard(),
                None => {}
            }
            // A process that starts again with the same options has done it already.
            if !self.own.renews || file.published().as_ref().is_some_and(has) {
                return Ok(true);
            }
        }
        let seed = (self.own.entropy)().ok_or("the system gives no random bytes")?;
        let mut prng = Prng::new(seed);
        let text = password::random(LENGTH, &mut prng);
        file.keep(&text)?;
        let before = found.filter(|_| !book.is_new());
        let record = self.record(before.as_deref(), &text, &mut prng);
        let command = book.command(BTreeMap::from([(root, Some(record))]));
        // Whether it was accepted is seen in the accounts: somebody else may have been first, and
        // an answer may be lost.
        let _ = self.kernel.beside().change_schema(command).await;
        Ok(false)
    }

    /// The account with all privileges and this password, with what else it had before.
    fn record(&self, before: Option<&Record>, text: &str, prng: &mut Prng) -> Record {
        let Record { plugin, global, dynamic, .. } = Record::of_root();
        let mut record = before.cloned().unwrap_or_default();
        (record.plugin, record.global, record.dynamic) = (plugin, global, dynamic);
        record.restrictions.clear();
        record.require = Requirement::None;
        record.authentication = password::stored(Plugin::CachingSha2, text.as_bytes(), prng);
        (record.secondary, record.locked, record.expired) = (None, false, false);
        let now = self.clock_base + (self.kernel.now().as_nanos() / 1_000) as i64;
        record.changed = now / 1_000_000;
        record.forgiven = now.max(record.forgiven + 1);
        record
    }
}
