//! Where jobs may run, in which order, and how much of the head one user can take.
