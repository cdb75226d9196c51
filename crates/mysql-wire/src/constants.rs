//! The protocol's numbers.

/// What client and server are capable of: bits of the handshake.
pub mod capability {
    /// UPDATE answers with the rows found, not those changed.
    pub const FOUND_ROWS: u32 = 1 << 1;
    /// Column flags are longer.
    pub const LONG_FLAG: u32 = 1 << 2;
    /// A database is named in the handshake.
    pub const CONNECT_WITH_DB: u32 = 1 << 3;
    /// Compression by zlib.
    pub const COMPRESS: u32 = 1 << 5;
    /// LOAD DATA LOCAL.
    pub const LOCAL_FILES: u32 = 1 << 7;
    /// Spaces are allowed before `(`.
    pub const IGNORE_SPACE: u32 = 1 << 8;
    /// The protocol since 4.1.
    pub const PROTOCOL_41: u32 = 1 << 9;
    /// `interactive_timeout` instead of `wait_timeout`.
    pub const INTERACTIVE: u32 = 1 << 10;
    /// TLS.
    pub const SSL: u32 = 1 << 11;
    /// Status flags for transactions.
    pub const TRANSACTIONS: u32 = 1 << 13;
    /// Passwords as since 4.1.
    pub const SECURE_CONNECTION: u32 = 1 << 15;
    /// Several statements in one query.
    pub const MULTI_STATEMENTS: u32 = 1 << 16;
    /// Several results of one query.
    pub const MULTI_RESULTS: u32 = 1 << 17;
    /// Several results of a prepared statement.
    pub const PS_MULTI_RESULTS: u32 = 1 << 18;
    /// Authentication plugins.
    pub const PLUGIN_AUTH: u32 = 1 << 19;
    /// Attributes of the connection.
    pub const CONNECT_ATTRS: u32 = 1 << 20;
    /// The password's answer may be longer than 255 bytes.
    pub const PLUGIN_AUTH_LENENC: u32 = 1 << 21;
    /// The client knows what to do when its password has expired.
    pub const CAN_HANDLE_EXPIRED_PASSWORDS: u32 = 1 << 22;
    /// Session state in OK packets.
    pub const SESSION_TRACK: u32 = 1 << 23;
    /// OK packets in place of EOF packets.
    pub const DEPRECATE_EOF: u32 = 1 << 24;
    /// The client may do without descriptions of columns.
    pub const OPTIONAL_RESULTSET_METADATA: u32 = 1 << 25;
    /// Attributes of queries.
    pub const QUERY_ATTRIBUTES: u32 = 1 << 27;

    /// What this server offers, but for [`SSL`] and [`COMPRESS`].
    pub const OFFERED: u32 = 1
        | FOUND_ROWS
        | LONG_FLAG
        | CONNECT_WITH_DB
        | LOCAL_FILES
        | IGNORE_SPACE
        | PROTOCOL_41
        | INTERACTIVE
        | TRANSACTIONS
        | SECURE_CONNECTION
        | MULTI_STATEMENTS
        | MULTI_RESULTS
        | PS_MULTI_RESULTS
        | PLUGIN_AUTH
        | CONNECT_ATTRS
        | PLUGIN_AUTH_LENENC
        | CAN_HANDLE_EXPIRED_PASSWORDS
        | SESSION_TRACK
        | DEPRECATE_EOF
        | OPTIONAL_RESULTSET_METADATA
        | QUERY_ATTRIBUTES;
}

/// Status of the session in OK and EOF packets.
pub mod status {
    /// In a transaction.
    pub const IN_TRANS: u16 = 1;
    /// Autocommit is on.
    pub const AUTOCOMMIT: u16 = 2;
    /// Another result follows.
    pub const MORE_RESULTS: u16 = 8;
    /// The rows are to be fetched: a cursor is open.
    pub const CURSOR_EXISTS: u16 = 64;
    /// There are no more rows to be fetched: the cursor is closed.
    pub const LAST_ROW_SENT: u16 = 128;
    /// `\` is an ordinary character.
    pub const NO_BACKSLASH_ESCAPES: u16 = 512;
    /// In a read-only transaction.
    pub const IN_TRANS_READONLY: u16 = 8192;
    /// The OK packet has session state.
    pub const SESSION_STATE_CHANGED: u16 = 1 << 14;
}

/// How COM_STMT_EXECUTE wants its rows.
pub mod cursor {
    /// To be fetched by COM_STMT_FETCH.
    pub const READ_ONLY: u8 = 1;
    /// Query attributes follow the parameters.
    pub const PARAMETER_COUNT_AVAILABLE: u8 = 8;
}

/// Column types.
pub mod column {
    #![allow(missing_docs, reason = "the names are MySQL's")]
    pub const TINY: u8 = 1;
    pub const SHORT: u8 = 2;
    pub const LONG: u8 = 3;
    pub const FLOAT: u8 = 4;
    pub const DOUBLE: u8 = 5;
    pub const NULL: u8 = 6;
    pub const TIMESTAMP: u8 = 7;
    pub const LONGLONG: u8 = 8;
    pub const INT24: u8 = 9;
    pub const DATE: u8 = 10;
    pub const TIME: u8 = 11;
    pub const DATETIME: u8 = 12;
    pub const YEAR: u8 = 13;
    pub const VARCHAR: u8 = 15;
    pub const BIT: u8 = 16;
    pub const JSON: u8 = 245;
    pub const NEWDECIMAL: u8 = 246;
    pub const ENUM: u8 = 247;
    pub const SET: u8 = 248;
    pub const TINY_BLOB: u8 = 249;
    pub const MEDIUM_BLOB: u8 = 250;
    pub const LONG_BLOB: u8 = 251;
    pub const BLOB: u8 = 252;
    pub const VAR_STRING: u8 = 253;
    pub const STRING: u8 = 254;
    pub const GEOMETRY: u8 = 255;
}

/// Flags of a column. That it is a number is for clients to know.
pub mod flag {
    #![allow(missing_docs, reason = "the names are MySQL's")]
    pub const NOT_NULL: u16 = 1;
    pub const PRI_KEY: u16 = 2;
    pub const UNIQUE_KEY: u16 = 4;
    pub const MULTIPLE_KEY: u16 = 8;
    pub const BLOB: u16 = 16;
    pub const UNSIGNED: u16 = 32;
    pub const ZEROFILL: u16 = 64;
    pub const BINARY: u16 = 128;
    pub const ENUM: u16 = 256;
    pub const AUTO_INCREMENT: u16 = 512;
    pub const TIMESTAMP: u16 = 1024;
    pub const SET: u16 = 2048;
    pub const NO_DEFAULT: u16 = 4096;
    pub const ON_UPDATE_NOW: u16 = 8192;
    pub const PART_KEY: u16 = 16384;
}
