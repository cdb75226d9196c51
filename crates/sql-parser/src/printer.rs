//! From a tree back to text.
//!
//! # Owns
//! `Display` of statements, queries, expressions and types, in one canonical form: names in
//! backquotes, every operation in parentheses, queries and expressions in lower case as MySQL
//! prints them in SHOW CREATE TABLE and SHOW CREATE VIEW.
//! # Invariants
//! 1. The text parses, with the default [`crate::SqlMode`], to an equal tree. There are three
//!    exceptions: a string that is not UTF-8 comes back as a hexadecimal literal; an unsupported
//!    statement is only its name; in a statement with parameters where `INTERVAL ? DAY + ?` begins
//!    an operation, the two change their numbers.
//!
//! Recursion follows the tree, whose height is bounded.

mod account;
mod administration;
mod backup;
mod changefeed;
mod expression;
mod hint;
mod manipulation;
mod query;
mod replication;
mod schema;
mod statement;
mod table;

use std::fmt;

use crate::ast::{
    CharacterSet, ColumnRef, DataType, Expr, Ident, ObjectName, Query, Statement, TableReference,
};

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printed(|printer| printer.statement(self)))
    }
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printed(|printer| printer.query(self)))
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printed(|printer| printer.expr(self)))
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printed(|printer| printer.data_type(self)))
    }
}

impl fmt::Display for TableReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printed(|printer| printer.table_reference(self)))
    }
}

/// An expression as SHOW CREATE TABLE shows it: each string with the character set it has.
pub fn print_expression_with_charset(expr: &Expr, charset: &str) -> String {
    let mut printer = Printer { out: String::new(), charset: Some(charset) };
    printer.expr(expr);
    printer.out
}

fn printed(print: impl FnOnce(&mut Printer<'_>)) -> String {
    let mut printer = Printer { out: String::new(), charset: None };
    print(&mut printer);
    printer.out
}

struct Printer<'a> {
    out: String,
    /// The character set to write before strings that have none.
    charset: Option<&'a str>,
}

impl Printer<'_> {
    fn put(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn put_if(&mut self, condition: bool, text: &str) {
        if condition {
            self.put(text);
        }
    }

    fn number(&mut self, number: impl fmt::Display) {
        self.put(&number.to_string());
    }

    fn ident(&mut self, ident: &Ident) {
        self.quoted_name(ident.as_str());
    }

    fn quoted_name(&mut self, name: &str) {
        if name.is_empty() {
            // Only a text may be so where a name may be a text.
            return self.put("''");
        }
        self.out.push('`');
        for char in name.chars() {
            if char == '`' {
                self.out.push('`');
            }
            self.out.push(char);
        }
        self.out.push('`');
    }

    fn object_name(&mut self, name: &ObjectName) {
        if let Some(schema) = &name.schema {
            self.ident(schema);
            self.put(".");
        }
        self.ident(&name.name);
    }

    fn column_ref(&mut self, column: &ColumnRef) {
        if let Some(table) = &column.table {
            self.object_name(table);
            self.put(".");
        }
        self.ident(&column.column);
    }

    /// A string in quotes.
    fn text(&mut self, text: &str) {
        self.out.push('\'');
        for char in text.chars() {
            match char {
                '\\' => self.put("\\\\"),
                '\'' => self.put("\\'"),
                '\0' => self.put("\\0"),
                '\n' => self.put("\\n"),
                '\r' => self.put("\\r"),
                '\u{1A}' => self.put("\\Z"),
                char => self.out.push(char),
            }
        }
        self.out.push('\'');
    }

    /// A string where only a string can stand, or the same bytes in hexadecimal.
    fn bytes(&mut self, bytes: &[u8]) {
        match std::str::from_utf8(bytes) {
            Ok(text) => self.text(text),
            Err(_) => self.hex(bytes),
        }
    }

    fn hex(&mut self, bytes: &[u8]) {
        self.put("x'");
        for byte in bytes {
            self.put(&format!("{byte:02X}"));
        }
        self.put("'");
    }

    fn list<T>(&mut self, items: &[T], separator: &str, mut print: impl FnMut(&mut Self, &T)) {
        for (index, item) in items.iter().enumerate() {
            self.put_if(index > 0, separator);
            print(self, item);
        }
    }

    fn idents(&mut self, idents: &[Ident]) {
        self.list(idents, ",", Self::ident);
    }

    /// `(a,b)`.
    fn ident_list(&mut self, idents: &[Ident]) {
        self.put("(");
        self.idents(idents);
        self.put(")");
    }

    fn object_names(&mut self, names: &[ObjectName]) {
        self.list(names, ",", Self::object_name);
    }

    /// `prefix(a,b)`, or nothing for no names.
    fn optional_ident_list(&mut self, prefix: &str, idents: &[Ident]) {
        if !idents.is_empty() {
            self.put(prefix);
            self.ident_list(idents);
        }
    }

    fn charset(&mut self, charset: &CharacterSet) {
        match charset {
            CharacterSet::Name(name) if name.as_str() == "binary" => self.put("binary"),
            CharacterSet::Name(name) => self.ident(name),
            CharacterSet::Default => self.put("default"),
        }
    }

    fn collation(&mut self, collation: &Ident) {
        match collation.as_str() {
            "binary" => self.put("binary"),
            _ => self.ident(collation),
        }
    }
}
