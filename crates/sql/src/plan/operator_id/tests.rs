//! Which ids the operators of statements have.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use sql_expression::SubqueryId;
use sql_parser::ast::Statement;

use super::*;
use crate::catalog::harness::Harness;
use crate::execute::update;
use crate::plan::operator::{Operator, PlanNode, QueryPlan, Subplan};
use crate::plan::planner::Planner;

fn harness() -> Harness {
    let mut harness = Harness::new();
    harness.ok("CREATE TABLE t (id INT PRIMARY KEY, k INT, u INT UNIQUE, c VARCHAR(20), KEY (k))");
    harness.ok("CREATE TABLE s (id INT PRIMARY KEY, k INT, c VARCHAR(20))");
    harness.ok("CREATE ALGORITHM=TEMPTABLE VIEW v AS SELECT id, k FROM t WHERE k > 0");
    harness
}

fn parsed(harness: &Harness, sql: &str) -> Statement {
    let mode = harness.session.variables.parser_mode();
    sql_parser::parse_at(sql.as_bytes(), 0, mode).unwrap().statement
}

/// The plan of a query, or of the search of a change.
fn planned(harness: &Harness, sql: &str) -> QueryPlan {
    let mut planner = Planner::new(&harness.session, &[]);
    match parsed(harness, sql) {
        Statement::Query(query) => planner.query(&query).unwrap(),
        change => update::search_of(&mut planner, &change).unwrap(),
    }
}

/// The operators of a plan, with the scans inside them: each by its address, with its id and the
/// table that it reads.
#[derive(Default)]
struct Operators(BTreeMap<*const (), (OperatorId, String)>);

impl Operators {
    fn of(plan: &QueryPlan) -> Self {
        let mut operators = Self::default();
        operators.add_plan(plan);
        operators
    }

    fn add_plan(&mut self, plan: &QueryPlan) {
        self.add(&plan.root);
        plan.subqueries.iter().for_each(|subplan| self.add_subplan(subplan));
    }

    fn add_subplan(&mut self, subplan: &Subplan) {
        self.add_plan(&subplan.plan);
        if let Some(search) = &subplan.search {
            self.add_subplan(&search.subplan);
            search.nulls.iter().for_each(|plan| self.add_plan(plan));
        }
        subplan.keyed.iter().for_each(|keyed| self.add_plan(&keyed.plan));
    }

    fn add(&mut self, node: &PlanNode) {
        let table = match &node.operator {
            Operator::Scan(scan) => scan.alias.clone(),
            Operator::Lookup { scan, .. } => {
                let entry = (scan.id(), scan.alias.clone());
                self.0.insert(std::ptr::from_ref(&**scan).cast(), entry);
                String::new()
            }
            Operator::Edges { edges, .. } => {
                for edge in edges {
                    let entry = (edge.scan.id(), edge.scan.alias.clone());
                    self.0.insert(std::ptr::from_ref(&edge.scan).cast(), entry);
                }
                String::new()
            }
            Operator::Derived(scan) | Operator::Lateral { scan, .. } => {
                self.add_plan(&scan.plan);
                String::new()
            }
            _ => String::new(),
        };
        self.0.insert(std::ptr::from_ref(node).cast(), (node.id(), table));
        node.inputs().into_iter().for_each(|input| self.add(input));
    }

    /// The tables in the order of the ids of what reads them.
    fn tables(&self) -> String {
        let mut entries: Vec<_> = self.0.values().filter(|(_, table)| !table.is_empty()).collect();
        entries.sort();
        entries.iter().map(|(_, table)| table.as_str()).collect::<Vec<_>>().join(" ")
    }
}

#[test]
fn a_slot_keeps_the_first_id_it_was_given() {
    let (mut ids, slots) = (OperatorIds::default(), [IdSlot::default(), IdSlot::default()]);
    assert_eq!(slots[0].get(), None);
    assert!(ids.give(&slots[0]));
    assert!(!ids.give(&slots[0]));
    assert!(ids.give(&slots[1]));
    assert_eq!(slots.map(|slot| slot.id()), [OperatorId(0), OperatorId(1)]);
}

#[test]
fn a_table_has_the_entry_that_was_made_last() {
    let mut table: PerOperator<Vec<u8>> = [(OperatorId(3), vec![1])].into_iter().collect();
    assert_eq!(table.get(OperatorId(2)), None);
    assert_eq!(table.get(OperatorId(4)), None);
    table.or_default(OperatorId(3)).push(2);
    table.or_default(OperatorId(5)).push(3);
    assert_eq!(table.get(OperatorId(3)), Some(&vec![1, 2]));
    assert_eq!(table.take(OperatorId(5)), Some(vec![3]));
    assert!(!table.has(OperatorId(5)));
    table.insert(OperatorId(3), vec![4]);
    assert_eq!(table.get_mut(OperatorId(3)), Some(&mut vec![4]));
    assert_eq!(table.take(OperatorId(9)), None);
}

#[test]
fn each_operator_of_a_statement_has_an_id_of_its_own() {
    let harness = harness();
    for sql in [
        "SELECT c FROM t WHERE id = 1",
        "SELECT 1",
        "VALUES ROW(1), ROW(2)",
        "SELECT MIN(k), MAX(k) FROM t",
        "SELECT t.c, COUNT(DISTINCT s.c) FROM t JOIN s ON s.id = t.k GROUP BY t.c ORDER BY 2",
        "SELECT DISTINCT t.c FROM t LEFT JOIN s ON s.k = t.k AND s.c <> t.c, s AS other",
        "SELECT id FROM t UNION SELECT k FROM s UNION ALL SELECT MAX(id) FROM v",
        "SELECT a.id FROM v AS a JOIN v AS b ON a.id = b.k",
        "SELECT ROW_NUMBER() OVER (ORDER BY k) FROM t",
        "SELECT * FROM t, LATERAL (SELECT MAX(id) AS m FROM s WHERE s.k = t.k) AS l",
        "SELECT id FROM t WHERE k IN (SELECT k FROM s WHERE id IN (SELECT u FROM t))",
        "SELECT id FROM t WHERE k NOT IN (SELECT u FROM t) OR EXISTS (SELECT 1 FROM s WHERE k = u)",
        "SELECT (SELECT SUM(id) FROM s WHERE s.k = t.k AND EXISTS (SELECT 1 FROM v)) FROM t",
        // Both uses of a common table have one plan.
        "WITH d AS (SELECT k, COUNT(*) AS n FROM t GROUP BY k) \
         SELECT a.n FROM d AS a JOIN d AS b ON a.k = b.k WHERE a.n IN (SELECT n FROM d)",
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 5) \
         SELECT * FROM r, t WHERE t.id = r.n",
        "UPDATE t SET k = (SELECT MAX(id) FROM s) WHERE u IN (SELECT k FROM s) ORDER BY k LIMIT 2",
        "WITH d AS (SELECT k FROM s GROUP BY k) DELETE t FROM t, d WHERE t.k = d.k",
    ] {
        let Operators(entries) = Operators::of(&planned(&harness, sql));
        let ids: BTreeSet<OperatorId> = entries.values().map(|(id, _)| *id).collect();
        assert_eq!(ids.len(), entries.len(), "{sql}: an id is there twice");
        let last = ids.last().map(|id| id.index());
        assert_eq!(last, Some(ids.len() - 1), "{sql}: ids are not dense");
    }
}

#[test]
fn the_order_of_ids_is_that_of_explain() {
    let harness = harness();
    for (sql, tables) in [
        ("SELECT * FROM t STRAIGHT_JOIN s ON s.c = t.c STRAIGHT_JOIN t AS w ON w.c = s.c", "t s w"),
        ("SELECT id FROM t UNION SELECT id FROM s UNION SELECT id FROM t AS w", "t s w"),
        ("SELECT * FROM t WHERE c = (SELECT MAX(c) FROM s WHERE id < (SELECT 7 FROM v))", "t s t"),
        ("SELECT MIN(id), MAX(k) FROM t AS w", "w w"),
    ] {
        assert_eq!(Operators::of(&planned(&harness, sql)).tables(), tables, "{sql}");
    }
}

#[test]
fn plans_of_one_statement_share_no_ids() {
    let harness = harness();
    let mut planner = Planner::new(&harness.session, &[]);
    let Statement::Query(query) = parsed(&harness, "SELECT k FROM t ORDER BY c") else { panic!() };
    let plans = [planner.query(&query).unwrap(), planner.query(&query).unwrap()];
    let mut ids: BTreeSet<OperatorId> = BTreeSet::new();
    for plan in &plans {
        for (id, _) in Operators::of(plan).0.into_values() {
            assert!(ids.insert(id), "{id:?} is in both plans");
        }
    }
}

#[test]
#[should_panic(expected = "two operators have OperatorId(0)")]
fn a_part_of_another_statement_is_noticed() {
    let harness = harness();
    let mut planner = Planner::new(&harness.session, &[]);
    let Statement::Query(query) = parsed(&harness, "SELECT k FROM t") else { panic!() };
    let bound = planner.binding.bind_query(&query, None).unwrap();
    let mut plan = planner.physical(bound).unwrap();
    plan.subqueries.push(Subplan {
        id: SubqueryId(1),
        plan: Rc::new(planned(&harness, "SELECT k FROM s")),
        enough: None,
        keyed: None,
        search: None,
        whole: None,
    });
    planner.identify(&plan);
}

#[test]
#[should_panic(expected = "an id of its own statement")]
fn a_plan_of_another_statement_is_noticed() {
    let harness = harness();
    let plan = planned(&harness, "SELECT k FROM t");
    Planner::new(&harness.session, &[]).identify(&plan);
}
