//! Secrets stay out of what is shown.

use std::borrow::Cow;

const HIDDEN: &str = "***";

/// Parameters of a URL whose values are nobody's business, in lower case.
const SECRET_PARAMETERS: [&str; 5] = ["password", "sslpassword", "token", "secret", "api_key"];

/// A URL without its secrets; any other text as it is.
///
/// Where it is not clear what is secret, too much is hidden: a password may hold any character, so
/// everything up to the last `@` is taken for it.
pub(crate) fn url(text: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = text.split_once("://") else { return Cow::Borrowed(text) };
    let (user, rest) = match rest.rsplit_once('@') {
        Some((user, rest)) => {
            let user = match user.split_once(':') {
                Some((name, _)) => format!("{name}:{HIDDEN}@"),
                None => format!("{user}@"),
            };
            (user, rest)
        }
        None => (String::new(), rest),
    };
    let rest = match rest.split_once('?') {
        Some((place, query)) => format!("{place}?{}", parameters(query)),
        None => rest.to_owned(),
    };
    Cow::Owned(format!("{scheme}://{user}{rest}"))
}

fn parameters(query: &str) -> String {
    let shown = query.split('&').map(|parameter| match parameter.split_once('=') {
        Some((name, _)) if SECRET_PARAMETERS.contains(&name.to_lowercase().as_str()) => {
            format!("{name}={HIDDEN}")
        }
        Some(_) | None => parameter.to_owned(),
    });
    shown.collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        for (text, shown) in [
            ("postgres://user:secret@host/db", "postgres://user:***@host/db"),
            ("postgres://user:p@ss/w?o:rd@host/db", "postgres://user:***@host/db"),
            ("redis://:secret@host:6379/1", "redis://:***@host:6379/1"),
            ("postgres://h/d?user=u&Password=secret&x=1", "postgres://h/d?user=u&Password=***&x=1"),
        ] {
            assert_eq!(url(text), shown);
        }
    }

    #[test]
    fn what_is_no_secret_is_shown() {
        for text in [
            "sqlite:highwater.db",
            "sqlite::memory:",
            "memory:",
            "http://127.0.0.1:7171",
            "postgres://user@host:5432/db?sslmode=require",
            "127.0.0.1:7171",
        ] {
            assert_eq!(url(text), text);
        }
    }
}
