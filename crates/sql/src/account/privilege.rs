//! The privileges there are: static ones as bits, dynamic ones by name.
//!
//! # Owns
//! [`Privileges`], a set of static privileges; [`DYNAMIC`], the names of the others; which of them
//! can be given for a database, a table, a column, a routine.
//! # Not here
//! Who has them (`record`, `rights`).

use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign, Sub};

/// A set of static privileges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub(crate) struct Privileges(u32);

/// What is known of a static privilege.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) privilege: Privileges,
    /// As GRANT says it, in upper case.
    pub(crate) name: &'static str,
    /// Its column of `mysql.user`.
    pub(crate) column: &'static str,
    /// As `tables_priv` and its kin list it.
    pub(crate) word: &'static str,
}

macro_rules! privileges {
    ($($constant:ident = $bit:literal, $name:literal, $column:literal, $word:literal;)*) => {
        impl Privileges {
            $(#[doc = $name] pub(crate) const $constant: Self = Self(1 << $bit);)*
        }
        /// All static privileges, in the order of the columns of `mysql.user`.
        pub(crate) static KNOWN: &[Known] = &[
            $(Known {
                privilege: Privileges::$constant, name: $name, column: $column, word: $word,
            }),*
        ];
    };
}

privileges! {
    SELECT = 0, "SELECT", "Select_priv", "Select";
    INSERT = 1, "INSERT", "Insert_priv", "Insert";
    UPDATE = 2, "UPDATE", "Update_priv", "Update";
    DELETE = 3, "DELETE", "Delete_priv", "Delete";
    CREATE = 4, "CREATE", "Create_priv", "Create";
    DROP = 5, "DROP", "Drop_priv", "Drop";
    RELOAD = 6, "RELOAD", "Reload_priv", "Reload";
    SHUTDOWN = 7, "SHUTDOWN", "Shutdown_priv", "Shutdown";
    PROCESS = 8, "PROCESS", "Process_priv", "Process";
    FILE = 9, "FILE", "File_priv", "File";
    GRANT = 10, "GRANT OPTION", "Grant_priv", "Grant";
    REFERENCES = 11, "REFERENCES", "References_priv", "References";
    INDEX = 12, "INDEX", "Index_priv", "Index";
    ALTER = 13, "ALTER", "Alter_priv", "Alter";
    SHOW_DATABASES = 14, "SHOW DATABASES", "Show_db_priv", "Show databases";
    SUPER = 15, "SUPER", "Super_priv", "Super";
    CREATE_TEMPORARY = 16, "CREATE TEMPORARY TABLES", "Create_tmp_table_priv", "Create temporary";
    LOCK_TABLES = 17, "LOCK TABLES", "Lock_tables_priv", "Lock tables";
    EXECUTE = 18, "EXECUTE", "Execute_priv", "Execute";
    REPLICATION_SLAVE = 19, "REPLICATION SLAVE", "Repl_slave_priv", "Replication slave";
    REPLICATION_CLIENT = 20, "REPLICATION CLIENT", "Repl_client_priv", "Replication client";
    CREATE_VIEW = 21, "CREATE VIEW", "Create_view_priv", "Create View";
    SHOW_VIEW = 22, "SHOW VIEW", "Show_view_priv", "Show view";
    CREATE_ROUTINE = 23, "CREATE ROUTINE", "Create_routine_priv", "Create routine";
    ALTER_ROUTINE = 24, "ALTER ROUTINE", "Alter_routine_priv", "Alter Routine";
    CREATE_USER = 25, "CREATE USER", "Create_user_priv", "Create user";
    EVENT = 26, "EVENT", "Event_priv", "Event";
    TRIGGER = 27, "TRIGGER", "Trigger_priv", "Trigger";
    CREATE_TABLESPACE = 28, "CREATE TABLESPACE", "Create_tablespace_priv", "Create tablespace";
    CREATE_ROLE = 29, "CREATE ROLE", "Create_role_priv", "Create role";
    DROP_ROLE = 30, "DROP ROLE", "Drop_role_priv", "Drop role";
}

impl Privileges {
    /// None.
    pub(crate) const NONE: Self = Self(0);
    /// All that can be given for everything, GRANT OPTION too.
    pub(crate) const ALL: Self = Self((1 << 31) - 1);
    /// Those that can be given for a column.
    pub(crate) const OF_COLUMN: Self =
        Self::SELECT.with(Self::INSERT).with(Self::UPDATE).with(Self::REFERENCES);
    /// Those that can be given for a table, without GRANT OPTION.
    pub(crate) const OF_TABLE: Self = Self::OF_COLUMN
        .with(Self::DELETE)
        .with(Self::CREATE)
        .with(Self::DROP)
        .with(Self::INDEX)
        .with(Self::ALTER)
        .with(Self::CREATE_VIEW)
        .with(Self::SHOW_VIEW)
        .with(Self::TRIGGER);
    /// Those that can be given for a routine, without GRANT OPTION.
    pub(crate) const OF_ROUTINE: Self = Self::EXECUTE.with(Self::ALTER_ROUTINE);
    /// Those that can be given for a database, without GRANT OPTION.
    pub(crate) const OF_DATABASE: Self = Self::OF_TABLE
        .with(Self::OF_ROUTINE)
        .with(Self::CREATE_TEMPORARY)
        .with(Self::LOCK_TABLES)
        .with(Self::CREATE_ROUTINE)
        .with(Self::EVENT);
    /// This set and another one.
    pub(crate) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether there is nothing in it.
    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether all of `other` is in it.
    pub(crate) const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether something of `other` is in it.
    pub(crate) const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The static privilege of this name, as GRANT says it.
    pub(crate) fn named(name: &str) -> Option<Self> {
        KNOWN.iter().find(|known| known.name == name).map(|known| known.privilege)
    }

    /// What is in it, in order.
    pub(crate) fn each(self) -> impl Iterator<Item = &'static Known> {
        KNOWN.iter().filter(move |known| self.has(known.privilege))
    }

    /// The words that `tables_priv` and its kin show.
    pub(crate) fn words(self) -> String {
        self.each().map(|known| known.word).collect::<Vec<_>>().join(",")
    }
}

/// As errors and SHOW GRANTS list them.
impl fmt::Display for Privileges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.each().map(|known| known.name).collect::<Vec<_>>().join(", "))
    }
}

impl BitOr for Privileges {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.with(other)
    }
}

impl BitOrAssign for Privileges {
    fn bitor_assign(&mut self, other: Self) {
        *self = self.with(other);
    }
}

impl BitAnd for Privileges {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl Sub for Privileges {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// A set of dynamic privileges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DynamicSet(u64);

/// A dynamic privilege: its place in [`DYNAMIC`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Dynamic(u8);

macro_rules! dynamic {
    ($($name:ident = $at:literal;)*) => {
        /// The names of the dynamic privileges, in alphabetical order.
        pub(crate) static DYNAMIC: &[&str] = &[$(stringify!($name)),*];
        #[expect(dead_code, reason = "some are only given and shown")]
        impl Dynamic {
            $(pub(crate) const $name: Self = Self($at);)*
        }
    };
}

dynamic! {
    ALLOW_NONEXISTENT_DEFINER = 0;
    APPLICATION_PASSWORD_ADMIN = 1;
    AUDIT_ABORT_EXEMPT = 2;
    AUDIT_ADMIN = 3;
    AUTHENTICATION_POLICY_ADMIN = 4;
    BACKUP_ADMIN = 5;
    BINLOG_ADMIN = 6;
    BINLOG_ENCRYPTION_ADMIN = 7;
    CLONE_ADMIN = 8;
    CONNECTION_ADMIN = 9;
    ENCRYPTION_KEY_ADMIN = 10;
    FIREWALL_EXEMPT = 11;
    FLUSH_OPTIMIZER_COSTS = 12;
    FLUSH_PRIVILEGES = 13;
    FLUSH_STATUS = 14;
    FLUSH_TABLES = 15;
    FLUSH_USER_RESOURCES = 16;
    GROUP_REPLICATION_ADMIN = 17;
    GROUP_REPLICATION_STREAM = 18;
    INNODB_REDO_LOG_ARCHIVE = 19;
    INNODB_REDO_LOG_ENABLE = 20;
    OPTIMIZE_LOCAL_TABLE = 21;
    PASSWORDLESS_USER_ADMIN = 22;
    PERSIST_RO_VARIABLES_ADMIN = 23;
    REPLICATION_APPLIER = 24;
    REPLICATION_SLAVE_ADMIN = 25;
    RESOURCE_GROUP_ADMIN = 26;
    RESOURCE_GROUP_USER = 27;
    ROLE_ADMIN = 28;
    SENSITIVE_VARIABLES_OBSERVER = 29;
    SERVICE_CONNECTION_ADMIN = 30;
    SESSION_VARIABLES_ADMIN = 31;
    SET_ANY_DEFINER = 32;
    SHOW_ROUTINE = 33;
    SYSTEM_USER = 34;
    SYSTEM_VARIABLES_ADMIN = 35;
    TABLE_ENCRYPTION_ADMIN = 36;
    TELEMETRY_LOG_ADMIN = 37;
    TRANSACTION_GTID_TAG = 38;
    XA_RECOVER_ADMIN = 39;
}

impl Dynamic {
    /// The dynamic privilege of this name, in upper case.
    pub(crate) fn named(name: &str) -> Option<Self> {
        DYNAMIC.binary_search(&name).ok().map(|at| Self(at as u8))
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        DYNAMIC[usize::from(self.0)]
    }
}

impl DynamicSet {
    /// All there are.
    pub(crate) fn all() -> Self {
        Self((1 << DYNAMIC.len()) - 1)
    }

    /// Whether one is in it.
    pub(crate) fn has(self, one: Dynamic) -> bool {
        self.0 >> one.0 & 1 == 1
    }

    /// Whether nothing is missing.
    pub(crate) fn is_all(self) -> bool {
        self == Self::all()
    }

    /// Adds one.
    pub(crate) fn add(&mut self, one: Dynamic) {
        self.0 |= 1 << one.0;
    }
}

/// A privilege of SHOW PRIVILEGES: its name, where it counts, what it is for.
pub(crate) const SHOWN: [[&str; 3]; 31] = [
    ["Alter", "Tables", "To alter the table"],
    ["Alter routine", "Functions,Procedures", "To alter or drop stored functions/procedures"],
    ["Create", "Databases,Tables,Indexes", "To create new databases and tables"],
    ["Create routine", "Databases", "To use CREATE FUNCTION/PROCEDURE"],
    ["Create role", "Server Admin", "To create new roles"],
    ["Create temporary tables", "Databases", "To use CREATE TEMPORARY TABLE"],
    ["Create view", "Tables", "To create new views"],
    ["Create user", "Server Admin", "To create new users"],
    ["Delete", "Tables", "To delete existing rows"],
    ["Drop", "Databases,Tables", "To drop databases, tables, and views"],
    ["Drop role", "Server Admin", "To drop roles"],
    ["Event", "Server Admin", "To create, alter, drop and execute events"],
    ["Execute", "Functions,Procedures", "To execute stored routines"],
    ["File", "File access on server", "To read and write files on the server"],
    [
        "Grant option",
        "Databases,Tables,Functions,Procedures",
        "To give to other users those privileges you possess",
    ],
    ["Index", "Tables", "To create or drop indexes"],
    ["Insert", "Tables", "To insert data into tables"],
    ["Lock tables", "Databases", "To use LOCK TABLES (together with SELECT privilege)"],
    ["Process", "Server Admin", "To view the plain text of currently executing queries"],
    ["Proxy", "Server Admin", "To make proxy user possible"],
    ["References", "Databases,Tables", "To have references on tables"],
    ["Reload", "Server Admin", "To reload or refresh tables, logs and privileges"],
    ["Replication client", "Server Admin", "To ask where the slave or master servers are"],
    ["Replication slave", "Server Admin", "To read binary log events from the master"],
    ["Select", "Tables", "To retrieve rows from table"],
    ["Show databases", "Server Admin", "To see all databases with SHOW DATABASES"],
    ["Show view", "Tables", "To see views with SHOW CREATE VIEW"],
    ["Shutdown", "Server Admin", "To shut down the server"],
    ["Super", "Server Admin", "To use KILL thread, SET GLOBAL, CHANGE MASTER, etc."],
    ["Trigger", "Tables", "To use triggers"],
    ["Update", "Tables", "To update existing rows"],
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found() {
        assert!(DYNAMIC.is_sorted());
        assert_eq!(Dynamic::named("XA_RECOVER_ADMIN"), Some(Dynamic::XA_RECOVER_ADMIN));
        assert_eq!(Dynamic::XA_RECOVER_ADMIN.name(), "XA_RECOVER_ADMIN");
        for known in KNOWN {
            assert_eq!(Privileges::named(known.name), Some(known.privilege));
        }
        let all = KNOWN.iter().fold(Privileges::NONE, |all, known| all | known.privilege);
        assert_eq!(all, Privileges::ALL);
        assert_eq!((Privileges::SELECT | Privileges::DROP).to_string(), "SELECT, DROP");
    }
}
