//! What every engine must keep.
