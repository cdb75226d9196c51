//! The first exchange: who we are, who they are.

use crate::constants::capability;
use crate::reader::{Malformed, Reader};

/// The server's first packet.
#[derive(Clone, Debug)]
pub struct Greeting<'a> {
    /// The version, which clients parse: `8.4.0-…`.
    pub version: &'a str,
    /// CONNECTION_ID().
    pub connection: u32,
    /// What the client scrambles its password with; no zero bytes.
    pub nonce: [u8; 20],
    /// TLS can be asked for.
    pub tls: bool,
    /// zlib's compression can be asked for.
    pub compression: bool,
    /// The server's default collation.
    pub collation: u8,
    /// Status flags.
    pub status: u16,
    /// The authentication plugin the server begins with.
    pub plugin: &'a str,
}

impl Greeting<'_> {
    /// The capabilities offered.
    pub fn capabilities(&self) -> u32 {
        let tls = if self.tls { capability::SSL } else { 0 };
        let compression = if self.compression { capability::COMPRESS } else { 0 };
        capability::OFFERED | tls | compression
    }

    /// Appends the payload.
    pub fn write(&self, out: &mut Vec<u8>) {
        let capabilities = self.capabilities().to_le_bytes();
        out.push(10);
        out.extend_from_slice(self.version.as_bytes());
        out.push(0);
        out.extend_from_slice(&self.connection.to_le_bytes());
        out.extend_from_slice(&self.nonce[..8]);
        out.push(0);
        out.extend_from_slice(&capabilities[..2]);
        out.push(self.collation);
        out.extend_from_slice(&self.status.to_le_bytes());
        out.extend_from_slice(&capabilities[2..]);
        out.push(21);
        out.extend_from_slice(&[0; 10]);
        out.extend_from_slice(&self.nonce[8..]);
        out.push(0);
        out.extend_from_slice(self.plugin.as_bytes());
        out.push(0);
    }
}

/// What a client answers to the greeting, or asks with COM_CHANGE_USER. Names are in the character
/// set of its `collation`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// It wants TLS first; only `capabilities` and `collation` are known.
    pub tls_wanted: bool,
    /// What the client is capable of.
    pub capabilities: u32,
    /// The longest packet it takes.
    pub packet_max: u32,
    /// The collation it wants.
    pub collation: u16,
    /// Account name.
    pub user: Vec<u8>,
    /// The scrambled password.
    pub auth: Vec<u8>,
    /// Default database.
    pub database: Option<Vec<u8>>,
    /// The plugin that made `auth`.
    pub plugin: String,
    /// Attributes of the connection, as many as there is room for.
    pub attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Response {
    /// Parses the packet after the greeting, of the protocol since 4.1.
    pub fn parse(payload: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader(payload);
        let capabilities = reader.u32()?;
        if capabilities & capability::PROTOCOL_41 == 0 {
            return Err(Malformed);
        }
        let packet_max = reader.u32()?;
        let collation = reader.u8()?.into();
        reader.take(23)?;
        let mut response = Self { capabilities, packet_max, collation, ..Self::default() };
        if reader.is_empty() && capabilities & capability::SSL != 0 {
            response.tls_wanted = true;
            return Ok(response);
        }
        response.user = reader.zero_ended()?.to_vec();
        response.auth = if capabilities & capability::PLUGIN_AUTH_LENENC != 0 {
            reader.lenenc_bytes()?.to_vec()
        } else if capabilities & capability::SECURE_CONNECTION != 0 {
            let length = reader.u8()?;
            reader.take(length.into())?.to_vec()
        } else {
            reader.until_zero().to_vec()
        };
        if capabilities & capability::CONNECT_WITH_DB != 0 {
            response.database = database(reader.until_zero());
        }
        response.rest(&mut reader)?;
        Ok(response)
    }

    /// Parses COM_CHANGE_USER behind its command byte; capabilities stay those of the connection.
    pub fn parse_change_user(payload: &[u8], capabilities: u32) -> Result<Self, Malformed> {
        let mut reader = Reader(payload);
        let mut response = Self { capabilities, ..Self::default() };
        response.user = reader.zero_ended()?.to_vec();
        response.auth = if capabilities & capability::SECURE_CONNECTION != 0 {
            let length = reader.u8()?;
            reader.take(length.into())?.to_vec()
        } else {
            reader.until_zero().to_vec()
        };
        response.database = database(reader.until_zero());
        if !reader.is_empty() {
            response.collation = reader.u16()?;
            response.rest(&mut reader)?;
        }
        Ok(response)
    }

    /// Plugin and attributes.
    fn rest(&mut self, reader: &mut Reader<'_>) -> Result<(), Malformed> {
        if self.capabilities & capability::PLUGIN_AUTH != 0 {
            self.plugin = String::from_utf8_lossy(reader.until_zero()).into_owned();
        }
        if self.capabilities & capability::CONNECT_ATTRS != 0 && !reader.is_empty() {
            let mut attributes = Reader(reader.lenenc_bytes()?);
            let mut room = ATTRIBUTES_MAX;
            while !attributes.is_empty() {
                let (name, value) = (attributes.lenenc_bytes()?, attributes.lenenc_bytes()?);
                let size = name.len() + value.len() + ATTRIBUTE_COST;
                // Those after the first without room are parsed, and forgotten.
                room = room.saturating_sub(size);
                if room > 0 {
                    self.attributes.push((name.to_vec(), value.to_vec()));
                }
            }
        }
        Ok(())
    }
}

/// What the attributes of a connection may take that are kept.
const ATTRIBUTES_MAX: usize = 8 << 10;
/// What an attribute takes beside its name and value.
const ATTRIBUTE_COST: usize = 48;

/// The name of a database; an empty one is none.
fn database(name: &[u8]) -> Option<Vec<u8>> {
    Some(name.to_vec()).filter(|name| !name.is_empty())
}
