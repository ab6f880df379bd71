//! highwater-testkit
