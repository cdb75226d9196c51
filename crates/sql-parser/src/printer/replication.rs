//! CHANGE REPLICATION SOURCE, CHANGE REPLICATION FILTER, START, STOP and RESET REPLICA.

use super::Printer;
use crate::ast::{
    ChangeFilter, ChangeSource, FilterRule, ReplicaAction, ReplicaCommand, SourceOption,
    SourceValue,
};

impl Printer<'_> {
    pub(super) fn change_source(&mut self, change: &ChangeSource) {
        self.put("CHANGE REPLICATION SOURCE TO ");
        self.list(&change.options, ", ", Self::source_option);
        self.for_channel(change.channel.as_deref());
    }

    pub(super) fn change_filter(&mut self, change: &ChangeFilter) {
        self.put("CHANGE REPLICATION FILTER ");
        self.list(&change.rules, ", ", Self::filter_rule);
        self.for_channel(change.channel.as_deref());
    }

    pub(super) fn replica(&mut self, command: &ReplicaCommand) {
        self.put(match command.action {
            ReplicaAction::Start => "START REPLICA",
            ReplicaAction::Stop => "STOP REPLICA",
            ReplicaAction::Reset => "RESET REPLICA",
            ReplicaAction::ResetAll => "RESET REPLICA ALL",
        });
        self.for_channel(command.channel.as_deref());
    }

    fn for_channel(&mut self, channel: Option<&str>) {
        if let Some(channel) = channel {
            self.put(" FOR CHANNEL ");
            self.text(channel);
        }
    }

    fn source_option(&mut self, option: &SourceOption) {
        self.put(&option.name);
        self.put(" = ");
        match &option.value {
            SourceValue::Text(text) => self.bytes(text),
            SourceValue::Number(digits) => self.put(digits),
            SourceValue::Word(word) if word.as_str() == "NULL" => self.put("NULL"),
            SourceValue::Word(word) => self.ident(word),
            SourceValue::Numbers(numbers) => {
                self.put("(");
                self.list(numbers, ", ", |printer, number| printer.put(&number.to_string()));
                self.put(")");
            }
        }
    }

    fn filter_rule(&mut self, rule: &FilterRule) {
        match rule {
            FilterRule::DoDatabases(names) => self.rule("REPLICATE_DO_DB", names, Self::ident),
            FilterRule::IgnoreDatabases(names) => {
                self.rule("REPLICATE_IGNORE_DB", names, Self::ident);
            }
            FilterRule::DoTables(names) => {
                self.rule("REPLICATE_DO_TABLE", names, Self::object_name);
            }
            FilterRule::IgnoreTables(names) => {
                self.rule("REPLICATE_IGNORE_TABLE", names, Self::object_name);
            }
            FilterRule::DoPatterns(patterns) => {
                self.rule("REPLICATE_WILD_DO_TABLE", patterns, |printer, text| printer.bytes(text));
            }
            FilterRule::IgnorePatterns(patterns) => {
                self.rule("REPLICATE_WILD_IGNORE_TABLE", patterns, |printer, text| {
                    printer.bytes(text);
                });
            }
            FilterRule::RewriteDatabases(pairs) => {
                self.rule("REPLICATE_REWRITE_DB", pairs, |printer, (from, to)| {
                    printer.put("(");
                    printer.ident(from);
                    printer.put(", ");
                    printer.ident(to);
                    printer.put(")");
                });
            }
        }
    }

    fn rule<T>(&mut self, name: &str, items: &[T], print: impl FnMut(&mut Self, &T)) {
        self.put(name);
        self.put(" = (");
        self.list(items, ", ", print);
        self.put(")");
    }
}
