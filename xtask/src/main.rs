//! What is done to the repository.

fn main() {}
