//! Columns that the equalities of an inner join make equal to each other.
//!
//! # Owns
//! [`Equivalences`]: classes of three columns or more. `a = b AND b = c` makes `a` equal to `c`, so
//! an order may join those two first. (PostgreSQL has equivalence classes, MySQL multiple
//! equalities.)
//! # Guarantees
//! When all parts of a join have been tied, every column of a class has been compared with another
//! one of the class, and no column more often than that asks for.
//! # Limits
//! Plain columns of different tables, compared in one way. Equality of such values is transitive:
//! whole numbers of any width, and values of the same type under the same collation.

use std::collections::{BTreeMap, BTreeSet};

use sql_expression::{BinaryOp, Comparison, Expression, Node};

use crate::plan::join::JoinPlanner;

/// The classes of an inner join.
#[derive(Debug, Default)]
pub(super) struct Equivalences {
    classes: Vec<Class>,
}

/// Columns that are equal in each row of the join.
#[derive(Debug)]
struct Class {
    comparison: Comparison,
    members: Vec<Member>,
    /// The conditions of the statement that made the class.
    written: Vec<Written>,
}

#[derive(Clone, Debug)]
struct Member {
    table: usize,
    place: u32,
    column: Expression,
}

/// An equality of the statement between two columns.
#[derive(Debug)]
struct Written {
    places: [u32; 2],
    condition: Expression,
    /// Its position among the conditions it was taken from.
    position: usize,
}

impl Equivalences {
    /// Takes the equalities that make classes out of conditions.
    pub(super) fn take(planner: &JoinPlanner<'_>, conditions: &mut Vec<Expression>) -> Self {
        let mut classes: Vec<Class> = Vec::new();
        for (position, condition) in conditions.iter().enumerate() {
            if let Some(equality) = Class::of(planner, condition, position) {
                equality.join(&mut classes);
            }
        }
        classes.retain(Class::is_useful);
        let written = classes.iter().flat_map(|class| &class.written);
        let taken: BTreeSet<usize> = written.map(|written| written.position).collect();
        let mut position = 0;
        conditions.retain(|_| {
            position += 1;
            !taken.contains(&(position - 1))
        });
        Self { classes }
    }

    /// The equalities that tie tables to those that are done, and to each other. Where one table
    /// that is done shares several classes with them, these are most often parts of one key: its
    /// columns are compared then, and estimates see that key.
    pub(super) fn ties(&self, tables: &BTreeSet<usize>, done: &BTreeSet<usize>) -> Vec<Expression> {
        let mut shared: BTreeMap<usize, usize> = BTreeMap::new();
        for class in self.classes.iter().filter(|class| class.is_of(tables)) {
            for member in class.members.iter().filter(|member| done.contains(&member.table)) {
                *shared.entry(member.table).or_default() += 1;
            }
        }
        let ties = self.classes.iter().flat_map(|class| class.ties(tables, done, &shared));
        ties.collect()
    }

    /// Whether a class ties tables to those that are done.
    pub(super) fn are_tied(&self, tables: &BTreeSet<usize>, done: &BTreeSet<usize>) -> bool {
        self.classes.iter().any(|class| class.is_of(tables) && class.is_of(done))
    }
}

impl Class {
    /// The class of one condition, if it is an equality between columns of two tables.
    fn of(planner: &JoinPlanner<'_>, condition: &Expression, position: usize) -> Option<Self> {
        let Node::Compare(compare) = &condition.node else { return None };
        let comparison = compare.comparison;
        let (left, right) = (&compare.left, &compare.right);
        let is_transitive = match comparison {
            Comparison::Int => [left, right].iter().all(|side| side.sql_type().kind.is_integer()),
            Comparison::Json => false,
            _ => left.sql_type() == right.sql_type(),
        };
        if compare.op != BinaryOp::Equal || !is_transitive {
            return None;
        }
        let member = |side: &Expression| {
            let place = side.as_column()?;
            let table = planner.table_at(place as usize)?;
            Some(Member { table, place, column: side.clone() })
        };
        let members = vec![member(left)?, member(right)?];
        let places = [members[0].place, members[1].place];
        let written = vec![Written { places, condition: condition.clone(), position }];
        Some(Self { comparison, members, written })
    }

    /// Makes one class of this one and of those that share a column with it.
    fn join(mut self, classes: &mut Vec<Self>) {
        let shares = |class: &mut Self| {
            class.comparison == self.comparison
                && class.members.iter().any(|member| self.has(member.place))
        };
        let mut joined: Vec<Self> = classes.extract_if(.., shares).collect();
        if joined.is_empty() {
            return classes.push(self);
        }
        let mut whole = joined.remove(0);
        joined.push(Self { members: std::mem::take(&mut self.members), ..self });
        for class in joined {
            for member in class.members {
                if !whole.has(member.place) {
                    whole.members.push(member);
                }
            }
            whole.written.extend(class.written);
        }
        classes.push(whole);
    }

    fn has(&self, place: u32) -> bool {
        self.members.iter().any(|member| member.place == place)
    }

    /// Whether it says more than its conditions do, each for itself. Two columns of one table are
    /// compared when that table is read, which a tie to another table does not do.
    fn is_useful(&self) -> bool {
        let tables: BTreeSet<usize> = self.members.iter().map(|member| member.table).collect();
        self.members.len() > 2 && tables.len() == self.members.len()
    }

    /// Whether it has a column of one of these tables.
    fn is_of(&self, tables: &BTreeSet<usize>) -> bool {
        self.members.iter().any(|member| tables.contains(&member.table))
    }

    /// Its part of [`Equivalences::ties`], with how many classes each table shares.
    fn ties(
        &self,
        tables: &BTreeSet<usize>,
        done: &BTreeSet<usize>,
        shared: &BTreeMap<usize, usize>,
    ) -> Vec<Expression> {
        let of = |wanted: &BTreeSet<usize>| -> Vec<&Member> {
            self.members.iter().filter(|member| wanted.contains(&member.table)).collect()
        };
        let (mut tied, mut before) = (of(tables), of(done));
        if before.is_empty() && !tied.is_empty() {
            before.push(tied.remove(0));
        }
        let count = |member: &Member| shared.get(&member.table).copied().unwrap_or_default();
        let most = before.iter().map(|member| count(member)).max();
        before.retain(|member| Some(count(member)) == most);
        tied.into_iter().map(|member| self.equality(member, &before)).collect()
    }

    /// The equality of a column and one of others: as the statement has it, if it has one.
    fn equality(&self, member: &Member, others: &[&Member]) -> Expression {
        let is_pair = |written: &&Written| {
            written.places.contains(&member.place)
                && others.iter().any(|other| written.places.contains(&other.place))
        };
        if let Some(written) = self.written.iter().find(is_pair) {
            return written.condition.clone();
        }
        let mut condition = self.written[0].condition.clone();
        if let Node::Compare(compare) = &mut condition.node {
            compare.left = others[0].column.clone();
            compare.right = member.column.clone();
            let sides = [&compare.left, &compare.right];
            condition.result.nullable = sides.iter().any(|side| side.result.nullable);
        }
        condition
    }
}
