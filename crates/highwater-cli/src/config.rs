//! `highwater config`: what a server would be told, and by whom.

use clap::Subcommand;
use serde::{Serialize, ser::SerializeMap};

use crate::{
    output::{Answer, printable, table},
    redact,
    settings::{Given, Origin, Resolved},
};

const SHOW_EXAMPLES: &str = "\
Examples:
  highwater config show
  highwater config show --config highwater.toml --payload-limit 1MiB
  HIGHWATER_FEED_RETENTION=30d highwater config show -o json | jq .feed_retention

A flag wins over a variable, a variable over the file, the file over the default. Passwords in URLs
are not shown.";

/// What to do with settings.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Prints every setting of `serve` with its value, and where it comes from
    #[command(after_help = SHOW_EXAMPLES)]
    #[command(arg = crate::serve::no_server())]
    Show(Given),
}

/// `show`.
#[derive(Debug)]
pub(crate) struct Shown<'a>(pub(crate) &'a Resolved);

/// One setting in the JSON of `show`.
#[derive(Debug, Serialize)]
struct Entry {
    value: Option<serde_json::Value>,
    source: Origin,
}

impl Serialize for Shown<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for setting in self.0.iter() {
            let value = setting.value.as_deref().map(|value| setting.json(&redact::url(value)));
            map.serialize_entry(&setting.name, &Entry { value, source: setting.origin })?;
        }
        map.end()
    }
}

impl Answer for Shown<'_> {
    fn table(&self) -> String {
        let rows = self.0.iter().map(|setting| {
            let value = setting.value.as_deref().unwrap_or("-");
            let [name, source] = [&setting.name, setting.origin.name()].map(str::to_owned);
            [name, printable(&redact::url(value)), source]
        });
        table(["SETTING", "VALUE", "FROM"], rows)
    }
}
