//! The write chain of a partition, small enough to be copied instead of allocated.

use std::fmt;
use std::ops::Deref;

use codec::{Decode, DecodeError, Describe, Encode, Format, Problem, Reader, Shape, Writer};
use model::{ActorKind, Address, ClusterState, NodeId, PartitionId, WorkerId};

/// Most replicas a partition has.
pub const REPLICAS_MAX: usize = 4;

/// Participants in chain order, primary first: a whole chain, or a part of one.
#[derive(Clone, Copy)]
pub struct Chain {
    addresses: [Address; REPLICAS_MAX],
    len: u8,
}

/// Fills the places that are not in use.
const NOBODY: Address =
    Address { node: NodeId(0), worker: WorkerId(0), actor: ActorKind::Participant };

impl Chain {
    /// Nobody.
    pub const EMPTY: Chain = Chain { addresses: [NOBODY; REPLICAS_MAX], len: 0 };

    /// The write chain of a partition; empty when no replica is left.
    pub fn of(cluster: &ClusterState, partition: PartitionId) -> Self {
        let replicas = cluster.slot_of(partition).replicas.iter();
        replicas.map(|replica| cluster.participant(partition, replica.node)).collect()
    }

    /// Adds a replica at the end; there are at most [`REPLICAS_MAX`].
    pub fn push(&mut self, address: Address) {
        assert!(usize::from(self.len) < REPLICAS_MAX, "a chain of more than {self}");
        self.addresses[usize::from(self.len)] = address;
        self.len += 1;
    }

    /// Takes the last replica out.
    pub fn pop(&mut self) -> Option<Address> {
        self.len = self.len.checked_sub(1)?;
        Some(self.addresses[usize::from(self.len)])
    }

    /// Takes the first replica out.
    pub fn pop_first(&mut self) -> Option<Address> {
        let first = self.first().copied()?;
        *self = self[1..].iter().copied().collect();
        Some(first)
    }

    /// Takes the replicas of a node out.
    pub fn remove(&mut self, node: NodeId) {
        *self = self.iter().copied().filter(|address| address.node != node).collect();
    }

    /// Whether both have replicas on the same nodes in the same order, on whichever workers.
    pub fn same_nodes(&self, other: &Chain) -> bool {
        self.iter().map(|a| a.node).eq(other.iter().map(|a| a.node))
    }
}

impl Encode for Chain {
    #[inline]
    fn encode(&self, out: &mut Writer) {
        <[Address]>::encode(self, out);
    }
}

impl Decode for Chain {
    #[inline]
    fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let at = input.position();
        let len = input.length()?;
        if len > REPLICAS_MAX {
            return Err(input.fail_at(Problem::Invalid, at).within("Chain"));
        }
        let mut chain = Chain::EMPTY;
        for _ in 0..len {
            chain.push(Address::decode(input)?);
        }
        Ok(chain)
    }
}

impl Describe for Chain {
    fn describe(format: &mut Format) -> Shape {
        <[Address]>::describe(format)
    }
}

impl Default for Chain {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl Deref for Chain {
    type Target = [Address];

    fn deref(&self) -> &[Address] {
        &self.addresses[..usize::from(self.len)]
    }
}

impl FromIterator<Address> for Chain {
    fn from_iter<I: IntoIterator<Item = Address>>(addresses: I) -> Self {
        let mut chain = Self::EMPTY;
        addresses.into_iter().for_each(|address| chain.push(address));
        chain
    }
}

impl From<&[Address]> for Chain {
    fn from(addresses: &[Address]) -> Self {
        addresses.iter().copied().collect()
    }
}

impl PartialEq for Chain {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Chain {}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, address) in self.iter().enumerate() {
            write!(f, "{}{address}", if at > 0 { " " } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(node: u16) -> Address {
        Address { node: NodeId(node), ..NOBODY }
    }

    #[test]
    fn a_chain_is_a_short_list() {
        let mut chain: Chain = (1..=4).map(address).collect();
        assert_eq!(chain.pop(), Some(address(4)));
        assert_eq!(chain.pop_first(), Some(address(1)));
        assert_eq!(*chain, [address(2), address(3)]);
        let moved = Address { worker: WorkerId(1), ..address(2) };
        let other = Chain::from(&[moved, address(3)][..]);
        assert!(chain.same_nodes(&other) && chain != other);
        chain.remove(NodeId(2));
        assert_eq!(chain, Chain::from(&[address(3)][..]));
        assert_eq!((chain.pop(), chain.pop(), chain.pop_first()), (Some(address(3)), None, None));
    }

    #[test]
    #[should_panic(expected = "a chain of more than")]
    fn a_chain_is_bounded() {
        let _ = (1..=5).map(address).collect::<Chain>();
    }
}
