//! Preparing one machine and turning it into an image: what others are then made from has everything in it already.

use std::sync::Arc;

use crate::config::Runtime;
use crate::down::{self, Extent};
use crate::files::Files;
use crate::hash::Hasher;
use crate::launcher::{KnownError, Launcher, Told};
use crate::phase::Restart;
use crate::provider::{Machine, ProviderError};
use crate::state::StateError;
use crate::steps;
use crate::up::{self, Options, UpError};
use crate::visit::NodeError;

/// Why there is no image.
#[derive(Debug, thiserror::Error)]
pub enum BakeError {
    /// Nothing could be begun.
    #[error(transparent)]
    Up(#[from] UpError),
    /// The machine could not be prepared.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The provider could not make an image.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// What is known of the cluster cannot be used.
    #[error(transparent)]
    Known(#[from] KnownError),
    /// The same, of its folder.
    #[error(transparent)]
    State(#[from] StateError),
    /// The cluster is in use.
    #[error("the cluster has workers that are up")]
    InUse,
}

/// Default name of an image: from the cluster and a hash of the setup.
///
/// # Errors
/// Files that are to be copied cannot be read.
pub fn usual_name(launcher: &Launcher) -> Result<String, UpError> {
    let head = launcher.head();
    let mut hasher = Hasher::new();
    hasher.add(&head.launch).add(Files::of_head(launcher)?.hash.unwrap_or_default());
    for line in head.initialization.iter().chain(&steps::setup_lines(&launcher.cluster, head)) {
        hasher.add(line);
    }
    Ok(format!("wharf-{}-{}", launcher.cluster.name, &hasher.finish()[..8]))
}

/// Prepares the head's machine, starts nothing there, and turns it into an image; then the machine is given back, unless it is to be
/// kept. The caller holds the cluster's lock.
///
/// # Errors
/// [`BakeError`]; the machine is kept then, and the next attempt continues with it.
pub async fn bake(launcher: &Launcher, name: &str, keep: bool) -> Result<String, BakeError> {
    if !launcher.provider.bakes() {
        let provider = launcher.cluster.provider;
        return Err(
            ProviderError::Cannot(format!("the provider `{provider}` makes no images; `aws` does")).into()
        );
    }
    if launcher.records()?.keys().any(|name| *name != launcher.head().name) {
        return Err(BakeError::InUse);
    }
    let mut alone = launcher.clone();
    alone.cluster.nodes.truncate(1);
    alone.cluster.min_workers = 0;
    alone.cluster.runtime = Runtime::Commands { head: vec![], worker: vec![] };
    let alone = Arc::new(alone);
    let options = Options { restart: Restart::IfChanged, parallel: 1 };
    for outcome in up::up(alone.clone(), options).await?.nodes {
        outcome.result?;
    }
    let Some(record) = alone.records()?.remove(&alone.head().name) else {
        return Err(ProviderError::Cannot("the machine no longer exists".to_owned()).into());
    };
    // What is ours does not belong into an image.
    down::stop(&alone, &record, Extent::Cluster).await?;
    alone.folder.forget(&record.node.name)?;
    let machine = Machine::of(&record.node);
    let tell = launcher.tell.clone();
    let waits = move |name: &str, why: String| tell(name, Told::Waits(why));
    let image = alone.provider.bake(&machine, name, &waits).await?;
    if !keep {
        alone.provider.terminate(std::slice::from_ref(&machine)).await?;
        alone.folder.remove()?;
    }
    Ok(image)
}
