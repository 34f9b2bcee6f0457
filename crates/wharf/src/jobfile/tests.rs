//! Job files, good and bad.
