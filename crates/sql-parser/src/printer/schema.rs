//! Databases, views, triggers, routines, events.

use super::Printer;
use crate::ast::{
    Account, AlterDatabase, CheckOption, CreateDatabase, CreateEvent, CreateRoutine, CreateTrigger,
    CreateView, DatabaseOption, DropDatabase, DropObject, DropRoutine, DropView, TriggerEvent,
    ViewAlgorithm,
};

impl Printer<'_> {
    pub(super) fn create_database(&mut self, create: &CreateDatabase) {
        self.put("CREATE DATABASE ");
        self.put_if(create.if_not_exists, "IF NOT EXISTS ");
        self.ident(&create.name);
        self.database_options(&create.options);
    }

    pub(super) fn alter_database(&mut self, alter: &AlterDatabase) {
        self.put("ALTER DATABASE");
        if let Some(name) = &alter.name {
            self.put(" ");
            self.ident(name);
        }
        self.database_options(&alter.options);
    }

    fn database_options(&mut self, options: &[DatabaseOption]) {
        for option in options {
            match option {
                DatabaseOption::Charset(charset) => {
                    self.put(" DEFAULT CHARACTER SET ");
                    self.charset(charset);
                }
                DatabaseOption::Collate(collation) => {
                    self.put(" DEFAULT COLLATE ");
                    self.collation(collation);
                }
                DatabaseOption::Encryption(value) => {
                    self.text_clause(" DEFAULT ENCRYPTION=", Some(value));
                }
                DatabaseOption::ReadOnly(value) => self.put(match value {
                    None => " READ ONLY=DEFAULT",
                    Some(true) => " READ ONLY=1",
                    Some(false) => " READ ONLY=0",
                }),
            }
        }
    }

    pub(super) fn drop_database(&mut self, drop: &DropDatabase) {
        self.put("DROP DATABASE ");
        self.put_if(drop.if_exists, "IF EXISTS ");
        self.ident(&drop.name);
    }

    fn definer(&mut self, definer: Option<&Account>) {
        if let Some(definer) = definer {
            self.put("DEFINER=");
            match definer {
                // As SHOW CREATE VIEW has it, and tools look for it.
                Account::Name { user, host } => {
                    let parts = [&**user, host.as_deref().unwrap_or("%")];
                    let quoted = parts.map(|part| format!("`{}`", part.replace('`', "``")));
                    self.put(&quoted.join("@"));
                }
                Account::CurrentUser => self.account(definer),
            }
            self.put(" ");
        }
    }

    pub(super) fn create_view(&mut self, view: &CreateView) {
        self.put(if view.alter { "ALTER " } else { "CREATE " });
        self.put_if(view.or_replace, "OR REPLACE ");
        self.put(match view.algorithm {
            None => "",
            Some(ViewAlgorithm::Undefined) => "ALGORITHM=UNDEFINED ",
            Some(ViewAlgorithm::Merge) => "ALGORITHM=MERGE ",
            Some(ViewAlgorithm::Temptable) => "ALGORITHM=TEMPTABLE ",
        });
        self.definer(view.definer.as_ref());
        self.put(match view.invoker {
            None => "",
            Some(true) => "SQL SECURITY INVOKER ",
            Some(false) => "SQL SECURITY DEFINER ",
        });
        self.put("VIEW ");
        self.object_name(&view.name);
        self.optional_ident_list(" ", &view.columns);
        self.put(" AS ");
        self.query(&view.query);
        self.put(match view.check_option {
            None => "",
            Some(CheckOption::Cascaded) => " WITH CASCADED CHECK OPTION",
            Some(CheckOption::Local) => " WITH LOCAL CHECK OPTION",
        });
    }

    pub(super) fn drop_view(&mut self, drop: &DropView) {
        self.put("DROP VIEW ");
        self.put_if(drop.if_exists, "IF EXISTS ");
        self.object_names(&drop.views);
    }

    pub(super) fn drop_object(&mut self, kind: &str, drop: &DropObject) {
        self.put(kind);
        self.put_if(drop.if_exists, "IF EXISTS ");
        self.object_name(&drop.name);
    }

    pub(super) fn create_trigger(&mut self, trigger: &CreateTrigger) {
        self.put("CREATE ");
        self.definer(trigger.definer.as_ref());
        self.put("TRIGGER ");
        self.put_if(trigger.if_not_exists, "IF NOT EXISTS ");
        self.object_name(&trigger.name);
        self.put(if trigger.after { " AFTER " } else { " BEFORE " });
        self.put(match trigger.event {
            TriggerEvent::Insert => "INSERT ON ",
            TriggerEvent::Update => "UPDATE ON ",
            TriggerEvent::Delete => "DELETE ON ",
        });
        self.object_name(&trigger.table);
        self.put(" FOR EACH ROW ");
        if let Some((follows, other)) = &trigger.order {
            self.put(if *follows { "FOLLOWS " } else { "PRECEDES " });
            self.ident(other);
            self.put(" ");
        }
        self.put(&trigger.body);
    }

    pub(super) fn create_routine(&mut self, routine: &CreateRoutine) {
        self.put("CREATE ");
        self.definer(routine.definer.as_ref());
        self.put(if routine.function { "FUNCTION " } else { "PROCEDURE " });
        self.put_if(routine.if_not_exists, "IF NOT EXISTS ");
        self.object_name(&routine.name);
        self.put(&routine.body);
    }

    pub(super) fn drop_routine(&mut self, drop: &DropRoutine) {
        self.put(if drop.function { "DROP FUNCTION " } else { "DROP PROCEDURE " });
        self.put_if(drop.if_exists, "IF EXISTS ");
        self.object_name(&drop.name);
    }

    pub(super) fn create_event(&mut self, event: &CreateEvent) {
        self.put("CREATE ");
        self.definer(event.definer.as_ref());
        self.put("EVENT ");
        self.put_if(event.if_not_exists, "IF NOT EXISTS ");
        self.object_name(&event.name);
        self.put(" ");
        self.put(&event.body);
    }
}
