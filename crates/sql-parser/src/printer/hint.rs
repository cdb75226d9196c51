//! Optimizer hints.

use super::Printer;
use crate::ast::{Hint, HintArgument, HintTable, HintValue, Hints, Ident};

impl Printer<'_> {
    /// A comment with hints, if there are some.
    pub(super) fn hints(&mut self, hints: Option<&Hints>) {
        let Some(hints) = hints else { return };
        self.put(" /*+ ");
        self.list(&hints.list, " ", Self::hint);
        self.put(" */");
    }

    fn hint(&mut self, hint: &Hint) {
        self.put(hint.name);
        self.put("(");
        if let Some(block) = &hint.block {
            self.block(block);
            self.put(" ");
        }
        match &hint.argument {
            HintArgument::Tables(tables) => self.list(tables, ", ", Self::hint_table),
            HintArgument::Indexes(table, indexes) => {
                self.hint_table(table);
                self.put_if(!indexes.is_empty(), " ");
                self.list(indexes, ", ", Self::ident);
            }
            HintArgument::Strategies(words) => {
                self.list(words, ", ", |printer, word| printer.put(word));
            }
            HintArgument::Name(name) => self.ident(name),
            HintArgument::Time(time) => self.number(time),
            HintArgument::Assignment(variable, value) => {
                self.ident(variable);
                self.put(" = ");
                match value {
                    HintValue::Number(number) => self.put(number),
                    HintValue::Name(name) => self.ident(name),
                    HintValue::Text(text) => self.text(text),
                }
            }
        }
        self.put(")");
    }

    fn hint_table(&mut self, table: &HintTable) {
        self.ident(&table.name);
        if let Some(block) = &table.block {
            self.block(block);
        }
    }

    fn block(&mut self, block: &Ident) {
        self.put("@");
        self.ident(block);
    }
}
