//! What the cluster agrees on, inside messages: as JSON, like in the control log, with its length
//! before it. What the receiver's version does not know is not sent: it could not read it.

use codec::{DecodeError, Encode, EncodeError, Problem, Reader, Writer};
use serde::Serialize;
use serde::de::DeserializeOwned;

fn encode<T: Serialize>(what: &'static str, since: u16, value: &T, out: &mut Writer) {
    if since > out.version() {
        return out.refuse(EncodeError::Newer { what, since });
    }
    match serde_json::to_vec(value) {
        Ok(json) => json.encode(out),
        Err(_) => out.refuse(EncodeError::Unspeakable { what }),
    }
}

fn decode<T: DeserializeOwned>(
    what: &'static str,
    input: &mut Reader<'_>,
) -> Result<T, DecodeError> {
    let length = input.length()?;
    let at = input.position();
    let json = input.bytes(length)?;
    serde_json::from_slice(json).map_err(|_| input.fail_at(Problem::Invalid, at).within(what))
}

macro_rules! json {
    ($($module:ident: $kind:ty, $what:literal, $since:expr;)*) => {$(
        pub(crate) mod $module {
            use codec::{DecodeError, Format, Reader, Shape, Writer};

            pub(crate) fn encode(value: &$kind, out: &mut Writer) {
                let since: fn(&$kind) -> u16 = $since;
                super::encode($what, since(value), value, out);
            }

            pub(crate) fn decode(input: &mut Reader<'_>) -> Result<$kind, DecodeError> {
                super::decode($what, input)
            }

            pub(crate) fn describe(_: &mut Format) -> Shape {
                Shape::Json($what)
            }
        }
    )*};
}

json! {
    cluster_state: std::sync::Arc<model::ClusterState>, "ClusterState", |_| 1;
    state_change: std::sync::Arc<model::StateChange>, "StateChange", |_| 14;
    state_piece: Box<model::cluster::StatePiece>, "StatePiece", |_| 14;
    command: std::sync::Arc<model::Command>, "Command", |command| command.since();
    commands: Vec<std::sync::Arc<model::Command>>, "list of Command",
        |commands| commands.iter().map(|command| command.since()).max().unwrap_or(1);
    schema_change: model::SchemaChange, "SchemaChange", |change| change.since();
}
