//! Statements as trees, so that a failing one can be made smaller.
//!
//! # Owns
//! [`Tree`]: what it prints as, and which smaller trees say something of the same kind.

/// What may stand where a tree stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Integer,
    Decimal,
    Double,
    Text,
    Date,
    Time,
    Moment,
    Truth,
    /// May be left out.
    Optional,
    /// A whole query; a part of one that is a query may take its place.
    Query,
    /// Nothing else may stand there.
    Fixed,
}

impl Kind {
    /// The simplest values of a kind.
    fn simplest(self) -> &'static [&'static str] {
        match self {
            Kind::Integer => &["NULL", "1", "0"],
            Kind::Decimal => &["NULL", "1.5"],
            Kind::Double => &["NULL", "1e0"],
            Kind::Text => &["NULL", "'a'", "''"],
            Kind::Date => &["NULL", "DATE'2024-02-29'"],
            Kind::Time => &["NULL", "TIME'10:11:12'"],
            Kind::Moment => &["NULL", "TIMESTAMP'2024-02-29 10:11:12'"],
            Kind::Truth => &["TRUE", "FALSE", "NULL"],
            Kind::Optional => &[""],
            Kind::Query | Kind::Fixed => &[],
        }
    }
}

/// A piece of a statement.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    kind: Kind,
    /// The text; each `#` is the place of a child.
    text: String,
    children: Vec<Tree>,
}

impl Tree {
    /// A tree whose text has a `#` for each child.
    pub(super) fn of(kind: Kind, text: &str, children: Vec<Tree>) -> Self {
        assert_eq!(text.matches('#').count(), children.len(), "{text}");
        Self { kind, text: text.to_owned(), children }
    }

    /// A text without children.
    pub(super) fn leaf(kind: Kind, text: impl Into<String>) -> Self {
        let text = text.into();
        assert!(!text.contains('#'), "{text}");
        Self { kind, text, children: Vec::new() }
    }

    /// Nothing.
    pub(super) fn nothing() -> Self {
        Self::leaf(Kind::Optional, "")
    }

    /// The statement.
    pub(super) fn print(&self) -> String {
        let mut out = String::new();
        self.print_to(&mut out);
        out
    }

    fn print_to(&self, out: &mut String) {
        let mut texts = self.text.split('#');
        out.push_str(texts.next().unwrap_or_default());
        for (child, text) in self.children.iter().zip(texts) {
            child.print_to(out);
            out.push_str(text);
        }
    }

    /// A smaller tree for which `still` holds: no single step makes it smaller. At most so many
    /// steps are tried.
    pub(super) fn shrink(self, still: &mut dyn FnMut(&Tree) -> bool, tries_max: u32) -> Tree {
        let (mut tree, mut tries) = (self, 0);
        'again: loop {
            for path in tree.paths() {
                for smaller in tree.at(&path).smaller() {
                    let mut changed = tree.clone();
                    *changed.at_mut(&path) = smaller;
                    tries += 1;
                    if tries > tries_max {
                        return tree;
                    }
                    if still(&changed) {
                        tree = changed;
                        continue 'again;
                    }
                }
            }
            return tree;
        }
    }

    /// The ways to all nodes, large ones first.
    fn paths(&self) -> Vec<Vec<usize>> {
        let mut paths = vec![Vec::new()];
        let mut at = 0;
        while at < paths.len() {
            let path = paths[at].clone();
            let below = self.at(&path).children.len();
            paths.extend((0..below).map(|child| [&path[..], &[child]].concat()));
            at += 1;
        }
        paths
    }

    fn at(&self, path: &[usize]) -> &Tree {
        path.iter().fold(self, |tree, child| &tree.children[*child])
    }

    fn at_mut(&mut self, path: &[usize]) -> &mut Tree {
        path.iter().fold(self, |tree, child| &mut tree.children[*child])
    }

    /// What may stand here instead, and is smaller.
    fn smaller(&self) -> Vec<Tree> {
        let mut all = Vec::new();
        if self.kind == Kind::Fixed {
            return all;
        }
        for text in self.kind.simplest() {
            let is_larger = self.children.is_empty() && self.text.len() <= text.len();
            if !is_larger {
                all.push(Tree::leaf(self.kind, *text));
            }
        }
        self.collect_same_kind(self.kind, &mut all);
        all
    }

    fn collect_same_kind(&self, kind: Kind, all: &mut Vec<Tree>) {
        for child in &self.children {
            if child.kind == kind && kind != Kind::Optional {
                all.push(child.clone())
            } else {
                child.collect_same_kind(kind, all)
            }
        }
    }
}

#[test]
fn a_tree_shrinks_to_what_matters() {
    let one = |text: &str| Tree::leaf(Kind::Integer, text);
    let sum = Tree::of(Kind::Integer, "(# + #)", vec![one("7"), one("bad")]);
    let clause = Tree::of(Kind::Optional, " WHERE #", vec![one("x")]);
    let query = Tree::of(Kind::Query, "SELECT ABS(#)#", vec![sum, clause]);
    let small = query.shrink(&mut |tree| tree.print().contains("bad"), 100);
    assert_eq!(small.print(), "SELECT ABS(bad)");
}
