//! Who decides: a policy by name with its settings, and what it needs to work.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use wharf_core::Regime;

use crate::dispatcher::Dispatcher;
use crate::journal::record::Record;

/// A policy and its settings, as people name them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyChoice {
    /// Its name.
    pub name: String,
    /// Its knobs and numbers; those that are not named have their defaults.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
}

/// Makes what a choice names, or says what is wrong with it.
pub type MakeRegime = Arc<dyn Fn(&PolicyChoice) -> Result<Regime, String> + Send + Sync>;

/// The registered name of a policy that never resizes jobs; none for others.
pub type NeverResizes = fn(&str) -> Option<&'static str>;

impl Dispatcher {
    /// Lets another policy decide from now on. What runs goes on running.
    pub(crate) fn set_policy(&mut self, choice: PolicyChoice, by: &str) -> Result<(), String> {
        let regime = self.governed((self.make)(&choice)?);
        let now = self.now();
        self.engine.set_regime(now, regime);
        self.note_policy(choice, by);
        Ok(())
    }

    /// Reports a rejected decision of the policy to the operator. It was not carried out, and running jobs continue.
    pub(crate) fn report_violations(&mut self) {
        for violation in self.engine.take_violations() {
            let policy = self.kept.policy.as_ref().map_or("", |choice| &choice.name);
            self.warn(&format!("policy `{policy}` was refused: {violation}"));
        }
    }

    /// Journals who decides from now on.
    pub(crate) fn note_policy(&mut self, choice: PolicyChoice, by: &str) {
        self.journal.note(self.now(), Record::PolicySet { choice: choice.clone(), by: by.to_owned() });
        self.kept.policy = Some(choice);
    }
}
