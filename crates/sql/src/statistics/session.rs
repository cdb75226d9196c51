//! What a session learns of tables before it plans a statement.

use std::sync::Arc;

use model::{Table, TableId};
use sql_parser::ast::Query;

use super::{Sizes, joins, sample, store};
use crate::session::Session;

impl Session {
    /// Has the sizes of tables counted anew if a query has several and the counts at hand are old.
    /// Without an answer the query is planned by keys and conditions alone.
    pub(crate) async fn refresh_statistics(&self, query: &Query) {
        if joins(&query.body) {
            self.refresh_sizes().await;
        }
    }

    /// Has the sizes of tables counted, if nobody has asked for them, or not for a while. True if
    /// more is known than before.
    pub(crate) async fn learn_sizes(&self, tables: impl IntoIterator<Item = TableId>) -> bool {
        self.refresh_sizes().await;
        let unasked = self.shared.statistics.unasked(tables);
        !unasked.is_empty() && self.count_rows(unasked).await
    }

    /// Has those counted anew that somebody wanted to know about, if the counts at hand are old.
    async fn refresh_sizes(&self) {
        let statistics = &self.shared.statistics;
        if statistics.is_old(self.kernel.now()) {
            statistics.asked_at.set(Some(self.kernel.now()));
            self.count_rows(statistics.take_used()).await;
        }
    }

    /// Has the rows of these tables counted. True if more is known than before.
    pub(crate) async fn count_rows(&self, wanted: Vec<TableId>) -> bool {
        let cluster = self.kernel.cluster();
        let tables: Vec<Arc<Table>> =
            wanted.iter().filter_map(|table| cluster.tables.get(table)).cloned().collect();
        let statistics = &self.shared.statistics;
        for table in &wanted {
            let mut counts = statistics.counts.borrow_mut();
            let count = counts.entry(*table).or_default();
            (count.asked, count.used) = (true, true);
        }
        let sizes = Sizes::of(&self.kernel, Some(&tables)).await;
        for table in &wanted {
            let rows = sizes.rows(*table);
            let mut counts = statistics.counts.borrow_mut();
            if let Some(count) = counts.get_mut(table).filter(|_| rows.is_some()) {
                count.rows = rows;
            }
        }
        self.learn_values(&tables).await;
        !sizes.0.is_empty()
    }

    /// Reads what the cluster knows of the values of tables. Without an answer what was known
    /// stays.
    async fn learn_values(&self, tables: &[Arc<Table>]) {
        let statistics = &self.shared.statistics;
        let ids: Vec<TableId> = tables.iter().map(|table| table.id).collect();
        let Ok(values) = store::read(&self.kernel, &ids).await else { return };
        for (table, values) in tables.iter().zip(values) {
            statistics.set_values(table, values);
            let may = self.variables.auto_statistics && !self.is_temporary(table.id);
            if may && self.kernel.protocol() >= sample::SINCE {
                statistics.want_values(table.id);
            }
        }
    }
}
