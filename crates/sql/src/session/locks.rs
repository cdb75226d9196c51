//! Named locks: GET_LOCK and its kin.

use sql_expression::{DeferredFunction, SqlError};
use sqltype::Datum;
use stdx::Duration;

use crate::session::Session;

impl Session {
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
