//! Where a statement says that a backup or an archive is.

use sql_expression::SqlError;

use crate::backup_jobs::Backups;
use crate::backup_jobs::host;

/// A place that a statement names: a directory, or `s3://bucket/path`; a name without a `/` at its
/// beginning is in the place of backups that is configured.
///
/// # Errors
/// For what is no absolute path without `..`, for other addresses, and for addresses with more in
/// them than a path, which may be a key and is not repeated.
pub(super) fn place(given: &[u8], backups: &Backups) -> Result<String, SqlError> {
    let place = String::from_utf8_lossy(given).into_owned();
    let base = backups.policy().directory;
    if let Some(base) = base.filter(|_| !place.starts_with('/') && !place.contains("://")) {
        let is_plain = |part: &str| !matches!(part, "" | "." | "..");
        if !place.split('/').all(is_plain) || place.contains(['\0', '@', '?', '#', '&']) {
            let why = format!("'{place}' is no plain name of a backup in {base}");
            return Err(host::failed(&why));
        }
        return Ok(format!("{}/{place}", base.trim_end_matches('/')));
    }
    if let Some((scheme, path)) = place.split_once("://") {
        if path.contains(['@', '?', '#', '&']) {
            let why = "an address is s3://BUCKET/PATH: keys do not belong into statements, but \
                       into the environment of the SQL node or the file of \
                       BackupS3CredentialsFile";
            return Err(host::failed(why));
        }
        if scheme != "s3" {
            let why = "backups are in directories of the SQL node's host or in object stores: \
                       s3://BUCKET/PATH";
            return Err(host::failed(why));
        }
        return Ok(place);
    }
    let has_dots = place.split('/').any(|part| part == "..");
    if !place.starts_with('/') || has_dots || place.contains('\0') {
        let why = format!("'{place}' is no absolute path of a directory without '..'");
        return Err(host::failed(&why));
    }
    Ok(place)
}
