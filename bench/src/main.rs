//! Benchmarks of Highwater.

fn main() {}
