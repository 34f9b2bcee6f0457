//! Every policy within limits: none is ever exceeded, every reason is true, and nobody waits for ever.

mod odd_clusters;
mod random;
mod reasons;
mod starvation;
mod world;
