//! FROM: which tables a block has, what names its expressions can use, how the tables are joined.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use sql_expression::{
    Binder, Clause, ColumnName, Compare, Comparison, Expression, Node, ResultType, Scope,
    ScopeColumn, ScopeTable, SqlError, same_name,
};
use sql_parser::ast::{self, JoinCondition, JoinKind, TableReference};
use sqltype::Datum;
use wire::{LockMode, WaitPolicy};

use crate::catalog::{ColumnDefault, TableDefinition};
use crate::information;
use crate::logical::binder::QueryBinder;
use crate::logical::bound::BoundQuery;
use crate::logical::common_table::CommonUse;
use crate::logical::from_table::{FromTable, JoinTree, Source};
use crate::logical::json_table;
use crate::logical::known::Known;
use crate::logical::predicate::split;

/// FROM with names resolved; conditions are bound when all tables are in the scope.
pub(crate) struct From<'q> {
    pub(crate) tables: Vec<FromTable>,
    pub(crate) tree: Tree<'q>,
    /// The places of the columns that `*` stands for, in its order.
    pub(crate) star: Vec<u32>,
    /// Conditions of views that have become their tables.
    pub(crate) conditions: Vec<Expression>,
    /// The block that it is of.
    within: Within,
    /// How many outer joins stand around the reference at hand.
    outer: u32,
}

/// Most tables of a join, as in MySQL.
pub(super) const JOINED_MAX: usize = 61;

/// Where FROM stands.
#[derive(Clone, Copy)]
pub(crate) enum Within {
    /// A query block of the statement, by number; zero for one that is none of its text.
    Block(u32),
    /// UPDATE or DELETE, which is the first block. Simple views are their tables there.
    Change,
}

impl Within {
    fn number(self) -> u32 {
        match self {
            Self::Block(number) => number,
            Self::Change => 1,
        }
    }
}

/// Joins with conditions as written.
pub(crate) enum Tree<'q> {
    Table(usize),
    Join {
        left: Box<Tree<'q>>,
        right: Box<Tree<'q>>,
        outer: bool,
        on: Option<&'q ast::Expr>,
        /// Places of columns that must be equal.
        equal: Vec<(u32, u32)>,
    },
}

impl Tree<'_> {
    fn tables(&self, into: &mut Vec<usize>) {
        match self {
            Self::Table(at) => into.push(*at),
            Self::Join { left, right, .. } => {
                left.tables(into);
                right.tables(into);
            }
        }
    }
}

impl Tree<'_> {
    /// The places of the columns of `*`: of a join those that USING and NATURAL have merged, once
    /// and in the order of the first table, then the others of both sides. The sides come as they
    /// are written; where columns are merged, a RIGHT JOIN is the LEFT JOIN of its turned sides.
    fn star(&self, scope: &Scope<'_>) -> Vec<u32> {
        let (left, right, equal) = match self {
            Self::Table(at) => {
                let table = &scope.tables[*at];
                let columns = (table.offset..).zip(&table.columns);
                let shown = columns.filter(|(_, column)| !column.hidden);
                return shown.map(|(place, _)| place).collect();
            }
            Self::Join { left, right, equal, .. } => (left, right, equal),
        };
        let (left, right) = (left.star(scope), right.star(scope));
        // Of a RIGHT JOIN the second table is on the left.
        let is_turned = equal.is_empty() && left.first() > right.first();
        let merged = left.iter().filter_map(|place| {
            let pair = equal.iter().find(|(a, b)| a == place || b == place);
            pair.map(|(kept, _)| *kept)
        });
        let mut all: Vec<u32> = merged.collect();
        let others = |side: &[u32]| {
            let is_merged = |place: &u32| equal.iter().any(|(a, b)| a == place || b == place);
            side.iter().copied().filter(|place| !is_merged(place)).collect::<Vec<u32>>()
        };
        let (left, right) = (others(&left), others(&right));
        if is_turned {
            all.extend(right.into_iter().chain(left))
        } else {
            all.extend(left.into_iter().chain(right))
        }
        all
    }
}

/// Resolves FROM into the scope.
pub(crate) fn resolve<'q>(
    binding: &mut QueryBinder<'_>,
    references: &'q [TableReference],
    scope: &mut Scope<'_>,
    within: Within,
) -> Result<Option<From<'q>>, SqlError> {
    let mut from = From {
        tables: Vec::new(),
        tree: Tree::Table(0),
        star: Vec::new(),
        conditions: Vec::new(),
        within,
        outer: 0,
    };
    let mut tree: Option<Tree<'q>> = None;
    for reference in references {
        let right = reference_of(binding, reference, scope, &mut from)?;
        tree = Some(match tree {
            None => right,
            Some(left) => Tree::Join {
                left: Box::new(left),
                right: Box::new(right),
                outer: false,
                on: None,
                equal: Vec::new(),
            },
        });
    }
    binding.apply_hints(within.number(), &mut from.tables);
    let Some(tree) = tree else { return Ok(None) };
    let star = tree.star(scope);
    Ok(Some(From { tree, star, ..from }))
}

fn reference_of<'q>(
    binding: &mut QueryBinder<'_>,
    reference: &'q TableReference,
    scope: &mut Scope<'_>,
    from: &mut From<'q>,
) -> Result<Tree<'q>, SqlError> {
    match reference {
        TableReference::Table(factor) => table(binding, factor, scope, from),
        TableReference::Derived(derived) => {
            // LATERAL sees the tables before it; they are in the scope already.
            let parent = if derived.lateral { Some(&*scope) } else { scope.parent };
            let mut query = binding.bind_query(&derived.query, parent)?;
            rename(&mut query, &derived.columns)?;
            let alias = derived.alias.as_str();
            derived_table(scope, from, alias, binding.numbered(query), 0, derived.lateral)
        }
        TableReference::JsonTable(table) => {
            let query = json_table::bind(binding, table, Some(&*scope))?;
            // It stands for itself unless its document is of the tables before it.
            let lateral = query.correlated;
            derived_table(scope, from, table.alias.as_str(), binding.numbered(query), 0, lateral)
        }
        TableReference::Join(join) => {
            let (first, second) = match join.kind {
                JoinKind::Right => (&join.right, &join.left),
                _ => (&join.left, &join.right),
            };
            let outer = matches!(join.kind, JoinKind::Left | JoinKind::Right);
            from.outer += u32::from(outer);
            // Columns stand in the row in the order in which tables are written.
            let (left, right) = match join.kind {
                JoinKind::Right => {
                    let second = reference_of(binding, second, scope, from)?;
                    let first = reference_of(binding, first, scope, from)?;
                    (first, second)
                }
                _ => {
                    let first = reference_of(binding, first, scope, from)?;
                    let second = reference_of(binding, second, scope, from)?;
                    (first, second)
                }
            };
            from.outer -= u32::from(outer);
            if outer {
                check_outer(binding, &left, &right, from)?;
            }
            let (on, equal) = match &join.condition {
                JoinCondition::None => (None, Vec::new()),
                JoinCondition::On(condition) => (Some(condition), Vec::new()),
                JoinCondition::Using(names) => {
                    let names: Vec<&str> = names.iter().map(ast::Ident::as_str).collect();
                    (None, merge(scope, &left, &right, &names)?)
                }
                JoinCondition::Natural => {
                    let common = common_names(scope, &left, &right);
                    let names: Vec<&str> = common.iter().map(String::as_str).collect();
                    (None, merge(scope, &left, &right, &names)?)
                }
            };
            if join.kind == JoinKind::Straight {
                let (mut before, mut behind) = (Vec::new(), Vec::new());
                left.tables(&mut before);
                right.tables(&mut behind);
                behind.iter().for_each(|at| from.tables[*at].after.extend(&before));
            }
            if outer {
                let mut optional = Vec::new();
                right.tables(&mut optional);
                for at in optional {
                    scope.tables[at].columns.iter_mut().for_each(|c| c.result.nullable = true);
                }
            }
            Ok(Tree::Join { left: Box::new(left), right: Box::new(right), outer, on, equal })
        }
    }
}

fn table<'q>(
    binding: &mut QueryBinder<'_>,
    factor: &'q ast::TableFactor,
    scope: &mut Scope<'_>,
    from: &mut From<'q>,
) -> Result<Tree<'q>, SqlError> {
    let name = factor.name.name.as_str();
    let alias = factor.alias.as_ref().map_or(name, ast::Ident::as_str);
    if factor.name.schema.is_none()
        && let Some(CommonUse { query, out }) = binding.common.find(name, scope, binding.depth)?
    {
        binding.contains(&query);
        return derived_table(scope, from, alias, query, out, false);
    }
    if !factor.partitions.is_empty() {
        return Err(SqlError::not_supported("SELECT ... PARTITION"));
    }
    let qualified = binding.qualified(&factor.name);
    if let Some(tree) = merged_view(binding, &qualified, alias, scope, from)? {
        return Ok(tree);
    }
    if let Some(query) = binding.view(&qualified)? {
        let schema = binding.session.table_name(&qualified)?.database;
        return view_table(scope, from, &schema, alias, binding.numbered(query));
    }
    let database = binding.session.table_name(&qualified)?.database;
    if let Some(table) = information::table(&database, name) {
        let columns: Vec<ScopeColumn> = table
            .columns
            .iter()
            .map(|column| {
                let name = column_name(&database, alias, column.name);
                ScopeColumn::new(name, ResultType::column(column.sql_type(), column.nullable))
            })
            .collect();
        binding.once = true;
        return add(scope, from, Some(&database), alias, columns, Source::Virtual(table));
    }
    let definition = binding.definition(&qualified)?;
    let columns = definition_columns(&definition, alias);
    let source = Source::Table(definition.clone());
    let tree = add(scope, from, Some(&definition.database), alias, columns, source)?;
    if let Some(table) = from.tables.last_mut() {
        let session = binding.session;
        table.rows = session.rows(definition.table.id);
        let known = |values| Known { values, constants: binding.constants() };
        table.known = session.values(definition.table.id).map(known);
        for hint in &factor.index_hints {
            let names = hint.indexes.iter().map(|name| name.as_str().to_owned());
            for name in hint.indexes.iter().map(ast::Ident::as_str) {
                if definition.key(name).is_none() {
                    return Err(SqlError::of::<1176>(&[&name, &alias]));
                }
            }
            match hint.kind {
                ast::IndexHintKind::Use | ast::IndexHintKind::Force => {
                    table.only.get_or_insert_default().extend(names);
                }
                ast::IndexHintKind::Ignore => table.ignored.extend(names),
            }
        }
    }
    Ok(tree)
}

/// The columns of a table as expressions see them.
pub(crate) fn definition_columns(definition: &TableDefinition, alias: &str) -> Vec<ScopeColumn> {
    let columns = definition.columns.iter().map(|column| {
        // A hidden column is found by no name.
        let name = if column.hidden.is_some() { "" } else { column.name.as_str() };
        let name = column_name(&definition.database, alias, name);
        let result = ResultType::column(column.sql_type.clone(), column.nullable);
        let mut scoped = ScopeColumn::new(name, result);
        scoped.hidden = column.invisible;
        scoped.qualified_only = column.hidden.is_some();
        scoped.default = match &column.default {
            ColumnDefault::Value(value) => Some(value.clone()),
            ColumnDefault::None if column.nullable => Some(Datum::Null),
            _ => None,
        };
        scoped
    });
    columns.collect()
}

/// A column's name with all that qualifies it.
pub(crate) fn column_name(database: &str, table: &str, column: &str) -> Arc<ColumnName> {
    Arc::new(ColumnName { schema: database.into(), table: table.into(), column: column.into() })
}

fn derived_table<'q>(
    scope: &mut Scope<'_>,
    from: &mut From<'q>,
    alias: &str,
    query: Rc<BoundQuery>,
    out: usize,
    lateral: bool,
) -> Result<Tree<'q>, SqlError> {
    let mut needs = None;
    if lateral {
        let mut tables = BTreeSet::new();
        query.for_each_outer(&mut |depth, place| {
            if depth == 1 {
                let of = |table: &ScopeTable| {
                    place.checked_sub(table.offset).is_some_and(|at| {
                        usize::try_from(at).is_ok_and(|at| at < table.columns.len())
                    })
                };
                tables.extend(scope.tables.iter().position(of));
            }
        });
        needs = Some(tables);
    } else if query.correlated {
        scope.depend_on(query.reach() + out);
    }
    let columns = query_columns(&query, "", alias);
    for (at, column) in columns.iter().enumerate() {
        let same = |other: &ScopeColumn| same_name(&other.name.column, &column.name.column);
        if columns[..at].iter().any(same) {
            return Err(SqlError::of::<1060>(&[&column.name.column]));
        }
    }
    let tree = add(scope, from, None, alias, columns, Source::Derived(query))?;
    if let Some(table) = from.tables.last_mut() {
        (table.out, table.lateral) = (out, needs);
    }
    Ok(tree)
}

fn query_columns(query: &BoundQuery, database: &str, alias: &str) -> Vec<ScopeColumn> {
    let columns = query.columns.iter().zip(&query.results);
    let named = columns.map(|(column, result)| {
        ScopeColumn::new(column_name(database, alias, &column.name), result.clone())
    });
    named.collect()
}

/// A view that is a part of a table, as that table: what the view does not show has no name.
fn merged_view<'q>(
    binding: &mut QueryBinder<'_>,
    name: &ast::ObjectName,
    alias: &str,
    scope: &mut Scope<'_>,
    from: &mut From<'q>,
) -> Result<Option<Tree<'q>>, SqlError> {
    let full = binding.session.table_name(name)?;
    let Some(view) = binding.session.view_named(&full)? else { return Ok(None) };
    if binding.views.are_inside(&full.full()) {
        return Ok(None);
    }
    if let Within::Block(number) = from.within
        && !binding.may_merge(number, alias)
    {
        return Ok(None);
    }
    let Some(simple) = binding.simple(&view) else { return Ok(None) };
    if from.outer > 0 && simple.has_condition() {
        return Ok(None);
    }
    let Some(conditions) = binding.view_condition(&simple, scope.width()) else { return Ok(None) };
    binding.remember_view(&full);
    let mut columns = definition_columns(&simple.table, alias);
    simple.rename(&mut columns, &full.database, alias);
    let check = binding.view_check(&full, &simple);
    let source = Source::Table(simple.table.clone());
    let tree = add(scope, from, Some(&full.database), alias, columns, source)?;
    from.conditions.extend(conditions);
    if let Some(table) = from.tables.last_mut() {
        (table.view, table.check) = (Some(simple.is_checked), check);
    }
    Ok(Some(tree))
}

fn view_table<'q>(
    scope: &mut Scope<'_>,
    from: &mut From<'q>,
    database: &str,
    alias: &str,
    query: Rc<BoundQuery>,
) -> Result<Tree<'q>, SqlError> {
    let columns = query_columns(&query, database, alias);
    add(scope, from, Some(database), alias, columns, Source::Derived(query))
}

/// What may not stand at the side of an outer join that can be missing: a recursive table's
/// reference to itself, and what a LATERAL table of the other side looks at.
fn check_outer(
    binding: &QueryBinder<'_>,
    left: &Tree<'_>,
    right: &Tree<'_>,
    from: &From<'_>,
) -> Result<(), SqlError> {
    let (mut kept, mut optional) = (Vec::new(), Vec::new());
    left.tables(&mut kept);
    right.tables(&mut optional);
    for at in &optional {
        if let Source::Derived(query) = &from.tables[*at].source
            && let Some(name) = binding.common.work_table(query)
        {
            return Err(SqlError::of::<3576>(&[&name]));
        }
    }
    for at in kept {
        let table = &from.tables[at];
        if table.lateral.iter().flatten().any(|needed| optional.contains(needed)) {
            return Err(SqlError::of::<3668>(&[&table.alias]));
        }
    }
    Ok(())
}

fn add<'q>(
    scope: &mut Scope<'_>,
    from: &mut From<'q>,
    database: Option<&str>,
    alias: &str,
    columns: Vec<ScopeColumn>,
    source: Source,
) -> Result<Tree<'q>, SqlError> {
    let same = |table: &ScopeTable| *table.name == *alias && table.schema.as_deref() == database;
    if scope.tables.iter().any(same) {
        return Err(SqlError::of::<1066>(&[&alias]));
    }
    if from.tables.len() >= JOINED_MAX {
        return Err(SqlError::of::<1116>(&[&JOINED_MAX]));
    }
    let count = columns.len();
    let (schema, name) = (database.map(Arc::from), Arc::from(alias));
    let offset = scope.add(ScopeTable { schema, name, columns, offset: 0 }) as usize;
    from.tables.push(FromTable {
        alias: alias.to_owned(),
        offset,
        columns: count,
        source,
        rows: None,
        known: None,
        lock: None,
        out: 0,
        lateral: None,
        view: None,
        check: None,
        used: BTreeSet::new(),
        only: None,
        ignored: Vec::new(),
        is_hinted: false,
        is_apart: false,
        after: BTreeSet::new(),
    });
    Ok(Tree::Table(from.tables.len() - 1))
}

/// Gives the columns of a query other names.
pub(crate) fn rename(query: &mut BoundQuery, names: &[ast::Ident]) -> Result<(), SqlError> {
    if names.is_empty() {
        return Ok(());
    }
    if names.len() != query.columns.len() {
        return Err(SqlError::of::<1353>(&[]));
    }
    for (column, name) in query.columns.iter_mut().zip(names) {
        column.name = name.as_str().to_owned();
    }
    Ok(())
}

/// Names that both sides of a NATURAL join have, in the order of the left side.
fn common_names(scope: &Scope<'_>, left: &Tree<'_>, right: &Tree<'_>) -> Vec<String> {
    let names = |tree: &Tree<'_>| {
        let mut tables = Vec::new();
        tree.tables(&mut tables);
        let columns = tables.into_iter().flat_map(|at| &scope.tables[at].columns);
        let visible = columns.filter(|column| !column.qualified_only && !column.hidden);
        visible.map(|column| column.name.column.to_string()).collect::<Vec<_>>()
    };
    let others = names(right);
    let common = |name: &String| others.iter().any(|other| same_name(other, name));
    names(left).into_iter().filter(common).collect()
}

/// Merges columns of these names: the right side's is found only with its table's name.
fn merge(
    scope: &mut Scope<'_>,
    left: &Tree<'_>,
    right: &Tree<'_>,
    names: &[&str],
) -> Result<Vec<(u32, u32)>, SqlError> {
    let mut equal = Vec::new();
    for name in names {
        let of_left = place_of(scope, left, name)?;
        let of_right = place_of(scope, right, name)?;
        equal.push((of_left, of_right));
        for table in &mut scope.tables {
            if let Some(at) = of_right.checked_sub(table.offset)
                && let Some(column) = table.columns.get_mut(at as usize)
            {
                column.qualified_only = true;
            }
        }
    }
    Ok(equal)
}

fn place_of(scope: &Scope<'_>, tree: &Tree<'_>, name: &str) -> Result<u32, SqlError> {
    let mut tables = Vec::new();
    tree.tables(&mut tables);
    let mut found = None;
    for at in tables {
        let table = &scope.tables[at];
        for (place, column) in (table.offset..).zip(&table.columns) {
            if !column.qualified_only && same_name(&column.name.column, name) {
                if found.is_some() {
                    return Err(SqlError::of::<1052>(&[&name, &"from clause"]));
                }
                found = Some(place);
            }
        }
    }
    found.ok_or_else(|| SqlError::unknown_column(name, "from clause"))
}

/// Binds the conditions of joins.
pub(crate) fn bind_tree(binder: &mut Binder<'_, '_>, tree: Tree<'_>) -> Result<JoinTree, SqlError> {
    let Tree::Join { left, right, outer, on, equal } = tree else {
        let Tree::Table(at) = tree else { return Err(SqlError::internal("a table or a join")) };
        return Ok(JoinTree::Table(at));
    };
    let (left, right) = (bind_tree(binder, *left)?, bind_tree(binder, *right)?);
    let mut conditions = Vec::new();
    for (a, b) in equal {
        conditions.push(equality(binder, a, b)?);
    }
    if let Some(on) = on {
        split(binder.bind(on, Clause::On)?, &mut conditions);
    }
    Ok(if outer {
        JoinTree::Left { left: Box::new(left), right: Box::new(right), conditions }
    } else {
        JoinTree::Inner { parts: vec![left, right], conditions }
    })
}

fn equality(binder: &Binder<'_, '_>, left: u32, right: u32) -> Result<Expression, SqlError> {
    let column = |place: u32| {
        let found = binder.scope().column_at(place);
        let found = found.ok_or_else(|| SqlError::internal("a merged column"))?;
        Ok::<_, SqlError>(Expression::column(place, found.name.clone(), found.result.clone()))
    };
    let (left, right) = (column(left)?, column(right)?);
    let connection = collation::CollationId::DEFAULT;
    let comparison = Comparison::of_types(&left.result, &right.result, connection)?;
    let nullable = left.result.nullable || right.result.nullable;
    let compare = Compare { op: ast::BinaryOp::Equal, comparison, left, right };
    let node = Node::Compare(Box::new(compare));
    Ok(Expression { node, result: ResultType::truth(nullable) })
}

/// The locks that FOR UPDATE and FOR SHARE put on tables of the block.
pub(crate) fn lock(
    binding: &mut QueryBinder<'_>,
    tables: &mut [FromTable],
    locking: &[ast::Locking],
) -> Result<(), SqlError> {
    for lock in locking {
        let autocommit = binding.autocommits();
        let wait = match lock.wait {
            ast::LockWait::Wait => WaitPolicy::Wait,
            ast::LockWait::NoWait => WaitPolicy::Refuse,
            ast::LockWait::SkipLocked => WaitPolicy::Skip,
        };
        let mode = match lock.strength {
            ast::LockStrength::Share => LockMode::Shared,
            ast::LockStrength::Update => LockMode::Exclusive,
        };
        for name in &lock.tables {
            if !tables.iter().any(|table| table.alias == name.name.as_str()) {
                return Err(SqlError::of::<3568>(&[&name.name]));
            }
        }
        for table in tables.iter_mut() {
            let named = lock.tables.is_empty()
                || lock.tables.iter().any(|name| name.name.as_str() == table.alias);
            // A lock that ends with the statement keeps nobody from anything.
            let useful = !autocommit || wait != WaitPolicy::Wait;
            if named && useful && matches!(table.source, Source::Table(_)) {
                table.lock = Some((mode, wait));
            }
        }
    }
    Ok(())
}
