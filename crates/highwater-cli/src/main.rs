//! The command line of Highwater.

fn main() {}
