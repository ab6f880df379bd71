//! highwater-cli
