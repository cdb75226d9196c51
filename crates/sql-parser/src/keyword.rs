//! The words of the language, and which of them are reserved.
//!
//! # Owns
//! The list of MySQL 8.0's keywords, the look-up of a word, and the names of functions that are
//! words of the grammar only where a parenthesis follows at once.
//! # Invariants
//! 1. A look-up hashes the word once and compares it with one or two others: it is done for every
//!    word of every statement.

/// What a word is to the grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Never an identifier without quotes, except after a dot.
    Reserved,
    /// An identifier where the grammar does not ask for the word.
    Plain,
    /// An identifier, unless `(` follows at once (or anywhere after it with IGNORE_SPACE). Not in
    /// the list of keywords.
    Function,
}

macro_rules! keywords {
    ($($name:ident $text:literal $class:ident,)*) => {
        /// A word of the language.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u16)]
        pub(crate) enum Keyword {
            /// Not a word of the language.
            None,
            $($name,)*
        }

        const WORDS: &[(Keyword, &str, Class)] =
            &[$((Keyword::$name, $text, Class::$class),)*];
    };
}

impl Keyword {
    /// The keyword that `word` is, in any case.
    pub(crate) fn of(word: &[u8]) -> Self {
        if word.len() > WORD_SIZE_MAX {
            return Self::None;
        }
        let mut slot = hash(word);
        loop {
            let entry = SLOTS[slot % SLOT_COUNT];
            if entry == 0 {
                return Self::None;
            }
            let (keyword, text, _) = WORDS[usize::from(entry) - 1];
            if word.eq_ignore_ascii_case(text.as_bytes()) {
                return keyword;
            }
            slot += 1;
        }
    }

    /// The word in upper case.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::None => "",
            _ => WORDS[self as usize - 1].1,
        }
    }

    /// What the word is to the grammar.
    pub(crate) fn class(self) -> Option<Class> {
        match self {
            Self::None => None,
            _ => Some(WORDS[self as usize - 1].2),
        }
    }
}

/// Whether a word cannot be a name without quotes.
pub fn is_reserved(word: &str) -> bool {
    keywords().any(|(name, reserved)| reserved && name.eq_ignore_ascii_case(word))
}

/// All keywords in alphabetical order, each with whether it is reserved: what
/// `information_schema.KEYWORDS` lists.
pub fn keywords() -> impl Iterator<Item = (&'static str, bool)> {
    let listed = WORDS.iter().filter(|(_, _, class)| *class != Class::Function);
    listed.map(|(_, text, class)| (*text, *class == Class::Reserved))
}

const SLOT_COUNT: usize = 4096;
const WORD_SIZE_MAX: usize = 64;

/// A word's first slot. Letters of either case hash alike.
const fn hash(word: &[u8]) -> usize {
    let mut state: u32 = word.len() as u32;
    let mut at = 0;
    while at < word.len() {
        state = (state ^ (word[at] | 0x20) as u32).wrapping_mul(0x0100_0193);
        at += 1;
    }
    (state ^ (state >> 15)) as usize % SLOT_COUNT
}

/// Open addressing: a word's number plus one, or zero.
static SLOTS: [u16; SLOT_COUNT] = build_slots();

const fn build_slots() -> [u16; SLOT_COUNT] {
    let mut slots = [0; SLOT_COUNT];
    let mut number = 0;
    while number < WORDS.len() {
        let text = WORDS[number].1.as_bytes();
        assert!(text.len() <= WORD_SIZE_MAX, "a look-up refuses longer words");
        let mut slot = hash(text);
        while slots[slot % SLOT_COUNT] != 0 {
            slot += 1;
        }
        slots[slot % SLOT_COUNT] = number as u16 + 1;
        number += 1;
    }
    slots
}

keywords! {
    Accessible "ACCESSIBLE" Reserved, Account "ACCOUNT" Plain, Action "ACTION" Plain,
    Active "ACTIVE" Plain, Add "ADD" Reserved, Adddate "ADDDATE" Function, Admin "ADMIN" Plain,
    After "AFTER" Plain, Against "AGAINST" Plain, Aggregate "AGGREGATE" Plain,
    Algorithm "ALGORITHM" Plain, All "ALL" Reserved, Alter "ALTER" Reserved,
    Always "ALWAYS" Plain, Analyze "ANALYZE" Reserved, And "AND" Reserved, Any "ANY" Plain,
    Array "ARRAY" Plain, As "AS" Reserved, Asc "ASC" Reserved, Ascii "ASCII" Plain,
    Asensitive "ASENSITIVE" Reserved,
    AssignGtidsToAnonymousTransactions "ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS" Plain,
    At "AT" Plain, Attribute "ATTRIBUTE" Plain, Authentication "AUTHENTICATION" Plain,
    AutoextendSize "AUTOEXTEND_SIZE" Plain, AutoIncrement "AUTO_INCREMENT" Plain, Avg "AVG" Plain,
    AvgRowLength "AVG_ROW_LENGTH" Plain, Backup "BACKUP" Plain, Before "BEFORE" Reserved,
    Begin "BEGIN" Plain, Between "BETWEEN" Reserved, Bigint "BIGINT" Reserved,
    Binary "BINARY" Reserved, Binlog "BINLOG" Plain, Bit "BIT" Plain, BitAnd "BIT_AND" Function,
    BitOr "BIT_OR" Function, BitXor "BIT_XOR" Function, Blob "BLOB" Reserved, Block "BLOCK" Plain,
    Bool "BOOL" Plain, Boolean "BOOLEAN" Plain, Both "BOTH" Reserved, Btree "BTREE" Plain,
    Buckets "BUCKETS" Plain, Bulk "BULK" Plain, By "BY" Reserved, Byte "BYTE" Plain,
    Cache "CACHE" Plain, Call "CALL" Reserved, Cascade "CASCADE" Reserved,
    Cascaded "CASCADED" Plain, Case "CASE" Reserved, Cast "CAST" Function,
    CatalogName "CATALOG_NAME" Plain, Chain "CHAIN" Plain,
    ChallengeResponse "CHALLENGE_RESPONSE" Plain, Change "CHANGE" Reserved,
    Changed "CHANGED" Plain, Channel "CHANNEL" Plain, Char "CHAR" Reserved,
    Character "CHARACTER" Reserved, Charset "CHARSET" Plain, Check "CHECK" Reserved,
    Checksum "CHECKSUM" Plain, Cipher "CIPHER" Plain, ClassOrigin "CLASS_ORIGIN" Plain,
    Client "CLIENT" Plain, Clone "CLONE" Plain, Close "CLOSE" Plain, Coalesce "COALESCE" Plain,
    Code "CODE" Plain, Collate "COLLATE" Reserved, Collation "COLLATION" Plain,
    Column "COLUMN" Reserved, Columns "COLUMNS" Plain, ColumnFormat "COLUMN_FORMAT" Plain,
    ColumnName "COLUMN_NAME" Plain, Comment "COMMENT" Plain, Commit "COMMIT" Plain,
    Committed "COMMITTED" Plain, Compact "COMPACT" Plain, Completion "COMPLETION" Plain,
    Component "COMPONENT" Plain, Compressed "COMPRESSED" Plain, Compression "COMPRESSION" Plain,
    Concurrent "CONCURRENT" Plain, Condition "CONDITION" Reserved, Connection "CONNECTION" Plain,
    Consistent "CONSISTENT" Plain, Constraint "CONSTRAINT" Reserved,
    ConstraintCatalog "CONSTRAINT_CATALOG" Plain, ConstraintName "CONSTRAINT_NAME" Plain,
    ConstraintSchema "CONSTRAINT_SCHEMA" Plain, Contains "CONTAINS" Plain,
    Context "CONTEXT" Plain, Continue "CONTINUE" Reserved, Convert "CONVERT" Reserved,
    Count "COUNT" Function, Cpu "CPU" Plain, Create "CREATE" Reserved, Cross "CROSS" Reserved,
    Cube "CUBE" Reserved, CumeDist "CUME_DIST" Reserved, Curdate "CURDATE" Function,
    Current "CURRENT" Plain, CurrentDate "CURRENT_DATE" Reserved,
    CurrentTime "CURRENT_TIME" Reserved, CurrentTimestamp "CURRENT_TIMESTAMP" Reserved,
    CurrentUser "CURRENT_USER" Reserved, Cursor "CURSOR" Reserved, CursorName "CURSOR_NAME" Plain,
    Curtime "CURTIME" Function, Data "DATA" Plain, Database "DATABASE" Reserved,
    Databases "DATABASES" Reserved, Datafile "DATAFILE" Plain, Date "DATE" Plain,
    Datetime "DATETIME" Plain, DateAdd "DATE_ADD" Function, DateSub "DATE_SUB" Function,
    Day "DAY" Plain, DayHour "DAY_HOUR" Reserved, DayMicrosecond "DAY_MICROSECOND" Reserved,
    DayMinute "DAY_MINUTE" Reserved, DaySecond "DAY_SECOND" Reserved,
    Deallocate "DEALLOCATE" Plain, Dec "DEC" Reserved, Decimal "DECIMAL" Reserved,
    Declare "DECLARE" Reserved, Default "DEFAULT" Reserved, DefaultAuth "DEFAULT_AUTH" Plain,
    Definer "DEFINER" Plain, Definition "DEFINITION" Plain, Delayed "DELAYED" Reserved,
    DelayKeyWrite "DELAY_KEY_WRITE" Plain, Delete "DELETE" Reserved,
    DenseRank "DENSE_RANK" Reserved, Desc "DESC" Reserved, Describe "DESCRIBE" Reserved,
    Description "DESCRIPTION" Plain, Deterministic "DETERMINISTIC" Reserved,
    Diagnostics "DIAGNOSTICS" Plain, Directory "DIRECTORY" Plain, Disable "DISABLE" Plain,
    Discard "DISCARD" Plain, Disk "DISK" Plain, Distinct "DISTINCT" Reserved,
    Distinctrow "DISTINCTROW" Reserved, Div "DIV" Reserved, Do "DO" Plain,
    Double "DOUBLE" Reserved, Drop "DROP" Reserved, Dual "DUAL" Reserved,
    Dumpfile "DUMPFILE" Plain, Duplicate "DUPLICATE" Plain, Dynamic "DYNAMIC" Plain,
    Each "EACH" Reserved, Else "ELSE" Reserved, Elseif "ELSEIF" Reserved, Empty "EMPTY" Reserved,
    Enable "ENABLE" Plain, Enclosed "ENCLOSED" Reserved, Encryption "ENCRYPTION" Plain,
    End "END" Plain, Ends "ENDS" Plain, Enforced "ENFORCED" Plain, Engine "ENGINE" Plain,
    Engines "ENGINES" Plain, EngineAttribute "ENGINE_ATTRIBUTE" Plain, Enum "ENUM" Plain,
    Error "ERROR" Plain, Errors "ERRORS" Plain, Escape "ESCAPE" Plain, Escaped "ESCAPED" Reserved,
    Event "EVENT" Plain, Events "EVENTS" Plain, Every "EVERY" Plain, Except "EXCEPT" Reserved,
    Exchange "EXCHANGE" Plain, Exclude "EXCLUDE" Plain, Execute "EXECUTE" Plain,
    Exists "EXISTS" Reserved, Exit "EXIT" Reserved, Expansion "EXPANSION" Plain,
    Expire "EXPIRE" Plain, Explain "EXPLAIN" Reserved, Export "EXPORT" Plain,
    Extended "EXTENDED" Plain, ExtentSize "EXTENT_SIZE" Plain, Extract "EXTRACT" Function,
    Factor "FACTOR" Plain, FailedLoginAttempts "FAILED_LOGIN_ATTEMPTS" Plain,
    False "FALSE" Reserved, Fast "FAST" Plain, Faults "FAULTS" Plain, Fetch "FETCH" Reserved,
    Fields "FIELDS" Plain, File "FILE" Plain, FileBlockSize "FILE_BLOCK_SIZE" Plain,
    Filter "FILTER" Plain, Finish "FINISH" Plain, First "FIRST" Plain,
    FirstValue "FIRST_VALUE" Reserved, Fixed "FIXED" Plain, Float "FLOAT" Reserved,
    Float4 "FLOAT4" Reserved, Float8 "FLOAT8" Reserved, Flush "FLUSH" Plain,
    Following "FOLLOWING" Plain, Follows "FOLLOWS" Plain, For "FOR" Reserved,
    Force "FORCE" Reserved, Foreign "FOREIGN" Reserved, Format "FORMAT" Plain,
    Found "FOUND" Plain, From "FROM" Reserved, Full "FULL" Plain, Fulltext "FULLTEXT" Reserved,
    Function "FUNCTION" Reserved, General "GENERAL" Plain, Generate "GENERATE" Plain,
    Generated "GENERATED" Reserved, Geomcollection "GEOMCOLLECTION" Plain,
    Geometry "GEOMETRY" Plain, Geometrycollection "GEOMETRYCOLLECTION" Plain, Get "GET" Reserved,
    GetFormat "GET_FORMAT" Plain, GetMasterPublicKey "GET_MASTER_PUBLIC_KEY" Plain,
    GetSourcePublicKey "GET_SOURCE_PUBLIC_KEY" Plain, Global "GLOBAL" Plain,
    Grant "GRANT" Reserved, Grants "GRANTS" Plain, Group "GROUP" Reserved,
    Grouping "GROUPING" Reserved, Groups "GROUPS" Reserved, GroupConcat "GROUP_CONCAT" Function,
    GroupReplication "GROUP_REPLICATION" Plain, GtidOnly "GTID_ONLY" Plain,
    Handler "HANDLER" Plain, Hash "HASH" Plain, Having "HAVING" Reserved, Help "HELP" Plain,
    HighPriority "HIGH_PRIORITY" Reserved, Histogram "HISTOGRAM" Plain, History "HISTORY" Plain,
    Host "HOST" Plain, Hosts "HOSTS" Plain, Hour "HOUR" Plain,
    HourMicrosecond "HOUR_MICROSECOND" Reserved, HourMinute "HOUR_MINUTE" Reserved,
    HourSecond "HOUR_SECOND" Reserved, Identified "IDENTIFIED" Plain, If "IF" Reserved,
    Ignore "IGNORE" Reserved, IgnoreServerIds "IGNORE_SERVER_IDS" Plain, Import "IMPORT" Plain,
    In "IN" Reserved, Inactive "INACTIVE" Plain, Index "INDEX" Reserved, Indexes "INDEXES" Plain,
    Infile "INFILE" Reserved, Initial "INITIAL" Plain, InitialSize "INITIAL_SIZE" Plain,
    Initiate "INITIATE" Plain, Inner "INNER" Reserved, Inout "INOUT" Reserved,
    Insensitive "INSENSITIVE" Reserved, Insert "INSERT" Reserved,
    InsertMethod "INSERT_METHOD" Plain, Install "INSTALL" Plain, Instance "INSTANCE" Plain,
    Int "INT" Reserved, Int1 "INT1" Reserved, Int2 "INT2" Reserved, Int3 "INT3" Reserved,
    Int4 "INT4" Reserved, Int8 "INT8" Reserved, Integer "INTEGER" Reserved,
    Intersect "INTERSECT" Reserved, Interval "INTERVAL" Reserved, Into "INTO" Reserved,
    Invisible "INVISIBLE" Plain, Invoker "INVOKER" Plain, Io "IO" Plain,
    IoAfterGtids "IO_AFTER_GTIDS" Reserved, IoBeforeGtids "IO_BEFORE_GTIDS" Reserved,
    IoThread "IO_THREAD" Plain, Ipc "IPC" Plain, Is "IS" Reserved, Isolation "ISOLATION" Plain,
    Issuer "ISSUER" Plain, Iterate "ITERATE" Reserved, Join "JOIN" Reserved, Json "JSON" Plain,
    JsonArrayagg "JSON_ARRAYAGG" Function, JsonObjectagg "JSON_OBJECTAGG" Function,
    JsonTable "JSON_TABLE" Reserved, JsonValue "JSON_VALUE" Plain, Key "KEY" Reserved,
    Keyring "KEYRING" Plain, Keys "KEYS" Reserved, KeyBlockSize "KEY_BLOCK_SIZE" Plain,
    Kill "KILL" Reserved, Lag "LAG" Reserved, Language "LANGUAGE" Plain, Last "LAST" Plain,
    LastValue "LAST_VALUE" Reserved, Lateral "LATERAL" Reserved, Lead "LEAD" Reserved,
    Leading "LEADING" Reserved, Leave "LEAVE" Reserved, Leaves "LEAVES" Plain,
    Left "LEFT" Reserved, Less "LESS" Plain, Level "LEVEL" Plain, Like "LIKE" Reserved,
    Limit "LIMIT" Reserved, Linear "LINEAR" Reserved, Lines "LINES" Reserved,
    Linestring "LINESTRING" Plain, List "LIST" Plain, Load "LOAD" Reserved, Local "LOCAL" Plain,
    Localtime "LOCALTIME" Reserved, Localtimestamp "LOCALTIMESTAMP" Reserved,
    Lock "LOCK" Reserved, Locked "LOCKED" Plain, Locks "LOCKS" Plain, Logfile "LOGFILE" Plain,
    Logs "LOGS" Plain, Long "LONG" Reserved, Longblob "LONGBLOB" Reserved,
    Longtext "LONGTEXT" Reserved, Loop "LOOP" Reserved, LowPriority "LOW_PRIORITY" Reserved,
    Master "MASTER" Plain, MasterAutoPosition "MASTER_AUTO_POSITION" Plain,
    MasterBind "MASTER_BIND" Reserved,
    MasterCompressionAlgorithms "MASTER_COMPRESSION_ALGORITHMS" Plain,
    MasterConnectRetry "MASTER_CONNECT_RETRY" Plain, MasterDelay "MASTER_DELAY" Plain,
    MasterHeartbeatPeriod "MASTER_HEARTBEAT_PERIOD" Plain, MasterHost "MASTER_HOST" Plain,
    MasterLogFile "MASTER_LOG_FILE" Plain, MasterLogPos "MASTER_LOG_POS" Plain,
    MasterPassword "MASTER_PASSWORD" Plain, MasterPort "MASTER_PORT" Plain,
    MasterPublicKeyPath "MASTER_PUBLIC_KEY_PATH" Plain,
    MasterRetryCount "MASTER_RETRY_COUNT" Plain, MasterSsl "MASTER_SSL" Plain,
    MasterSslCa "MASTER_SSL_CA" Plain, MasterSslCapath "MASTER_SSL_CAPATH" Plain,
    MasterSslCert "MASTER_SSL_CERT" Plain, MasterSslCipher "MASTER_SSL_CIPHER" Plain,
    MasterSslCrl "MASTER_SSL_CRL" Plain, MasterSslCrlpath "MASTER_SSL_CRLPATH" Plain,
    MasterSslKey "MASTER_SSL_KEY" Plain,
    MasterSslVerifyServerCert "MASTER_SSL_VERIFY_SERVER_CERT" Reserved,
    MasterTlsCiphersuites "MASTER_TLS_CIPHERSUITES" Plain,
    MasterTlsVersion "MASTER_TLS_VERSION" Plain, MasterUser "MASTER_USER" Plain,
    MasterZstdCompressionLevel "MASTER_ZSTD_COMPRESSION_LEVEL" Plain, Match "MATCH" Reserved,
    Max "MAX" Function, Maxvalue "MAXVALUE" Reserved,
    MaxConnectionsPerHour "MAX_CONNECTIONS_PER_HOUR" Plain,
    MaxQueriesPerHour "MAX_QUERIES_PER_HOUR" Plain, MaxRows "MAX_ROWS" Plain,
    MaxSize "MAX_SIZE" Plain, MaxUpdatesPerHour "MAX_UPDATES_PER_HOUR" Plain,
    MaxUserConnections "MAX_USER_CONNECTIONS" Plain, Medium "MEDIUM" Plain,
    Mediumblob "MEDIUMBLOB" Reserved, Mediumint "MEDIUMINT" Reserved,
    Mediumtext "MEDIUMTEXT" Reserved, Member "MEMBER" Plain, Memory "MEMORY" Plain,
    Merge "MERGE" Plain, MessageText "MESSAGE_TEXT" Plain, Microsecond "MICROSECOND" Plain,
    Mid "MID" Function, Middleint "MIDDLEINT" Reserved, Migrate "MIGRATE" Plain,
    Min "MIN" Function, Minute "MINUTE" Plain, MinuteMicrosecond "MINUTE_MICROSECOND" Reserved,
    MinuteSecond "MINUTE_SECOND" Reserved, MinRows "MIN_ROWS" Plain, Mod "MOD" Reserved,
    Mode "MODE" Plain, Modifies "MODIFIES" Reserved, Modify "MODIFY" Plain, Month "MONTH" Plain,
    Multilinestring "MULTILINESTRING" Plain, Multipoint "MULTIPOINT" Plain,
    Multipolygon "MULTIPOLYGON" Plain, Mutex "MUTEX" Plain, MysqlErrno "MYSQL_ERRNO" Plain,
    Name "NAME" Plain, Names "NAMES" Plain, National "NATIONAL" Plain, Natural "NATURAL" Reserved,
    Nchar "NCHAR" Plain, Ndb "NDB" Plain, Ndbcluster "NDBCLUSTER" Plain, Nested "NESTED" Plain,
    NetworkNamespace "NETWORK_NAMESPACE" Plain, Never "NEVER" Plain, New "NEW" Plain,
    Next "NEXT" Plain, No "NO" Plain, Nodegroup "NODEGROUP" Plain, NoneWord "NONE" Plain,
    Not "NOT" Reserved, Now "NOW" Function, Nowait "NOWAIT" Plain, NoWait "NO_WAIT" Plain,
    NoWriteToBinlog "NO_WRITE_TO_BINLOG" Reserved, NthValue "NTH_VALUE" Reserved,
    Ntile "NTILE" Reserved, Null "NULL" Reserved, Nulls "NULLS" Plain, Number "NUMBER" Plain,
    Numeric "NUMERIC" Reserved, Nvarchar "NVARCHAR" Plain, Of "OF" Reserved, Off "OFF" Plain,
    Offset "OFFSET" Plain, Oj "OJ" Plain, Old "OLD" Plain, On "ON" Reserved, One "ONE" Plain,
    Only "ONLY" Plain, Open "OPEN" Plain, Optimize "OPTIMIZE" Reserved,
    OptimizerCosts "OPTIMIZER_COSTS" Reserved, Option "OPTION" Reserved,
    Optional "OPTIONAL" Plain, Optionally "OPTIONALLY" Reserved, Options "OPTIONS" Plain,
    Or "OR" Reserved, Order "ORDER" Reserved, Ordinality "ORDINALITY" Plain,
    Organization "ORGANIZATION" Plain, Others "OTHERS" Plain, Out "OUT" Reserved,
    Outer "OUTER" Reserved, Outfile "OUTFILE" Reserved, Over "OVER" Reserved, Owner "OWNER" Plain,
    PackKeys "PACK_KEYS" Plain, Page "PAGE" Plain, Parser "PARSER" Plain, Partial "PARTIAL" Plain,
    Partition "PARTITION" Reserved, Partitioning "PARTITIONING" Plain,
    Partitions "PARTITIONS" Plain, Password "PASSWORD" Plain,
    PasswordLockTime "PASSWORD_LOCK_TIME" Plain, Path "PATH" Plain,
    PercentRank "PERCENT_RANK" Reserved, Persist "PERSIST" Plain,
    PersistOnly "PERSIST_ONLY" Plain, Phase "PHASE" Plain, Plugin "PLUGIN" Plain,
    Plugins "PLUGINS" Plain, PluginDir "PLUGIN_DIR" Plain, Point "POINT" Plain,
    Polygon "POLYGON" Plain, Port "PORT" Plain, Position "POSITION" Function,
    Precedes "PRECEDES" Plain, Preceding "PRECEDING" Plain, Precision "PRECISION" Reserved,
    Prepare "PREPARE" Plain, Preserve "PRESERVE" Plain, Prev "PREV" Plain,
    Primary "PRIMARY" Reserved, Privileges "PRIVILEGES" Plain,
    PrivilegeChecksUser "PRIVILEGE_CHECKS_USER" Plain, Procedure "PROCEDURE" Reserved,
    Process "PROCESS" Plain, Processlist "PROCESSLIST" Plain, Profile "PROFILE" Plain,
    Profiles "PROFILES" Plain, Proxy "PROXY" Plain, Purge "PURGE" Reserved,
    Quarter "QUARTER" Plain, Query "QUERY" Plain, Quick "QUICK" Plain, Random "RANDOM" Plain,
    Range "RANGE" Reserved, Rank "RANK" Reserved, Read "READ" Reserved, Reads "READS" Reserved,
    ReadOnly "READ_ONLY" Plain, ReadWrite "READ_WRITE" Reserved, Real "REAL" Reserved,
    Rebuild "REBUILD" Plain, Recover "RECOVER" Plain, Recursive "RECURSIVE" Reserved,
    RedoBufferSize "REDO_BUFFER_SIZE" Plain, Redundant "REDUNDANT" Plain,
    Reference "REFERENCE" Plain, References "REFERENCES" Reserved, Regexp "REGEXP" Reserved,
    Registration "REGISTRATION" Plain, Relay "RELAY" Plain, Relaylog "RELAYLOG" Plain,
    RelayLogFile "RELAY_LOG_FILE" Plain, RelayLogPos "RELAY_LOG_POS" Plain,
    RelayThread "RELAY_THREAD" Plain, Release "RELEASE" Reserved, Reload "RELOAD" Plain,
    Remove "REMOVE" Plain, Rename "RENAME" Reserved, Reorganize "REORGANIZE" Plain,
    Repair "REPAIR" Plain, Repeat "REPEAT" Reserved, Repeatable "REPEATABLE" Plain,
    Replace "REPLACE" Reserved, Replica "REPLICA" Plain, Replicas "REPLICAS" Plain,
    ReplicateDoDb "REPLICATE_DO_DB" Plain, ReplicateDoTable "REPLICATE_DO_TABLE" Plain,
    ReplicateIgnoreDb "REPLICATE_IGNORE_DB" Plain,
    ReplicateIgnoreTable "REPLICATE_IGNORE_TABLE" Plain,
    ReplicateRewriteDb "REPLICATE_REWRITE_DB" Plain,
    ReplicateWildDoTable "REPLICATE_WILD_DO_TABLE" Plain,
    ReplicateWildIgnoreTable "REPLICATE_WILD_IGNORE_TABLE" Plain, Replication "REPLICATION" Plain,
    Require "REQUIRE" Reserved, RequireRowFormat "REQUIRE_ROW_FORMAT" Plain,
    RequireTablePrimaryKeyCheck "REQUIRE_TABLE_PRIMARY_KEY_CHECK" Plain, Reset "RESET" Plain,
    Resignal "RESIGNAL" Reserved, Resource "RESOURCE" Plain, Respect "RESPECT" Plain,
    Restart "RESTART" Plain, Restore "RESTORE" Plain, Restrict "RESTRICT" Reserved,
    Resume "RESUME" Plain, Retain "RETAIN" Plain, Return "RETURN" Reserved,
    ReturnedSqlstate "RETURNED_SQLSTATE" Plain, Returning "RETURNING" Plain,
    Returns "RETURNS" Plain, Reuse "REUSE" Plain, Reverse "REVERSE" Plain,
    Revoke "REVOKE" Reserved, Right "RIGHT" Reserved, Rlike "RLIKE" Reserved, Role "ROLE" Plain,
    Rollback "ROLLBACK" Plain, Rollup "ROLLUP" Plain, Rotate "ROTATE" Plain,
    Routine "ROUTINE" Plain, Row "ROW" Reserved, Rows "ROWS" Reserved, RowCount "ROW_COUNT" Plain,
    RowFormat "ROW_FORMAT" Plain, RowNumber "ROW_NUMBER" Reserved, Rtree "RTREE" Plain,
    Savepoint "SAVEPOINT" Plain, Schedule "SCHEDULE" Plain, Schema "SCHEMA" Reserved,
    Schemas "SCHEMAS" Reserved, SchemaName "SCHEMA_NAME" Plain, Second "SECOND" Plain,
    Secondary "SECONDARY" Plain, SecondaryEngine "SECONDARY_ENGINE" Plain,
    SecondaryEngineAttribute "SECONDARY_ENGINE_ATTRIBUTE" Plain,
    SecondaryLoad "SECONDARY_LOAD" Plain, SecondaryUnload "SECONDARY_UNLOAD" Plain,
    SecondMicrosecond "SECOND_MICROSECOND" Reserved, Security "SECURITY" Plain,
    Select "SELECT" Reserved, Sensitive "SENSITIVE" Reserved, Separator "SEPARATOR" Reserved,
    Serial "SERIAL" Plain, Serializable "SERIALIZABLE" Plain, Server "SERVER" Plain,
    Session "SESSION" Plain, SessionUser "SESSION_USER" Function, Set "SET" Reserved,
    Share "SHARE" Plain, Show "SHOW" Reserved, Shutdown "SHUTDOWN" Plain,
    Signal "SIGNAL" Reserved, Signed "SIGNED" Plain, Simple "SIMPLE" Plain, Skip "SKIP" Plain,
    Slave "SLAVE" Plain, Slow "SLOW" Plain, Smallint "SMALLINT" Reserved,
    Snapshot "SNAPSHOT" Plain, Socket "SOCKET" Plain, Some "SOME" Plain, Soname "SONAME" Plain,
    Sounds "SOUNDS" Plain, Source "SOURCE" Plain, SourceAutoPosition "SOURCE_AUTO_POSITION" Plain,
    SourceBind "SOURCE_BIND" Plain,
    SourceCompressionAlgorithms "SOURCE_COMPRESSION_ALGORITHMS" Plain,
    SourceConnectionAutoFailover "SOURCE_CONNECTION_AUTO_FAILOVER" Plain,
    SourceConnectRetry "SOURCE_CONNECT_RETRY" Plain, SourceDelay "SOURCE_DELAY" Plain,
    SourceHeartbeatPeriod "SOURCE_HEARTBEAT_PERIOD" Plain, SourceHost "SOURCE_HOST" Plain,
    SourceLogFile "SOURCE_LOG_FILE" Plain, SourceLogPos "SOURCE_LOG_POS" Plain,
    SourcePassword "SOURCE_PASSWORD" Plain, SourcePort "SOURCE_PORT" Plain,
    SourcePublicKeyPath "SOURCE_PUBLIC_KEY_PATH" Plain,
    SourceRetryCount "SOURCE_RETRY_COUNT" Plain, SourceSsl "SOURCE_SSL" Plain,
    SourceSslCa "SOURCE_SSL_CA" Plain, SourceSslCapath "SOURCE_SSL_CAPATH" Plain,
    SourceSslCert "SOURCE_SSL_CERT" Plain, SourceSslCipher "SOURCE_SSL_CIPHER" Plain,
    SourceSslCrl "SOURCE_SSL_CRL" Plain, SourceSslCrlpath "SOURCE_SSL_CRLPATH" Plain,
    SourceSslKey "SOURCE_SSL_KEY" Plain,
    SourceSslVerifyServerCert "SOURCE_SSL_VERIFY_SERVER_CERT" Plain,
    SourceTlsCiphersuites "SOURCE_TLS_CIPHERSUITES" Plain,
    SourceTlsVersion "SOURCE_TLS_VERSION" Plain, SourceUser "SOURCE_USER" Plain,
    SourceZstdCompressionLevel "SOURCE_ZSTD_COMPRESSION_LEVEL" Plain, Spatial "SPATIAL" Reserved,
    Specific "SPECIFIC" Reserved, Sql "SQL" Reserved, Sqlexception "SQLEXCEPTION" Reserved,
    Sqlstate "SQLSTATE" Reserved, Sqlwarning "SQLWARNING" Reserved,
    SqlAfterGtids "SQL_AFTER_GTIDS" Plain, SqlAfterMtsGaps "SQL_AFTER_MTS_GAPS" Plain,
    SqlBeforeGtids "SQL_BEFORE_GTIDS" Plain, SqlBigResult "SQL_BIG_RESULT" Reserved,
    SqlBufferResult "SQL_BUFFER_RESULT" Plain, SqlCalcFoundRows "SQL_CALC_FOUND_ROWS" Reserved,
    SqlNoCache "SQL_NO_CACHE" Plain, SqlSmallResult "SQL_SMALL_RESULT" Reserved,
    SqlThread "SQL_THREAD" Plain, SqlTsiDay "SQL_TSI_DAY" Plain, SqlTsiHour "SQL_TSI_HOUR" Plain,
    SqlTsiMinute "SQL_TSI_MINUTE" Plain, SqlTsiMonth "SQL_TSI_MONTH" Plain,
    SqlTsiQuarter "SQL_TSI_QUARTER" Plain, SqlTsiSecond "SQL_TSI_SECOND" Plain,
    SqlTsiWeek "SQL_TSI_WEEK" Plain, SqlTsiYear "SQL_TSI_YEAR" Plain, Srid "SRID" Plain,
    Ssl "SSL" Reserved, Stacked "STACKED" Plain, Start "START" Plain,
    Starting "STARTING" Reserved, Starts "STARTS" Plain,
    StatsAutoRecalc "STATS_AUTO_RECALC" Plain, StatsPersistent "STATS_PERSISTENT" Plain,
    StatsSamplePages "STATS_SAMPLE_PAGES" Plain, Status "STATUS" Plain, Std "STD" Function,
    Stddev "STDDEV" Function, StddevPop "STDDEV_POP" Function, StddevSamp "STDDEV_SAMP" Function,
    Stop "STOP" Plain, Storage "STORAGE" Plain, Stored "STORED" Reserved,
    StraightJoin "STRAIGHT_JOIN" Reserved, Stream "STREAM" Plain, String "STRING" Plain,
    StCollect "ST_COLLECT" Function, SubclassOrigin "SUBCLASS_ORIGIN" Plain,
    Subdate "SUBDATE" Function, Subject "SUBJECT" Plain, Subpartition "SUBPARTITION" Plain,
    Subpartitions "SUBPARTITIONS" Plain, Substr "SUBSTR" Function, Substring "SUBSTRING" Function,
    Sum "SUM" Function, Super "SUPER" Plain, Suspend "SUSPEND" Plain, Swaps "SWAPS" Plain,
    Switches "SWITCHES" Plain, Sysdate "SYSDATE" Function, System "SYSTEM" Reserved,
    SystemUser "SYSTEM_USER" Function, Table "TABLE" Reserved, Tables "TABLES" Plain,
    Tablespace "TABLESPACE" Plain, TableChecksum "TABLE_CHECKSUM" Plain,
    TableName "TABLE_NAME" Plain, Temporary "TEMPORARY" Plain, Temptable "TEMPTABLE" Plain,
    Terminated "TERMINATED" Reserved, Text "TEXT" Plain, Than "THAN" Plain, Then "THEN" Reserved,
    ThreadPriority "THREAD_PRIORITY" Plain, Ties "TIES" Plain, Time "TIME" Plain,
    Timestamp "TIMESTAMP" Plain, Timestampadd "TIMESTAMPADD" Plain,
    Timestampdiff "TIMESTAMPDIFF" Plain, Tinyblob "TINYBLOB" Reserved, Tinyint "TINYINT" Reserved,
    Tinytext "TINYTEXT" Reserved, Tls "TLS" Plain, To "TO" Reserved, Trailing "TRAILING" Reserved,
    Transaction "TRANSACTION" Plain, Trigger "TRIGGER" Reserved, Triggers "TRIGGERS" Plain,
    Trim "TRIM" Function, True "TRUE" Reserved, Truncate "TRUNCATE" Plain, Type "TYPE" Plain,
    Types "TYPES" Plain, Unbounded "UNBOUNDED" Plain, Uncommitted "UNCOMMITTED" Plain,
    Undefined "UNDEFINED" Plain, Undo "UNDO" Reserved, Undofile "UNDOFILE" Plain,
    UndoBufferSize "UNDO_BUFFER_SIZE" Plain, Unicode "UNICODE" Plain, Uninstall "UNINSTALL" Plain,
    Union "UNION" Reserved, Unique "UNIQUE" Reserved, Unknown "UNKNOWN" Plain,
    Unlock "UNLOCK" Reserved, Unregister "UNREGISTER" Plain, Unsigned "UNSIGNED" Reserved,
    Until "UNTIL" Plain, Update "UPDATE" Reserved, Upgrade "UPGRADE" Plain, Url "URL" Plain,
    Usage "USAGE" Reserved, Use "USE" Reserved, User "USER" Plain,
    UserResources "USER_RESOURCES" Plain, UseFrm "USE_FRM" Plain, Using "USING" Reserved,
    UtcDate "UTC_DATE" Reserved, UtcTime "UTC_TIME" Reserved,
    UtcTimestamp "UTC_TIMESTAMP" Reserved, Validation "VALIDATION" Plain, Value "VALUE" Plain,
    Values "VALUES" Reserved, Varbinary "VARBINARY" Reserved, Varchar "VARCHAR" Reserved,
    Varcharacter "VARCHARACTER" Reserved, Variables "VARIABLES" Plain,
    Variance "VARIANCE" Function, Varying "VARYING" Reserved, VarPop "VAR_POP" Function,
    VarSamp "VAR_SAMP" Function, Vcpu "VCPU" Plain, View "VIEW" Plain, Virtual "VIRTUAL" Reserved,
    Visible "VISIBLE" Plain, Wait "WAIT" Plain, Warnings "WARNINGS" Plain, Week "WEEK" Plain,
    WeightString "WEIGHT_STRING" Plain, When "WHEN" Reserved, Where "WHERE" Reserved,
    While "WHILE" Reserved, Window "WINDOW" Reserved, With "WITH" Reserved,
    Without "WITHOUT" Plain, Work "WORK" Plain, Wrapper "WRAPPER" Plain, Write "WRITE" Reserved,
    X509 "X509" Plain, Xa "XA" Plain, Xid "XID" Plain, Xml "XML" Plain, Xor "XOR" Reserved,
    Year "YEAR" Plain, YearMonth "YEAR_MONTH" Reserved, Zerofill "ZEROFILL" Reserved,
    Zone "ZONE" Plain,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_found_in_any_case() {
        for (keyword, text, class) in WORDS {
            assert_eq!(Keyword::of(text.as_bytes()), *keyword, "{text}");
            assert_eq!(Keyword::of(text.to_ascii_lowercase().as_bytes()), *keyword, "{text}");
            assert_eq!((keyword.text(), keyword.class()), (*text, Some(*class)));
        }
        for word in ["", "selec", "selectt", "id", "x", "nines", "_utf8", "SE\u{0}ECT"] {
            assert_eq!(Keyword::of(word.as_bytes()), Keyword::None, "{word}");
        }
        assert_eq!(Keyword::of(&[b'a'; 1_000]), Keyword::None);
    }

    #[test]
    fn words_are_listed_in_order() {
        assert!(WORDS.windows(2).all(|pair| pair[0].1 < pair[1].1));
        assert!(keywords().any(|word| word == ("SELECT", true)));
        assert!(keywords().any(|word| word == ("ACCOUNT", false)));
        assert!(keywords().all(|(word, _)| word != "COUNT"));
    }
}
