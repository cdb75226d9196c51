//! Queries.

use super::Printer;
use crate::ast::{
    Expr, FileFormat, FrameBound, FrameExclusion, FrameOffset, FrameUnit, IndexHint, IndexHintKind,
    IndexHintScope, IntoTarget, IntoVariable, Join, JoinCondition, JoinKind, JsonTable,
    JsonTableColumn, JsonTableResponse, JsonTableValue, Limit, LockStrength, LockWait, Locking,
    OrderItem, Query, QueryBody, Select, SelectItem, SetOp, SetOperation, TableFactor,
    TableReference, WindowFrame, WindowSpec, With,
};

impl Printer<'_> {
    pub(super) fn query(&mut self, query: &Query) {
        if let Some(with) = &query.with {
            self.with(with);
            self.put(" ");
        }
        self.query_body(&query.body);
        self.order_by(&query.order_by);
        self.limit(query.limit.as_ref());
        for locking in &query.locking {
            self.locking(locking);
        }
        if let Some(into) = &query.into {
            self.target(into);
        }
    }

    pub(super) fn with(&mut self, with: &With) {
        self.put(if with.recursive { "with recursive " } else { "with " });
        self.list(&with.tables, ",", |printer, table| {
            printer.ident(&table.name);
            printer.optional_ident_list(" ", &table.columns);
            printer.put(" as (");
            printer.query(&table.query);
            printer.put(")");
        });
    }

    fn query_body(&mut self, body: &QueryBody) {
        match body {
            QueryBody::Select(select) => self.select(select),
            QueryBody::SetOperation(operation) => self.set_operation(operation),
            QueryBody::Values(rows) => {
                self.put("values ");
                self.list(rows, ",", |printer, row| {
                    printer.put("row(");
                    printer.exprs(row);
                    printer.put(")");
                });
            }
            QueryBody::Table(name) => {
                self.put("table ");
                self.object_name(name);
            }
            QueryBody::Nested(query) => {
                self.put("(");
                self.query(query);
                self.put(")");
            }
        }
    }

    fn set_operation(&mut self, operation: &SetOperation) {
        self.query_body(&operation.first);
        for operand in &operation.rest {
            self.put(match operand.op {
                SetOp::Union => " union ",
                SetOp::Except => " except ",
                SetOp::Intersect => " intersect ",
            });
            self.put_if(operand.all, "all ");
            self.query_body(&operand.body);
        }
    }

    fn select(&mut self, select: &Select) {
        self.put("select");
        self.hints(select.hints.as_deref());
        self.put_if(select.distinct, " distinct");
        self.put_if(select.options.high_priority, " high_priority");
        self.put_if(select.options.straight_join, " straight_join");
        self.put_if(select.options.small_result, " sql_small_result");
        self.put_if(select.options.big_result, " sql_big_result");
        self.put_if(select.options.buffer_result, " sql_buffer_result");
        self.put_if(select.options.no_cache, " sql_no_cache");
        self.put_if(select.options.calc_found_rows, " sql_calc_found_rows");
        self.put(" ");
        self.list(&select.items, ",", Self::select_item);
        if !select.from.is_empty() {
            self.put(" from ");
            self.list(&select.from, ",", Self::table_reference);
        } else if select.filter.is_some() {
            self.put(" from dual");
        }
        self.clause(" where ", select.filter.as_ref());
        if !select.group_by.is_empty() {
            self.put(" group by ");
            self.exprs(&select.group_by);
            self.put_if(select.rollup, " with rollup");
        }
        self.clause(" having ", select.having.as_ref());
        if !select.windows.is_empty() {
            self.put(" window ");
            self.list(&select.windows, ",", |printer, window| {
                printer.ident(&window.name);
                printer.put(" as ");
                printer.window_spec(&window.spec);
            });
        }
    }

    pub(super) fn clause(&mut self, word: &str, expr: Option<&Expr>) {
        if let Some(expr) = expr {
            self.put(word);
            self.expr(expr);
        }
    }

    fn select_item(&mut self, item: &SelectItem) {
        match item {
            SelectItem::Wildcard => self.put("*"),
            SelectItem::QualifiedWildcard(table) => {
                self.object_name(table);
                self.put(".*");
            }
            SelectItem::Expr { expr, alias, .. } => {
                self.expr(expr);
                match alias {
                    // An empty alias has no quotes but a string's.
                    Some(alias) if alias.as_str().is_empty() => self.put(" AS ''"),
                    Some(alias) => {
                        self.put(" AS ");
                        self.ident(alias);
                    }
                    None => {}
                }
            }
        }
    }

    pub(super) fn table_reference(&mut self, table: &TableReference) {
        match table {
            TableReference::Table(table) => self.table_factor(table),
            TableReference::Derived(table) => {
                self.put_if(table.lateral, "lateral ");
                self.put("(");
                self.query(&table.query);
                self.put(") ");
                self.ident(&table.alias);
                self.optional_ident_list(" ", &table.columns);
            }
            TableReference::JsonTable(table) => self.json_table(table),
            TableReference::Join(join) => self.join(join),
        }
    }

    fn join(&mut self, join: &Join) {
        self.table_reference(&join.left);
        let natural = join.condition == JoinCondition::Natural;
        self.put(match (join.kind, natural) {
            (JoinKind::Inner, false) => " join ",
            (JoinKind::Straight, _) => " straight_join ",
            (JoinKind::Left, false) => " left join ",
            (JoinKind::Right, false) => " right join ",
            (JoinKind::Inner, true) => " natural join ",
            (JoinKind::Left, true) => " natural left join ",
            (JoinKind::Right, true) => " natural right join ",
        });
        match &join.right {
            TableReference::Join(_) => {
                self.put("(");
                self.table_reference(&join.right);
                self.put(")");
            }
            right => self.table_reference(right),
        }
        match &join.condition {
            JoinCondition::None | JoinCondition::Natural => {}
            JoinCondition::On(condition) => self.clause(" on ", Some(condition)),
            JoinCondition::Using(columns) => self.optional_ident_list(" using ", columns),
        }
    }

    fn table_factor(&mut self, table: &TableFactor) {
        self.object_name(&table.name);
        self.optional_ident_list(" partition ", &table.partitions);
        if let Some(alias) = &table.alias {
            self.put(" ");
            self.ident(alias);
        }
        for hint in &table.index_hints {
            self.index_hint(hint);
        }
    }

    fn index_hint(&mut self, hint: &IndexHint) {
        self.put(match hint.kind {
            IndexHintKind::Use => " use index ",
            IndexHintKind::Force => " force index ",
            IndexHintKind::Ignore => " ignore index ",
        });
        self.put(match hint.scope {
            None => "",
            Some(IndexHintScope::Join) => "for join ",
            Some(IndexHintScope::OrderBy) => "for order by ",
            Some(IndexHintScope::GroupBy) => "for group by ",
        });
        self.ident_list(&hint.indexes);
    }

    fn json_table(&mut self, table: &JsonTable) {
        self.put("json_table(");
        self.expr(&table.document);
        self.put(", ");
        self.text(&table.path);
        self.json_columns(&table.columns);
        self.put(") ");
        self.ident(&table.alias);
    }

    fn json_columns(&mut self, columns: &[JsonTableColumn]) {
        self.put(" columns (");
        self.list(columns, ", ", |printer, column| match column {
            JsonTableColumn::Ordinality(name) => {
                printer.ident(name);
                printer.put(" for ordinality");
            }
            JsonTableColumn::Value(value) => printer.json_column(value),
            JsonTableColumn::Nested { path, columns } => {
                printer.put("nested path ");
                printer.text(path);
                printer.json_columns(columns);
            }
        });
        self.put(")");
    }

    fn json_column(&mut self, column: &JsonTableValue) {
        self.ident(&column.name);
        self.put(" ");
        self.data_type(&column.data_type);
        if let Some(collation) = &column.collation {
            self.put(" collate ");
            self.collation(collation);
        }
        self.put_if(column.exists, " exists");
        self.put(" path ");
        self.text(&column.path);
        for (response, event) in [(&column.on_empty, " on empty"), (&column.on_error, " on error")]
        {
            match response {
                None => continue,
                Some(JsonTableResponse::Error) => self.put(" error"),
                Some(JsonTableResponse::Null) => self.put(" null"),
                Some(JsonTableResponse::Default(json)) => {
                    self.put(" default ");
                    self.bytes(json);
                }
            }
            self.put(event);
        }
    }

    pub(super) fn order_by(&mut self, items: &[OrderItem]) {
        if !items.is_empty() {
            self.put(" order by ");
            self.list(items, ",", |printer, item| {
                printer.expr(&item.expr);
                printer.put_if(item.descending, " desc");
            });
        }
    }

    pub(super) fn limit(&mut self, limit: Option<&Limit>) {
        let Some(limit) = limit else { return };
        self.put(" limit ");
        match (&limit.offset, &limit.count) {
            // Parameters keep the order that their numbers tell.
            (Some(Expr::Parameter(offset)), Expr::Parameter(count)) if count < offset => {
                self.put("? offset ?");
            }
            (Some(offset), count) => {
                self.expr(offset);
                self.put(",");
                self.expr(count);
            }
            (None, count) => self.expr(count),
        }
    }

    fn locking(&mut self, locking: &Locking) {
        self.put(match locking.strength {
            LockStrength::Share => " for share",
            LockStrength::Update => " for update",
        });
        if !locking.tables.is_empty() {
            self.put(" of ");
            self.object_names(&locking.tables);
        }
        self.put(match locking.wait {
            LockWait::Wait => "",
            LockWait::NoWait => " nowait",
            LockWait::SkipLocked => " skip locked",
        });
    }

    fn target(&mut self, into: &IntoTarget) {
        match into {
            IntoTarget::Variables(variables) => {
                self.put(" into ");
                self.list(variables, ",", |printer, variable| match variable {
                    IntoVariable::User(name) => printer.user_variable(name),
                    IntoVariable::Local(name) => printer.ident(name),
                });
            }
            IntoTarget::Outfile { path, charset, format } => {
                self.put(" into outfile ");
                self.text(path);
                if let Some(charset) = charset {
                    self.put(" character set ");
                    self.charset(charset);
                }
                self.file_format(format);
            }
            IntoTarget::Dumpfile(path) => {
                self.put(" into dumpfile ");
                self.text(path);
            }
        }
    }

    pub(super) fn file_format(&mut self, format: &FileFormat) {
        let FileFormat {
            fields_terminated,
            fields_enclosed,
            optionally_enclosed,
            fields_escaped,
            lines_starting,
            lines_terminated,
        } = format;
        let enclosed =
            if *optionally_enclosed { " optionally enclosed by " } else { " enclosed by " };
        let fields = [
            (" terminated by ", fields_terminated),
            (enclosed, fields_enclosed),
            (" escaped by ", fields_escaped),
        ];
        let lines = [(" starting by ", lines_starting), (" terminated by ", lines_terminated)];
        for (word, clauses) in [(" fields", &fields[..]), (" lines", &lines[..])] {
            self.put_if(clauses.iter().any(|(_, value)| value.is_some()), word);
            for (word, value) in clauses {
                if let Some(value) = value {
                    self.put(word);
                    self.bytes(value);
                }
            }
        }
    }

    pub(super) fn window_spec(&mut self, spec: &WindowSpec) {
        self.put("(");
        if let Some(base) = &spec.base {
            self.ident(base);
        }
        if !spec.partition_by.is_empty() {
            self.put(" partition by ");
            self.exprs(&spec.partition_by);
        }
        self.order_by(&spec.order_by);
        if let Some(frame) = &spec.frame {
            self.window_frame(frame);
        }
        self.put(")");
    }

    fn window_frame(&mut self, frame: &WindowFrame) {
        self.put(match frame.unit {
            FrameUnit::Rows => " rows ",
            FrameUnit::Range => " range ",
            FrameUnit::Groups => " groups ",
        });
        match &frame.end {
            Some(end) => {
                self.put("between ");
                self.frame_bound(&frame.start);
                self.put(" and ");
                self.frame_bound(end);
            }
            None => self.frame_bound(&frame.start),
        }
        self.put(match frame.exclude {
            None => "",
            Some(FrameExclusion::CurrentRow) => " exclude current row",
            Some(FrameExclusion::Group) => " exclude group",
            Some(FrameExclusion::Ties) => " exclude ties",
            Some(FrameExclusion::NoOthers) => " exclude no others",
        });
    }

    fn frame_bound(&mut self, bound: &FrameBound) {
        let (offset, word) = match bound {
            FrameBound::UnboundedPreceding => return self.put("unbounded preceding"),
            FrameBound::UnboundedFollowing => return self.put("unbounded following"),
            FrameBound::CurrentRow => return self.put("current row"),
            FrameBound::Preceding(offset) => (offset, " preceding"),
            FrameBound::Following(offset) => (offset, " following"),
        };
        match offset {
            FrameOffset::Value(value) => self.expr(value),
            FrameOffset::Interval(amount, unit) => self.interval(amount, *unit),
        }
        self.put(word);
    }
}
