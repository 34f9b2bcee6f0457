//! Every policy within limits: none is ever exceeded, every reason is true, and no job starves.

mod odd_clusters;
mod random;
mod reasons;
mod starvation;
mod world;
