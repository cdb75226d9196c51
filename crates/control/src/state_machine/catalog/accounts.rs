//! Accounts: names with a text of the SQL layer's.
//!
//! # Owns
//! The effect of `SchemaChange::ChangeAccounts`.
//! # Guarantees
//! Changes of accounts form one sequence: a change that was made from older accounts than those
//! that are there is refused as a whole.
//! # Not here
//! What an account may do: the SQL layer reads the texts.

use model::{ClusterState, ControlIndex, Description, ErrorCode, TableId};

use super::{NO_TABLE, check_description, check_name};

/// Most accounts.
const ACCOUNTS_MAX: usize = 100_000;

pub(super) fn change(
    state: &mut ClusterState,
    seen: ControlIndex,
    changes: &[(String, Option<Description>)],
) -> Result<TableId, ErrorCode> {
    if state.accounts_changed != seen {
        return Err(ErrorCode::SchemaChanged);
    }
    for (name, description) in changes {
        check_name(name)?;
        description.as_ref().map_or(Ok(()), check_description)?;
    }
    let mut accounts = state.accounts.clone();
    for (name, description) in changes {
        match description {
            Some(description) => accounts.insert(name.as_str().into(), description.clone()),
            None => accounts.remove(name.as_str()),
        };
    }
    if accounts.len() > ACCOUNTS_MAX && accounts.len() > state.accounts.len() {
        return Err(ErrorCode::BadDefinition);
    }
    state.accounts = accounts;
    state.accounts_changed = state.index;
    Ok(NO_TABLE)
}
