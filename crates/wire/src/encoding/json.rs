//! What the cluster agrees on, inside messages: as JSON, like in the control log, with its length
//! before it.

use codec::{DecodeError, Encode, EncodeError, Problem, Reader, Writer};
use serde::Serialize;
use serde::de::DeserializeOwned;

fn encode<T: Serialize>(what: &'static str, value: &T, out: &mut Writer) {
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
    ($($module:ident: $kind:ty, $what:literal;)*) => {$(
        pub(crate) mod $module {
            use codec::{DecodeError, Format, Reader, Shape, Writer};

            pub(crate) fn encode(value: &$kind, out: &mut Writer) {
                super::encode($what, value, out);
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
    cluster_state: std::sync::Arc<model::ClusterState>, "ClusterState";
    command: std::sync::Arc<model::Command>, "Command";
    commands: Vec<std::sync::Arc<model::Command>>, "list of Command";
    schema_change: model::SchemaChange, "SchemaChange";
}
