//! Draws queries: joins, subqueries, groups, windows, set operations, common tables.
//!
//! # Invariants
//! What a query leaves open is not compared: where it has a LIMIT its order is total, of texts that
//! compare equal none is chosen, and no sum depends on the order of its terms.

use super::draw::Draw;
use super::expression::{Expressions, Named, Template};
use super::tree::{Kind, Tree};
use super::world::{COMMON, TABLES};

use Kind::{
    Date as A, Decimal as D, Double as F, Integer as I, Moment as M, Text as S, Time as T,
    Truth as B,
};

/// A query, and what of its answer is comparable.
pub(super) struct Query {
    pub(super) tree: Tree,
    /// The rows come in an order.
    pub(super) ordered: bool,
    /// Every expression is evaluated for every row, so the same warnings come.
    pub(super) warns: bool,
    /// It joins types of several queries, which MariaDB does by rules of its own.
    pub(super) mixed: bool,
}

/// Tables of a FROM clause.
struct From {
    tree: Tree,
    columns: Vec<Named>,
    /// The names of the columns that tell its rows apart.
    ids: Vec<String>,
}

/// Kinds of values.
const KINDS: [Kind; 8] = [I, D, F, S, A, T, M, B];

const AGGREGATES: &[Template] = &[
    ("COUNT(*)", &[]),
    ("COUNT(#)", &[I]),
    ("COUNT(#)", &[S]),
    ("COUNT(DISTINCT #)", &[I]),
    ("COUNT(DISTINCT #)", &[S]),
    ("COUNT(DISTINCT #, #)", &[S, D]),
    ("SUM(#)", &[I]),
    ("SUM(#)", &[D]),
    ("SUM(#)", &[B]),
    ("SUM(DISTINCT #)", &[I]),
    ("AVG(#)", &[I]),
    ("AVG(#)", &[D]),
    ("AVG(DISTINCT #)", &[D]),
    ("MIN(#)", &[I]),
    ("MAX(#)", &[D]),
    ("MIN(#)", &[F]),
    ("MAX(#)", &[A]),
    ("MIN(#)", &[M]),
    ("MAX(#)", &[T]),
    ("MIN(HEX(#))", &[S]),
    ("MAX(HEX(#))", &[S]),
    ("BIT_AND(#)", &[I]),
    ("BIT_OR(#)", &[I]),
    ("BIT_XOR(#)", &[I]),
    ("ROUND(STDDEV_POP(# % 1000), 4)", &[I]),
    ("ROUND(VAR_SAMP(# % 1000), 3)", &[I]),
    ("MAX(# IS NULL)", &[S]),
    ("(SUM(#) + COUNT(#))", &[I, D]),
    ("IFNULL(SUM(#), -1)", &[D]),
];

const WINDOW_FUNCTIONS: &[Template] = &[
    ("SUM(#)", &[I]),
    ("SUM(#)", &[D]),
    ("AVG(#)", &[D]),
    ("COUNT(#)", &[S]),
    ("MIN(#)", &[A]),
    ("MAX(#)", &[D]),
    ("MAX(#)", &[M]),
    ("FIRST_VALUE(#)", &[S]),
    ("LAST_VALUE(#)", &[I]),
    ("NTH_VALUE(#, 2)", &[D]),
];

const RANKS: &[Template] = &[
    ("ROW_NUMBER()", &[]),
    ("RANK()", &[]),
    ("DENSE_RANK()", &[]),
    ("NTILE(3)", &[]),
    ("LAG(#)", &[I]),
    ("LEAD(#, 2)", &[D]),
    ("LAG(#, 1)", &[S]),
    ("LEAD(#)", &[M]),
];

const FRAMES: &[&str] = &[
    "",
    "",
    " ROWS UNBOUNDED PRECEDING",
    " ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    " ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    " ROWS BETWEEN 2 FOLLOWING AND 4 FOLLOWING",
    " RANGE UNBOUNDED PRECEDING",
    " RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
];

/// A number alone would mean a column of the answer.
fn not_a_position(tree: Tree) -> Tree {
    if tree.print().contains('.') { tree } else { Tree::leaf(Kind::Fixed, "COALESCE(NULL, 1)") }
}

impl Expressions {
    /// Expressions and queries that a seed decides.
    pub(super) fn new(draw: Draw) -> Self {
        Self { draw, columns: Vec::new(), subqueries: 0, aliases: 0 }
    }

    /// A query over the tables.
    pub(super) fn query(&mut self) -> Query {
        self.columns.clear();
        self.subqueries = 2;
        self.aliases = 0;
        match self.draw.below(20) {
            0..=8 => self.plain(),
            9..=12 => self.grouped(),
            13..=14 => self.windowed(),
            15..=16 => self.set_operation(),
            17 => self.with_common_table(),
            _ => self.constants(),
        }
    }

    /// Without tables, or with one only for its rows: expressions as deep as can be.
    fn constants(&mut self) -> Query {
        self.subqueries = 0;
        let from = self.base_table();
        self.columns = from.columns;
        let kind = *self.draw.item(&KINDS);
        let depth = 2 + self.draw.below(3) as u32;
        let item = self.draw_of(kind, depth);
        let text = format!("SELECT {}, # FROM # ORDER BY 1", from.ids[0]);
        Query {
            tree: Tree::of(Kind::Query, &text, vec![item, from.tree]),
            ordered: true,
            warns: true,
            mixed: false,
        }
    }

    fn plain(&mut self) -> Query {
        let from = self.from();
        self.columns = from.columns;
        let mut items = Vec::new();
        for _ in 0..1 + self.draw.below(3) {
            let kind = *self.draw.item(&KINDS);
            let depth = 1 + self.draw.below(3) as u32;
            let item = self.draw_of(kind, depth);
            items.push(Tree::of(Kind::Optional, ", #", vec![item]));
        }
        let places = "#".repeat(items.len());
        let mut children = items;
        children.push(from.tree);
        children.push(self.filter("WHERE"));
        if self.draw.chance(15) {
            // All columns are told apart, so texts are shown as what they are.
            let distinct = format!("SELECT DISTINCT {}{places} FROM ##", from.ids.join(", "));
            return Query {
                tree: Tree::of(Kind::Query, &distinct, children),
                ordered: false,
                warns: false,
                mixed: false,
            };
        }
        let by = *self.draw.item(&[I, D, S, M, A, F]);
        let by = not_a_position(self.draw_of(by, 1));
        let direction = self.draw.pick(&["", " DESC"]);
        children.push(Tree::of(Kind::Optional, &format!("#{direction}, "), vec![by]));
        let limit = match self.draw.below(4) {
            0 => format!(" LIMIT {}", self.draw.below(12)),
            1 => format!(" LIMIT {} OFFSET {}", self.draw.below(12), self.draw.below(5)),
            _ => String::new(),
        };
        children.push(Tree::leaf(Kind::Optional, limit));
        let ids = from.ids.join(", ");
        let text = format!("SELECT {ids}{places} FROM ## ORDER BY #{ids}#");
        Query {
            tree: Tree::of(Kind::Query, &text, children),
            ordered: true,
            warns: false,
            mixed: false,
        }
    }

    fn grouped(&mut self) -> Query {
        let from = self.from();
        self.columns = from.columns;
        self.subqueries = 0;
        let keys = self.draw.below(3) as usize;
        let (mut children, mut text) = (Vec::new(), String::from("SELECT "));
        for number in 0..keys {
            let key = self.comparable();
            text.push_str(&format!("# AS g{number}, "));
            children.push(key);
        }
        text.push_str("COUNT(*)");
        for _ in 0..1 + self.draw.below(3) {
            text.push('#');
            let item = self.aggregate();
            children.push(Tree::of(Kind::Optional, ", #", vec![item]));
        }
        text.push_str(" FROM ##");
        children.push(from.tree);
        children.push(self.filter("WHERE"));
        if keys > 0 {
            let names: Vec<String> = (0..keys).map(|number| format!("g{number}")).collect();
            text.push_str(&format!(" GROUP BY {}", names.join(", ")));
            if self.draw.chance(25) {
                text.push('#');
                children.push(Tree::leaf(Kind::Optional, " WITH ROLLUP"));
            }
        }
        if self.draw.chance(30) {
            let (left, right) =
                (self.filled(&AGGREGATES[..13], 1), self.filled(&AGGREGATES[..13], 1));
            text.push('#');
            let compare = self.draw.pick(&["<", ">=", "<>", "<=>"]);
            let having = format!(" HAVING COUNT(*) > 1 OR # {compare} #");
            children.push(Tree::of(Kind::Optional, &having, vec![left, right]));
        }
        Query {
            tree: Tree::of(Kind::Query, &text, children),
            ordered: false,
            warns: false,
            mixed: false,
        }
    }

    /// A value of which equal ones look equal.
    fn comparable(&mut self) -> Tree {
        let kind = *self.draw.item(&[I, I, D, S, S, A, M, T]);
        let depth = self.draw.below(3) as u32;
        let tree = self.draw_of(kind, depth);
        match kind {
            Kind::Text => Tree::of(Kind::Fixed, "HEX(#)", vec![tree]),
            _ => tree,
        }
    }

    fn aggregate(&mut self) -> Tree {
        if self.draw.chance(10) {
            let (item, order) = (self.draw_of(S, 1), self.draw_of(I, 1));
            // Texts that look the same may change places.
            let item = Tree::leaf(Kind::Fixed, item.print());
            let text = "GROUP_CONCAT(HEX(#) ORDER BY COALESCE(#, -99), HEX(#) SEPARATOR '|')";
            return Tree::of(Kind::Fixed, text, vec![item.clone(), not_a_position(order), item]);
        }
        let depth = self.draw.below(3) as u32;
        self.filled(AGGREGATES, depth)
    }

    fn filled(&mut self, templates: &'static [Template], depth: u32) -> Tree {
        let (text, kinds) = *self.draw.item(templates);
        let children = kinds.iter().map(|kind| self.draw_of(*kind, depth)).collect();
        Tree::of(Kind::Fixed, text, children)
    }

    fn windowed(&mut self) -> Query {
        let from = self.from();
        self.columns = from.columns;
        self.subqueries = 0;
        let ids = from.ids.join(", ");
        let (mut children, mut text) = (Vec::new(), format!("SELECT {ids}"));
        for _ in 0..1 + self.draw.below(2) {
            let ranks = self.draw.chance(40);
            let call = self.filled(if ranks { RANKS } else { WINDOW_FUNCTIONS }, 1);
            let partition = if self.draw.chance(60) {
                Tree::of(Kind::Optional, "PARTITION BY # ", vec![self.comparable()])
            } else {
                Tree::nothing()
            };
            let order = *self.draw.item(&[I, D, S, A, M]);
            let order = not_a_position(self.draw_of(order, 1));
            let direction = self.draw.pick(&["", " DESC"]);
            let order = Tree::of(Kind::Optional, &format!("#{direction}, "), vec![order]);
            let frame = if ranks { "" } else { self.draw.pick(FRAMES) };
            let window = format!(", # OVER (#ORDER BY #{ids}{frame})");
            text.push('#');
            children.push(Tree::of(Kind::Optional, &window, vec![call, partition, order]));
        }
        children.push(from.tree);
        children.push(self.filter("WHERE"));
        let text = format!("{text} FROM ##");
        Query {
            tree: Tree::of(Kind::Query, &text, children),
            ordered: false,
            warns: false,
            mixed: false,
        }
    }

    fn set_operation(&mut self) -> Query {
        let kinds: Vec<Kind> =
            (0..1 + self.draw.below(2)).map(|_| *self.draw.item(&[I, D, S, A, M, T, I])).collect();
        let mut tree = self.branch(&kinds);
        for _ in 0..1 + self.draw.below(2) {
            let operators = ["UNION", "UNION ALL", "INTERSECT", "EXCEPT", "UNION"];
            let operator = self.draw.pick(&operators);
            let right = self.branch(&kinds);
            tree = Tree::of(Kind::Query, &format!("# {operator} #"), vec![tree, right]);
        }
        Query { tree, ordered: false, warns: false, mixed: true }
    }

    fn branch(&mut self, kinds: &[Kind]) -> Tree {
        let from = self.base_table();
        self.columns = from.columns;
        let mut children = Vec::new();
        for kind in kinds {
            let mixed = *kind == D && self.draw.chance(30);
            let depth = self.draw.below(3) as u32;
            let item = self.draw_of(if mixed { I } else { *kind }, depth);
            children.push(match kind {
                Kind::Text => Tree::of(Kind::Fixed, "HEX(#)", vec![item]),
                _ => item,
            });
        }
        let items = vec!["#"; kinds.len()].join(", ");
        children.push(from.tree);
        children.push(self.filter("WHERE"));
        Tree::of(Kind::Query, &format!("SELECT {items} FROM ##"), children)
    }

    fn with_common_table(&mut self) -> Query {
        let from = self.from();
        self.columns = from.columns;
        self.subqueries = 0;
        let kinds = [*self.draw.item(&[I, D, A]), *self.draw.item(&[I, S, M, F])];
        let mut children: Vec<Tree> = kinds.iter().map(|kind| self.draw_of(*kind, 2)).collect();
        children.push(from.tree);
        children.push(self.filter("WHERE"));
        let body = format!("SELECT {} AS id, # AS x1, # AS x2 FROM ##", from.ids[0]);
        let body = Tree::of(Kind::Fixed, &body, children);
        self.columns = ["c1", "c2"]
            .iter()
            .flat_map(|table| {
                [("id", I), ("x1", kinds[0]), ("x2", kinds[1])]
                    .map(|(name, kind)| Named { name: format!("{table}.{name}"), kind })
            })
            .collect();
        let filter = self.filter("WHERE");
        let join = "JOIN";
        let text = format!(
            "WITH c AS (#) SELECT COUNT(*), COUNT(c1.x1), COUNT(c2.x2), MIN(c1.x1), MAX(c2.x1) \
             FROM c c1 {join} c c2 ON c1.id = c2.id#"
        );
        Query {
            tree: Tree::of(Kind::Query, &text, vec![body, filter]),
            ordered: false,
            warns: false,
            mixed: false,
        }
    }

    /// A condition with a word before it, or nothing.
    fn filter(&mut self, word: &str) -> Tree {
        if self.draw.chance(35) {
            return Tree::nothing();
        }
        let depth = 1 + self.draw.below(3) as u32;
        let condition = self.draw_of(B, depth);
        Tree::of(Kind::Optional, &format!(" {word} #"), vec![condition])
    }

    fn alias(&mut self) -> String {
        self.aliases += 1;
        format!("t{}", self.aliases)
    }

    /// One to three tables.
    fn from(&mut self) -> From {
        let outer = self.columns.clone();
        let mut from = self.source();
        for _ in 0..self.draw.below(5) / 2 {
            let right = self.source();
            let (a, b) = (from.columns[0].name.clone(), right.columns[0].name.clone());
            let table = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
            let (a, b) = (table(&a), table(&b));
            let columns = [from.columns, right.columns].concat();
            let join = self.draw.pick(&["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN"]);
            let mut children = vec![from.tree, right.tree];
            let text = match self.draw.below(8) {
                0 => format!("# {join} # USING (k)"),
                1 => format!("# {join} # USING (id)"),
                2 => format!("# NATURAL {join} #"),
                3 => format!("# {join} # ON {a}.id = {b}.id"),
                kind => {
                    self.columns = [&outer[..], &columns].concat();
                    let condition = self.draw_of(B, 1 + (kind % 2) as u32);
                    children.push(Tree::of(Kind::Optional, " AND #", vec![condition]));
                    let on = self.draw.pick(&["k = @.k", "w = @.w", "id = @.k", "id > @.id + 20"]);
                    format!("# {join} # ON {a}.{}#", on.replace('@', &b))
                }
            };
            let ids = [from.ids, right.ids].concat();
            let text = if text.starts_with("# NATURAL") || text.contains("USING") {
                // Columns in common are ambiguous only without the table's name.
                format!("({text})")
            } else {
                text
            };
            from = From { tree: Tree::of(Kind::Fixed, &text, children), columns, ids };
        }
        self.columns = outer;
        from
    }

    /// A table, or a query in its place.
    fn source(&mut self) -> From {
        if self.draw.chance(75) {
            return self.base_table();
        }
        let outer = std::mem::take(&mut self.columns);
        let inner = self.base_table();
        self.columns = inner.columns;
        let alias = self.alias();
        let named = |name: &str, kind| Named { name: format!("{alias}.{name}"), kind };
        let from = if self.draw.chance(30) {
            let subqueries = std::mem::take(&mut self.subqueries);
            let (first, second) = (self.draw_of(I, 1), self.draw_of(D, 1));
            self.subqueries = subqueries;
            let group = self.columns[1].name.clone();
            let text = format!(
                "(SELECT MIN({}) AS id, {group} AS k, MIN({}) AS w, COUNT(#) AS x1, SUM(#) AS x2 \
                 FROM # GROUP BY {group}) AS {alias}",
                self.columns[0].name, self.columns[2].name
            );
            let columns = [("id", I), ("k", I), ("x1", I), ("x2", D)];
            let columns = columns.map(|(name, kind)| named(name, kind)).to_vec();
            let tree = Tree::of(Kind::Fixed, &text, vec![first, second, inner.tree]);
            From { tree, columns, ids: vec![format!("{alias}.id")] }
        } else {
            let kinds = [*self.draw.item(&KINDS[..7]), *self.draw.item(&KINDS[..7])];
            let mut children: Vec<Tree> = kinds.iter().map(|kind| self.draw_of(*kind, 2)).collect();
            children.push(inner.tree);
            children.push(self.filter("WHERE"));
            let names = [0, 1, 2].map(|at| self.columns[at].name.clone());
            let text =
                format!("(SELECT {}, # AS x1, # AS x2 FROM ##) AS {alias}", names.join(", "));
            let columns = [("id", I), ("k", I), ("w", S), ("x1", kinds[0]), ("x2", kinds[1])];
            let columns = columns.map(|(name, kind)| named(name, kind)).to_vec();
            From {
                tree: Tree::of(Kind::Fixed, &text, children),
                columns,
                ids: vec![format!("{alias}.id")],
            }
        };
        self.columns = outer;
        from
    }

    fn base_table(&mut self) -> From {
        let table = self.draw.item(&TABLES);
        let alias = self.alias();
        let all = COMMON.iter().chain(table.columns);
        let mut columns = vec![Named { name: format!("{alias}.id"), kind: I }];
        columns.extend(
            all.map(|column| Named { name: format!("{alias}.{}", column.name), kind: column.kind }),
        );
        let tree = Tree::leaf(Kind::Fixed, format!("{} AS {alias}", table.name));
        From { tree, columns, ids: vec![format!("{alias}.id")] }
    }

    /// A subquery in the place of an expression.
    pub(super) fn subquery(&mut self, kind: Kind) -> Tree {
        let outer = self.columns.clone();
        let from = self.base_table();
        let id = from.ids[0].clone();
        let correlated = self.draw.chance(60);
        self.columns =
            if correlated { [&outer[..], &from.columns].concat() } else { from.columns.clone() };
        let tie = match outer.first() {
            Some(outer) if correlated => {
                let on = self.draw.pick(&["id", "k"]);
                let table = id.split('.').next().unwrap_or_default();
                Tree::leaf(Kind::Optional, format!(" AND {table}.{on} = {}", outer.name))
            }
            _ => Tree::nothing(),
        };
        let condition = self.draw_of(B, 1);
        let tree = match kind {
            Kind::Truth => {
                let compared = *self.draw.item(&[I, D, S, A]);
                self.columns = from.columns.clone();
                let item = self.draw_of(compared, 1);
                self.columns.clone_from(&outer);
                let left = self.draw_of(compared, 1);
                let children = vec![left, item, from.tree, condition, tie];
                let body = "(SELECT # FROM # WHERE ##))";
                let text = match self.draw.below(6) {
                    0 => "(# = ANY ",
                    1 => "(# > ALL ",
                    2 => "(# NOT IN ",
                    3 => "(# IS NOT NULL OR EXISTS ",
                    4 => "(# IS NOT NULL AND NOT EXISTS ",
                    _ => "(# IN ",
                };
                Tree::of(kind, &format!("{text}{body}"), children)
            }
            _ => {
                // An aggregate of columns from outside alone would belong to the query around.
                self.columns.clone_from(&from.columns);
                let item = match kind {
                    Kind::Text => Tree::of(S, "HEX(#)", vec![self.draw_of(S, 1)]),
                    _ => self.draw_of(kind, 1),
                };
                let aggregate = self.draw.pick(&["MIN(#)", "MAX(#)"]);
                if self.draw.chance(70) {
                    let text = format!("(SELECT {aggregate} FROM # WHERE ##)");
                    Tree::of(kind, &text, vec![item, from.tree, condition, tie])
                } else {
                    let text = format!("(SELECT # FROM # WHERE ## ORDER BY {id} LIMIT 1)");
                    Tree::of(kind, &text, vec![item, from.tree, condition, tie])
                }
            }
        };
        self.columns = outer;
        tree
    }
}
