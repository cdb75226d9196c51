//! Users, roles, privileges.

use super::{Parser, Result};
use crate::ast::{
    Account, AccountOptions, AlterUser, Authentication, AuthenticationSecret, CreateRole,
    CreateUser, DropUser, Grant, Granted, ObjectName, PasswordOption, Privilege, PrivilegeTarget,
    Revoke, RoleChoice, SetDefaultRole, SetPassword, Statement, TlsRequirement, UserSpec,
};
use crate::keyword::Keyword as K;
use crate::lexer::Kind;

impl Parser<'_> {
    /// `'name'@'host'`, `name`, CURRENT_USER.
    pub(super) fn account(&mut self) -> Result<Account> {
        if self.eat_word(K::CurrentUser) {
            if self.eat(Kind::Open) {
                self.expect(Kind::Close)?;
            }
            return Ok(Account::CurrentUser);
        }
        let user = if self.at(Kind::String) {
            // Only one string: what follows may be a password.

            let mut name = Vec::new();
            self.append_string(&mut name);
            String::from_utf8_lossy(&name).into()
        } else {
            self.ident()?.as_str().into()
        };
        let mut host = None;
        if self.at(Kind::Variable) {
            let name = self.user_variable()?;
            host = Some(name.as_str().to_ascii_lowercase().into());
        }
        Ok(Account::Name { user, host })
    }

    fn accounts(&mut self) -> Result<Vec<Account>> {
        self.list(Self::account)
    }

    /// After CREATE, at USER.
    pub(super) fn create_user(&mut self) -> Result<Statement> {
        self.advance();
        let if_not_exists = self.if_not_exists()?;
        let users = self.list(Self::user_spec)?;
        if self.at_word(K::And) || self.at_word(K::Initial) {
            return Ok(self.unsupported("CREATE USER with several factors"));
        }
        let default_roles =
            if self.eat_words(&[K::Default, K::Role]) { self.accounts()? } else { Vec::new() };
        let options = self.account_options()?;
        let user = CreateUser { if_not_exists, users, default_roles, options };
        Ok(Statement::CreateUser(Box::new(user)))
    }

    /// After ALTER, at USER.
    pub(super) fn alter_user(&mut self) -> Result<Statement> {
        self.advance();
        let if_exists = self.if_exists()?;
        // `USER()` is the account that is connected.
        let users = if self.eat(Kind::Open) {
            self.expect(Kind::Close)?;
            vec![self.user_spec_of(Account::CurrentUser)?]
        } else {
            self.list(|parser| {
                let is_self = parser.at_word(K::User) && parser.peek().kind == Kind::Open;
                if !is_self {
                    return parser.user_spec();
                }
                parser.advance();
                parser.advance();
                parser.expect(Kind::Close)?;
                parser.user_spec_of(Account::CurrentUser)
            })?
        };
        if matches!(self.token.keyword, K::Add | K::Modify | K::Drop) || self.at(Kind::Integer) {
            return Ok(self.unsupported("ALTER USER with several factors"));
        }
        let default_role = if self.eat_words(&[K::Default, K::Role]) {
            Some(self.role_choice(false)?)
        } else {
            None
        };
        let options = self.account_options()?;
        let user = AlterUser { if_exists, users, default_role, options };
        Ok(Statement::AlterUser(Box::new(user)))
    }

    fn user_spec(&mut self) -> Result<UserSpec> {
        let account = self.account()?;
        self.user_spec_of(account)
    }

    fn user_spec_of(&mut self, account: Account) -> Result<UserSpec> {
        let mut spec = UserSpec {
            account,
            authentication: None,
            replace: None,
            retain_current: false,
            discard_old: false,
        };
        if self.eat_words(&[K::Discard, K::Old, K::Password]) {
            spec.discard_old = true;
            return Ok(spec);
        }
        if !self.eat_word(K::Identified) {
            return Ok(spec);
        }
        let plugin = if self.eat_word(K::With) { Some(self.ident_or_text()?) } else { None };
        let secret = match self.eat_any(&[K::By, K::As]) {
            Some(K::By) => {
                if self.eat_words(&[K::Random, K::Password]) {
                    AuthenticationSecret::Random
                } else {
                    AuthenticationSecret::Password(self.string()?)
                }
            }
            Some(_) if plugin.is_some() => AuthenticationSecret::Stored(self.string_or_bits()?),
            None if plugin.is_some() => AuthenticationSecret::None,
            _ => return Err(self.error()),
        };
        spec.authentication = Some(Authentication { plugin, secret });
        if self.eat_word(K::Replace) {
            spec.replace = Some(self.string()?);
        }
        spec.retain_current = self.retain_current()?;
        Ok(spec)
    }

    fn retain_current(&mut self) -> Result<bool> {
        if self.eat_word(K::Retain) {
            self.expect_words(&[K::Current, K::Password]).map(|()| true)
        } else {
            Ok(false)
        }
    }

    fn account_options(&mut self) -> Result<AccountOptions> {
        let mut options = AccountOptions::default();
        if self.eat_word(K::Require) {
            options.require = Some(self.tls_requirement()?);
        }
        if self.eat_word(K::With) {
            const LIMITS: &[K] = &[
                K::MaxQueriesPerHour,
                K::MaxUpdatesPerHour,
                K::MaxConnectionsPerHour,
                K::MaxUserConnections,
            ];
            while let Some(word) = self.eat_any(LIMITS) {
                let name = word.text().to_ascii_lowercase();
                options.limits.push((name.into(), self.number()?));
            }
            if options.limits.is_empty() {
                return Err(self.error());
            }
        }
        loop {
            if self.eat_word(K::Account) {
                options.locked = Some(match self.eat_any(&[K::Lock, K::Unlock]) {
                    Some(word) => word == K::Lock,
                    None => return Err(self.error()),
                });
            } else if let Some(option) = self.password_option()? {
                options.password.push(option);
            } else {
                break;
            }
        }
        match self.eat_any(&[K::Comment, K::Attribute]) {
            Some(K::Comment) => options.comment = Some(self.text()?),
            Some(_) => options.attribute = Some(self.text()?),
            None => {}
        }
        Ok(options)
    }

    fn tls_requirement(&mut self) -> Result<TlsRequirement> {
        match self.eat_any(&[K::NoneWord, K::Ssl, K::X509]) {
            Some(K::NoneWord) => return Ok(TlsRequirement::None),
            Some(K::Ssl) => return Ok(TlsRequirement::Ssl),
            Some(_) => return Ok(TlsRequirement::X509),
            None => {}
        }
        let (mut subject, mut issuer, mut cipher) = (None, None, None);
        let mut any = false;
        loop {
            let slot = match self.token.keyword {
                K::Subject => &mut subject,
                K::Issuer => &mut issuer,
                K::Cipher => &mut cipher,
                _ if any => return Ok(TlsRequirement::Certificate { subject, issuer, cipher }),
                _ => return Err(self.error()),
            };
            self.advance();
            *slot = Some(self.text()?);
            any = true;
            self.eat_word(K::And);
        }
    }

    fn password_option(&mut self) -> Result<Option<PasswordOption>> {
        if self.eat_word(K::FailedLoginAttempts) {
            return Ok(Some(PasswordOption::FailedLoginAttempts(self.number()?)));
        }
        if self.eat_word(K::PasswordLockTime) {
            let unbounded = self.eat_word(K::Unbounded);
            let days = if unbounded { None } else { Some(self.number()?) };
            return Ok(Some(PasswordOption::LockDays(days)));
        }
        if !self.eat_word(K::Password) {
            return Ok(None);
        }
        let option = match self.eat_any(&[K::Expire, K::History, K::Reuse, K::Require]) {
            Some(K::Expire) => match self.eat_any(&[K::Default, K::Never, K::Interval]) {
                Some(K::Default) => PasswordOption::ExpireDefault,
                Some(K::Never) => PasswordOption::ExpireNever,
                Some(_) => PasswordOption::ExpireDays(self.days()?),
                None => PasswordOption::Expire,
            },
            Some(K::History) => {
                if self.eat_word(K::Default) {
                    PasswordOption::History(None)
                } else {
                    PasswordOption::History(Some(self.number()?))
                }
            }
            Some(K::Reuse) => {
                self.expect_word(K::Interval)?;
                if self.eat_word(K::Default) {
                    PasswordOption::ReuseDays(None)
                } else {
                    PasswordOption::ReuseDays(Some(self.days()?))
                }
            }
            Some(_) => {
                self.expect_word(K::Current)?;
                match self.eat_any(&[K::Default, K::Optional]) {
                    Some(K::Default) => PasswordOption::RequireCurrent(None),
                    Some(_) => PasswordOption::RequireCurrent(Some(false)),
                    None => PasswordOption::RequireCurrent(Some(true)),
                }
            }
            None => return Err(self.error()),
        };
        Ok(Some(option))
    }

    fn days(&mut self) -> Result<u64> {
        let days = self.number()?;
        self.expect_word(K::Day)?;
        Ok(days)
    }

    /// After DROP, at USER or ROLE.
    pub(super) fn drop_user(&mut self) -> Result<DropUser> {
        self.advance();
        let if_exists = self.if_exists()?;
        Ok(DropUser { if_exists, accounts: self.accounts()? })
    }

    /// After RENAME, at USER.
    pub(super) fn rename_user(&mut self) -> Result<Statement> {
        self.advance();
        let pairs = self.list(|parser| {
            let old = parser.account()?;
            parser.expect_word(K::To)?;
            Ok((old, parser.account()?))
        })?;
        Ok(Statement::RenameUser(pairs))
    }

    /// After CREATE, at ROLE.
    pub(super) fn create_role(&mut self) -> Result<Statement> {
        self.advance();
        let if_not_exists = self.if_not_exists()?;
        Ok(Statement::CreateRole(CreateRole { if_not_exists, roles: self.accounts()? }))
    }

    /// At GRANT.
    pub(super) fn grant(&mut self) -> Result<Statement> {
        self.advance();
        let what = self.granted()?;
        self.expect_word(K::To)?;
        let to = self.accounts()?;
        let word = if matches!(what, Granted::Roles(_)) { K::Admin } else { K::Grant };
        let with_option = self.eat_words(&[K::With, word]);
        if with_option {
            self.expect_word(K::Option)?;
        }
        let mut as_account = None;
        if self.eat_word(K::As) {
            as_account = Some(self.account()?);
            if self.eat_words(&[K::With, K::Role]) {
                return Ok(self.unsupported("GRANT ... AS ... WITH ROLE"));
            }
        }
        Ok(Statement::Grant(Box::new(Grant { what, to, with_option, as_account })))
    }

    /// At REVOKE.
    pub(super) fn revoke(&mut self) -> Result<Statement> {
        self.advance();
        let if_exists = self.if_exists()?;
        let what = if self.revokes_everything() { Granted::Everything } else { self.granted()? };
        self.expect_word(K::From)?;
        let from = self.accounts()?;
        let ignore_unknown = self.eat_word(K::Ignore);
        if ignore_unknown {
            self.expect_words(&[K::Unknown, K::User])?;
        }
        Ok(Statement::Revoke(Box::new(Revoke { if_exists, what, from, ignore_unknown })))
    }

    /// `ALL [PRIVILEGES], GRANT OPTION`, if it is next.
    fn revokes_everything(&mut self) -> bool {
        let mut lexer = self.lexer;
        if !self.at_word(K::All) {
            return false;
        }
        let mut token = lexer.next();
        if token.keyword == K::Privileges {
            token = lexer.next();
        }
        let found = token.kind == Kind::Comma
            && lexer.next().keyword == K::Grant
            && lexer.next().keyword == K::Option;
        if found {
            while !self.at_word(K::Option) {
                self.advance();
            }
            self.advance();
        }
        found
    }

    fn granted(&mut self) -> Result<Granted> {
        if self.eat_words(&[K::Proxy, K::On]) {
            return Ok(Granted::Proxy(self.account()?));
        }
        let (mut privileges, mut roles) = (Vec::new(), Vec::new());
        let (mut surely_privileges, mut surely_roles) = (false, false);
        loop {
            match self.role_or_privilege()? {
                RoleOrPrivilege::Role(role) => {
                    surely_roles = true;
                    roles.push(role);
                }
                RoleOrPrivilege::Privilege(privilege) => {
                    surely_privileges = true;
                    privileges.push(privilege);
                }
                RoleOrPrivilege::Either(name) => {
                    // Privileges beyond those of the grammar have words for names.
                    let is_word = name.starts_with(|first: char| first.is_ascii_alphabetic())
                        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
                    surely_roles |= !is_word;
                    roles.push(Account::Name { user: name.clone(), host: None });
                    let name = name.to_ascii_uppercase().into();
                    privileges.push(Privilege { name, columns: Vec::new() });
                }
            }
            if !self.eat(Kind::Comma) {
                break;
            }
        }
        if !self.eat_word(K::On) {
            return if surely_privileges { Err(self.error()) } else { Ok(Granted::Roles(roles)) };
        }
        if surely_roles {
            return Err(self.error_before());
        }
        let target = self.privilege_target()?;
        Ok(Granted::Privileges { privileges, target })
    }

    /// A privilege by the words of the grammar, a role, or a name that may be either.
    fn role_or_privilege(&mut self) -> Result<RoleOrPrivilege> {
        let mut words = String::new();
        let mut known = false;
        while let Some(word) = self.privilege_word(&words) {
            if !words.is_empty() {
                words.push(' ');
            }
            words.push_str(word);
            self.advance();
            known = true;
        }
        if known {
            if words == "ALL PRIVILEGES" {
                words = "ALL".to_string();
            }
            let columns = self.optional_ident_list()?;
            let privilege = Privilege { name: words.into(), columns };
            return Ok(RoleOrPrivilege::Privilege(privilege));
        }
        let is_string = self.at(Kind::String);
        match self.account()? {
            Account::Name { user, host: None } if !is_string => Ok(RoleOrPrivilege::Either(user)),
            role => Ok(RoleOrPrivilege::Role(role)),
        }
    }

    /// The word in hand, if it goes on a privilege of which `before` is the beginning.
    fn privilege_word(&self, before: &str) -> Option<&'static str> {
        let word = self.token.keyword;
        let next = self.peek();
        let fits = match before {
            "" => match word {
                K::Select
                | K::Insert
                | K::Update
                | K::References
                | K::Delete
                | K::Usage
                | K::Index
                | K::Alter
                | K::Create
                | K::Drop
                | K::All
                | K::Lock
                | K::Trigger
                | K::Show
                | K::Grant => true,
                // Identifiers otherwise: a privilege only where it ends or has its next word.
                K::Execute
                | K::Reload
                | K::Shutdown
                | K::Process
                | K::File
                | K::Event
                | K::Super => next.kind == Kind::Comma || next.keyword == K::On,
                K::Replication => matches!(next.keyword, K::Slave | K::Client),
                _ => false,
            },
            "ALL" => word == K::Privileges,
            "GRANT" => word == K::Option,
            "SHOW" => matches!(word, K::Databases | K::View),
            "LOCK" => word == K::Tables,
            "CREATE" => {
                matches!(
                    word,
                    K::Temporary | K::View | K::Routine | K::User | K::Tablespace | K::Role
                )
            }
            "CREATE TEMPORARY" => word == K::Tables,
            "ALTER" => word == K::Routine,
            "DROP" => word == K::Role,
            "REPLICATION" => matches!(word, K::Slave | K::Client),
            _ => false,
        };
        fits.then(|| word.text())
    }

    fn privilege_target(&mut self) -> Result<PrivilegeTarget> {
        let kind = match self.token.keyword {
            word @ (K::Table | K::Function | K::Procedure) => {
                self.advance();
                word
            }
            _ => K::Table,
        };
        if self.eat(Kind::Star) {
            if !self.eat(Kind::Dot) {
                return Ok(PrivilegeTarget::Database(None));
            }
            self.expect(Kind::Star)?;
            return Ok(PrivilegeTarget::Global);
        }
        let first = self.ident()?;
        if self.eat(Kind::Dot) {
            if self.eat(Kind::Star) {
                return Ok(PrivilegeTarget::Database(Some(first)));
            }
            let name = ObjectName { schema: Some(first), name: self.ident_after_dot()? };
            return Ok(target_of(kind, name));
        }
        Ok(target_of(kind, ObjectName { schema: None, name: first }))
    }

    /// After SET, at PASSWORD.
    pub(super) fn set_password(&mut self) -> Result<Statement> {
        self.advance();
        let account = if self.eat_word(K::For) { Some(self.account()?) } else { None };
        let password = if self.eat_word(K::To) {
            self.expect_word(K::Random)?;
            None
        } else {
            self.expect(Kind::Equal)?;
            Some(self.string()?)
        };
        let replace = if self.eat_word(K::Replace) { Some(self.string()?) } else { None };
        let retain_current = self.retain_current()?;
        let set = SetPassword { account, password, replace, retain_current };
        Ok(Statement::SetPassword(Box::new(set)))
    }

    /// DEFAULT, NONE, ALL or roles.
    pub(super) fn role_choice(&mut self, may_be_default: bool) -> Result<RoleChoice> {
        if may_be_default && self.eat_word(K::Default) {
            return Ok(RoleChoice::Default);
        }
        if self.eat_word(K::NoneWord) {
            return Ok(RoleChoice::None);
        }
        if self.eat_word(K::All) {
            let except = if may_be_default && self.eat_word(K::Except) {
                self.accounts()?
            } else {
                Vec::new()
            };
            return Ok(RoleChoice::All(except));
        }
        self.accounts().map(RoleChoice::Roles)
    }

    /// After SET, at DEFAULT ROLE.
    pub(super) fn set_default_role(&mut self) -> Result<Statement> {
        self.expect_words(&[K::Default, K::Role])?;
        let roles = self.role_choice(false)?;
        self.expect_word(K::To)?;
        Ok(Statement::SetDefaultRole(SetDefaultRole { roles, to: self.accounts()? }))
    }
}

enum RoleOrPrivilege {
    Role(Account),
    Privilege(Privilege),
    Either(Box<str>),
}

fn target_of(kind: K, name: ObjectName) -> PrivilegeTarget {
    match kind {
        K::Function => PrivilegeTarget::Function(name),
        K::Procedure => PrivilegeTarget::Procedure(name),
        _ => PrivilegeTarget::Table(name),
    }
}
