//! Why a job had to make room, as the journal keeps it.

use serde::{Deserialize, Serialize};
use wharf_core::Chosen;

/// Why a job was the one that had to make room for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ChosenRecord {
    LastInOrder,
    LowestPriority,
    LeastUnsavedWork,
    FewestDevices,
    AboveShare,
    NotInRound,
    Opportunistic,
    Reshaped,
}

impl ChosenRecord {
    pub(crate) fn of(chosen: Chosen) -> Self {
        match chosen {
            Chosen::LastInOrder => Self::LastInOrder,
            Chosen::LowestPriority => Self::LowestPriority,
            Chosen::LeastUnsavedWork => Self::LeastUnsavedWork,
            Chosen::FewestDevices => Self::FewestDevices,
            Chosen::AboveShare => Self::AboveShare,
            Chosen::NotInRound => Self::NotInRound,
            Chosen::Opportunistic => Self::Opportunistic,
            Chosen::Reshaped => Self::Reshaped,
        }
    }

    pub(crate) fn to_core(self) -> Chosen {
        match self {
            Self::LastInOrder => Chosen::LastInOrder,
            Self::LowestPriority => Chosen::LowestPriority,
            Self::LeastUnsavedWork => Chosen::LeastUnsavedWork,
            Self::FewestDevices => Chosen::FewestDevices,
            Self::AboveShare => Chosen::AboveShare,
            Self::NotInRound => Chosen::NotInRound,
            Self::Opportunistic => Chosen::Opportunistic,
            Self::Reshaped => Chosen::Reshaped,
        }
    }
}
