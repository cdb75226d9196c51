//! The plan of a bound query: operators, and how rows are found.
//!
//! # Owns
//! The way from a [`BoundQuery`] to its [`QueryPlan`], with the plans of all queries inside.
//! # Guarantees
//! Uses of one query in FROM share a plan. Planning takes time that grows with the square of the
//! number of queries in each other, at most.
//! # Not here
//! The joins (`join`, `order`, `path`), what stands above them (`assemble`), subqueries for all
//! rows at once (`keyed`) and for single values (`member`).

use std::rc::Rc;

use sql_expression::{Expression, SqlError};

use crate::logical::bound::{Block, BoundQuery, BoundRecursion, Relation, SetOperation, Subquery};
use crate::logical::from_table::{FromTable, Source, known_rows};
use crate::logical::rewrite::push_condition;
use crate::plan::assemble;
use crate::plan::estimate::Estimates;
use crate::plan::keyed;
use crate::plan::member;
use crate::plan::operator::{Keyed, Operator, QueryPlan, Recursion, Subplan};
use crate::plan::planner::Planner;
use crate::plan::set_operation::set_operator;

/// What the relations of a query share: its subqueries, bound and planned.
struct Subqueries<'q> {
    bound: &'q [Subquery],
    plans: Vec<Subplan>,
}

impl Planner<'_> {
    /// The plan of a bound query, whose operators have no ids yet.
    ///
    /// # Errors
    /// Those of planning joins; the statement is to end.
    pub(super) fn physical(&mut self, query: BoundQuery) -> Result<QueryPlan, SqlError> {
        self.planned(query, false).map(|(plan, _)| plan)
    }

    /// The plan; of a subquery also how to get its rows for all rows of the enclosing block at
    /// once.
    fn planned(
        &mut self,
        query: BoundQuery,
        is_subquery: bool,
    ) -> Result<(QueryPlan, Option<Keyed>), SqlError> {
        let counts_found_rows = query.counts_found_rows();
        let BoundQuery { columns, results, relation, subqueries: bound, correlated, .. } = query;
        let mut subqueries = Subqueries { bound: &bound, plans: self.subplans(&bound)? };
        let mut keyed = None;
        let root = match relation {
            Relation::Block(mut block) => {
                if is_subquery {
                    keyed = self.keyed(&mut block, &bound)?;
                }
                let (root, rows) = self.block(*block, &mut subqueries)?;
                if let Some(keyed) = &mut keyed {
                    keyed.weigh(&root, rows);
                }
                root
            }
            relation => self.relation(relation, &mut subqueries)?,
        };
        let subqueries = subqueries.plans;
        if let Some(keyed) = &mut keyed {
            keyed.plan.subqueries.clone_from(&subqueries);
        }
        let plan = QueryPlan::new(columns, root, results, correlated);
        Ok((QueryPlan { counts_found_rows, subqueries, ..plan }, keyed))
    }

    /// The plans of subqueries.
    pub(super) fn subplans(&mut self, bound: &[Subquery]) -> Result<Vec<Subplan>, SqlError> {
        let planned = bound.iter().map(|subquery| {
            // A condition may ask it for values: what it is bound to is needed again.
            let (plan, keyed) = self.planned((*subquery.query).clone(), true)?;
            Ok(Subplan {
                id: subquery.id,
                plan: Rc::new(plan),
                enough: subquery.exists.then_some(1),
                keyed: keyed.map(Rc::new),
                search: None,
                whole: None,
            })
        });
        planned.collect()
    }

    /// Has the subqueries of conditions be asked for single values, where that is possible.
    pub(super) fn add_searches(
        &mut self,
        bound: &[Subquery],
        plans: &mut [Subplan],
        conditions: &[Expression],
    ) -> Result<(), SqlError> {
        let numbers = &mut self.binding.numbers;
        member::add_searches(bound, plans, conditions, &mut || numbers.next())
    }

    fn relation(
        &mut self,
        relation: Relation,
        subqueries: &mut Subqueries<'_>,
    ) -> Result<Operator, SqlError> {
        match relation {
            Relation::Block(block) => self.block(*block, subqueries).map(|(root, _)| root),
            Relation::Set(SetOperation { parts, kinds, results }) => {
                let operands = parts.into_iter().map(|(part, types)| {
                    let root = self.relation(part, subqueries)?;
                    Ok((root, types))
                });
                let operands: Result<Vec<_>, SqlError> = operands.collect();
                set_operator(operands?, &kinds, &results)
            }
            Relation::Ordered { input, keys, bounds } => {
                let mut root = self.relation(*input, subqueries)?;
                if !keys.is_empty() {
                    root = Operator::Sort { input: root.into(), keys, limit: bounds.clone() };
                }
                if let Some(bounds) = bounds {
                    root = Operator::Limit { input: root.into(), bounds };
                }
                Ok(root)
            }
            Relation::Values(rows) => Ok(Operator::Rows(rows)),
            Relation::JsonTable(table) => Ok(Operator::JsonTable(table)),
            Relation::Recursive(recursion) => {
                let BoundRecursion { number, first, parts, distinct, columns, bounds } = *recursion;
                let first = self.relation(first, subqueries)?.into();
                let parts = parts.into_iter().map(|(part, types)| {
                    let root = self.relation(part, subqueries)?;
                    Ok((root.into(), types))
                });
                let parts: Result<Vec<_>, SqlError> = parts.collect();
                let recursion =
                    Recursion { number, first, parts: parts?, distinct, columns, bounds };
                Ok(Operator::Recursive(Box::new(recursion)))
            }
            Relation::WorkTable { number } => Ok(Operator::WorkTable { number }),
        }
    }

    /// How the block of a subquery gives its rows for all rows of the enclosing block at once.
    fn keyed(
        &mut self,
        block: &mut Block,
        subqueries: &[Subquery],
    ) -> Result<Option<Keyed>, SqlError> {
        let locks = block.tables.iter().any(|table| table.lock.is_some());
        if !block.correlated || block.shape.distinct || locks {
            return Ok(None);
        }
        let plans = self.derived_plans(&mut block.tables)?;
        let keyed = keyed::plan(block, &plans, subqueries)?;
        self.binding.session.pauses().look()?;
        Ok(keyed)
    }

    /// The operators of a block, and how many rows its tables have as far as that is known.
    fn block(
        &mut self,
        mut block: Block,
        subqueries: &mut Subqueries<'_>,
    ) -> Result<(Operator, u64), SqlError> {
        let pauses = self.binding.session.pauses().clone();
        let Subqueries { bound, plans } = subqueries;
        self.add_searches(bound, plans, &block.bound.conditions)?;
        pauses.look()?;
        if let Some(tree) = block.tree.as_mut().filter(|_| block.correlated) {
            let (tables, conditions) = (&mut block.tables, &mut block.bound.conditions);
            push_condition::push_all(tables, tree, conditions, &mut self.binding.numbers)?;
        }
        let plans = self.derived_plans(&mut block.tables)?;
        pauses.look()?;
        let rows = known_rows(&block.tables);
        let root = assemble::operators(block, &plans)?;
        pauses.look()?;
        Ok((root, rows))
    }

    /// The plans of the queries in FROM, by the number of the table. The tables learn how many rows
    /// these have.
    pub(crate) fn derived_plans(
        &mut self,
        tables: &mut [FromTable],
    ) -> Result<Vec<Option<Rc<QueryPlan>>>, SqlError> {
        let mut plans = Vec::new();
        for table in tables {
            let Source::Derived(query) = &table.source else {
                plans.push(None);
                continue;
            };
            let plan = self.derived_plan(query)?;
            table.rows = Estimates::in_planning(self.binding.session).rows(&plan);
            plans.push(Some(plan));
        }
        Ok(plans)
    }

    fn derived_plan(&mut self, query: &Rc<BoundQuery>) -> Result<Rc<QueryPlan>, SqlError> {
        if let Some(plan) = query.number.and_then(|number| self.plans.get(&number)) {
            return Ok(plan.clone());
        }
        let plan = Rc::new(self.physical((**query).clone())?);
        if let Some(number) = query.number {
            self.plans.insert(number, plan.clone());
        }
        Ok(plan)
    }
}
