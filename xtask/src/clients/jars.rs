//! Jars from Maven Central: the JDBC driver, and YCSB's core with what it needs.
//!
//! # Owns
//! Which jars, and that each is the one that was meant.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{at, command, once, output, run};

/// A file of the repository, its name here, and its SHA-256.
struct Jar {
    path: &'static str,
    name: &'static str,
    sha256: &'static str,
}

const REPOSITORY: &str = "https://repo1.maven.org/maven2";

const CONNECTOR: Jar = Jar {
    path: "com/mysql/mysql-connector-j/9.1.0/mysql-connector-j-9.1.0.jar",
    name: "mysql-connector-j.jar",
    sha256: "8776e2ebc46072c9a47ea59d98298c4273bd9f16a7b26b5dfa4744535aa26c62",
};

/// What YCSB's core is, and what it needs, by its description there.
const YCSB: [Jar; 5] = [
    Jar {
        path: "site/ycsb/core/0.17.0/core-0.17.0.jar",
        name: "ycsb-core.jar",
        sha256: "e1c64d09bfc642715428c2e53ec129b0a98a0e634ee32bf0ae77e5b4eebb3cda",
    },
    Jar {
        path: "org/apache/htrace/htrace-core4/4.1.0-incubating/htrace-core4-4.1.0-incubating.jar",
        name: "htrace-core4.jar",
        sha256: "5d45b7904857c3e4ad36b3bcc57be2d2c5f308c69b5f6a58bd86aa7d48a25ef6",
    },
    Jar {
        path: "org/codehaus/jackson/jackson-mapper-asl/1.9.4/jackson-mapper-asl-1.9.4.jar",
        name: "jackson-mapper-asl.jar",
        sha256: "f013389c3eb92aa997df801e4a352464925af634a4af3e5bd77c6c0763dc9c99",
    },
    Jar {
        path: "org/codehaus/jackson/jackson-core-asl/1.9.4/jackson-core-asl-1.9.4.jar",
        name: "jackson-core-asl.jar",
        sha256: "6129e1b91d7850ba250b1375094c8ca215a0f7cf234b6f60a2f4a88d5b1272c9",
    },
    Jar {
        path: "org/hdrhistogram/HdrHistogram/2.1.4/HdrHistogram-2.1.4.jar",
        name: "HdrHistogram.jar",
        sha256: "8e68b9608ab107690350b904eab24087785f69218e5c6acd860d28116eded708",
    },
];

/// Puts the JDBC driver into a folder.
pub(super) fn driver(folder: &Path) -> Result<(), String> {
    once(folder, &[], CONNECTOR.sha256, || CONNECTOR.fetch(folder))
}

/// Puts YCSB's core, the driver and the compiled binding between them into a folder.
pub(super) fn ycsb(binding: &Path, folder: &Path) -> Result<(), String> {
    let jars = || YCSB.iter().chain([&CONNECTOR]);
    let sums: Vec<&str> = jars().map(|jar| jar.sha256).collect();
    once(folder, &[binding], &sums.join(" "), || {
        for jar in jars() {
            jar.fetch(folder)?;
        }
        let classes = folder.join("classes");
        fs::create_dir_all(&classes).map_err(|error| at(&classes, &error))?;
        let mut javac = command("javac", &["-Werror", "-d"]);
        javac.arg(&classes).arg("-cp").arg(YCSB[0].place(folder)).arg(binding);
        run(javac)
    })
}

impl Jar {
    fn place(&self, folder: &Path) -> PathBuf {
        folder.join(self.name)
    }

    fn fetch(&self, folder: &Path) -> Result<(), String> {
        let (url, place) = (format!("{REPOSITORY}/{}", self.path), self.place(folder));
        let mut curl = command("curl", &["--fail", "--silent", "--show-error", "--location"]);
        curl.args(["--retry", "3", "--output"]).arg(&place).arg(&url);
        run(curl)?;
        let mut sum = Command::new("sha256sum");
        sum.arg(&place);
        if output(sum).starts_with(self.sha256) {
            Ok(())
        } else {
            Err(format!("{url} is not what it was: its SHA-256 is not {}", self.sha256))
        }
    }
}
