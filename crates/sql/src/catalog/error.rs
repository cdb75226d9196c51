//! What MySQL says about definitions that cannot be: one constructor for each of its errors.
//!
//! # Owns
//! Numbers, SQLSTATEs and texts of the errors of DDL. Numbers and texts are what clients and test
//! suites compare; they are MySQL's.
//! # Not here
//! Errors of rows and of the kernel.

use sql_expression::SqlError;

macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $kind:ty),*) =
        $code:literal, $state:literal, $text:literal;)*) => {
        $(
            $(#[$doc])*
            #[doc = $text]
            pub(crate) fn $name($($argument: $kind),*) -> SqlError {
                SqlError::new($code, $state, format!($text))
            }
        )*
    };
}

errors! {
    database_exists(name: &str) = 1007, "HY000", "Can't create database '{name}'; database exists";
    drop_unknown_database(name: &str) =
        1008, "HY000", "Can't drop database '{name}'; database doesn't exist";
    access_denied_to_database(database: &str) =
        1044, "42000", "Access denied for user 'root'@'localhost' to database '{database}'";
    no_database() = 1046, "3D000", "No database selected";
    unknown_database(name: &str) = 1049, "42000", "Unknown database '{name}'";
    table_exists(name: &str) = 1050, "42S01", "Table '{name}' already exists";
    unknown_table(names: &str) = 1051, "42S02", "Unknown table '{names}'";
    unknown_column(name: &str, table: &str) =
        1054, "42S22", "Unknown column '{name}' in '{table}'";
    name_too_long(name: &str) = 1059, "42000", "Identifier name '{name}' is too long";
    duplicate_column(name: &str) = 1060, "42S21", "Duplicate column name '{name}'";
    duplicate_key_name(name: &str) = 1061, "42000", "Duplicate key name '{name}'";
    wrong_specifier(column: &str) =
        1063, "42000", "Incorrect column specifier for column '{column}'";
    invalid_default(column: &str) = 1067, "42000", "Invalid default value for '{column}'";
    multiple_primary_key() = 1068, "42000", "Multiple primary key defined";
    too_many_keys(most: usize) =
        1069, "42000", "Too many keys specified; max {most} keys allowed";
    too_many_key_parts(most: usize) =
        1070, "42000", "Too many key parts specified; max {most} parts allowed";
    key_too_long(most: usize) =
        1071, "42000", "Specified key was too long; max key length is {most} bytes";
    unknown_key_column(name: &str) =
        1072, "42000", "Key column '{name}' doesn't exist in table";
    column_too_long(column: &str, most: u32) =
        1074, "42000",
        "Column length too big for column '{column}' (max = {most}); use BLOB or TEXT instead";
    wrong_auto_column() =
        1075, "42000",
        "Incorrect table definition; there can be only one auto column and it must be defined as \
         a key";
    wrong_prefix_key() =
        1089, "HY000",
        "Incorrect prefix key; the used key part isn't a string, the used length is longer than \
         the key part, or the storage engine doesn't support unique prefix keys";
    cannot_remove_all_columns() =
        1090, "42000",
        "You can't delete all columns with ALTER TABLE; use DROP TABLE instead";
    cannot_drop(name: &str) =
        1091, "42000", "Can't DROP '{name}'; check that column/key exists";
    too_many_members(column: &str, kind: &str) =
        1097, "HY000", "Too many strings for column {column} and {kind}";
    no_default_allowed(column: &str) =
        1101, "42000",
        "BLOB, TEXT, GEOMETRY or JSON column '{column}' can't have a default value";
    wrong_database_name(name: &str) = 1102, "42000", "Incorrect database name '{name}'";
    wrong_table_name(name: &str) = 1103, "42000", "Incorrect table name '{name}'";
    no_columns() = 1113, "42000", "A table must have at least 1 column";
    unknown_charset(name: &str) = 1115, "42000", "Unknown character set: '{name}'";
    too_many_columns() = 1117, "42000", "Too many columns";
    row_too_large(most: usize) =
        1118, "42000",
        "Row size too large. The maximum row size for the used table type, not counting BLOBs, is \
         {most}. This includes storage overhead, check the manual. You have to change some columns \
         to TEXT or BLOBs";
    no_such_table(database: &str, table: &str) =
        1146, "42S02", "Table '{database}.{table}' doesn't exist";
    wrong_column_name(name: &str) = 1166, "42000", "Incorrect column name '{name}'";
    key_without_length(column: &str) =
        1170, "42000",
        "BLOB/TEXT column '{column}' used in key specification without a key length";
    primary_key_nullable() =
        1171, "42000",
        "All parts of a PRIMARY KEY must be NOT NULL; if you need NULL in a \
            key, use UNIQUE \
         instead";
    unknown_key(name: &str, table: &str) =
        1176, "42000", "Key '{name}' doesn't exist in table '{table}'";
    cannot_add_foreign_key() = 1215, "HY000", "Cannot add foreign key constraint";
    wrong_foreign_key(name: &str) =
        1239, "42000",
        "Incorrect foreign key definition for '{name}': Key reference and table reference don't \
         match";
    index_of_foreign_key(index: &str) =
        1553, "HY000", "Cannot drop index '{index}': needed in a foreign key constraint";
    truncate_of_parent(constraint: &str) =
        1701, "42000",
        "Cannot truncate a table referenced in a foreign key constraint ({constraint})";
    no_parent_table(table: &str) =
        1824, "HY000", "Failed to open the referenced table '{table}'";
    duplicate_foreign_key(name: &str) =
        1826, "HY000", "Duplicate foreign key constraint name '{name}'";
    column_of_foreign_key(column: &str, key: &str) =
        1828, "HY000",
        "Cannot drop column '{column}': needed in a foreign key constraint '{key}'";
    column_of_parent(column: &str, key: &str, child: &str) =
        1829, "HY000",
        "Cannot drop column '{column}': needed in a foreign key constraint '{key}' of table \
         '{child}'";
    foreign_key_not_null(column: &str, key: &str) =
        1830, "HY000",
        "Column '{column}' cannot be NOT NULL: needed in a foreign key constraint '{key}' SET NULL";
    change_of_foreign_key(column: &str, key: &str) =
        1832, "HY000",
        "Cannot change column '{column}': used in a foreign key constraint '{key}'";
    change_of_parent(column: &str, key: &str, child: &str) =
        1833, "HY000",
        "Cannot change column '{column}': used in a foreign key constraint '{key}' of table \
         '{child}'";
    foreign_key_generated(clause: &str) =
        3104, "HY000", "Cannot define foreign key with {clause} clause on a generated column.";
    foreign_key_base_of_stored() =
        3192, "HY000", "Cannot add foreign key on the base column of stored column.";
    drop_of_parent(table: &str, key: &str, child: &str) =
        3730, "HY000",
        "Cannot drop table '{table}' referenced by a foreign key constraint '{key}' on table \
         '{child}'.";
    foreign_key_virtual(key: &str, column: &str) =
        3733, "HY000", "Foreign key '{key}' uses virtual column '{column}' which is not supported.";
    no_parent_column(column: &str, key: &str, table: &str) =
        3734, "HY000",
        "Failed to add the foreign key constraint. Missing column '{column}' for constraint \
         '{key}' in the referenced table '{table}'";
    incompatible_columns(child: &str, parent: &str, key: &str) =
        3780, "HY000",
        "Referencing column '{child}' and referenced column '{parent}' in foreign key constraint \
         '{key}' are incompatible.";
    check_of_foreign_key(column: &str, check: &str, key: &str) =
        3823, "HY000",
        "Column '{column}' cannot be used in a check constraint '{check}': needed in a foreign key \
         constraint '{key}' referential action.";
    no_parent_key(key: &str, table: &str) =
        6125, "HY000",
        "Failed to add the foreign key constraint. Missing unique key for constraint '{key}' in \
         the referenced table '{table}'";
    table_too_fulltext() =
        1214, "HY000", "The used table type doesn't support FULLTEXT indexes";
    collation_of_other_charset(collation: &str, charset: &str) =
        1253, "42000", "COLLATION '{collation}' is not valid for CHARACTER SET '{charset}'";
    engine_replaced(table: &str) =
        1266, "HY000", "Using storage engine NDBCLUSTER for table '{table}'";
    unknown_collation(name: &str) = 1273, "HY000", "Unknown collation: '{name}'";
    wrong_index_name(name: &str) = 1280, "42000", "Incorrect index name '{name}'";
    unknown_engine(name: &str) = 1286, "42000", "Unknown storage engine '{name}'";
    duplicate_member(column: &str, member: &str, kind: &str) =
        1291, "HY000", "Column '{column}' has duplicated value '{member}' in {kind}";
    invalid_on_update(column: &str) =
        1294, "HY000", "Invalid ON UPDATE clause for '{column}' column";
    conflicting_charsets(one: &str, other: &str) =
        1302, "HY000", "Conflicting declarations: '{one}' and '{other}'";
    illegal_member(member: &str) =
        1367, "22007", "Illegal set '{member}' value found during parsing";
    key_part_zero(column: &str) = 1391, "HY000", "Key part '{column}' length cannot be 0";
    scale_too_big(scale: u32, column: &str, most: u32) =
        1425, "42000",
        "Too big scale {scale} specified for column '{column}'. Maximum is {most}.";
    precision_too_big(precision: u32, column: &str, most: u32) =
        1426, "42000",
        "Too-big precision {precision} specified for '{column}'. Maximum is {most}.";
    precision_below_scale(column: &str) =
        1427, "42000",
        "For float(M,D), double(M,D) or decimal(M,D), M must be >= D (column '{column}').";
    width_too_big(column: &str, most: u32) =
        1439, "42000", "Display width out of range for column '{column}' (max = {most})";
    too_many_partitions() =
        1499, "HY000", "Too many partitions (including subpartitions) were defined";
    partition_outside_primary_key() =
        1503, "HY000",
        "A PRIMARY KEY must include all columns in the table's partitioning function (prefixed \
         columns are not considered).";
    no_partitions() = 1504, "HY000", "Number of partitions = 0 is not an allowed value";
    last_partition() =
        1508, "HY000", "Cannot remove all partitions, use DROP TABLE instead";
    no_partition_added() = 1514, "HY000", "At least one partition must be added";
    no_partition_coalesced() = 1515, "HY000", "At least one partition must be coalesced";
    unknown_partition_column() =
        1488, "HY000", "Field in list of fields for partition function not found in table";
    comment_too_long(what: &str, name: &str, most: usize) =
        1628, "HY000", "Comment for {what} '{name}' is too long (max = {most})";
    deprecated_width() =
        1681, "HY000",
        "Integer display width is deprecated and will be removed in a future release.";
    deprecated_float_digits() =
        1681, "HY000",
        "Specifying number of digits for floating point data types is deprecated and will be \
         removed in a future release.";
    deprecated_unsigned() =
        1681, "HY000",
        "UNSIGNED for decimal and floating point data types is deprecated and support for it will \
         be removed in a future release.";
    deprecated_zerofill() =
        1681, "HY000",
        "The ZEROFILL attribute is deprecated and will be removed in a future release. Use the \
         LPAD function to zero-pad numbers, or store the formatted numbers in a CHAR column.";
    wrong_year_width() = 1818, "HY000", "Supports only YEAR or YEAR(4) column.";
    duplicate_index(name: &str, database: &str, table: &str) =
        1831, "HY000",
        "Duplicate index '{name}' defined on the table '{database}.{table}'. This is deprecated \
         and will be disallowed in a future release.";
    algorithm_unsupported(algorithm: &str, instead: &str) =
        1845, "0A000",
        "{algorithm} is not supported for this operation. Try {instead}.";
    lock_unsupported(lock: &str, reason: &str, instead: &str) =
        1846, "0A000",
        "{lock} is not supported. Reason: {reason}. Try {instead}.";
    unsupported_on_generated(what: &str) =
        3106, "HY000", "'{what}' is not supported for generated columns.";
    generated_not_prior() =
        3107, "HY000", "Generated column can refer only to generated columns defined prior to it.";
    dependent_generated_column(column: &str) =
        3108, "HY000", "Column '{column}' has a generated column dependency.";
    generated_of_auto_increment(column: &str) =
        3109, "HY000", "Generated column '{column}' cannot refer to auto-increment column.";
    json_key(column: &str) =
        3152, "42000",
        "JSON column '{column}' supports indexing only via generated columns on a specified JSON \
         path.";
    member_too_long(column: &str) =
        3505, "HY000", "Too long enumeration/set value for column {column}.";
    primary_key_invisible() = 3522, "HY000", "A primary key index cannot be invisible";
    system_schema_protected(schema: &str) =
        3552, "HY000", "Access to system schema '{schema}' is rejected.";
    generated_function(column: &str) =
        3102, "HY000",
        "Expression of generated column '{column}' contains a disallowed function.";
    generated_named_function(column: &str, function: &str) =
        3763, "HY000",
        "Expression of generated column '{column}' contains a disallowed function: {function}.";
    generated_row(column: &str) =
        3764, "HY000", "Expression of generated column '{column}' cannot refer to a row value.";
    generated_variable(column: &str) =
        3765, "HY000",
        "Expression of generated column '{column}' cannot refer user or system variables.";
    dependent_default(column: &str, table: &str) =
        3766, "HY000",
        "Column '{column}' of table '{table}' has a default value expression dependency and cannot \
         be dropped or renamed.";
    default_not_prior(column: &str) =
        3767, "HY000",
        "Default value expression of column '{column}' cannot refer to a column defined after it \
         if that column is a generated column or has an expression as default value.";
    default_of_auto_increment(column: &str) =
        3768, "HY000",
        "Default value expression of column '{column}' cannot refer to an auto-increment column.";
    default_function(column: &str) =
        3769, "HY000",
        "Default value expression of column '{column}' contains a disallowed function.";
    default_named_function(column: &str, function: &str) =
        3770, "HY000",
        "Default value expression of column '{column}' contains a disallowed function: {function}.";
    default_row(column: &str) =
        3771, "HY000",
        "Default value expression of column '{column}' cannot refer to a row value.";
    default_variable(column: &str) =
        3772, "HY000",
        "Default value expression of column '{column}' cannot refer user or system variables.";
    check_not_boolean(name: &str) =
        3812, "HY000",
        "An expression of non-boolean type specified to a check constraint '{name}'.";
    check_of_other_column(name: &str) =
        3813, "HY000", "Column check constraint '{name}' references other column.";
    check_named_function(name: &str, function: &str) =
        3814, "HY000",
        "An expression of a check constraint '{name}' contains disallowed function: {function}.";
    check_function(name: &str) =
        3815, "HY000",
        "An expression of a check constraint '{name}' contains disallowed function.";
    check_variable(name: &str) =
        3816, "HY000",
        "An expression of a check constraint '{name}' cannot refer to a user or system variable.";
    check_row(name: &str) =
        3817, "HY000", "Check constraint '{name}' cannot refer to a row value.";
    check_of_auto_increment(name: &str) =
        3818, "HY000", "Check constraint '{name}' cannot refer to an auto-increment column.";
    check_of_unknown_column(name: &str, column: &str) =
        3820, "HY000", "Check constraint '{name}' refers to non-existing column '{column}'.";
    unknown_check(name: &str) =
        3821, "HY000", "Check constraint '{name}' is not found in the table.";
    duplicate_check(name: &str) = 3822, "HY000", "Duplicate check constraint name '{name}'.";
    functional_json() =
        3753, "HY000",
        "Cannot create a functional index on a function that returns a JSON or GEOMETRY value.";
    functional_of_auto_increment(name: &str) =
        3754, "HY000", "Functional index '{name}' cannot refer to an auto-increment column.";
    functional_primary_key() = 3756, "HY000", "The primary key cannot be a functional index";
    functional_lob() =
        3757, "HY000",
        "Cannot create a functional index on an expression that returns a BLOB or TEXT. Please \
         consider using CAST.";
    functional_function(name: &str) =
        3758, "HY000",
        "Expression of functional index '{name}' contains a disallowed function.";
    functional_of_column() =
        3762, "HY000",
        "Functional index on a column is not supported. Consider using a regular index instead.";
    functional_row(name: &str) =
        3800, "HY000",
        "Expression of functional index '{name}' cannot refer to a row value.";
    dependent_functional(column: &str) =
        3837, "HY000",
        "Column '{column}' has a functional index dependency and cannot be dropped or renamed.";
    unknown_constraint(name: &str) = 3940, "HY000", "Constraint '{name}' does not exist.";
    ambiguous_constraint(name: &str) =
        3939, "HY000", "Table has multiple constraints with the name '{name}'. Please use \
                        constraint specific 'DROP' clause.";
    dependent_check(name: &str, column: &str) =
        3959, "HY000",
        "Check constraint '{name}' uses column '{column}', hence column cannot be dropped or \
         renamed.";
    no_visible_column() =
        4028, "HY000", "A table must have at least one visible column.";
}

/// Error 1235: what the grammar knows and the engine does not do yet.
pub(crate) fn unsupported(feature: &str) -> SqlError {
    SqlError::not_supported(feature)
}
