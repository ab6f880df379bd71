//! `cargo xtask test`: everything that must hold, and one summary at the end.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::tidy;

/// What became of a step.
struct Outcome {
    name: &'static str,
    is_fine: bool,
    took: Duration,
    tests: Tests,
}

/// What the test runners in a step counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Tests {
    passed: u64,
    failed: u64,
    ignored: u64,
}

impl Tests {
    fn add(&mut self, other: Tests) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }

    /// Reads `test result: ok. 3 passed; 0 failed; 1 ignored; …`.
    fn parse(line: &str) -> Option<Tests> {
        let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let count = |word: &str| {
            let part = counts.split("; ").find_map(|part| part.strip_suffix(word))?;
            part.trim().parse().ok()
        };
        Some(Tests {
            passed: count("passed")?,
            failed: count("failed")?,
            ignored: count("ignored")?,
        })
    }
}

/// Runs every step, also behind one that failed: who mends one thing wants to know of the next.
pub(crate) fn run(root: &Path) -> bool {
    let steps: [(&'static str, Command); 6] = [
        ("formatting", cargo(root, &["fmt", "--all", "--check"])),
        ("lints", cargo(root, &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])),
        ("documentation", documentation(root)),
        ("tests", cargo(root, &["test", "--workspace", "--all-targets", "--no-fail-fast"])),
        ("examples in the documentation", cargo(root, &["test", "--workspace", "--doc"])),
        ("interleavings", interleavings(root)),
    ];
    let mut outcomes = vec![measure("house rules", || (tidy::run(root), Tests::default()))];
    for (name, command) in steps {
        outcomes.push(measure(name, || execute(command)));
    }
    summarise(&outcomes)
}

fn cargo(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(root).args(arguments);
    command
}

fn documentation(root: &Path) -> Command {
    let mut command = cargo(root, &["doc", "--workspace", "--no-deps", "--document-private-items"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    command
}

/// With the library's locks swapped for shuttle's, and in a folder of its own: other flags make
/// other builds.
fn interleavings(root: &Path) -> Command {
    let arguments = [
        "test",
        "--package",
        "highwater",
        "--test",
        "interleavings",
        "--target-dir",
        "target/shuttle",
    ];
    let mut command = cargo(root, &arguments);
    command.env("RUSTFLAGS", "--cfg shuttle");
    command
}

fn measure(name: &'static str, step: impl FnOnce() -> (bool, Tests)) -> Outcome {
    println!("\n── {name}");
    let start = Instant::now();
    let (is_fine, tests) = step();
    Outcome { name, is_fine, took: start.elapsed(), tests }
}

/// Runs a command, passes its words on, and counts its tests.
fn execute(mut command: Command) -> (bool, Tests) {
    let mut tests = Tests::default();
    let mut child = match command.stdout(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(error) => {
            println!("cannot run {command:?}: {error}");
            return (false, tests);
        }
    };
    for line in child.stdout.take().into_iter().flat_map(|stdout| BufReader::new(stdout).lines()) {
        let line = line.unwrap_or_else(|error| format!("(unreadable: {error})"));
        println!("{line}");
        tests.add(Tests::parse(line.trim_start()).unwrap_or_default());
    }
    let is_fine = child.wait().is_ok_and(|status| status.success());
    (is_fine && tests.failed == 0, tests)
}

fn summarise(outcomes: &[Outcome]) -> bool {
    let mut tests = Tests::default();
    println!("\n── summary");
    for Outcome { name, is_fine, took, tests: of_step } in outcomes {
        let mark = if *is_fine { "ok    " } else { "FAILED" };
        let counted = match of_step {
            Tests { passed: 0, failed: 0, ignored: 0 } => String::new(),
            Tests { passed, failed, ignored } => {
                format!("  {passed} passed, {failed} failed, {ignored} ignored")
            }
        };
        println!("{mark}  {name:<30} {:>6.1} s{counted}", took.as_secs_f64());
        tests.add(*of_step);
    }
    if tests.ignored > 0 {
        println!("SOME TESTS WERE IGNORED: look for `ignored` and SKIPPED above");
    }
    let is_fine = outcomes.iter().all(|outcome| outcome.is_fine) && tests.passed > 0;
    println!("{}\n", if is_fine { "everything holds" } else { "NOT EVERYTHING HOLDS" });
    println!("{} passed, {} failed, {} skipped", tests.passed, tests.failed, tests.ignored);
    is_fine
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_line_of_a_test_runner_is_understood() {
        let line = "test result: FAILED. 105 passed; 3 failed; 2 ignored; 0 measured; 0 filtered out; finished in 8.5s";
        assert_eq!(Tests::parse(line), Some(Tests { passed: 105, failed: 3, ignored: 2 }));
        assert_eq!(Tests::parse("running 3 tests"), None);
    }

    #[test]
    fn one_failed_step_fails_the_whole() {
        let tests = Tests { passed: 1, ..Tests::default() };
        let step = |is_fine| Outcome { name: "step", is_fine, took: Duration::ZERO, tests };
        assert!(summarise(&[step(true), step(true)]));
        assert!(!summarise(&[step(true), step(false)]));
    }

    #[test]
    fn a_run_without_tests_is_no_success() {
        let step =
            Outcome { name: "step", is_fine: true, took: Duration::ZERO, tests: Tests::default() };
        assert!(!summarise(&[step]));
    }
}
