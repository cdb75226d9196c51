//! What Cargo knows about this workspace, as far as the checks need it.
//!
//! # Owns
//! The root folder, the member crates and their direct dependencies, read from `cargo metadata`.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The workspace as `cargo metadata` describes it.
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) packages: Vec<Package>,
}

/// A member crate.
#[derive(Debug, Default)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// Path of its `Cargo.toml`, relative to the root.
    pub(crate) manifest: String,
    pub(crate) dependencies: Vec<Dependency>,
    /// Names of its binary targets.
    pub(crate) binaries: Vec<String>,
}

/// A direct dependency of a member crate.
#[derive(Debug)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// Lives in this workspace, rather than in a registry.
    pub(crate) local: bool,
    /// Used by tests and benches only.
    pub(crate) dev: bool,
}

impl Workspace {
    /// Asks Cargo; works without a network.
    pub(crate) fn load() -> Result<Workspace, String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .expect("xtask is a folder of the workspace root")
            .to_path_buf();
        let output = Command::new(cargo())
            .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
            .current_dir(&root)
            .output()
            .map_err(|error| format!("cannot run cargo metadata: {error}"))?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            return Err(format!("cargo metadata failed: {}", text.trim()));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let packages = parse(&text, &root)?;
        Ok(Workspace { root, packages })
    }

    pub(crate) fn package(&self, name: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.name == name)
    }
}

/// The Cargo that started this process, so that nested calls use the same toolchain.
pub(crate) fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_string())
}

/// What a program prints that must succeed.
pub(crate) fn said(command: &mut Command) -> Result<String, String> {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    let shown = words.join(" ");
    let output = command.output().map_err(|error| format!("cannot run {shown}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("{shown}: {}", String::from_utf8_lossy(&output.stderr).trim()))
    }
}

fn parse(text: &str, root: &Path) -> Result<Vec<Package>, String> {
    let value: Value =
        serde_json::from_str(text).map_err(|error| format!("cargo metadata: {error}"))?;
    let packages = list(&value["packages"]).iter().map(|value| package(value, root)).collect();
    Ok(packages)
}

fn package(value: &Value, root: &Path) -> Package {
    let manifest = PathBuf::from(text(&value["manifest_path"]));
    let manifest = manifest.strip_prefix(root).unwrap_or(&manifest).to_string_lossy().into_owned();
    let dependencies = list(&value["dependencies"]).iter().map(|value| Dependency {
        name: text(&value["name"]),
        local: value["path"].is_string(),
        dev: value["kind"] == "dev",
    });
    let is_binary = |target: &&Value| list(&target["kind"]).iter().any(|kind| kind == "bin");
    let binaries = list(&value["targets"]).iter().filter(is_binary);
    Package {
        name: text(&value["name"]),
        manifest,
        dependencies: dependencies.collect(),
        binaries: binaries.map(|target| text(&target["name"])).collect(),
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_metadata() {
        let json = r#"{"packages": [{"name": "sim", "manifest_path": "/w/crates/sim/Cargo.toml",
            "dependencies": [{"name": "stdx", "path": "/w/crates/stdx", "kind": null},
                             {"name": "quick", "kind": "dev"}],
            "targets": [{"kind": ["lib"], "name": "sim"}, {"kind": ["bin"], "name": "run"}]}]}"#;
        let packages = parse(json, Path::new("/w")).unwrap();
        let [package] = &packages[..] else { panic!("one package expected, got {packages:?}") };
        assert_eq!(package.manifest, "crates/sim/Cargo.toml");
        assert_eq!(package.binaries, ["run"]);
        let kinds: Vec<_> = package.dependencies.iter().map(|d| (d.local, d.dev)).collect();
        assert_eq!(kinds, [(true, false), (false, true)]);
    }

    #[test]
    fn what_cannot_be_run_is_told() {
        let error = said(&mut Command::new("/nowhere/rustc")).unwrap_err();
        assert!(error.contains("/nowhere/rustc"), "{error}");
        assert!(said(Command::new("rustc").arg("--no-such-option")).is_err());
    }
}
