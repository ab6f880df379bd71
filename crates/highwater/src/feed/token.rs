//! Resume tokens: a position, what it is a position in, and a checksum.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};

use super::{FeedId, Position, ScopeId, Seq};
use crate::{Error, ErrorKind, Result};

/// Where a subscriber stands, as text that it may keep for as long as it likes. Opaque.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(value_type = String))]
pub struct Token(String);

impl Token {
    /// A token as it came from a client. Nothing is checked before it is used.
    pub fn from_text(text: impl Into<String>) -> Token {
        Token(text.into())
    }

    /// The token as text: letters, digits, `-` and `_`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a subscription selects, in 64 bits, so that a token of one is not taken for another's.
///
/// FNV-1a by hand: tokens outlive builds, and the standard hasher promises nothing across them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// The fingerprint of some parts. `["ab", "c"]` and `["a", "bc"]` differ.
    pub fn of(parts: &[&str]) -> Fingerprint {
        const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
        const PRIME: u64 = 0x0000_0100_0000_01b3;
        let mut hash = OFFSET;
        let mut take = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(PRIME);
        for part in parts {
            part.bytes().for_each(&mut take);
            take(0xff); // No byte of UTF-8, so it cannot be part of a part.
        }
        Fingerprint(hash)
    }
}

/// A position and what it is a position in. Cheap to make; [`token`](Mark::token) spells it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Which feed.
    pub feed: FeedId,
    /// Which scope in it.
    pub scope: ScopeId,
    /// Which selection of it.
    pub selection: Fingerprint,
    /// Where in it.
    pub position: Position,
}

const VERSION: u8 = 1;
const LIVE: u8 = 0;
const REPLAYING: u8 = 1;

impl Mark {
    /// The mark as a token.
    pub fn token(&self) -> Token {
        let mut bytes = Vec::with_capacity(54);
        bytes.push(VERSION);
        let mut put = |number: u64| bytes.extend(number.to_be_bytes());
        put(self.feed.0);
        put(self.scope.0);
        put(self.selection.0);
        match self.position {
            Position::Live { at } => {
                put(at.0);
                bytes.push(LIVE);
            }
            Position::Replaying { at, upto, count } => {
                [at.0, upto.0, count].into_iter().for_each(&mut put);
                bytes.push(REPLAYING);
            }
        }
        bytes.extend(crc32fast::hash(&bytes).to_be_bytes());
        Token(URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Reads a token; a damaged one is an error.
    pub fn parse(token: &Token) -> Result<Mark> {
        parse(token.as_str()).ok_or_else(|| {
            let detail = "the resume token is damaged: pass it back exactly as it came, or subscribe without one";
            Error::new(ErrorKind::BadToken, detail)
        })
    }

    /// The position, if this mark belongs where it is used.
    pub fn position_in(
        &self,
        feed: FeedId,
        scope: ScopeId,
        selection: Fingerprint,
    ) -> Result<Position> {
        let foreign = |what: &str| {
            let detail =
                format!("the resume token belongs to another {what}: subscribe without one");
            Err(Error::new(ErrorKind::BadToken, detail))
        };
        if self.feed != feed {
            return foreign("store");
        }
        if self.scope != scope {
            return foreign("job, or to an earlier life of this one");
        }
        if self.selection != selection {
            return foreign("selection of task and tag");
        }
        Ok(self.position)
    }
}

fn parse(text: &str) -> Option<Mark> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let (body, checksum) = bytes.split_last_chunk::<4>()?;
    if crc32fast::hash(body).to_be_bytes() != *checksum {
        return None;
    }
    let (&version, body) = body.split_first()?;
    let (&kind, numbers) = body.split_last()?;
    let (numbers, []) = numbers.as_chunks::<8>() else { return None };
    let numbers: Vec<u64> = numbers.iter().copied().map(u64::from_be_bytes).collect();
    let (feed, scope, selection, position) = match (version, kind, numbers.as_slice()) {
        (VERSION, LIVE, &[feed, scope, selection, at]) => {
            (feed, scope, selection, Position::Live { at: Seq(at) })
        }
        (VERSION, REPLAYING, &[feed, scope, selection, at, upto, count])
            if at <= upto && count <= at =>
        {
            (feed, scope, selection, Position::Replaying { at: Seq(at), upto: Seq(upto), count })
        }
        _ => return None,
    };
    let (feed, scope, selection) = (FeedId(feed), ScopeId(scope), Fingerprint(selection));
    Some(Mark { feed, scope, selection, position })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mark(position: Position) -> Mark {
        let (feed, scope) = (FeedId(7), ScopeId(3));
        Mark { feed, scope, selection: Fingerprint::of(&["0", "ingest"]), position }
    }

    const LIVE_AT_9: Position = Position::Live { at: Seq(9) };

    #[test]
    fn a_token_says_where_its_holder_stood() {
        let replaying = Position::Replaying { at: Seq(1), upto: Seq(u64::MAX), count: 1 };
        for position in [LIVE_AT_9, replaying] {
            assert_eq!(Mark::parse(&mark(position).token()).unwrap(), mark(position));
        }
    }

    #[test]
    fn a_token_used_elsewhere_is_refused_with_the_reason() {
        let held = mark(LIVE_AT_9);
        let refused = |feed, scope, selection| {
            held.position_in(feed, scope, selection).unwrap_err().to_string()
        };
        assert!(refused(FeedId(8), held.scope, held.selection).contains("another store"));
        assert!(refused(held.feed, ScopeId(4), held.selection).contains("another job"));
        let other = Fingerprint::of(&["0", "export"]);
        assert!(refused(held.feed, held.scope, other).contains("another selection"));
        assert_eq!(held.position_in(held.feed, held.scope, held.selection).unwrap(), LIVE_AT_9);
    }

    #[test]
    fn parts_do_not_run_together() {
        assert_ne!(Fingerprint::of(&["ab", "c"]), Fingerprint::of(&["a", "bc"]));
        assert_ne!(Fingerprint::of(&["", ""]), Fingerprint::of(&[""]));
    }

    proptest! {
        #[test]
        fn one_changed_character_is_noticed(index in 0_usize..50, letter in "[A-Za-z0-9_-]") {
            let token = mark(LIVE_AT_9).token();
            let mut text = token.as_str().to_owned();
            let index = index % text.len();
            text.replace_range(index..=index, &letter);
            let parsed = Mark::parse(&Token::from_text(text.clone()));
            prop_assert_eq!(parsed.is_ok(), text == token.as_str());
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,120}") {
            let _ = Mark::parse(&Token::from_text(text));
        }
    }
}
