//! Full disks, restored copies, damaged journals, panics and rogue workers.
