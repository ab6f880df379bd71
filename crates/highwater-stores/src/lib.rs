//! highwater-stores
