//! A cluster state in pieces, so that a large catalog is written, sent or read some at a time.
//!
//! # Owns
//! [`CatalogPiece`]: some tables, names, databases and accounts; [`Pieces`], which takes a state
//! apart.
//! [`StatePiece`]: what a state is sent as, from [`StatePieces`] to [`StateAssembly`].
//! # Guarantees
//! A state without its catalog and all of its pieces, in any order, make the state. A piece is a
//! few tens of kilobytes as text, unless a single description is longer.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use stdx::SharedMap;

use super::ClusterState;
use crate::ids::{ClusterId, ControlIndex, TableId};
use crate::schema::{Description, Table};

/// Tables of a piece, at most.
const TABLES_MAX: usize = 24;
/// Names, databases and accounts that are as long as a table.
const NAMES_PER_TABLE: usize = 8;
/// A piece ends with the description that makes it as long as this, in bytes.
const DESCRIPTIONS_MAX: usize = 32 << 10;

/// Some of a state's tables, names, databases and accounts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CatalogPiece {
    tables: Vec<Arc<Table>>,
    names: Vec<(Arc<str>, TableId)>,
    databases: Vec<(Arc<str>, Description)>,
    #[serde(default)]
    accounts: Vec<(Arc<str>, Description)>,
}

impl CatalogPiece {
    /// How many entries it has.
    pub fn len(&self) -> usize {
        self.tables.len() + self.names.len() + self.databases.len() + self.accounts.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn is_full(&self) -> bool {
        let of_tables = self.tables.iter().map(|table| table.description.len());
        let others = self.databases.iter().chain(&self.accounts);
        let of_others = others.map(|(_, description)| description.len());
        let names = self.names.len() + self.databases.len() + self.accounts.len();
        self.tables.len() * NAMES_PER_TABLE + names >= TABLES_MAX * NAMES_PER_TABLE
            || of_tables.chain(of_others).sum::<usize>() >= DESCRIPTIONS_MAX
    }
}

/// The pieces of a state's catalog, one after the other.
#[derive(Clone, Debug)]
pub struct Pieces {
    state: Arc<ClusterState>,
    /// What was taken last.
    at: At,
}

#[derive(Clone, Debug)]
enum At {
    Table(Option<TableId>),
    Name(Option<Arc<str>>),
    Database(Option<Arc<str>>),
    Account(Option<Arc<str>>),
    End,
}

impl Pieces {
    /// Those of this state.
    pub fn of(state: Arc<ClusterState>) -> Self {
        Self { state, at: At::Table(None) }
    }
}

impl Iterator for Pieces {
    type Item = CatalogPiece;

    fn next(&mut self) -> Option<CatalogPiece> {
        let mut piece = CatalogPiece::default();
        let Self { state, at } = self;
        if let At::Table(last) = at {
            for (id, table) in behind(&state.tables, last.as_ref()) {
                if piece.is_full() {
                    return Some(piece);
                }
                piece.tables.push(table.clone());
                *last = Some(*id);
            }
            *at = At::Name(None);
        }
        if let At::Name(last) = at {
            for (name, table) in behind(&state.table_names, last.as_ref()) {
                if piece.is_full() {
                    return Some(piece);
                }
                piece.names.push((name.clone(), *table));
                *last = Some(name.clone());
            }
            *at = At::Database(None);
        }
        if let At::Database(last) = at {
            for (name, description) in behind(&state.databases, last.as_ref()) {
                if piece.is_full() {
                    return Some(piece);
                }
                piece.databases.push((name.clone(), description.clone()));
                *last = Some(name.clone());
            }
            *at = At::Account(None);
        }
        if let At::Account(last) = at {
            for (name, description) in behind(&state.accounts, last.as_ref()) {
                if piece.is_full() {
                    return Some(piece);
                }
                piece.accounts.push((name.clone(), description.clone()));
                *last = Some(name.clone());
            }
            *at = At::End;
        }
        (!piece.is_empty()).then_some(piece)
    }
}

/// A piece of a state on its way to one who lacks it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatePiece {
    /// The cluster whose state it is.
    pub id: ClusterId,
    /// The index of the state.
    pub index: ControlIndex,
    /// Its number, from 0 on.
    pub number: u32,
    /// Nothing follows.
    pub last: bool,
    /// Of the first: the state without its pieces.
    head: Option<Box<ClusterState>>,
    catalog: CatalogPiece,
}

/// A state that is being sent, piece by piece.
#[derive(Clone, Debug)]
pub struct StatePieces {
    state: Arc<ClusterState>,
    pieces: Pieces,
    next: Option<CatalogPiece>,
    number: u32,
}

impl StatePieces {
    /// Begins with this state.
    pub fn of(state: Arc<ClusterState>) -> Self {
        let pieces = Pieces::of(state.clone());
        Self { state, pieces, next: None, number: 0 }
    }

    /// The state.
    pub fn state(&self) -> &Arc<ClusterState> {
        &self.state
    }

    /// How many pieces were taken.
    pub fn taken(&self) -> u32 {
        self.number
    }

    /// The next piece; none behind the last one.
    pub fn take(&mut self) -> Option<StatePiece> {
        let first = self.number == 0;
        let catalog = if first { self.pieces.next() } else { self.next.take() };
        if catalog.is_none() && !first {
            return None;
        }
        self.next = self.pieces.next();
        let piece = StatePiece {
            id: self.state.id,
            index: self.state.index,
            number: self.number,
            last: self.next.is_none(),
            head: first.then(|| Box::new(self.state.without_pieces())),
            catalog: catalog.unwrap_or_default(),
        };
        self.number += 1;
        Some(piece)
    }
}

/// A state that is being received.
#[derive(Clone, Debug, Default)]
pub struct StateAssembly {
    state: Option<Box<ClusterState>>,
    number: u32,
}

/// What a piece has made of a state.
#[derive(Clone, Debug, PartialEq)]
pub enum Assembled {
    /// It does not follow those that are here.
    Nothing,
    /// More pieces are to come.
    Part,
    /// The state is whole.
    Whole(Arc<ClusterState>),
}

impl StateAssembly {
    /// Takes a piece in; the first one of any state begins anew.
    pub fn add(&mut self, piece: StatePiece) -> Assembled {
        if let Some(head) = piece.head.filter(|_| piece.number == 0) {
            *self = Self { state: Some(head), number: 0 };
        }
        let of_state = |state: &ClusterState| (state.id, state.index) == (piece.id, piece.index);
        let state = self.state.as_mut().filter(|state| of_state(state));
        let Some(state) = state.filter(|_| self.number == piece.number) else {
            return Assembled::Nothing;
        };
        state.add_piece(piece.catalog);
        self.number += 1;
        if !piece.last {
            return Assembled::Part;
        }
        let whole = std::mem::take(self).state.expect("it was added to");
        Assembled::Whole(whole.into())
    }
}

/// The entries behind one, or all.
fn behind<'a, K: Ord + Clone, V: Clone>(
    map: &'a SharedMap<K, V>,
    last: Option<&K>,
) -> impl Iterator<Item = (&'a K, &'a V)> + use<'a, K, V> {
    let last = last.cloned();
    let from = match &last {
        Some(last) => map.iter_from(last),
        None => map.iter(),
    };
    from.skip_while(move |(key, _)| Some(*key) == last.as_ref())
}

impl ClusterState {
    /// How many entries the pieces of its catalog have together.
    pub fn catalog_entries(&self) -> usize {
        self.tables.len() + self.table_names.len() + self.databases.len() + self.accounts.len()
    }

    /// The state without what its pieces have.
    #[must_use]
    pub fn without_pieces(&self) -> Self {
        Self {
            tables: SharedMap::new(),
            table_names: SharedMap::new(),
            databases: SharedMap::new(),
            accounts: SharedMap::new(),
            ..self.clone()
        }
    }

    /// Adds what a piece has.
    pub fn add_piece(&mut self, piece: CatalogPiece) {
        for table in piece.tables {
            self.tables.insert(table.id, table);
        }
        for (name, table) in piece.names {
            self.table_names.insert(name, table);
        }
        for (name, description) in piece.databases {
            self.databases.insert(name, description);
        }
        for (name, description) in piece.accounts {
            self.accounts.insert(name, description);
        }
    }
}
