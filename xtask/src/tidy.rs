//! House rules as checks. Each is a pure function from a tree to what is wrong with it.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// The domains of Highwater, whether delivered or not.
const DOMAINS: &[&str] = &["jobs", "progress", "buckets", "partitions", "flows"];

/// The cells delivered so far: an engine carries these domains and no others.
const CELLS: &[(&str, &[&str])] = &[
    ("crates/highwater/src/memory", &["jobs"]),
    ("crates/highwater-stores/src/sqlite", &["jobs"]),
    ("crates/highwater-stores/src/remote", &["jobs"]),
    ("crates/highwater-server/src/http", &["jobs"]),
    ("crates/highwater-testkit/src", &["jobs"]),
    ("crates/highwater-cli/src", &["jobs"]),
];

/// A file that is longer hides something: split it.
const RUST_LINES_MAX: usize = 500;

/// What must not be left in the code, and why. In two parts, so that this list does not find itself.
const LEFTOVERS: &[(&str, &str, &str)] = &[
    ("FIX", "ME", "mend it or write it down elsewhere"),
    ("tod", "o!(", "build it or leave it out"),
    ("unimplement", "ed!(", "build it or leave it out"),
    ("db", "g!(", "it was for you alone"),
    ("#[ig", "nore", "a test that does not run proves nothing"),
    ("thread::sl", "eep(", "wait for an event"),
];

/// All files by their path from the root, with their text.
type Tree = BTreeMap<PathBuf, String>;

/// Prints what is wrong; answers whether nothing is.
pub(crate) fn run(root: &Path) -> bool {
    let tree = match read(root) {
        Ok(tree) => tree,
        Err(error) => {
            println!("cannot read the repository: {error}");
            return false;
        }
    };
    let rules = [wrong_cells, leftovers, long_files, missing_lints, dead_links];
    let faults: Vec<String> = rules.iter().flat_map(|rule| rule(&tree)).collect();
    for fault in &faults {
        println!("{fault}");
    }
    println!("{} files, {} faults", tree.len(), faults.len());
    faults.is_empty() && !tree.is_empty()
}

fn read(root: &Path) -> std::io::Result<Tree> {
    let mut tree = Tree::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                if name != "target" && name != ".git" {
                    folders.push(path);
                }
            } else if let Ok(text) = fs::read_to_string(&path) {
                tree.insert(path.strip_prefix(root).unwrap_or(&path).to_owned(), text);
            }
        }
    }
    Ok(tree)
}

fn is_rust(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "rs")
}

/// The tree itself is the table of what is supported; this keeps the two from drifting apart.
fn wrong_cells(tree: &Tree) -> Vec<String> {
    let mut faults = Vec::new();
    for (engine, delivered) in CELLS {
        for domain in DOMAINS {
            let path = Path::new(engine).join(domain).with_extension("rs");
            match (delivered.contains(domain), tree.contains_key(&path)) {
                (true, false) => faults.push(format!("{} is missing", path.display())),
                (false, true) => {
                    faults.push(format!("{} is not in the list of cells", path.display()));
                }
                (true, true) | (false, false) => {}
            }
        }
    }
    faults
}

fn leftovers(tree: &Tree) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, text) in tree.iter().filter(|(path, _)| is_rust(path)) {
        for (number, line) in (1..).zip(text.lines()) {
            for (one, other, advice) in LEFTOVERS {
                let word = format!("{one}{other}");
                if line.contains(&word) {
                    faults.push(format!("{}:{number}: `{word}`: {advice}", path.display()));
                }
            }
        }
    }
    faults
}

fn long_files(tree: &Tree) -> Vec<String> {
    let long =
        tree.iter().filter(|(path, text)| is_rust(path) && text.lines().count() > RUST_LINES_MAX);
    long.map(|(path, _)| {
        format!("{} has more than {RUST_LINES_MAX} lines: split it", path.display())
    })
    .collect()
}

/// Every crate keeps the lints of the workspace.
fn missing_lints(tree: &Tree) -> Vec<String> {
    let manifests = tree
        .iter()
        .filter(|(path, text)| path.ends_with("Cargo.toml") && text.contains("[package]"));
    let lax = manifests.filter(|(_, text)| !text.contains("[lints]\nworkspace = true"));
    lax.map(|(path, _)| format!("{}: `[lints] workspace = true` is missing", path.display()))
        .collect()
}

/// Every relative link in a Markdown file leads to a file, and to a heading if it names one.
fn dead_links(tree: &Tree) -> Vec<String> {
    let mut faults = Vec::new();
    let pages =
        tree.iter().filter(|(path, _)| path.extension().is_some_and(|extension| extension == "md"));
    for (path, text) in pages {
        for link in links(text) {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let folder = path.parent().unwrap_or(Path::new(""));
            let target = if file.is_empty() { path.clone() } else { normal(&folder.join(file)) };
            let is_folder = || tree.keys().any(|path| path.starts_with(&target));
            let is_there = match tree.get(&target) {
                Some(page) => heading.is_empty() || headings(page).any(|found| found == heading),
                None => heading.is_empty() && is_folder(),
            };
            if !is_there {
                faults.push(format!("{}: the link to `{link}` leads nowhere", path.display()));
            }
        }
    }
    faults
}

/// The targets of inline links that stay in the repository.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
}

/// The anchors of a page's headings, as they are commonly made.
fn headings(page: &str) -> impl Iterator<Item = String> {
    page.lines().filter(|line| line.starts_with('#')).map(|line| {
        let words = line.trim_start_matches('#').trim().to_lowercase();
        let kept =
            words.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
        kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
    })
}

/// The path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => {
                normal.pop();
            }
            std::path::Component::CurDir => {}
            part @ (std::path::Component::Normal(_)
            | std::path::Component::RootDir
            | std::path::Component::Prefix(_)) => normal.push(part),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Tree {
        files.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect()
    }

    fn all_cells() -> Tree {
        let paths = CELLS.iter().flat_map(|(engine, domains)| {
            domains.iter().map(move |domain| format!("{engine}/{domain}.rs"))
        });
        paths.map(|path| (PathBuf::from(path), String::new())).collect()
    }

    #[test]
    fn a_missing_cell_and_an_unlisted_one_are_found() {
        let mut cells = all_cells();
        assert_eq!(wrong_cells(&cells), [""; 0]);
        cells.insert("crates/highwater/src/memory/flows.rs".into(), String::new());
        cells.remove(Path::new("crates/highwater-stores/src/sqlite/jobs.rs"));
        let faults = wrong_cells(&cells).join("\n");
        assert!(faults.contains("memory/flows.rs is not in the list"), "{faults}");
        assert!(faults.contains("sqlite/jobs.rs is missing"), "{faults}");
    }

    #[test]
    fn leftovers_are_found_in_code_only() {
        let word = ["FIX", "ME"].concat();
        let found = leftovers(&tree(&[("a.rs", &format!("\n// {word}")), ("a.md", &word)]));
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("a.rs:2:"), "{found:?}");
    }

    #[test]
    fn a_long_file_is_found() {
        let long = "\n".repeat(RUST_LINES_MAX + 1);
        assert_eq!(
            long_files(&tree(&[("long.rs", &long), ("long.md", &long), ("short.rs", "")])).len(),
            1
        );
    }

    #[test]
    fn a_crate_without_our_lints_is_found() {
        let (lax, strict) = ("[package]\n", "[package]\n[lints]\nworkspace = true\n");
        assert_eq!(
            missing_lints(&tree(&[("a/Cargo.toml", lax), ("b/Cargo.toml", strict)])).len(),
            1
        );
    }

    #[test]
    fn a_dead_link_is_found_and_a_live_one_is_not() {
        let page = "[1](b.md) [2](../c.rs) [3](#here-i-am) [4](b.md#x) [5](gone.md) [6](https://x.y) [7](docs)\n## Here, I am\n";
        let tree =
            tree(&[("docs/a.md", page), ("docs/b.md", ""), ("c.rs", ""), ("docs/docs/d.md", "")]);
        let faults = dead_links(&tree);
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(faults[0].contains("`b.md#x`") && faults[1].contains("`gone.md`"), "{faults:?}");
    }
}
