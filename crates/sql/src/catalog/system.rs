//! The system's own schemas: their names, and how names in them compare.

use collation::CollationId;

/// Under which names are compared.
pub(crate) const NAMES_COLLATION: CollationId = CollationId::UTF8MB3_GENERAL_CI;

/// The system's own schemas.
const SCHEMAS: [&str; 5] = ["information_schema", "mysql", "nines", "performance_schema", "sys"];

/// The system schema of this name, which is found in any letter case.
pub(crate) fn schema(name: &str) -> Option<&'static str> {
    SCHEMAS.into_iter().find(|schema| schema.eq_ignore_ascii_case(name))
}

/// The system's own schemas, by name.
pub(crate) fn schemas() -> &'static [&'static str] {
    &SCHEMAS
}
