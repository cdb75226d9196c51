//! Users, roles, privileges.

use super::Printer;
use crate::ast::{
    Account, AccountOptions, AlterUser, AuthenticationSecret, CreateRole, CreateUser, DropUser,
    Grant, Granted, PasswordOption, PrivilegeTarget, Revoke, RoleChoice, SetDefaultRole,
    SetPassword, TlsRequirement, UserSpec,
};

impl Printer<'_> {
    pub(super) fn account(&mut self, account: &Account) {
        match account {
            Account::CurrentUser => self.put("CURRENT_USER"),
            Account::Name { user, host } => {
                self.text(user);
                if let Some(host) = host {
                    self.put("@");
                    self.text(host);
                }
            }
        }
    }

    pub(super) fn accounts(&mut self, accounts: &[Account]) {
        self.list(accounts, ",", Self::account);
    }

    pub(super) fn create_user(&mut self, create: &CreateUser) {
        self.put("CREATE USER ");
        self.put_if(create.if_not_exists, "IF NOT EXISTS ");
        self.list(&create.users, ", ", Self::user_spec);
        if !create.default_roles.is_empty() {
            self.put(" DEFAULT ROLE ");
            self.accounts(&create.default_roles);
        }
        self.account_options(&create.options);
    }

    pub(super) fn alter_user(&mut self, alter: &AlterUser) {
        self.put("ALTER USER ");
        self.put_if(alter.if_exists, "IF EXISTS ");
        self.list(&alter.users, ", ", Self::user_spec);
        if let Some(roles) = &alter.default_role {
            self.put(" DEFAULT ROLE ");
            self.role_choice(roles);
        }
        self.account_options(&alter.options);
    }

    fn user_spec(&mut self, spec: &UserSpec) {
        self.account(&spec.account);
        if let Some(authentication) = &spec.authentication {
            self.put(" IDENTIFIED");
            if let Some(plugin) = &authentication.plugin {
                self.put(" WITH ");
                self.text(plugin.as_str());
            }
            match &authentication.secret {
                AuthenticationSecret::None => {}
                AuthenticationSecret::Password(password) => {
                    self.put(" BY ");
                    self.bytes(password);
                }
                AuthenticationSecret::Random => self.put(" BY RANDOM PASSWORD"),
                AuthenticationSecret::Stored(stored) => {
                    self.put(" AS ");
                    self.bytes(stored);
                }
            }
        }
        if let Some(old) = &spec.replace {
            self.put(" REPLACE ");
            self.bytes(old);
        }
        self.put_if(spec.retain_current, " RETAIN CURRENT PASSWORD");
        self.put_if(spec.discard_old, " DISCARD OLD PASSWORD");
    }

    fn account_options(&mut self, options: &AccountOptions) {
        match &options.require {
            None => {}
            Some(TlsRequirement::None) => self.put(" REQUIRE NONE"),
            Some(TlsRequirement::Ssl) => self.put(" REQUIRE SSL"),
            Some(TlsRequirement::X509) => self.put(" REQUIRE X509"),
            Some(TlsRequirement::Certificate { subject, issuer, cipher }) => {
                self.put(" REQUIRE");
                self.text_clause(" SUBJECT ", subject.as_deref());
                self.text_clause(" ISSUER ", issuer.as_deref());
                self.text_clause(" CIPHER ", cipher.as_deref());
            }
        }
        self.put_if(!options.limits.is_empty(), " WITH");
        for (name, value) in &options.limits {
            self.put(&format!(" {name} {value}"));
        }
        for option in &options.password {
            self.password_option(*option);
        }
        match options.locked {
            None => {}
            Some(true) => self.put(" ACCOUNT LOCK"),
            Some(false) => self.put(" ACCOUNT UNLOCK"),
        }
        self.text_clause(" COMMENT ", options.comment.as_deref());
        self.text_clause(" ATTRIBUTE ", options.attribute.as_deref());
    }

    fn password_option(&mut self, option: PasswordOption) {
        let text = match option {
            PasswordOption::Expire => "PASSWORD EXPIRE",
            PasswordOption::ExpireDefault => "PASSWORD EXPIRE DEFAULT",
            PasswordOption::ExpireNever => "PASSWORD EXPIRE NEVER",
            PasswordOption::History(None) => "PASSWORD HISTORY DEFAULT",
            PasswordOption::ReuseDays(None) => "PASSWORD REUSE INTERVAL DEFAULT",
            PasswordOption::RequireCurrent(None) => "PASSWORD REQUIRE CURRENT DEFAULT",
            PasswordOption::RequireCurrent(Some(true)) => "PASSWORD REQUIRE CURRENT",
            PasswordOption::RequireCurrent(Some(false)) => "PASSWORD REQUIRE CURRENT OPTIONAL",
            PasswordOption::LockDays(None) => "PASSWORD_LOCK_TIME UNBOUNDED",
            PasswordOption::ExpireDays(days) => {
                return self.put(&format!(" PASSWORD EXPIRE INTERVAL {days} DAY"));
            }
            PasswordOption::History(Some(count)) => {
                return self.put(&format!(" PASSWORD HISTORY {count}"));
            }
            PasswordOption::ReuseDays(Some(days)) => {
                return self.put(&format!(" PASSWORD REUSE INTERVAL {days} DAY"));
            }
            PasswordOption::FailedLoginAttempts(count) => {
                return self.put(&format!(" FAILED_LOGIN_ATTEMPTS {count}"));
            }
            PasswordOption::LockDays(Some(days)) => {
                return self.put(&format!(" PASSWORD_LOCK_TIME {days}"));
            }
        };
        self.put(" ");
        self.put(text);
    }

    pub(super) fn drop_user(&mut self, kind: &str, drop: &DropUser) {
        self.put(kind);
        self.put_if(drop.if_exists, "IF EXISTS ");
        self.accounts(&drop.accounts);
    }

    pub(super) fn create_role(&mut self, create: &CreateRole) {
        self.put("CREATE ROLE ");
        self.put_if(create.if_not_exists, "IF NOT EXISTS ");
        self.accounts(&create.roles);
    }

    pub(super) fn grant(&mut self, grant: &Grant) {
        self.put("GRANT ");
        self.granted(&grant.what);
        self.put(" TO ");
        self.accounts(&grant.to);
        if grant.with_option {
            let roles = matches!(grant.what, Granted::Roles(_));
            self.put(if roles { " WITH ADMIN OPTION" } else { " WITH GRANT OPTION" });
        }
        if let Some(account) = &grant.as_account {
            self.put(" AS ");
            self.account(account);
        }
    }

    pub(super) fn revoke(&mut self, revoke: &Revoke) {
        self.put("REVOKE ");
        self.put_if(revoke.if_exists, "IF EXISTS ");
        self.granted(&revoke.what);
        self.put(" FROM ");
        self.accounts(&revoke.from);
        self.put_if(revoke.ignore_unknown, " IGNORE UNKNOWN USER");
    }

    fn granted(&mut self, what: &Granted) {
        match what {
            Granted::Privileges { privileges, target } => {
                self.list(privileges, ", ", |printer, privilege| {
                    printer.put(&privilege.name);
                    printer.optional_ident_list(" ", &privilege.columns);
                });
                self.put(" ON ");
                self.privilege_target(target);
            }
            Granted::Roles(roles) => self.accounts(roles),
            Granted::Proxy(account) => {
                self.put("PROXY ON ");
                self.account(account);
            }
            Granted::Everything => self.put("ALL PRIVILEGES, GRANT OPTION"),
        }
    }

    fn privilege_target(&mut self, target: &PrivilegeTarget) {
        match target {
            PrivilegeTarget::Global => self.put("*.*"),
            PrivilegeTarget::Database(None) => self.put("*"),
            PrivilegeTarget::Database(Some(name)) => {
                self.ident(name);
                self.put(".*");
            }
            PrivilegeTarget::Table(name) => self.object_name(name),
            PrivilegeTarget::Function(name) => {
                self.put("FUNCTION ");
                self.object_name(name);
            }
            PrivilegeTarget::Procedure(name) => {
                self.put("PROCEDURE ");
                self.object_name(name);
            }
        }
    }

    pub(super) fn set_password(&mut self, set: &SetPassword) {
        self.put("SET PASSWORD");
        if let Some(account) = &set.account {
            self.put(" FOR ");
            self.account(account);
        }
        match &set.password {
            Some(password) => {
                self.put(" = ");
                self.bytes(password);
            }
            None => self.put(" TO RANDOM"),
        }
        if let Some(old) = &set.replace {
            self.put(" REPLACE ");
            self.bytes(old);
        }
        self.put_if(set.retain_current, " RETAIN CURRENT PASSWORD");
    }

    pub(super) fn role_choice(&mut self, roles: &RoleChoice) {
        match roles {
            RoleChoice::Default => self.put("DEFAULT"),
            RoleChoice::None => self.put("NONE"),
            RoleChoice::All(except) => {
                self.put("ALL");
                if !except.is_empty() {
                    self.put(" EXCEPT ");
                    self.accounts(except);
                }
            }
            RoleChoice::Roles(roles) => self.accounts(roles),
        }
    }

    pub(super) fn set_default_role(&mut self, set: &SetDefaultRole) {
        self.put("SET DEFAULT ROLE ");
        self.role_choice(&set.roles);
        self.put(" TO ");
        self.accounts(&set.to);
    }
}
