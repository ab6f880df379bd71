//! Settings in a TOML file: every key is a setting, every value passes the parser of its flag.

use std::{any::TypeId, collections::BTreeMap, error::Error as _, path::Path};

use clap::{Arg, error::ContextKind};
use toml::Value;

use super::definition;
use crate::quantity::Bytes;

/// What a file says: the settings by key, each as its flag would be given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct File(BTreeMap<String, String>);

impl File {
    /// Reads a file; an error names it, the key and the rule.
    pub(super) fn read(path: &Path) -> Result<File, String> {
        let shown = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read settings from {shown}: {error}"))?;
        File::parse(&text).map_err(|why| format!("{shown}: {why}"))
    }

    /// What the text of a file says.
    pub(super) fn parse(text: &str) -> Result<File, String> {
        let table: toml::Table = text.parse().map_err(|error| misread(text, &error))?;
        let values = table.into_iter().map(|(key, value)| {
            let written = setting(&key, &value).map_err(|why| format!("`{key}` {why}"))?;
            Ok((key, written))
        });
        values.collect::<Result<_, String>>().map(File)
    }

    /// What it says of one setting.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }
}

/// A mistake in the TOML itself, with its line.
fn misread(text: &str, error: &toml::de::Error) -> String {
    let line = error.span().and_then(|span| text.get(..span.start));
    let line = line.map_or(0, |before| before.matches('\n').count()) + 1;
    format!("line {line}: {}", error.message())
}

/// A value as its flag would be given, or the rule that it breaks.
fn setting(key: &str, value: &Value) -> Result<String, String> {
    let definition = definition();
    let known = || definition.get_arguments();
    let Some(arg) = known().find(|arg| arg.get_id() == key) else {
        let meant = key.replace('-', "_");
        if known().any(|arg| arg.get_id() == meant.as_str()) {
            return Err(format!("is no setting: write `{meant}`"));
        }
        let names: Vec<_> = known().map(|arg| arg.get_id().as_str()).collect();
        return Err(format!("is no setting: there are {}", names.join(", ")));
    };
    let written = written(Kind::of(arg), value)?;
    let flag = format!("--{}={written}", arg.get_long().unwrap_or(key));
    match definition.clone().try_get_matches_from([flag]) {
        Ok(_) => Ok(written),
        Err(error) => Err(format!("= {value} is refused: {}", rule(&error))),
    }
}

/// What a setting looks like in TOML and in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Switch,
    Number,
    Size,
    Text,
}

impl Kind {
    /// The kind that the type of a setting has.
    pub(super) fn of(arg: &Arg) -> Kind {
        let is = |kind: TypeId| arg.get_value_parser().type_id() == kind;
        if is(TypeId::of::<bool>()) {
            Kind::Switch
        } else if is(TypeId::of::<u64>()) {
            Kind::Number
        } else if is(TypeId::of::<Bytes>()) {
            Kind::Size
        } else {
            Kind::Text
        }
    }
}

fn written(kind: Kind, value: &Value) -> Result<String, &'static str> {
    match (kind, value) {
        (Kind::Switch, Value::Boolean(switch)) => Ok(switch.to_string()),
        (Kind::Number | Kind::Size, Value::Integer(number)) => Ok(number.to_string()),
        (Kind::Text | Kind::Size, Value::String(text)) => Ok(text.clone()),
        (Kind::Switch, _) => Err("must be true or false"),
        (Kind::Number, _) => Err("must be a whole number, without quotes"),
        (Kind::Size, _) => Err("must be a number of bytes, or a text such as \"64KiB\""),
        (Kind::Text, _) => Err("must be a text, in quotes"),
    }
}

/// The rule in a refusal of clap's.
fn rule(error: &clap::Error) -> String {
    if let Some(rule) = error.source() {
        return rule.to_string();
    }
    match error.get(ContextKind::ValidValue) {
        Some(values) => format!("must be one of {values}"),
        None => error.kind().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(text: &str, why: &str) {
        let error = File::parse(text).unwrap_err();
        assert!(error.contains(why), "{error}");
    }

    #[test]
    fn a_file_says_what_flags_would_say() {
        let text =
            "listen = '127.0.0.1:0'\nfeed_events = 5\npayload_limit = '1MiB'\ninsecure = true";
        let file = File::parse(text).unwrap();
        assert_eq!(file.get("listen"), Some("127.0.0.1:0"));
        assert_eq!(file.get("feed_events"), Some("5"));
        assert_eq!(file.get("insecure"), Some("true"));
        assert_eq!(file.get("store"), None);
        assert_eq!(File::parse("payload_limit = 100").unwrap().get("payload_limit"), Some("100"));
    }

    #[test]
    fn an_unknown_key_is_refused() {
        refused("stor = 'memory:'", "`stor` is no setting: there are listen, store, jobs_store, ");
        refused("feed-events = 5", "`feed-events` is no setting: write `feed_events`");
        refused("[serve]\nstore = 'memory:'", "`serve` is no setting");
        refused("config = 'other.toml'", "`config` is no setting");
    }

    #[test]
    fn a_wrong_type_is_refused() {
        refused("store = 5", "`store` must be a text, in quotes");
        refused("feed_events = '5'", "`feed_events` must be a whole number, without quotes");
        refused("insecure = 'yes'", "`insecure` must be true or false");
        refused("payload_limit = 1.5", "`payload_limit` must be a number of bytes");
        refused("listen = ['a', 'b']", "`listen` must be a text");
    }

    #[test]
    fn a_value_that_breaks_the_rule_of_its_flag_is_refused() {
        refused(
            "feed_retention = 'soon'",
            "`feed_retention` = \"soon\" is refused: must be a span",
        );
        refused("max_streams = 0", "`max_streams` = 0 is refused: 0 is not in 1..");
        refused("max_streams = -1", "`max_streams` = -1 is refused: ");
        refused("log_format = 'xml'", "must be one of text, json");
        refused("listen = 'localhost'", "must be an address and a port");
        refused("log = 'loud=very'", "`log` = \"loud=very\" is refused: ");
    }

    #[test]
    fn a_mistake_in_the_toml_names_its_line() {
        refused("store = 'memory:'\nlisten =", "line 2: ");
        refused("insecure = true\ninsecure = false", "line 2: duplicate key");
    }
}
