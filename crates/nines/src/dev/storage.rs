//! What a cluster in one process keeps on disk: its shape, and a data directory for each node.
//!
//! # Owns
//! The file `cluster` in the directory: the numbers of data nodes and replicas, fixed when it is
//! first used.
//! # Guarantees
//! A directory is used by one process at a time, and as the cluster that it was first used for.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use model::NodeId;
use runtime::{DataDirectory, DirectoryError, DirectoryLock, Encryption};

use super::{DevOptions, MANAGEMENT_NODE};

/// A directory that has been taken.
pub(super) struct Storage {
    _lock: DirectoryLock,
    pub(super) directories: BTreeMap<NodeId, DataDirectory>,
    pub(super) shape: Shape,
    /// Worker threads that the nodes were made with; none if they are new.
    pub(super) workers: Option<u8>,
}

/// How many nodes there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) data_nodes: u16,
    pub(super) replicas: u8,
}

impl Storage {
    /// Takes a directory, which is made if it is not there, or says why it cannot be used.
    pub(super) fn take(
        directory: &Path,
        options: &DevOptions,
        encryption: &Encryption,
    ) -> Result<Storage, String> {
        let lock = DirectoryLock::take(directory).map_err(explain)?;
        let path = directory.join(SHAPE_FILE);
        let wanted = Shape { data_nodes: options.data_nodes, replicas: options.replicas };
        let shape = match fs::read_to_string(&path) {
            Ok(text) => {
                let shape = Shape::parse(&text);
                let shape = shape.map_err(|why| format!("cannot use {}: {why}", path.display()))?;
                if options.shape_given && shape != wanted {
                    return Err(format!(
                        "{} holds a cluster of {} data nodes and {} replicas: leave --data-nodes \
                         and --replicas out, or choose another directory",
                        directory.display(),
                        shape.data_nodes,
                        shape.replicas
                    ));
                }
                shape
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if directory.join(directory_name(NodeId(1))).exists() {
                    return Err(format!(
                        "{} is missing, but there are nodes beside it: put it back, or choose \
                         another directory",
                        path.display()
                    ));
                }
                let written = runtime::replace(directory, SHAPE_FILE, wanted.text().as_bytes());
                written.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
                wanted
            }
            Err(error) => return Err(format!("cannot read {}: {error}", path.display())),
        };
        let nodes = (1..=shape.data_nodes).map(NodeId).chain([MANAGEMENT_NODE]);
        let open = |node| {
            let directory = directory.join(directory_name(node));
            Ok((node, DataDirectory::open(&directory, node, encryption).map_err(explain)?))
        };
        let directories = nodes.map(open).collect::<Result<BTreeMap<_, _>, String>>()?;
        let workers = workers(&directories)?;
        if let (Some(workers), Some(wanted)) = (workers, options.workers)
            && workers != wanted
        {
            return Err(format!(
                "the nodes in {} were made with {workers} workers: leave --workers out, or choose \
                 another directory",
                directory.display()
            ));
        }
        Ok(Storage { _lock: lock, directories, shape, workers })
    }
}

/// The number of workers that all data nodes have; none if all are new.
fn workers(directories: &BTreeMap<NodeId, DataDirectory>) -> Result<Option<u8>, String> {
    let mut all = None;
    for (node, directory) in directories {
        let Some(workers) = directory.workers().filter(|_| *node != MANAGEMENT_NODE) else {
            continue;
        };
        if *all.get_or_insert(workers) != workers {
            return Err(format!(
                "{} is of a node with {workers} workers, unlike the others",
                directory.path().display()
            ));
        }
    }
    Ok(all)
}

impl Shape {
    fn text(self) -> String {
        let Shape { data_nodes, replicas } = self;
        format!("{FIRST_LINE}\ndata-nodes {data_nodes}\nreplicas {replicas}\n")
    }

    fn parse(text: &str) -> Result<Shape, String> {
        let damaged = || "it is damaged".to_string();
        let mut lines = text.lines();
        let first = lines.next().ok_or_else(damaged)?;
        if first != FIRST_LINE {
            return Err(match first.strip_prefix(FORMAT) {
                Some(version) => format!("it has format {version}, written by a newer version"),
                None => damaged(),
            });
        }
        let mut number = |name: &str| {
            let line = lines.next()?.strip_prefix(name)?;
            line.strip_prefix(' ')?.parse::<u16>().ok()
        };
        let data_nodes = number("data-nodes").ok_or_else(damaged)?;
        let replicas = number("replicas").and_then(|n| u8::try_from(n).ok()).ok_or_else(damaged)?;
        let fits = (1..=48).contains(&data_nodes)
            && (1..=4).contains(&replicas)
            && data_nodes.is_multiple_of(u16::from(replicas));
        if fits { Ok(Shape { data_nodes, replicas }) } else { Err(damaged()) }
    }
}

fn directory_name(node: NodeId) -> String {
    format!("node-{}", node.0)
}

fn explain(error: DirectoryError) -> String {
    error.to_string()
}

const SHAPE_FILE: &str = "cluster";
const FORMAT: &str = "nines dev, format ";
const FIRST_LINE: &str = "nines dev, format 1";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_is_read_as_it_was_written() {
        let shape = Shape { data_nodes: 6, replicas: 3 };
        assert_eq!(Shape::parse(&shape.text()), Ok(shape));
        let newer = shape.text().replace("format 1", "format 2");
        assert!(Shape::parse(&newer).unwrap_err().contains("newer version"));
        let text = shape.text();
        for cut in 0..text.len() - 1 {
            assert!(Shape::parse(&text[..cut]).is_err(), "cut at {cut}");
        }
        for wrong in ["replicas 4", "replicas 0", "replicas x", ""] {
            let text = text.replace("replicas 3", wrong);
            assert!(Shape::parse(&text).is_err(), "{text}");
        }
    }
}
