//! The subscriber's view of a server that fails as its script says.

use futures_util::{FutureExt as _, StreamExt as _};
use highwater::{
    feed::{EventFeed as _, FeedEvent, FollowEvents},
    jobs::{Filter, FollowRequest, JobId, JobRef, JobStore as _, Report},
};
use highwater_testkit::clock::ManualClock;

use super::{
    super::{
        connection::SILENCE_MAX,
        scripted::{
            CANCELLED, DELETED, Scene, ScriptedServer, TestClock, Then, answer, events, marker,
            named, problem, put, token, told, word,
        },
    },
    *,
};

struct Heard {
    server: ScriptedServer,
    stream: Follow<Arc<Report>>,
    clock: Arc<TestClock>,
}

async fn follow_from(script: Vec<Scene>, start: Start, patience: Patience) -> Result<Heard> {
    let clock = Arc::new(TestClock::default());
    let server = ScriptedServer::start(script).await;
    let request = FollowRequest { filter: Filter::job(), start, patience };
    let job = JobRef::current(JobId::new("j").unwrap());
    let stream = server.store(clock.clone()).follow(&job, request).await?;
    Ok(Heard { server, stream, clock })
}

/// Plays a script to the end of the stream.
#[track_caller]
fn check(script: Vec<Scene>, patience: Patience, expected: &[&str]) -> Vec<Duration> {
    let played = async {
        let heard = follow_from(script, Start::Snapshot, patience).await.unwrap();
        let words: Vec<_> = heard.stream.map(|delivery| told(&delivery)).collect().await;
        (words, heard.clock)
    };
    let (words, clock) = tokio::runtime::Runtime::new().unwrap().block_on(played);
    assert_eq!(words, expected);
    clock.waits.lock().unwrap().clone()
}

#[test]
fn a_cut_is_stale_then_live_and_nothing_is_lost() {
    let script = vec![
        events(&(marker() + &put(1) + "event: put\ndata: {"), Then::Close),
        events(&(put(2) + DELETED), Then::Close),
    ];
    let waits =
        check(script, Patience::Endless, &["marker", "put 1", "stale", "live", "put 2", "deleted"]);
    assert_eq!(waits, [], "the first try is made at once");
}

#[test]
fn a_goodbye_is_a_cut() {
    let script = vec![events(&(marker() + CANCELLED), Then::Close), events(DELETED, Then::Close)];
    check(script, Patience::Endless, &["marker", "stale", "live", "deleted"]);
}

#[test]
fn a_server_that_is_away_is_tried_with_growing_waits() {
    let script = vec![
        events(&marker(), Then::Close),
        answer("503 Service Unavailable", "text/plain", ""),
        problem("503 Service Unavailable", "unavailable"),
        answer("502 Bad Gateway", "text/html", "<p>"),
        events(DELETED, Then::Close),
    ];
    let waits = check(script, Patience::Endless, &["marker", "stale", "live", "deleted"]);
    assert_eq!(waits.len(), 3, "one behind each failure: {waits:?}");
    assert!(waits.iter().all(|wait| (500..=1_000).contains(&wait.as_millis())), "{waits:?}");
}

#[test]
fn a_server_that_closes_every_stream_is_not_called_without_a_pause() {
    let closed = |with: &str| events(with, Then::Close);
    let script =
        vec![closed(&marker()), closed(""), closed(CANCELLED), closed(""), closed(DELETED)];
    let waits = check(
        script,
        Patience::Endless,
        &["marker", "stale", "live", "stale", "live", "stale", "live", "stale", "live", "deleted"],
    );
    assert_eq!(waits.len(), 3);
}

#[test]
fn a_sign_of_life_ends_the_outage() {
    let script = vec![
        events(&marker(), Then::Close),
        events(":\n\n", Then::Close),
        events(DELETED, Then::Close),
    ];
    let waits =
        check(script, Patience::Tries(2), &["marker", "stale", "live", "stale", "live", "deleted"]);
    assert_eq!(waits, []);
}

#[test]
fn patience_ends_after_its_tries() {
    // The script is over: nobody is there to connect to.
    let expected = ["marker", "stale", "failed: Unavailable"];
    let waits = check(vec![events(&marker(), Then::Close)], Patience::Tries(3), &expected);
    assert_eq!(waits.len(), 1, "the cut, the try at once, and one more");
    let expected = ["marker", "failed: Interrupted"];
    check(vec![events(&marker(), Then::Close)], Patience::Tries(1), &expected);
}

#[test]
fn a_job_that_is_gone_when_the_server_is_back_was_deleted() {
    let script = vec![events(&marker(), Then::Close), problem("404 Not Found", "not_found")];
    check(script, Patience::Endless, &["marker", "stale", "deleted"]);
}

#[test]
fn a_refusal_that_will_not_change_ends_it() {
    let refusals = [
        (problem("400 Bad Request", "bad_token"), "failed: BadToken"),
        (answer("404 Not Found", "text/html", "<p>"), "failed: Unsupported"),
        (answer("200 OK", "text/html", "<p>welcome</p>"), "failed: Unsupported"),
    ];
    for (refusal, word) in refusals {
        let script = vec![events(&marker(), Then::Close), refusal];
        check(script, Patience::Endless, &["marker", "stale", word]);
    }
}

#[test]
fn garbage_ends_it() {
    let cases = [
        ("event: put\ndata: {\n\n".to_owned(), "failed: Corrupt"),
        ("event: put\ndata: {\"job\":7}\n\n".to_owned(), "failed: Corrupt"),
        ("event: delete\ndata: {}\n\n".to_owned(), "failed: Unsupported"),
        ("x".repeat(1024 * 1024 + 1), "failed: Corrupt"),
        (r#"event: end|data: {"reason":"failed"}||"#.replace('|', "\n"), "failed: Interrupted"),
    ];
    for (garbage, word) in cases {
        let script = vec![events(&(marker() + &garbage), Then::Hold)];
        check(script, Patience::Endless, &["marker", word]);
    }
}

#[test]
fn a_failure_keeps_what_the_server_said() {
    let ended = r#"{"reason":"failed","problem":{"type":"urn:highwater:corrupt","title":"","status":0,"detail":"a hole","outcome":"not_applied"}}"#;
    let script = vec![events(&format!("event: end\ndata: {ended}\n\n"), Then::Close)];
    check(script, Patience::Endless, &["failed: Corrupt"]);
}

#[test]
fn stale_and_live_of_the_server_are_passed_on_and_never_doubled() {
    let text = named("live") + &marker() + &named("stale") + &named("stale") + &named("live");
    let script = vec![
        events(&(text + &named("live") + &named("stale")), Then::Close),
        events(&(named("live") + &named("reset") + DELETED), Then::Close),
    ];
    let expected = ["marker", "stale", "live", "stale", "live", "reset", "deleted"];
    check(script, Patience::Endless, &expected);
}

#[tokio::test]
async fn it_resumes_behind_the_last_token_and_in_the_same_life() {
    let script = vec![
        events("", Then::Close),
        events(&(marker() + &put(1)), Then::Close),
        events(DELETED, Then::Close),
    ];
    let mut heard = follow_from(script, Start::Snapshot, Patience::Endless).await.unwrap();
    let deliveries: Vec<_> = heard.stream.by_ref().collect().await;
    let asked =
        [heard.server.asked().await, heard.server.asked().await, heard.server.asked().await];
    let resumed = format!("GET /v1/jobs/j/events?incarnation=7&from={}", token(1));
    assert_eq!(asked, ["GET /v1/jobs/j/events", "GET /v1/jobs/j/events", resumed.as_str()]);
    let marks: Vec<_> = deliveries.iter().map(|it| (told(it), it.token())).collect();
    let expected = [
        ("stale", None),
        ("live", None),
        ("marker", Some(token(0))),
        ("put 1", Some(token(1))),
        ("stale", Some(token(1))),
        ("live", Some(token(1))),
        ("deleted", Some(token(1))),
    ];
    assert_eq!(marks, expected.map(|(word, token)| (word.to_owned(), token)));
    let Step::Change(report) = &deliveries[3].step else { panic!("a change") };
    assert_eq!(report.payload.as_ref().unwrap().as_str(), r#"{"n":1.10}"#);
}

#[tokio::test]
async fn a_token_that_the_feed_was_trimmed_past_is_a_reset_and_a_new_snapshot() {
    let script = vec![
        problem("410 Gone", "gone"),
        events(&marker(), Then::Close),
        problem("410 Gone", "gone"),
        events("", Then::Close),
        events(&(marker() + DELETED), Then::Close),
    ];
    let start = Start::After(token(3));
    let mut heard = follow_from(script, start, Patience::Endless).await.unwrap();
    let words: Vec<_> = heard.stream.by_ref().map(|it| told(&it)).collect().await;
    let expected =
        ["reset", "marker", "stale", "live", "reset", "stale", "live", "marker", "deleted"];
    assert_eq!(words, expected);
    let (plain, life) = ("GET /v1/jobs/j/events", "GET /v1/jobs/j/events?incarnation=7");
    assert_eq!(heard.server.asked().await, format!("{plain}?from={}", token(3)));
    assert_eq!(heard.server.asked().await, plain);
    assert_eq!(heard.server.asked().await, format!("{life}&from={}", token(0)));
    assert_eq!(heard.server.asked().await, life);
    assert_eq!(heard.server.asked().await, life, "it does not go back to the old token");
}

#[tokio::test]
async fn it_is_registered_or_refused_before_it_returns() {
    let refused = |scene| follow_from(vec![scene], Start::Snapshot, Patience::Endless);
    let kind = |result: Result<Heard>| result.map(|_| ()).unwrap_err().kind();
    assert_eq!(kind(refused(problem("404 Not Found", "not_found")).await), ErrorKind::NotFound);
    let busy = problem("429 Too Many Requests", "too_many_streams");
    assert_eq!(kind(refused(busy).await), ErrorKind::Busy);
    let empty = Start::After(Token::from_text(""));
    let script = vec![problem("400 Bad Request", "bad_token")];
    assert_eq!(kind(follow_from(script, empty, Patience::Endless).await), ErrorKind::BadToken);
}

#[tokio::test]
async fn dropping_the_stream_closes_the_connection_at_once() {
    for has_waited in [false, true] {
        let script = vec![events(&marker(), Then::Hold)];
        let mut heard = follow_from(script, Start::Snapshot, Patience::Endless).await.unwrap();
        assert_eq!(told(&heard.stream.next().await.unwrap()), "marker");
        if has_waited {
            assert!(heard.stream.next().now_or_never().is_none());
            tokio::task::yield_now().await;
        }
        drop(heard.stream);
        let hung_up = tokio::time::timeout(Duration::from_secs(5), heard.server.hung_up.recv());
        assert_eq!(hung_up.await, Ok(Some(0)), "has waited: {has_waited}");
    }
}

#[tokio::test]
async fn a_silent_stream_is_given_up_and_what_has_arrived_is_not_silence() {
    let clock = Arc::new(ManualClock::default());
    let script = vec![events(&marker(), Then::Hold), events(DELETED, Then::Close)];
    let mut server = ScriptedServer::start(script).await;
    let job = JobRef::current(JobId::new("j").unwrap());
    let (filter, start, patience) = (Filter::job(), Start::Snapshot, Patience::Endless);
    let request = FollowRequest { filter, start, patience };
    let mut stream = server.store(clock.clone()).follow(&job, request).await.unwrap();
    // Nobody has polled it yet, so nothing is late.
    clock.advance(SILENCE_MAX);
    assert_eq!(told(&stream.next().await.unwrap()), "marker");
    let told_next = tokio::spawn(async move {
        let words: Vec<_> = stream.map(|delivery| told(&delivery)).collect().await;
        words
    });
    clock.is_slept_on_for(SILENCE_MAX).await;
    clock.advance(SILENCE_MAX);
    assert_eq!(server.hung_up.recv().await, Some(0));
    assert_eq!(told_next.await.unwrap(), ["stale", "live", "deleted"]);
}

#[tokio::test]
async fn the_whole_feed_is_followed_in_the_same_way() {
    let event = r#"{"revision":3,"domain":"jobs","kind":"job.put","scope":7,"seq":1,"at":"2024-06-01T12:34:56Z","body":{"n":1.10}}"#;
    let first = marker() + &format!("event: put\ndata: {event}\nid: {}\n\n", token(3));
    let script = vec![events(&first, Then::Close), problem("404 Not Found", "not_found")];
    let mut server = ScriptedServer::start(script).await;
    let store = server.store(Arc::new(TestClock::default()));
    let domain = Some(highwater::feed::Domain::Jobs);
    let request = FollowEvents { domain, start: Start::Snapshot, patience: Patience::Endless };
    let stream = store.follow_events(request).await.unwrap();
    let deliveries: Vec<Delivery<Arc<FeedEvent>>> = stream.collect().await;
    let words: Vec<_> =
        deliveries.iter().map(|it| word(&it.step, |event| event.revision.0)).collect();
    // A feed is not deleted: a server without one is another server.
    assert_eq!(words, ["marker", "put 3", "stale", "failed: NotFound"]);
    let Step::Change(event) = &deliveries[1].step else { panic!("a change") };
    assert_eq!(event.body.get(), r#"{"n":1.10}"#);
    assert_eq!(server.asked().await, "GET /v1/events?domain=jobs");
    assert_eq!(server.asked().await, format!("GET /v1/events?domain=jobs&from={}", token(3)));
}
