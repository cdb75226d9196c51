//! Who is at the other end of a Unix socket.
//!
//! # Not here
//! Users that only a directory service knows: asking one may take long.

#![expect(unsafe_code, reason = "a socket option that `rustix` reads into a type it may not fit")]

use std::fs;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The name of the user whose process is connected, by `/etc/passwd`; none if it has none there.
pub(crate) fn user_of(socket: BorrowedFd<'_>) -> Option<String> {
    let user = user_id(socket)?;
    name_of(&fs::read_to_string("/etc/passwd").ok()?, user)
}

/// The number of that user. `rustix` has this call, but its type for the process has no value for
/// one that this process cannot see.
fn user_id(socket: BorrowedFd<'_>) -> Option<u32> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let size = size_of::<libc::ucred>() as libc::socklen_t;
    let mut written = size;
    // SAFETY: the socket is open as long as it is borrowed; the system writes at most `written`
    // bytes to `peer`, which has so many, and any bytes are a value of it.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut written,
        )
    };
    (result == 0 && written == size).then_some(peer.uid)
}

fn name_of(passwd: &str, user: u32) -> Option<String> {
    let mut entries = passwd.lines().map(|line| line.split(':'));
    entries.find_map(|mut entry| {
        let (name, _password, number) = (entry.next()?, entry.next()?, entry.next()?);
        (number.parse() == Ok(user) && !name.is_empty()).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn users_have_names_or_none() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\n+::::::\nnines:x:999:999::/:/bin/false\n";
        assert_eq!(name_of(passwd, 0).as_deref(), Some("root"));
        assert_eq!(name_of(passwd, 999).as_deref(), Some("nines"));
        assert_eq!(name_of(passwd, 1), None);
    }

    #[test]
    fn a_pair_of_sockets_is_ours() {
        let (one, _other) = UnixStream::pair().unwrap();
        let own = rustix::process::geteuid().as_raw();
        assert_eq!(user_id(one.as_fd()), Some(own));
    }
}
