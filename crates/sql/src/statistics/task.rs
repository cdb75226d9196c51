//! Finding out how values are distributed without being asked: a task beside the connections of a
//! worker, which runs while there are tables to be sampled.
//!
//! # Guarantees
//! One table after the other, carefully (`sample`). Whoever plans does not wait for it. Where
//! several workers want the same table sampled, mostly one of them does it: each waits for a while
//! that it draws, and looks whether another has been there. If two do it at the same time, what the
//! second one has found stays.
//! # Failure
//! A table that cannot be sampled now is wanted again when its size is looked at the next time.

use std::rc::Rc;
use std::sync::Arc;

use model::{Table, TableId};
use stdx::Duration;

use super::{has_changed, sample, store};
use crate::kernel::{Failure, Kernel};
use crate::session::Shared;

/// The longest while before a table is sampled.
const DELAY_MAX: Duration = Duration::from_secs(2);

/// Samples the tables that are wanted, until there are none. `clock_base` is what the worker's
/// clock counts from, in microseconds since 1970.
pub(crate) async fn run(kernel: Kernel, shared: Rc<Shared>, clock_base: i64) {
    while let Some(table) = shared.statistics.next_wanted() {
        let delay = Duration::from_nanos(kernel.draw() % DELAY_MAX.as_nanos());
        // It ends with the process, whatever is under way.
        let slept = kernel.sleep(delay).await;
        let table = kernel.cluster().tables.get(&table).cloned();
        if let (Ok(()), Some(table)) = (slept, table) {
            let _ = one(&kernel, &shared, &table, clock_base).await;
        }
    }
}

async fn one(
    kernel: &Kernel,
    shared: &Shared,
    table: &Arc<Table>,
    clock_base: i64,
) -> Result<(), Failure> {
    let known = store::read(kernel, &[table.id]).await?.pop().flatten();
    let rows = shared.statistics.rows(table.id);
    if let (Some(known), Some(rows)) = (&known, rows)
        && !has_changed(known.rows, rows)
    {
        shared.statistics.set_values(table, Some(known.clone()));
        return Ok(());
    }
    let Ok(definition) = shared.definitions.of(table) else { return Ok(()) };
    let asked = |column| {
        let columns = known.as_ref().map_or(&[][..], |known| &known.columns[..]);
        columns.iter().find(|of| of.column == column)?.asked
    };
    let now = clock_base.max(0) as u64 + kernel.now().as_nanos() / 1_000;
    let values = sample::analyze(kernel, &definition, &asked, (now, true)).await?;
    store::put(kernel, table.id, &values).await?;
    shared.statistics.set_values(table, Some(values));
    Ok(())
}

impl super::Statistics {
    /// A table whose values are to be found out; it is not wanted any more then.
    fn next_wanted(&self) -> Option<TableId> {
        self.wanted.borrow_mut().pop_first()
    }
}
