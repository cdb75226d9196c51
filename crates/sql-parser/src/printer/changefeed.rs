//! CREATE, PAUSE, RESUME, DROP and STREAM CHANGEFEED.

use super::Printer;
use crate::ast::{ChangefeedAction, ChangefeedCommand, CreateChangefeed, StreamChangefeed};

impl Printer<'_> {
    pub(super) fn create_changefeed(&mut self, create: &CreateChangefeed) {
        self.put("CREATE CHANGEFEED ");
        if create.if_not_exists {
            self.put("IF NOT EXISTS ");
        }
        self.ident(&create.name);
        self.put(" FOR TABLE ");
        self.list(&create.tables, ", ", Self::object_name);
        if let Some(condition) = &create.condition {
            self.put(" WHERE ");
            self.expr(condition);
        }
        self.put(" INTO ");
        self.bytes(&create.target);
        self.backup_options(&create.options);
    }

    pub(super) fn changefeed(&mut self, command: &ChangefeedCommand) {
        self.put(match command.action {
            ChangefeedAction::Pause => "PAUSE CHANGEFEED ",
            ChangefeedAction::Resume => "RESUME CHANGEFEED ",
            ChangefeedAction::Drop { if_exists: true } => "DROP CHANGEFEED IF EXISTS ",
            ChangefeedAction::Drop { if_exists: false } => "DROP CHANGEFEED ",
        });
        self.ident(&command.name);
    }

    pub(super) fn stream_changefeed(&mut self, stream: &StreamChangefeed) {
        self.put("STREAM CHANGEFEED ");
        self.ident(&stream.name);
        if let Some(from) = &stream.from {
            self.put(" FROM ");
            self.bytes(from);
        }
    }
}
