//! The planner of one statement.
//!
//! # Owns
//! [`Planner`]: the plans that queries of the statement share, and the ids of its operators.
//! # Not here
//! What names mean (`logical`). The plan of a bound query (`physical`).

use std::collections::BTreeMap;
use std::rc::Rc;

use sql_expression::{Expression, SqlError};
use sql_parser::ast;
use sqltype::Datum;

use crate::logical::binder::QueryBinder;
use crate::logical::bound::BoundQuery;
use crate::plan::operator::{PlanNode, QueryPlan, Subplan};
use crate::plan::operator_id::{OperatorIds, SeeSlot};
use crate::session::Session;

/// Plans the queries of one statement.
pub(crate) struct Planner<'s> {
    pub(crate) binding: QueryBinder<'s>,
    /// The plans of queries in FROM, by the numbers of these.
    pub(super) plans: BTreeMap<u32, Rc<QueryPlan>>,
    /// The ids that operators of finished plans have.
    ids: OperatorIds,
}

impl<'s> Planner<'s> {
    /// For a statement with these values of parameters, none of them if they are not known.
    pub(crate) fn new(session: &'s Session, parameters: &[Datum]) -> Self {
        Self::with(QueryBinder::new(session, parameters))
    }

    /// For a change.
    pub(crate) fn of_change(session: &'s Session, parameters: &[Datum]) -> Self {
        Self::with(QueryBinder::of_change(session, parameters))
    }

    fn with(binding: QueryBinder<'s>) -> Self {
        Self { binding, plans: BTreeMap::new(), ids: OperatorIds::default() }
    }

    /// Binds and plans a query that stands for itself.
    pub(crate) fn query(&mut self, query: &ast::Query) -> Result<QueryPlan, SqlError> {
        let bound = self.binding.bind_query(query, None)?;
        self.plan_of(bound)
    }

    /// The plan of a bound query that stands for itself.
    pub(crate) fn plan_of(&mut self, query: BoundQuery) -> Result<QueryPlan, SqlError> {
        let plan = self.physical(query)?;
        self.identify(&plan);
        Ok(plan)
    }

    /// Plans something in sight of the common tables of WITH.
    pub(crate) fn with_common_tables<T>(
        &mut self,
        with: Option<&ast::With>,
        plan: impl FnOnce(&mut Self) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        let mark = self.binding.mark();
        let defined = self.binding.define(with);
        let planned = defined.and_then(|()| plan(self));
        self.binding.forget(mark);
        planned
    }

    /// Plans the subqueries that were bound since the last time: those of a statement that is no
    /// query, which has these conditions. Their plans are finished.
    ///
    /// # Errors
    /// Those of planning joins.
    pub(crate) fn take_subplans(
        &mut self,
        conditions: &[Expression],
    ) -> Result<Vec<Subplan>, SqlError> {
        let subqueries = self.binding.take_subqueries();
        let mut subplans = self.subplans(&subqueries)?;
        self.add_searches(&subqueries, &mut subplans, conditions)?;
        self.give_ids(&|see| subplans.iter().for_each(|subplan| subplan.for_each_slot(see)));
        Ok(subplans)
    }

    /// Gives the operators of a finished plan, and of all plans in it, their ids.
    pub(crate) fn identify(&mut self, plan: &QueryPlan) {
        self.give_ids(&|see| plan.for_each_slot(see));
    }

    /// The same for an operator that is no part of a query.
    pub(crate) fn identify_operator(&mut self, operator: &PlanNode) {
        self.give_ids(&|see| {
            operator.for_each_slot(see);
        });
    }

    fn give_ids(&mut self, for_each: &dyn Fn(&mut SeeSlot<'_>)) {
        for_each(&mut |slot| self.ids.give(slot));
        self.ids.check(for_each);
    }
}
