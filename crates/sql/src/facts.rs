//! A session as expressions see it, and what the protocol's side asks of it.
//!
//! # Owns
//! Making sessions, the facts and the context of evaluation, what evaluation gives back, the entry
//! in the process list, named locks.
//! # Not here
//! Transactions (`transaction`), variables (`variables`).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use collation::{Charset, CollationId};
use mysql_wire::answer::StateChange;
use mysql_wire::{Attributes, Parameter, ParameterType};
use sql_expression::{
    DeferredFunction, EvalContext, Pauses, ResultType, SessionFacts, SqlError, UserVariable,
};
use sql_parser::ast;
use sqltype::{Datum, SqlType, TypeKind};
use stdx::{Duration, Prng};

use crate::account::AccountName;
use crate::account::book::Records;
use crate::account::check::Login;
use crate::account::rights::shown_roles;
use crate::audit::Auditor;
use crate::connection::{Greeting, datum_of};
use crate::directory::{Counters, Process, SLEEP};
use crate::kernel::Kernel;
use crate::memory::Account;
use crate::node::SqlOptions;
use crate::pace::Pace;
use crate::session::{Diagnostics, Level, Session, SessionTransaction, Shared};
use crate::temporary::Temporaries;
use crate::variables::{self, SessionVariables, VERSION};

impl Shared {
    /// What the connections of a worker share at its beginning.
    pub(crate) fn new(options: &SqlOptions) -> Self {
        Self {
            kills: Default::default(),
            directory: options.directory.clone(),
            ledger: options.directory.enlist(),
            definitions: Default::default(),
            accounts: Records::new(options.admission.own_password.is_some()),
            heard: Default::default(),
            sequences: options.sequences.clone(),
            admission: options.admission.clone(),
            audit: options.admission.audit.clone().map(Auditor::new),
            address: options.address.clone(),
            plans: Default::default(),
            statistics: Default::default(),
            pace: Pace::new(options.clock),
            leftovers: Default::default(),
            abandoned: Default::default(),
            met_older: Default::default(),
            measures: Default::default(),
        }
    }
}

/// What a slice of a session's work counts as without a clock, where it pauses in calls.
const LOOK_WORK: u64 = 64;

/// Pauses of a session in the middle of calls, at which its statement is told to end.
fn pauses(kernel: &Kernel, shared: &Rc<Shared>) -> Pauses {
    let (kernel, shared) = (kernel.clone(), shared.clone());
    Pauses::new(Rc::new(move || {
        // Short statements run to their end although their client waits for no answer.
        match shared.pace.look(LOOK_WORK) {
            true => kernel.check_interrupt()?,
            false => kernel.check_kill()?,
        }
        Ok(())
    }))
}

/// Bytes of a statement that SHOW PROCESSLIST shows at most.
const STATEMENT_SHOWN: usize = 1024;

impl Session {
    /// A session as a new connection has it.
    pub(crate) fn new(kernel: Kernel, shared: Rc<Shared>, greeting: &Greeting) -> Self {
        kernel.forget_past();
        kernel.seed(greeting.seed);
        kernel.share_heard(&shared.heard);
        let variables = SessionVariables::new(&shared.directory.lock().globals);
        let memory = Account::new(shared.directory.memory());
        let pauses = pauses(&kernel, &shared);
        Self {
            kernel,
            pauses,
            shared,
            id: greeting.number,
            user: String::new(),
            login: Login::default(),
            database: None,
            variables,
            user_variables: BTreeMap::new(),
            transaction: SessionTransaction::default(),
            has_lost_transaction: false,
            memory,
            diagnostics: Diagnostics::default(),
            last_insert_id: 0,
            row_count: 0,
            found_rows: 0,
            changes_rows: false,
            temporary: Temporaries::new(greeting.seed),
            released: false,
            count_matched: false,
            statement_time: greeting.clock_base,
            statement_began: Default::default(),
            interactive: false,
            prepared: BTreeMap::new(),
            tls: None,
            is_compressed: false,
            knows_no_metadata: false,
            attributes: Arc::default(),
            prng: Prng::new(greeting.seed),
            told_database: None,
            facts: Default::default(),
            hints: None,
            hint_warnings: Default::default(),
            query_attributes: None,
            counters: Counters::default(),
        }
    }

    /// What expressions ask about the session; made anew when something in it has changed.
    pub(crate) fn facts(&self) -> Arc<SessionFacts> {
        if let Some((version, database, facts)) = self.facts.borrow().as_ref()
            && *version == self.variables.version
            && *database == self.database
        {
            return facts.clone();
        }
        // Roles are looked up for them, which may forget what was kept.
        let facts = Arc::new(self.new_facts());
        let kept = (self.variables.version, self.database.clone(), facts.clone());
        *self.facts.borrow_mut() = Some(kept);
        facts
    }

    fn new_facts(&self) -> SessionFacts {
        let variables = &self.variables;
        SessionFacts {
            connection_id: self.id.into(),
            user: self.user.as_str().into(),
            current_user: self
                .login
                .account
                .as_ref()
                .map(AccountName::plain)
                .unwrap_or_default()
                .into(),
            current_role: self.current_role(),
            database: self.database.as_deref().map(Arc::from),
            version: VERSION.into(),
            sql_mode: variables.sql_mode,
            collation: variables.connection_collation,
            time_zone: variables.time_zone.clone(),
            div_precision_increment: variables.div_precision_increment,
            group_concat_max_len: variables.group_concat_max_len,
            max_allowed_packet: variables.max_allowed_packet,
            max_error_count: variables.max_error_count as usize,
            default_week_format: variables.default_week_format,
            block_encryption: variables.block_encryption,
            node: u64::from(self.id) << 16 | 0x0200_0000_0000,
        }
    }

    /// CURRENT_ROLE().
    fn current_role(&self) -> Arc<str> {
        let rights = self.rights();
        rights.map_or_else(|_| "NONE".into(), |rights| shown_roles(&rights.roles))
    }

    /// The context of a statement's evaluation.
    pub(crate) fn context(&mut self) -> EvalContext {
        let seed = self.prng.next_u64();
        let now = self.variables.timestamp.unwrap_or(self.statement_time);
        let mut context = EvalContext::new(self.facts(), now, seed);
        context.sysdate = self.statement_time;
        context.pauses = self.pauses.clone();
        context.user_variables = std::mem::take(&mut self.user_variables);
        context.last_insert_id = self.last_insert_id;
        context.row_count = self.row_count;
        context.found_rows = self.found_rows;
        context.query_attributes.clone_from(&self.query_attributes);
        context.large_bytes_max = self.memory.available();
        context
    }

    /// Takes back what evaluation has changed.
    pub(crate) fn absorb(&mut self, context: EvalContext) {
        self.user_variables = context.user_variables;
        if context.last_insert_id_set {
            self.last_insert_id = context.last_insert_id;
        }
        let kept = self.variables.max_error_count as usize;
        let listed = context.warnings.entries.len() as u64;
        for (level, error) in context.warnings.entries {
            self.diagnostics.push(level.into(), error, kept);
        }
        self.diagnostics.warning_count += context.warnings.count.saturating_sub(listed);
    }

    /// The name by which the client has logged in: USER() without the host.
    pub(crate) fn own_name(&self) -> &str {
        self.user.rsplit_once('@').map_or(&self.user, |(name, _)| name)
    }

    /// Adds a note for SHOW WARNINGS.
    pub(crate) fn note(&mut self, error: SqlError) {
        let kept = self.variables.max_error_count as usize;
        if self.variables.sql_notes {
            self.diagnostics.push(Level::Note, error, kept);
        }
    }

    /// Adds a warning for SHOW WARNINGS.
    pub(crate) fn note_warning(&mut self, error: SqlError) {
        let kept = self.variables.max_error_count as usize;
        self.diagnostics.push(Level::Warning, error, kept);
    }

    /// The type of a value that comes from outside: a parameter, a user variable.
    pub(crate) fn type_of(&self, value: &Datum) -> ResultType {
        let sql_type = match value {
            Datum::Null => return ResultType::null(),
            Datum::Int(_) => SqlType::big_int(),
            Datum::UInt(_) => SqlType::unsigned_big_int(),
            Datum::Double(_) => SqlType::double(),
            Datum::Decimal(v) => SqlType::decimal(v.precision(), v.scale()),
            Datum::Bytes(text) => SqlType {
                collation: self.variables.connection_collation,
                ..SqlType::text(text.len() as u32)
            },
            Datum::Date(_) => SqlType::new(TypeKind::Date, 10),
            Datum::DateTime(v) => SqlType {
                decimals: if v.micros == 0 { 0 } else { 6 },
                ..SqlType::new(TypeKind::DateTime, 19)
            },
            Datum::Time(_) => SqlType { decimals: 6, ..SqlType::new(TypeKind::Time, 10) },
            Datum::Json(_) => SqlType::new(TypeKind::Json, u32::MAX),
        };
        let mut result = ResultType::column(sql_type, true);
        result.coercibility = sql_expression::Coercibility::Coercible;
        result
    }

    /// The value of `@@name`.
    pub(crate) fn system_variable(
        &self,
        variable: &ast::SystemVariable,
    ) -> Result<(Datum, SqlType), SqlError> {
        variables::lookup(self, variable)
    }

    /// The database of a table's name.
    pub(crate) fn database_of(&self, name: &ast::ObjectName) -> Result<String, SqlError> {
        self.table_name(name).map(|name| name.database)
    }

    /// What a client sent, as UTF-8.
    pub(crate) fn decode_text(&self, text: Vec<u8>) -> Vec<u8> {
        match self.variables.client_charset {
            Charset::Utf8mb4 | Charset::Utf8mb3 | Charset::Binary | Charset::Ascii => text,
            charset => collation::to_utf8(charset, &text).bytes.into_owned(),
        }
    }

    /// The collation a client named in its handshake.
    pub(crate) fn set_client_collation(&mut self, number: u16) {
        let collation = CollationId(number);
        // No statement can be read in a set that ASCII is not a part of.
        let spoken = collation.get().is_some_and(|known| known.charset.can_be_of_client());
        let known = if spoken { collation } else { CollationId::DEFAULT };
        self.variables.set_client_collation(known);
        self.variables.take_changes();
    }

    /// A parameter of the binary protocol.
    pub(crate) fn parameter(&self, parameter: Parameter, kind: Option<&ParameterType>) -> Datum {
        use mysql_wire::constants::column;
        let decimal = kind.is_some_and(|kind| kind.kind == column::NEWDECIMAL);
        match datum_of(parameter) {
            Datum::Bytes(text) if decimal => match sqltype::Decimal::parse(&text) {
                Some(number) => Datum::Decimal(number),
                None => Datum::Bytes(text),
            },
            Datum::Bytes(text) => Datum::Bytes(self.decode_text(text.into_vec()).into()),
            other => other,
        }
    }

    /// What the client attached to the command, as texts for `mysql_query_attribute_string()`.
    pub(crate) fn attach(&mut self, attributes: Attributes) {
        let text = |value: Datum| match value {
            Datum::Null | Datum::Bytes(_) => value,
            other => {
                let mut text = String::new();
                sqltype::format::push_text(&mut text, &other, &self.type_of(&other).sql_type);
                Datum::text(&text)
            }
        };
        let given = attributes.into_iter().map(|(name, value)| {
            let name = String::from_utf8_lossy(&self.decode_text(name)).into_owned();
            (name, text(self.parameter(value, None)))
        });
        let given: Vec<(String, Datum)> = given.collect();
        self.query_attributes = (!given.is_empty()).then(|| given.into());
    }

    /// How long the client may say nothing, in seconds.
    pub(crate) fn idle_timeout(&self) -> u64 {
        let seconds = match self.interactive {
            true => self.variables.interactive_timeout,
            false => self.variables.wait_timeout,
        };
        seconds.max(1)
    }

    /// A command of so many bytes begins; so many were sent since the one before.
    pub(crate) fn busy(
        &mut self,
        command: &'static str,
        (bytes, sent): (usize, u64),
        clock_base: &i64,
    ) {
        let now = self.kernel.now();
        self.statement_time = clock_base + (now.as_nanos() / 1000) as i64;
        self.statement_began = now;
        let mut ledger = self.shared.ledger.lock();
        for counters in [&mut self.counters, &mut ledger.counters] {
            counters.questions += 1;
            counters.bytes_received += bytes as u64 + 4;
            counters.bytes_sent += sent;
        }
        if let Some(process) = ledger.processes.get_mut(&self.id) {
            (process.command, process.since, process.state) = (command, now, "executing");
            process.info.clear();
        }
    }

    /// The command is answered.
    pub(crate) fn idle(&mut self) {
        let now = self.kernel.now();
        let traffic = self.kernel.untold_traffic();
        let mut ledger = self.shared.ledger.lock();
        ledger.counters.traffic.add(traffic);
        if let Some(process) = ledger.processes.get_mut(&self.id) {
            (process.command, process.since, process.state) = (SLEEP, now, "");
            process.info.clear();
        }
    }

    /// Counts a statement of this name, and shows its text in the process list as it came: no more
    /// of it is looked at than is shown.
    pub(crate) fn count_statement(&mut self, command: &'static str, text: Option<&[u8]>) {
        let text = text.map(|text| {
            let text = text.trim_ascii();
            let mut end = text.len().min(STATEMENT_SHOWN);
            // Not in the middle of a character.
            while end > 0 && text.get(end).is_some_and(|byte| byte & 0xC0 == 0x80) {
                end -= 1;
            }
            match std::str::from_utf8(&text[..end]) {
                Ok(valid) => Cow::Borrowed(valid),
                Err(_) => String::from_utf8_lossy(&text[..end]),
            }
        });
        self.counters.commands.count(command);
        let mut ledger = self.shared.ledger.lock();
        ledger.counters.commands.count(command);
        if let Some(text) = text
            && let Some(process) = ledger.processes.get_mut(&self.id)
        {
            // Of a statement before it in the same text.
            process.info.clear();
            process.info.push_str(&text);
        }
    }

    /// Counts a command of the protocol that is no statement.
    pub(crate) fn count_command(&mut self, command: &'static str) {
        self.counters.commands.count(command);
        self.shared.ledger.lock().counters.commands.count(command);
    }

    /// Counts a statement that took so long, if that is slow.
    pub(crate) fn count_slow(&mut self, took: Duration) {
        if took.as_nanos() / 1_000 > self.variables.long_query_time {
            self.counters.slow_queries += 1;
            self.shared.ledger.lock().counters.slow_queries += 1;
        }
    }

    /// Changes the connection's entry in the process list.
    pub(crate) fn show_process(&self, change: impl FnOnce(&mut Process, &Self)) {
        let mut ledger = self.shared.ledger.lock();
        if let Some(process) = ledger.processes.get_mut(&self.id) {
            change(process, self);
        }
    }

    /// COM_STATISTICS.
    pub(crate) fn statistics(&self) -> String {
        let now = self.kernel.now();
        let registry = self.shared.directory.lock();
        let uptime = now.since(registry.started).as_nanos() / Duration::from_secs(1).as_nanos();
        let counters = registry.counters();
        let per_second = counters.questions as f64 / (uptime.max(1) as f64);
        format!(
            "Uptime: {uptime}  Threads: {}  Questions: {}  Slow queries: {}  Opens: 0  \
             Flush tables: 0  Open tables: {}  Queries per second avg: {per_second:.3}",
            registry.connection_counts().0,
            counters.questions,
            counters.slow_queries,
            self.kernel.cluster().table_names.len(),
        )
    }

    /// What of the session's state the client is to be told.
    pub(crate) fn take_state_changes(&mut self) -> Vec<StateChange> {
        let mut changes = Vec::new();
        for (name, value) in self.variables.take_changes() {
            changes.push(StateChange::Variable(name.to_owned(), value));
        }
        if self.database != self.told_database {
            self.told_database.clone_from(&self.database);
            if self.variables.session_track_schema {
                let name = self.database.clone().unwrap_or_default();
                changes.push(StateChange::Schema(name));
            }
        }
        changes
    }

    /// GET_LOCK and its kin.
    pub(crate) async fn named_lock(
        &mut self,
        function: DeferredFunction,
        arguments: &[Datum],
    ) -> Result<Datum, SqlError> {
        if function == DeferredFunction::ReleaseAllLocks {
            return Ok(Datum::Int(self.release_locks() as i64));
        }
        let name = match arguments.first() {
            Some(Datum::Bytes(name)) if !name.is_empty() && name.len() <= 256 => {
                String::from_utf8_lossy(name).to_lowercase()
            }
            _ => {
                let text = "Incorrect user-level lock name.";
                return Err(SqlError::new(3057, "42000", text));
            }
        };
        let owner = self.shared.directory.lock().locks.get(&name).copied();
        Ok(match function {
            DeferredFunction::IsFreeLock => Datum::Int(owner.is_none().into()),
            DeferredFunction::IsUsedLock => {
                owner.map_or(Datum::Null, |(owner, _)| Datum::UInt(owner.into()))
            }
            DeferredFunction::ReleaseLock => match owner {
                None => Datum::Null,
                Some((owner, count)) if owner == self.id => {
                    let mut registry = self.shared.directory.lock();
                    match count {
                        0 | 1 => registry.locks.remove(&name),
                        _ => registry.locks.insert(name, (owner, count - 1)),
                    };
                    Datum::Int(1)
                }
                Some(_) => Datum::Int(0),
            },
            _ => self.get_lock(name, arguments.get(1)).await?,
        })
    }

    /// Waits for a named lock by looking again: they are rare, and held for long.
    async fn get_lock(
        &mut self,
        name: String,
        patience: Option<&Datum>,
    ) -> Result<Datum, SqlError> {
        let seconds = match patience {
            Some(Datum::Int(v)) if *v < 0 => f64::INFINITY,
            Some(Datum::Int(v)) => *v as f64,
            Some(Datum::Decimal(v)) => v.to_f64(),
            Some(Datum::Double(v)) => *v,
            _ => f64::INFINITY,
        };
        let began = self.kernel.now();
        loop {
            {
                let mut registry = self.shared.directory.lock();
                let entry = registry.locks.entry(name.clone()).or_insert((self.id, 0));
                if entry.0 == self.id {
                    entry.1 += 1;
                    return Ok(Datum::Int(1));
                }
            }
            let waited = self.kernel.now().since(began).as_nanos() as f64 / 1e9;
            if waited >= seconds {
                return Ok(Datum::Int(0));
            }
            self.kernel.sleep(Duration::from_millis(20)).await?;
        }
    }

    /// Gives up all named locks; how many there were.
    pub(crate) fn release_locks(&mut self) -> usize {
        let mut registry = self.shared.directory.lock();
        let before = registry.locks.len();
        registry.locks.retain(|_, (owner, _)| *owner != self.id);
        before - registry.locks.len()
    }
}

impl From<sql_expression::Level> for Level {
    fn from(level: sql_expression::Level) -> Self {
        match level {
            sql_expression::Level::Note => Self::Note,
            sql_expression::Level::Warning => Self::Warning,
            sql_expression::Level::Error => Self::Error,
        }
    }
}

/// A user variable with this value.
pub(crate) fn user_variable(value: Datum, collation: CollationId) -> UserVariable {
    UserVariable { value, collation }
}
