//! What the tests with real clients need: Debian's programs, and drivers of five languages; and the
//! servers that Nines is compared with.
//!
//! # Owns
//! The folder of drivers, outside the clone so that the next clone finds it, and what is put there.
//! # Invariants
//! 1. Versions are fixed: by Debian's release for programs, by the files in `tests/connectors` for
//!    drivers. A folder that was made from the same files is left alone.
//! 2. A half-made folder is not taken for a whole one: its stamp is written last.
//! # Failure
//! What cannot be installed is named, with the command that does it.

mod jars;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The variable by which the tests find the drivers, and by which a user chooses the folder.
pub(crate) const FOLDER_VARIABLE: &str = "NINES_CONNECTORS";

/// A program or file the tests use, and the Debian package it comes in.
struct Need {
    found: fn() -> bool,
    package: &'static str,
}

/// What is asked for by a program's name may come from anywhere, not only from Debian.
const NEEDS: [Need; 17] = [
    Need { found: || in_path("ip") && in_path("tc"), package: "iproute2" },
    Need { found: || in_path("nsenter") && in_path("setpriv"), package: "util-linux" },
    Need { found: || in_path("sysbench"), package: "sysbench" },
    Need { found: || in_path("mysql") && in_path("mysqldump"), package: "mariadb-client" },
    Need { found: || in_path("mariadb-install-db"), package: "mariadb-server" },
    Need { found: || Path::new("/usr/sbin/haproxy").exists(), package: "haproxy" },
    Need { found: || in_path("openssl"), package: "openssl" },
    Need { found: || in_path("valgrind"), package: "valgrind" },
    Need { found: || in_path("gcc"), package: "gcc" },
    Need { found: || in_path("curl"), package: "curl" },
    Need { found: || in_path("pkg-config"), package: "pkg-config" },
    Need { found: has_client_library, package: "default-libmysqlclient-dev" },
    Need { found: || python("import ensurepip, venv"), package: "python3-venv" },
    Need { found: has_python_headers, package: "python3-dev" },
    Need { found: || in_path("node") && in_path("npm"), package: "npm" },
    Need { found: || in_path("go"), package: "golang-go" },
    Need { found: || in_path("java") && in_path("javac"), package: "default-jdk-headless" },
];

/// What `cargo xtask bench compare` starts and runs.
const PEERS: [Need; 11] = [
    Need { found: || in_path("sysbench"), package: "sysbench" },
    Need { found: || in_path("mysql"), package: "mariadb-client" },
    Need { found: || in_path("mariadb-install-db"), package: "mariadb-server" },
    Need { found: || Path::new("/usr/lib/galera/libgalera_smm.so").exists(), package: "galera-4" },
    Need { found: || in_path("rsync"), package: "rsync" },
    Need { found: || in_path("ss"), package: "iproute2" },
    Need { found: || in_path("redis-server"), package: "redis-server" },
    Need { found: || in_path("redis-benchmark"), package: "redis-tools" },
    Need { found: || in_path("python3"), package: "python3" },
    Need { found: || in_path("curl"), package: "curl" },
    Need { found: || in_path("java") && in_path("javac"), package: "default-jdk-headless" },
];

/// What `cargo xtask pgo` asks the server with.
const TRAINERS: [Need; 3] = [
    Need { found: || in_path("sysbench"), package: "sysbench" },
    Need { found: || in_path("mysql"), package: "mariadb-client" },
    Need { found: || in_path("python3"), package: "python3" },
];

/// Where the drivers are: the tests compute the same when they are run by hand.
pub(crate) fn folder(root: &Path, get: impl Fn(&str) -> Option<String>) -> PathBuf {
    match (get(FOLDER_VARIABLE), get("HOME")) {
        (Some(folder), _) => PathBuf::from(folder),
        (None, Some(home)) => Path::new(&home).join(".cache/nines/connectors"),
        (None, None) => root.join("target/connectors"),
    }
}

/// Installs what is missing.
pub(crate) fn install(root: &Path) -> Result<(), String> {
    packages(&NEEDS, "the tests with real clients")?;
    let folder = folder(root, |key| env::var(key).ok());
    let sources = root.join("tests/connectors");
    packages_of_python(&sources.join("requirements.txt"), &folder.join("python"))?;
    packages_of_python(&sources.join("object_store.txt"), &folder.join("object-store"))?;
    driver_of_node(&sources.join("node"), &folder.join("node"))?;
    driver_of_go(&sources.join("go"), &folder.join("go"))?;
    jars::driver(&folder.join("java"))?;
    println!("clients are installed; drivers are in {}", folder.display());
    Ok(())
}

/// Installs the servers that Nines is compared with, and what asks them; the folder of YCSB.
pub(crate) fn install_peers(root: &Path) -> Result<PathBuf, String> {
    packages(&PEERS, "the comparison with other servers")?;
    let ycsb = folder(root, |key| env::var(key).ok()).join("ycsb");
    jars::ycsb(&root.join("bench/compare/ycsb/MySqlBinding.java"), &ycsb)?;
    Ok(ycsb)
}

/// Installs what trains a program that is built for release.
pub(crate) fn install_trainers() -> Result<(), String> {
    packages(&TRAINERS, "a program that is built with counts of its use")
}

/// Installs what is missing of `needs`; `who` needs it.
fn packages(needs: &[Need], who: &str) -> Result<(), String> {
    let missing: Vec<&str> =
        needs.iter().filter(|need| !(need.found)()).map(|need| need.package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join(" ");
    if !in_path("apt-get") || !is_root() {
        return Err(format!(
            "{who} needs programs that are missing; install them with\n  \
             sudo apt-get install --no-install-recommends {list}\n\
             or what they are called in your distribution (a database server need not be running)"
        ));
    }
    println!("for {who}: apt-get install {list}");
    let _guard = NoServices::start();
    run(apt(&["update", "--quiet"]))?;
    let mut install = apt(&["install", "--yes", "--quiet", "--no-install-recommends"]);
    install.args(&missing);
    run(install)?;
    match needs.iter().find(|need| !(need.found)()) {
        None => Ok(()),
        Some(need) => Err(format!(
            "the package `{}` is installed, but what is needed from it is not found",
            need.package
        )),
    }
}

fn apt(args: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    command.args(args).env("DEBIAN_FRONTEND", "noninteractive");
    command
}

/// Keeps Debian's packages from starting what they install, in particular a database server.
struct NoServices {
    ours: bool,
}

/// What `invoke-rc.d` asks before it starts anything; 101 is its "no".
const POLICY: &str = "/usr/sbin/policy-rc.d";

impl NoServices {
    fn start() -> NoServices {
        let ours = !Path::new(POLICY).exists()
            && fs::write(POLICY, "#!/bin/sh\nexit 101\n").is_ok()
            && run(command("chmod", &["+x", POLICY])).is_ok();
        NoServices { ours }
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if self.ours {
            // A policy that stays behind is a nuisance, no reason to fail.
            let _ = fs::remove_file(POLICY);
        }
    }
}

fn packages_of_python(versions: &Path, folder: &Path) -> Result<(), String> {
    // A virtual environment is tied to the interpreter that made it.
    let version = output(command(interpreter(), &["--version"]));
    once(folder, &[versions], &version, || {
        let mut venv = command(interpreter(), &["-m", "venv", "--clear"]);
        venv.arg(folder);
        run(venv)?;
        let mut pip = Command::new(folder.join("bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        pip.arg("--requirement").arg(versions);
        run(pip)
    })
}

fn driver_of_node(sources: &Path, folder: &Path) -> Result<(), String> {
    let names = ["package.json", "package-lock.json", "connector.mjs", "login.mjs"];
    let files = names.map(|name| sources.join(name));
    let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    once(folder, &files, "", || {
        // A module finds its packages beside itself, so the script goes where they are.
        for (name, file) in names.iter().zip(&files) {
            fs::copy(file, folder.join(name)).map_err(|error| at(folder, &error))?;
        }
        let mut npm = command("npm", &["ci", "--no-audit", "--no-fund", "--loglevel=error"]);
        npm.current_dir(folder);
        run(npm)
    })
}

fn driver_of_go(sources: &Path, folder: &Path) -> Result<(), String> {
    let files = ["go.mod", "go.sum", "main.go"].map(|name| sources.join(name));
    let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    once(folder, &files, &output(command("go", &["version"])), || {
        let mut go = command("go", &["build", "-mod=readonly", "-o"]);
        go.arg(folder.join("connector")).arg(".").current_dir(sources);
        run(go)
    })
}

/// Fills a folder, unless it was filled from the same files and `more`.
fn once(
    folder: &Path,
    files: &[&Path],
    more: &str,
    fill: impl FnOnce() -> Result<(), String>,
) -> Result<(), String> {
    let mut wanted = format!("{more}\n");
    for file in files {
        wanted.push_str(&fs::read_to_string(file).map_err(|error| at(file, &error))?);
    }
    let stamp = folder.join(".made-from");
    if fs::read_to_string(&stamp).is_ok_and(|made_from| made_from == wanted) {
        return Ok(());
    }
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|error| at(folder, &error))?;
    }
    fs::create_dir_all(folder).map_err(|error| at(folder, &error))?;
    fill()?;
    fs::write(&stamp, wanted).map_err(|error| at(&stamp, &error))
}

fn at(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// Debian's Python where it is, as Debian's headers and modules belong to it.
fn interpreter() -> &'static str {
    const DEBIAN: &str = "/usr/bin/python3";
    if Path::new(DEBIAN).exists() { DEBIAN } else { "python3" }
}

fn python(code: &str) -> bool {
    succeeds(command(interpreter(), &["-c", code]))
}

fn has_python_headers() -> bool {
    python("import os, sysconfig as s; os.stat(s.get_path('include') + '/Python.h')")
}

fn has_client_library() -> bool {
    ["mysqlclient", "libmariadb"].iter().any(|name| succeeds(command("pkg-config", &[name])))
}

fn is_root() -> bool {
    output(command("id", &["-u"])).trim() == "0"
}

fn in_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    // Servers live where only root looks.
    let more = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    env::split_paths(&path).chain(more).any(|folder| folder.join(program).is_file())
}

fn command(program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args);
    command
}

fn succeeds(mut command: Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// What a program prints; nothing where it cannot be run.
fn output(mut command: Command) -> String {
    let output = command.stderr(Stdio::null()).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

fn run(mut command: Command) -> Result<(), String> {
    let shown = format!("{command:?}");
    println!("$ {shown}");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{shown} failed: {status}")),
        Err(error) => Err(format!("cannot run {shown}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_outside_the_clone_where_there_is_a_home() {
        let root = Path::new("/clone");
        let home = |key: &str| (key == "HOME").then(|| "/h".to_string());
        assert_eq!(folder(root, home), Path::new("/h/.cache/nines/connectors"));
        assert_eq!(folder(root, |_| None), Path::new("/clone/target/connectors"));
        let named = |key: &str| (key == FOLDER_VARIABLE).then(|| "/tools".to_string());
        assert_eq!(folder(root, named), Path::new("/tools"));
    }

    #[test]
    fn a_folder_is_filled_once_and_again_when_its_sources_change() {
        let base = env::temp_dir().join(format!("nines-clients-{}", std::process::id()));
        let (source, folder) = (base.join("source"), base.join("made"));
        fs::create_dir_all(&base).unwrap();
        fs::write(&source, "1").unwrap();
        let fill = |result: Result<(), String>| {
            let mut filled = false;
            let outcome = once(&folder, &[&source], "tool 1", || {
                filled = true;
                result
            });
            (filled, outcome.is_ok())
        };
        assert_eq!(fill(Err("no network".into())), (true, false));
        assert_eq!(fill(Ok(())), (true, true), "what failed is not taken for done");
        assert_eq!(fill(Ok(())), (false, true));
        fs::write(&source, "2").unwrap();
        assert_eq!(fill(Ok(())), (true, true));
        fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn programs_are_looked_for_where_they_may_be() {
        assert!(in_path("sh"));
        assert!(!in_path("no-such-program-anywhere"));
    }
}
