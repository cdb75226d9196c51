//! The address of a source on the command line: `mysql://USER@HOST[:PORT]/DATABASE[,DATABASE…]`.
//!
//! # Guarantees
//! An address with a password in it is refused: the list of processes shows command lines.

/// What an address begins with.
pub(in crate::transfer) const SCHEME: &str = "mysql://";

/// Databases of a server itself, which are nobody's data.
const OF_SERVER: [&str; 4] = ["mysql", "sys", "information_schema", "performance_schema"];

/// A server, who logs in there, and the databases that are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) user: String,
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) databases: Vec<String>,
}

impl Address {
    /// Reads an address.
    ///
    /// # Errors
    /// What is wrong with it, and how it is written.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| {
            format!(
                "the source: {why}; it is given as {SCHEME}USER@HOST[:PORT]/DATABASE[,DATABASE…]"
            )
        };
        let rest = text.strip_prefix(SCHEME).ok_or_else(|| wrong("it has another form"))?;
        let (server, path) = rest.split_once('/').ok_or_else(|| wrong("no database is named"))?;
        let (user, place) = server.rsplit_once('@').ok_or_else(|| wrong("no user is named"))?;
        if user.contains(':') {
            return Err(wrong(
                "a password in an address is seen by all who see the list of processes: write it \
                 into a file that only you may read, and say --source-password-file FILE",
            ));
        }
        if path.contains(['?', '#', '/']) {
            return Err(wrong(
                "behind the databases nothing follows: what else there is are options",
            ));
        }
        let (host, port) = match place.strip_prefix('[') {
            Some(inner) => {
                let (host, port) =
                    inner.split_once(']').ok_or_else(|| wrong("`[` is never closed"))?;
                let port = match port.strip_prefix(':') {
                    None if port.is_empty() => None,
                    None => return Err(wrong("behind `]` only `:PORT` follows")),
                    Some(port) => Some(port),
                };
                (host, port)
            }
            None if place.matches(':').count() > 1 => {
                return Err(wrong("an address of IPv6 stands in `[` and `]`"));
            }
            None => place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
        };
        let port = match port {
            None => 3306,
            Some(port) => {
                let number = port.parse().ok().filter(|number| *number > 0);
                number.ok_or_else(|| wrong(&format!("`{port}` is no port")))?
            }
        };
        let user = decoded(user).ok_or_else(|| wrong("the user is no text"))?;
        if user.is_empty() || host.is_empty() {
            return Err(wrong("a user and a host are needed"));
        }
        let mut databases: Vec<String> = Vec::new();
        for part in path.split(',') {
            let name = decoded(part).filter(|name| !name.is_empty());
            let name = name.ok_or_else(|| wrong("a database has no name"))?;
            if OF_SERVER.iter().any(|own| own.eq_ignore_ascii_case(&name)) {
                return Err(wrong(&format!(
                    "`{name}` is the server's own; make accounts here by CREATE USER and GRANT"
                )));
            }
            if databases.contains(&name) {
                return Err(wrong(&format!("`{name}` is named twice")));
            }
            databases.push(name);
        }
        Ok(Self { user, host: host.to_owned(), port, databases })
    }

    /// The server as it is shown.
    pub(super) fn server(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// A text in which `%` and two hexadecimal digits are a byte; none if that is no UTF-8, or has a
/// zero in it.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || (rest.next()? as char).to_digit(16);
        let (high, low) = (digit()?, digit()?);
        bytes.push((high * 16 + low) as u8);
    }
    String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_user_host_port_and_databases() {
        let read = |text: &str| {
            let Address { user, host, port, databases } = Address::parse(text).expect(text);
            (user, host, port, databases.join("+"))
        };
        let of = |user: &str, host: &str, port: u16, databases: &str| {
            (user.to_owned(), host.to_owned(), port, databases.to_owned())
        };
        assert_eq!(read("mysql://root@db.old:3307/shop"), of("root", "db.old", 3307, "shop"));
        assert_eq!(read("mysql://a@b@10.0.0.1/x,y"), of("a@b", "10.0.0.1", 3306, "x+y"));
        assert_eq!(read("mysql://u%3A@[::1]:33/d%2Ce%25"), of("u:", "::1", 33, "d,e%"));
        assert_eq!(read("mysql://u@[fe80::1]/d"), of("u", "fe80::1", 3306, "d"));
        let shown = Address::parse("mysql://u@[::1]:33/d").expect("an address").server();
        assert_eq!(shown, "[::1]:33");
    }

    #[test]
    fn addresses_that_are_none_are_refused_with_the_reason() {
        for (text, part) in [
            ("mysql://root:secret@h/d", "--source-password-file"),
            ("mysql://root:@h/d", "--source-password-file"),
            ("mysql://h/d", "no user"),
            ("mysql://u@h", "no database"),
            ("mysql://u@h/", "no name"),
            ("mysql://u@h/a,,b", "no name"),
            ("mysql://u@h/a,a", "named twice"),
            ("mysql://u@h/MySQL", "server's own"),
            ("mysql://u@h:0/d", "no port"),
            ("mysql://u@h:70000/d", "no port"),
            ("mysql://u@::1/d", "IPv6"),
            ("mysql://u@[::1/d", "never closed"),
            ("mysql://u@[::1]3/d", "only `:PORT`"),
            ("mysql://@h/d", "a user and a host"),
            ("mysql://u@/d", "a user and a host"),
            ("mysql://u@h/d?ssl=1", "options"),
            ("mysql://u@h/d%4", "no name"),
            ("mysql://u@h/d%ff", "no name"),
            ("mysql://u@h/d%00", "no name"),
        ] {
            let why = Address::parse(text).expect_err(text);
            assert!(why.contains(part), "{text}: {why}");
            assert!(!why.contains("secret"), "{why}");
        }
    }
}
