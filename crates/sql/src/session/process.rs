//! The entry of a session in the process list, and what it counts.

use std::borrow::Cow;

use stdx::Duration;

use crate::directory::{Process, SLEEP};
use crate::session::Session;

/// Bytes of a statement that SHOW PROCESSLIST shows at most.
const STATEMENT_SHOWN: usize = 1024;

impl Session {
    /// The name by which the client has logged in: USER() without the host.
    pub(crate) fn own_name(&self) -> &str {
        self.user.rsplit_once('@').map_or(&self.user, |(name, _)| name)
    }

    /// A command of so many bytes begins; so many were sent since the one before.
    pub(crate) fn busy(
        &mut self,
        command: &'static str,
        bytes: usize,
        sent: u64,
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
}
