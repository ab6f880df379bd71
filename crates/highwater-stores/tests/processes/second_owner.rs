//! One process owns the file.

use std::io::{BufRead as _, BufReader, Read as _};

use highwater::ErrorKind;
use libtest_mimic::Failed;

use super::{Ended, block_on, open, say, this_binary_as};

/// Owns the file until its parent lets it go.
pub(super) async fn child(arguments: &[&str]) {
    let _store = open(arguments[0]).await.unwrap();
    say("open");
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

pub(super) fn is_refused() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("highwater.db");
    let mut owner = Ended(this_binary_as("second owner", &[path.to_str().unwrap()]).spawn()?);
    let mut line = String::new();
    BufReader::new(owner.0.stdout.as_mut().unwrap()).read_line(&mut line)?;
    assert_eq!(line, "open\n");
    block_on(async {
        let error = open(&path).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InUse);
        assert!(
            error.to_string().contains(&format!("in use by process {}", owner.0.id())),
            "{error}"
        );
    })?;
    owner.0.kill()?;
    owner.0.wait()?;
    block_on(async { open(&path).await.map(drop) })??;
    Ok(())
}
