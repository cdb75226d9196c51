//! A replica, or a tool that is like one, reads the binary log.
//!
//! # Owns
//! COM_REGISTER_REPLICA, COM_BINLOG_DUMP and COM_BINLOG_DUMP_GTID: who may, and packets of events.
//! # Guarantees
//! A reader that is slow is waited for here, with little in memory; it keeps nothing in the data
//! nodes.
//! # Not here
//! Which events (`binlog`).

use mysql_wire::{BinlogDump, ReplicaName, answer};
use sql_expression::SqlError;

use super::Connection;
use crate::account::error as account_error;
use crate::account::privilege::Privileges;
use crate::binlog::Dump;
use crate::link::InputEnd;
use crate::link::packet::End;

impl Connection {
    async fn check_replica(&mut self) -> Result<(), SqlError> {
        if !self.session.has_lease() {
            self.session.renew_lease().await?;
        }
        if self.session.login.is_expired {
            return Err(account_error::must_change_password());
        }
        if self.session.rights()?.global.has(Privileges::REPLICATION_SLAVE) {
            Ok(())
        } else {
            Err(account_error::needs("REPLICATION SLAVE"))
        }
    }

    /// COM_REGISTER_REPLICA.
    pub(super) async fn register_replica(&mut self, replica: ReplicaName) -> Result<(), SqlError> {
        self.check_replica().await?;
        let host = String::from_utf8_lossy(&replica.host).into_owned();
        let registered = (replica.server, host, replica.port);
        self.session.show_process(|process, _| process.replica = Some(registered));
        Ok(())
    }

    /// COM_BINLOG_DUMP: ends with an error, at the end of the log if that is asked for, or with
    /// the connection.
    pub(super) async fn binlog_dump(&mut self, asked: &BinlogDump) -> Result<(), End> {
        match self.send_log(asked).await {
            Ok(()) => {
                self.wire.write(|out| answer::eof(out, 0, 0));
                Ok(())
            }
            Err(DumpEnd::Error(error)) => {
                self.wire.error(&error);
                Ok(())
            }
            Err(DumpEnd::Connection(end)) => Err(end),
        }
    }

    async fn send_log(&mut self, asked: &BinlogDump) -> Result<(), DumpEnd> {
        self.check_replica().await?;
        let mut dump = Box::pin(Dump::begin(&self.session, asked)).await?;
        loop {
            let events = Box::pin(dump.next(self.wire.link.now())).await?;
            let Some(events) = events else { return Ok(()) };
            for event in &events {
                self.wire.write(|out| {
                    out.push(0);
                    out.extend_from_slice(event);
                });
                self.wire.link.drain().await;
            }
            if let Some(goodbye) = self.wire.link.goodbye_of_endless() {
                return Err(DumpEnd::Connection(InputEnd::Goodbye(goodbye).into()));
            }
            self.session.kernel.check_interrupt().map_err(SqlError::from)?;
        }
    }
}

/// Why a dump ends before the end of the log.
enum DumpEnd {
    Error(SqlError),
    Connection(End),
}

impl From<SqlError> for DumpEnd {
    fn from(error: SqlError) -> Self {
        Self::Error(error)
    }
}
