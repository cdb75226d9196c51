//! ALTER TABLE: from the actions of a statement to another definition.
//!
//! # Owns
//! What each action does to a definition, and which of the two ways is taken: changing the table in
//! place (`change`), or copying its rows to a new one (`rebuild`).
//! # Not here
//! Checks of the definition (`catalog`).

use std::rc::Rc;

use collation::CollationId;
use sql_expression::SqlError;
use sql_parser::ast::{
    self, AlterAction, AlterAlgorithm, AlterLock, AlterTable, ColumnPosition, TableOption,
};

use super::altered::Altered;
use super::step::{check_names_free, keep_notes, user_table};
use super::{change, create, drop, foreign, rebuild, temporary};
use crate::catalog::draft::Draft;
use crate::catalog::key::PRIMARY;
use crate::catalog::names::{TableName, check_table_name};
use crate::catalog::rules::Rules;
use crate::catalog::{
    ColumnDefault, KeyKind, TableCollation, TableDefinition, column, default, error, expression,
    hidden, key, option, same_name,
};
use crate::result::Outcome;
use crate::session::Session;

/// A definition that is being altered.
pub(super) struct Alteration<'r> {
    pub(super) old: Rc<TableDefinition>,
    pub(super) draft: Draft,
    /// For each column of the draft the position it had; none for a new one.
    pub(super) origins: Vec<Option<usize>>,
    /// The rows have to be looked at, or placed anew, whatever the definitions say.
    pub(super) must_rebuild: bool,
    /// The new first value of the sequence.
    pub(super) auto_increment: Option<u64>,
    rename_to: Option<TableName>,
    rules: Rules<'r>,
}

/// ALTER TABLE.
pub(super) async fn run(session: &mut Session, alter: &AlterTable) -> Result<Outcome, SqlError> {
    let name = user_table(session, session.table_name(&alter.table)?)?;
    let old = session.definition_named(&name)?;
    let rules = crate::session::rules::of_statement(session, &name.database, &name.name);
    let mut alteration = Alteration {
        draft: Draft::of(&old),
        origins: (0..old.visible_columns().len()).map(Some).collect(),
        old,
        must_rebuild: false,
        auto_increment: None,
        rename_to: None,
        rules,
    };
    for action in &alter.actions {
        alteration.apply(session, action)?;
    }
    alteration.set_text_options(&alter.actions)?;
    foreign::give_way(&mut alteration.draft);
    foreign::check(session, &alteration.old, &alteration.draft)?;
    let Alteration { old, draft, origins, must_rebuild, auto_increment, rename_to, mut rules } =
        alteration;
    let new = draft.complete(&mut rules)?;
    keep_notes(session, rules);
    if !old.is_temporary() {
        check_names_free(session, &name.database, Some(old.table.id), &new.checks)?;
    }
    if new.keys.first().map(|key| key.kind) != old.keys.first().map(|key| key.kind) {
        create::check_primary_key(session, &new)?;
    }
    let mut origins = origins;
    hidden::extend_origins(&mut origins, &new.columns, &old.columns);
    let is_temporary = old.is_temporary();
    if is_temporary && !new.foreign_keys.is_empty() {
        return Err(temporary::foreign_key());
    }
    let kernel_name = is_temporary.then(|| temporary::name_of(&old.table));
    let altered = Altered { old, new, origins, must_rebuild, auto_increment, kernel_name };
    foreign::check_types(session, &altered)?;
    let outcome = carry_out(session, alter, &name, altered).await?;
    if let Some(to) = rename_to.filter(|to| *to != name) {
        if is_temporary {
            temporary::rename(session, &name, &to).await?;
            return Ok(outcome);
        }
        let from = object_name(&name);
        drop::rename(session, &[(from, object_name(&to))]).await?;
    }
    Ok(outcome)
}

fn object_name(name: &TableName) -> ast::ObjectName {
    let ident = |text: &String| ast::Ident::from(text.as_str());
    ast::ObjectName { schema: Some(ident(&name.database)), name: ident(&name.name) }
}

async fn carry_out(
    session: &mut Session,
    alter: &AlterTable,
    name: &TableName,
    altered: Altered,
) -> Result<Outcome, SqlError> {
    let plan = if altered.must_rebuild || alter.algorithm == Some(AlterAlgorithm::Copy) {
        None
    } else {
        change::plan(&altered).filter(|plan| plan.is_known(session))
    };
    let Some(plan) = plan else {
        let older = !rebuild::keeps_journals(session);
        check_copying_allowed(alter, rebuild::is_online(session, name, &altered), older)?;
        return rebuild::run(session, name, &altered, alter.lock).await;
    };
    if alter.algorithm == Some(AlterAlgorithm::Instant) && plan.builds_indexes() {
        let (instant, inplace) = ("ALGORITHM=INSTANT", "ALGORITHM=INPLACE");
        return Err(error::algorithm_unsupported(instant, inplace));
    }
    change::run(session, name, &altered, plan).await
}

/// Copying may keep writers out, if only because a node is `older`: a statement may refuse that.
fn check_copying_allowed(alter: &AlterTable, online: bool, older: bool) -> Result<(), SqlError> {
    match (alter.algorithm, alter.lock) {
        (Some(AlterAlgorithm::Instant), _) => {
            Err(error::algorithm_unsupported("ALGORITHM=INSTANT", "ALGORITHM=COPY"))
        }
        // What NDB calls so copies too, while writers go on.
        (Some(AlterAlgorithm::Inplace), lock)
            if reorganizes(alter) && (online || lock != Some(AlterLock::None)) =>
        {
            Ok(())
        }
        (Some(AlterAlgorithm::Inplace), _) => {
            Err(error::algorithm_unsupported("ALGORITHM=INPLACE", "ALGORITHM=COPY"))
        }
        (_, Some(AlterLock::None)) if !online => {
            let reason = if older {
                "a node is of an older version, see `nines ctl version`"
            } else {
                "COPY algorithm requires a lock"
            };
            Err(error::lock_unsupported("LOCK=NONE", reason, "LOCK=SHARED"))
        }
        _ => Ok(()),
    }
}

/// Whether a statement only moves a table to where new ones are.
fn reorganizes(alter: &AlterTable) -> bool {
    matches!(alter.actions[..], [AlterAction::ReorganizePartitions(..)])
}

impl Alteration<'_> {
    fn apply(&mut self, session: &Session, action: &AlterAction) -> Result<(), SqlError> {
        match action {
            AlterAction::AddColumn(column, position) => self.add(column, position.as_ref()),
            AlterAction::ChangeColumn(old, column, position) => {
                self.replace(old.as_str(), column, position.as_ref())
            }
            AlterAction::ModifyColumn(column, position) => {
                self.replace(column.name.as_str(), column, position.as_ref())
            }
            AlterAction::RenameColumn(from, to) => self.rename_column(from.as_str(), to.as_str()),
            AlterAction::AlterColumnDefault(name, default) => {
                self.set_default(name.as_str(), default.as_ref())
            }
            AlterAction::AlterColumnVisibility(name, visible) => {
                let at = self.position(name.as_str())?;
                self.draft.columns[at].invisible = !visible;
                Ok(())
            }
            AlterAction::DropColumn(name) => self.drop_column(name.as_str()),
            AlterAction::AddConstraint(constraint) => {
                // Rows that are there have to fulfil it.
                self.must_rebuild |= match constraint {
                    ast::TableConstraint::Check(check) => check.enforced,
                    ast::TableConstraint::ForeignKey(_) => session.variables.foreign_key_checks,
                    ast::TableConstraint::Index(_) => false,
                };
                self.draft.add_constraint(constraint, &mut self.rules)
            }
            AlterAction::RenameTable(name) => {
                let name = user_table(session, session.table_name(name)?)?;
                check_table_name(&name.name)?;
                let own = (self.old.database.as_str(), self.old.name.as_str());
                let exists = if self.old.is_temporary() {
                    session.temporary.has(&name)
                } else {
                    session.kernel.cluster().table_named(&name.full()).is_some()
                };
                if exists && own != (name.database.as_str(), name.name.as_str()) {
                    return Err(error::table_exists(&name.name));
                }
                self.rename_to = Some(name);
                Ok(())
            }
            AlterAction::Option(option) => self.set_option(option),
            AlterAction::ConvertCharset(charset, collation) => {
                self.convert(charset, collation.as_ref())
            }
            _ => self.apply_to_keys(action),
        }
    }

    #[expect(clippy::too_many_lines, reason = "an arm for each action")]
    fn apply_to_keys(&mut self, action: &AlterAction) -> Result<(), SqlError> {
        match action {
            AlterAction::DropPrimaryKey => self.drop_key(PRIMARY),
            AlterAction::DropIndex(name) => self.drop_key(name.as_str()),
            AlterAction::DropForeignKey(name) => {
                let at = foreign::position(&self.draft, name.as_str());
                let at = at.ok_or_else(|| error::cannot_drop(name.as_str()))?;
                self.draft.foreign_keys.remove(at);
                Ok(())
            }
            AlterAction::DropCheck(name) => self.drop_check(name.as_str()),
            AlterAction::DropConstraint(name) => self.drop_constraint(name.as_str()),
            AlterAction::AlterCheck(name, enforced) => {
                let checks = &mut self.draft.checks;
                let named = |check: &&mut crate::catalog::draft::CheckDraft| {
                    check.name.as_ref().is_some_and(|own| same_name(own, name.as_str()))
                };
                let check = checks.iter_mut().find(named);
                let check = check.ok_or_else(|| error::unknown_check(name.as_str()))?;
                self.must_rebuild |= *enforced && !check.enforced;
                check.enforced = *enforced;
                Ok(())
            }
            AlterAction::AlterIndexVisibility(name, visible) => {
                let at = self.key_position(name.as_str())?;
                if !visible && self.draft.keys[at].kind == KeyKind::Primary {
                    return Err(error::primary_key_invisible());
                }
                self.draft.keys[at].invisible = !visible;
                Ok(())
            }
            AlterAction::RenameIndex(from, to) => {
                let at = self.key_position(from.as_str())?;
                if self.draft.keys[at].kind == KeyKind::Primary {
                    return Err(error::wrong_index_name(from.as_str()));
                }
                key::check_key_name(to.as_str())?;
                self.draft.keys[at].name = Some(to.as_str().to_owned());
                Ok(())
            }
            AlterAction::Force => {
                self.must_rebuild = true;
                Ok(())
            }
            // The order of rows is not kept; keys are never disabled.
            AlterAction::OrderBy(_) | AlterAction::EnableKeys(_) => Ok(()),
            AlterAction::Partitioning(partitioning) => {
                let partitioning = partitioning.as_ref();
                let rules = &mut self.rules;
                let partitioning =
                    partitioning.map(|p| option::partitioning(p, rules)).transpose()?;
                self.must_rebuild |= self.draft.options.partitioning != partitioning;
                self.draft.options.partitioning = partitioning;
                Ok(())
            }
            AlterAction::AddPartitionCount(added) => {
                let count = self.partition_count()?.checked_add(*added);
                self.repartition(count, (*added == 0).then(error::no_partition_added))
            }
            AlterAction::CoalescePartitions(gone) => {
                let count = self.partition_count()?.checked_sub(*gone).filter(|left| *left > 0);
                let refusal = match (*gone, count) {
                    (0, _) => Some(error::no_partition_coalesced()),
                    (_, None) => Some(error::last_partition()),
                    _ => None,
                };
                self.repartition(count, refusal)
            }
            AlterAction::MaintainPartitions { .. } => Ok(()),
            // The new table lies where new tables do, in as many partitions if the statement that
            // made it has not said how many.
            AlterAction::ReorganizePartitions(names, _) if names.is_empty() => {
                self.must_rebuild = true;
                Ok(())
            }
            AlterAction::Tablespace { .. } => Err(error::unsupported("TABLESPACE")),
            AlterAction::SecondaryLoad(_) => Err(error::unsupported("SECONDARY_LOAD")),
            _ => Err(error::unsupported("ALTER TABLE of single partitions")),
        }
    }

    /// Partitions of the table, which has to be one that says how it is partitioned.
    fn partition_count(&self) -> Result<u64, SqlError> {
        let Some(partitioning) = &self.draft.options.partitioning else {
            return Err(SqlError::of::<1505>(&[]));
        };
        Ok(partitioning.count.unwrap_or(self.old.table.partition_count).into())
    }

    /// Gives the table another number of partitions.
    fn repartition(
        &mut self,
        count: Option<u64>,
        refusal: Option<SqlError>,
    ) -> Result<(), SqlError> {
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        let count = option::partition_count(count.unwrap_or(u64::MAX))?;
        let partitioning = self.draft.options.partitioning.get_or_insert_default();
        partitioning.count = Some(count);
        self.must_rebuild = true;
        Ok(())
    }

    fn position(&self, name: &str) -> Result<usize, SqlError> {
        let position = self.draft.position(name);
        position.ok_or_else(|| error::unknown_column(name, &self.old.name))
    }

    fn key_position(&self, name: &str) -> Result<usize, SqlError> {
        let named = |key: &key::KeyDraft| match (key.kind, &key.name) {
            (KeyKind::Primary, _) => same_name(name, PRIMARY),
            (_, own) => own.as_ref().is_some_and(|own| same_name(own, name)),
        };
        let at = self.draft.keys.iter().position(named);
        at.ok_or_else(|| error::unknown_key(name, &self.old.name))
    }

    /// Where a column goes that is to stand FIRST or AFTER another.
    fn place(&self, position: &ColumnPosition) -> Result<usize, SqlError> {
        match position {
            ColumnPosition::First => Ok(0),
            ColumnPosition::After(name) => Ok(self.position(name.as_str())? + 1),
        }
    }

    fn add(
        &mut self,
        declared: &ast::ColumnDefinition,
        position: Option<&ColumnPosition>,
    ) -> Result<(), SqlError> {
        let at = match position {
            Some(position) => self.place(position)?,
            None => self.draft.columns.len(),
        };
        self.must_rebuild |= declared.attributes.checks.iter().any(|check| check.enforced);
        self.draft.add_column(declared, Some(at), &mut self.rules)?;
        self.origins.insert(at, None);
        Ok(())
    }

    /// CHANGE and MODIFY: another definition for a column, perhaps another name and place.
    fn replace(
        &mut self,
        name: &str,
        declared: &ast::ColumnDefinition,
        position: Option<&ColumnPosition>,
    ) -> Result<(), SqlError> {
        let at = self.position(name)?;
        let new_name = declared.name.as_str();
        if !same_name(name, new_name) {
            self.check_rename(name, new_name)?;
        }
        let collation = self.draft.options.collation.0;
        let defined = column::define(declared, collation, &mut self.rules)?;
        self.rename_in_keys(name, new_name);
        self.draft.columns[at] = defined;
        self.must_rebuild |= declared.attributes.checks.iter().any(|check| check.enforced);
        self.draft.add_column_constraints(declared, &mut self.rules)?;
        if let Some(position) = position {
            if let ColumnPosition::After(other) = position
                && same_name(other.as_str(), new_name)
            {
                return Err(error::unknown_column(other.as_str(), &self.old.name));
            }
            let column = self.draft.columns.remove(at);
            let origin = self.origins.remove(at);
            let place = self.place(position)?;
            self.draft.columns.insert(place, column);
            self.origins.insert(place, origin);
        }
        Ok(())
    }

    fn rename_column(&mut self, from: &str, to: &str) -> Result<(), SqlError> {
        let at = self.position(from)?;
        column::check_name(to)?;
        if !same_name(from, to) {
            self.check_rename(from, to)?;
        }
        self.rename_in_keys(from, to);
        to.clone_into(&mut self.draft.columns[at].name);
        Ok(())
    }

    /// Columns that expressions read keep their names.
    fn check_rename(&self, from: &str, to: &str) -> Result<(), SqlError> {
        if self.draft.position(to).is_some() {
            return Err(error::duplicate_column(to));
        }
        self.check_unread(from, false)
    }

    /// Refuses to take a column away from expressions that read it. A check of that column alone
    /// goes with it when it is `dropped`.
    fn check_unread(&self, name: &str, dropped: bool) -> Result<(), SqlError> {
        for column in &self.draft.columns {
            if same_name(&column.name, name) {
                continue;
            }
            let generated = column.generated.as_ref();
            if generated.is_some_and(|generated| expression::reads(&generated.expression, name)) {
                return Err(error::dependent_generated_column(name));
            }
            if let ColumnDefault::Expression(expr) = &column.default
                && expression::reads(expr, name)
            {
                return Err(error::dependent_default(name, &self.old.name));
            }
        }
        let expressions = self.draft.keys.iter().flat_map(|key| &key.parts);
        for expr in expressions.filter_map(|part| part.expression.as_deref()) {
            if expression::reads(expr, name) {
                return Err(error::dependent_functional(name));
            }
        }
        for check in &self.draft.checks {
            let columns = expression::columns(&check.expression);
            let alone = columns.iter().all(|column| same_name(column, name));
            if expression::reads(&check.expression, name) && !(alone && dropped) {
                let check = check.name.as_deref().unwrap_or_default();
                return Err(error::dependent_check(check, name));
            }
        }
        Ok(())
    }

    fn rename_in_keys(&mut self, from: &str, to: &str) {
        for part in self.draft.keys.iter_mut().flat_map(|key| &mut key.parts) {
            if same_name(&part.column, from) {
                to.clone_into(&mut part.column);
            }
        }
        foreign::rename_column(&mut self.draft, &self.old, from, to);
        if let Some(partitioning) = &mut self.draft.options.partitioning {
            for column in partitioning.columns.iter_mut().filter(|c| same_name(c, from)) {
                to.clone_into(column);
            }
        }
    }

    fn set_default(
        &mut self,
        name: &str,
        declared: Option<&ast::ColumnDefault>,
    ) -> Result<(), SqlError> {
        let at = self.position(name)?;
        let column = &self.draft.columns[at];
        if column.generated.is_some() || column.auto_increment {
            return Err(error::invalid_default(&column.name));
        }
        let default = match declared {
            None => ColumnDefault::None,
            declared => default::define(column, declared, &mut self.rules)?,
        };
        self.draft.columns[at].default = default;
        Ok(())
    }

    fn drop_column(&mut self, name: &str) -> Result<(), SqlError> {
        let position = self.draft.position(name);
        let at = position.ok_or_else(|| error::cannot_drop(name))?;
        if self.draft.columns.len() == 1 {
            return Err(error::cannot_remove_all_columns());
        }
        self.check_unread(name, true)?;
        let partitioning = self.draft.options.partitioning.as_ref();
        if partitioning.is_some_and(|p| p.columns.iter().any(|c| same_name(c, name))) {
            return Err(error::unknown_partition_column());
        }
        self.draft.columns.remove(at);
        self.origins.remove(at);
        for key in &mut self.draft.keys {
            key.parts.retain(|part| !same_name(&part.column, name));
        }
        self.draft.keys.retain(|key| !key.parts.is_empty());
        self.draft.checks.retain(|check| !expression::reads(&check.expression, name));
        Ok(())
    }

    fn drop_key(&mut self, name: &str) -> Result<(), SqlError> {
        let at = self.key_position(name).map_err(|_| error::cannot_drop(name))?;
        self.draft.keys.remove(at);
        Ok(())
    }

    fn drop_check(&mut self, name: &str) -> Result<(), SqlError> {
        let named = |own: &Option<String>| own.as_ref().is_some_and(|own| same_name(own, name));
        let at = self.draft.checks.iter().position(|check| named(&check.name));
        self.draft.checks.remove(at.ok_or_else(|| error::unknown_check(name))?);
        Ok(())
    }

    /// DROP CONSTRAINT: a key, a foreign key or a check.
    fn drop_constraint(&mut self, name: &str) -> Result<(), SqlError> {
        let is_key =
            self.key_position(name).is_ok_and(|at| self.draft.keys[at].kind != KeyKind::Ordinary);
        let named = |own: &Option<String>| own.as_ref().is_some_and(|own| same_name(own, name));
        let is_check = self.draft.checks.iter().any(|check| named(&check.name));
        let foreign_key = foreign::position(&self.draft, name);
        match (is_key, is_check, foreign_key) {
            (true, false, None) => self.drop_key(name),
            (false, true, None) => self.drop_check(name),
            (false, false, Some(at)) => {
                self.draft.foreign_keys.remove(at);
                Ok(())
            }
            (false, false, None) => Err(error::unknown_constraint(name)),
            _ => Err(error::ambiguous_constraint(name)),
        }
    }

    fn set_option(&mut self, option: &TableOption) -> Result<(), SqlError> {
        if let TableOption::AutoIncrement(first) = option {
            self.auto_increment = Some(*first);
        }
        option::apply(&mut self.draft.options, option, &mut self.rules)
    }

    /// CHARACTER SET and COLLATE of the table: columns keep theirs.
    fn set_text_options(&mut self, actions: &[AlterAction]) -> Result<(), SqlError> {
        let options: Vec<TableOption> = actions
            .iter()
            .filter_map(|action| match action {
                AlterAction::Option(option) => Some(option.clone()),
                _ => None,
            })
            .collect();
        let around = self.draft.options.collation.0;
        if let Some(collation) = option::text_options(&options, around)? {
            self.draft.options.collation = TableCollation(collation);
        }
        Ok(())
    }

    /// CONVERT TO CHARACTER SET: the table and all its text columns.
    fn convert(
        &mut self,
        charset: &ast::CharacterSet,
        collation: Option<&ast::Ident>,
    ) -> Result<(), SqlError> {
        let around = self.draft.options.collation.0;
        let charset = option::named_charset(charset, around)?;
        let chosen = match collation {
            Some(name) => {
                let collation = column::collation(name.as_str())?;
                column::check_pair(charset, collation)?;
                collation
            }
            None => charset.default_collation(),
        };
        self.draft.options.collation = TableCollation(chosen);
        if chosen == CollationId::BINARY {
            return Err(error::unsupported("CONVERT TO CHARACTER SET binary"));
        }
        for column in self.draft.columns.iter_mut().filter(|column| column.sql_type.has_charset()) {
            column.sql_type.collation = chosen;
            column.explicit_collation = false;
        }
        Ok(())
    }
}
