//! Typed indexes into the engine's tables.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $short:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// The position in the table that this id indexes.
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }

            /// The id of the table's entry at `index`.
            ///
            /// # Panics
            /// Panics if the table outgrew `u32`, which no supported input reaches.
            #[inline]
            pub const fn from_index(index: usize) -> Self {
                assert!(index <= u32::MAX as usize);
                Self(index as u32)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($short, "{}"), self.0)
            }
        }
    };
}

id!(
    /// A job, by its position in the job table (for a simulation: its row in the trace).
    JobId, "j");
id!(
    /// A node, by its position in the cluster.
    NodeId, "n");
id!(
    /// A device type (`v100`, `a40`, `cpu` ...), by first appearance in the cluster.
    DeviceTypeId, "t");
