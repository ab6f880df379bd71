//! Which value a setting has, and from where: a flag wins over a variable, a variable over the file,
//! the file over the default.

use std::path::Path;

use clap::{ArgMatches, FromArgMatches as _, parser::ValueSource};
use serde::Serialize;

use super::{
    Settings, definition,
    file::{File, Kind},
    refused,
};

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Origin {
    Flag,
    Environment,
    File,
    Default,
}

impl Origin {
    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Origin::Flag => "flag",
            Origin::Environment => "environment",
            Origin::File => "file",
            Origin::Default => "default",
        }
    }
}

/// One setting as it is in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    /// Its key in a file.
    pub(crate) name: String,
    flag: String,
    kind: Kind,
    /// As its flag would be given; `None` if it is not set.
    pub(crate) value: Option<String>,
    pub(crate) origin: Origin,
}

impl Setting {
    /// The value as JSON: a number where TOML would have one.
    pub(crate) fn json(&self, shown: &str) -> serde_json::Value {
        match self.kind {
            Kind::Switch => shown.parse::<bool>().map_or(shown.into(), Into::into),
            Kind::Number => shown.parse::<u64>().map_or(shown.into(), Into::into),
            Kind::Size | Kind::Text => shown.into(),
        }
    }
}

/// All settings as they are in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resolved(Vec<Setting>);

impl Resolved {
    /// From what the user gave, and from the file that was named.
    pub(crate) fn new(given: &ArgMatches, file: Option<&Path>) -> Result<Resolved, clap::Error> {
        let file = file.map(File::read).transpose().map_err(|why| refused(&why))?;
        Ok(Resolved::of(given, &file.unwrap_or_default()))
    }

    fn of(given: &ArgMatches, file: &File) -> Resolved {
        let definition = definition();
        let settings = definition.get_arguments().map(|arg| {
            let name = arg.get_id().as_str();
            let raw = given.get_raw(name).and_then(|mut values| values.next());
            let value = raw.map(|value| value.to_string_lossy().into_owned());
            let in_file = file.get(name).map(str::to_owned);
            let (value, origin) = match (given.value_source(name), in_file) {
                (Some(ValueSource::CommandLine), _) => (value, Origin::Flag),
                (Some(ValueSource::EnvVariable), _) => (value, Origin::Environment),
                (_, Some(in_file)) => (Some(in_file), Origin::File),
                (_, None) => (value, Origin::Default),
            };
            let flag = arg.get_long().unwrap_or(name).to_owned();
            Setting { name: name.to_owned(), flag, kind: Kind::of(arg), value, origin }
        });
        Resolved(settings.collect())
    }

    /// One by one.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Setting> {
        self.0.iter()
    }

    /// The settings in their own types.
    pub(crate) fn settings(&self) -> Result<Settings, clap::Error> {
        let flags = self.0.iter().filter_map(|setting| {
            setting.value.as_ref().map(|value| format!("--{}={value}", setting.flag))
        });
        Settings::from_arg_matches(&definition().try_get_matches_from(flags)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::Bytes;

    fn resolved(flags: &[&str], file: &str) -> Resolved {
        let given = definition().try_get_matches_from(flags).unwrap();
        Resolved::of(&given, &File::parse(file).unwrap())
    }

    // That a variable stands between the two is shown with the real program, in tests/cli.
    #[test]
    fn a_flag_wins_over_the_file_and_the_file_over_the_default() {
        let file = "store = 'memory:'\npayload_limit = 7\ninsecure = true";
        let resolved = resolved(&["--payload-limit=1KiB", "--insecure=false"], file);
        let settings = resolved.settings().unwrap();
        assert_eq!(settings.store, "memory:");
        assert_eq!(settings.payload_limit, Bytes(1024));
        assert!(!settings.insecure);
        let origin = |name: &str| resolved.iter().find(|of| of.name == name).unwrap().origin;
        assert_eq!(origin("store"), Origin::File);
        assert_eq!(origin("payload_limit"), Origin::Flag);
        assert_eq!(origin("insecure"), Origin::Flag);
        assert_eq!(origin("listen"), Origin::Default);
        assert_eq!(origin("jobs_store"), Origin::Default);
    }

    #[test]
    fn defaults_are_those_of_the_server() {
        let settings = resolved(&[], "").settings().unwrap();
        let (ours, servers) =
            (settings.server_options(), highwater_server::ServerOptions::default());
        assert_eq!(format!("{ours:?}"), format!("{servers:?}"));
        assert_eq!(settings.store_options().retention, highwater::retention::Retention::default());
        assert_eq!(settings.store_urls(), highwater_stores::StoreUrls::all("sqlite:highwater.db"));
    }

    #[test]
    fn every_setting_can_be_set_in_a_file() {
        for setting in resolved(&[], "").iter() {
            let value = setting.value.clone().unwrap_or_else(|| "memory:".to_owned());
            let json = setting.json(&value);
            let file = format!("{} = {json}", setting.name);
            let again = resolved(&[], &file);
            let again = again.iter().find(|of| of.name == setting.name).unwrap();
            assert_eq!((again.value.as_ref(), again.origin), (Some(&value), Origin::File));
        }
    }
}
