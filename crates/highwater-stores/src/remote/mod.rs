//! Another Highwater server as an engine, and the language that it speaks.

pub mod wire;
